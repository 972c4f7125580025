//! The conformance suite: checks that a plugin keeps the contract.
//!
//! In: a plugin that the host has loaded, and the folder of its golden fixtures if it has one.
//! Out: a [`Report`] with one entry per check. The suite builds its requests from the plugin's own
//! description, so it works for any plugin. `llsd plugin test` prints the report.

mod description;
mod diagnostics;
mod golden;
mod hostile;
mod ordinary;
mod paths;
mod purity;
mod report;

use std::path::Path;

use llsd_plugin::Plugin;

pub use golden::{Case, FixtureError, read as read_fixtures};
pub use report::{Check, Report};

/// Runs every check. It makes several hundred calls and blocks for some seconds.
pub fn run(plugin: &Plugin, fixtures: Option<&Path>) -> Report {
    let cases = fixtures.map_or_else(|| Ok(Vec::new()), golden::read);
    let fixtures = cases.iter().flatten();
    let mut requests = ordinary::requests(plugin);
    requests.extend(
        fixtures
            .map(|case| ordinary::named(format!("fixture {}", case.name), case.request.clone())),
    );
    let hostile = hostile::requests(plugin);
    let calls = ordinary::call_all(plugin, &requests);

    Report::new(
        plugin,
        vec![
            description::is_constant(plugin),
            description::is_complete(plugin),
            ordinary::all_return(&calls),
            ordinary::stay_below_half_of_every_limit(plugin, &calls),
            purity::same_input_gives_same_output(plugin, &calls),
            purity::key_order_does_not_matter(plugin, &calls),
            purity::output_is_canonical(&calls),
            purity::unknown_keys_survive(plugin),
            hostile::nothing_traps(plugin, &hostile),
            hostile::unknown_shapes_are_rejected(plugin),
            diagnostics::name_fields_of_the_request(plugin, &requests, &hostile),
            diagnostics::are_well_formed(plugin, &requests, &hostile),
            golden::check(plugin, cases),
        ],
    )
}
