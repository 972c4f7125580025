//! What every plugin must pass, whoever wrote it.
//!
//! In: a plugin that passed the load rules, and the folder of its golden fixtures if it has one.
//! Out: a [`Report`] of named checks. Requests are made from the plugin's own description, so that
//! the suite knows no plugin. `llsd plugin test` prints the report; a registry can carry it beside
//! the component.

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

/// Runs every check. Blocks for some seconds: it makes some hundred calls.
pub fn run(plugin: &Plugin, fixtures: Option<&Path>) -> Report {
    let cases = fixtures.map_or_else(|| Ok(Vec::new()), golden::read);
    let recorded = cases.iter().flatten();
    let mut requests = ordinary::requests(plugin);
    requests.extend(
        recorded
            .map(|case| ordinary::named(format!("fixture {}", case.name), case.request.clone())),
    );
    let hostile = hostile::requests(plugin);
    let answered = ordinary::ask(plugin, &requests);

    Report::new(
        plugin,
        vec![
            description::is_constant(plugin),
            description::is_complete(plugin),
            ordinary::all_answer(&answered),
            ordinary::limits_are_far(plugin, &answered),
            purity::same_input_same_answer(plugin, &answered),
            purity::key_order_does_not_matter(plugin, &answered),
            purity::answers_are_canonical(&answered),
            purity::unknown_keys_survive(plugin),
            hostile::nothing_traps(plugin, &hostile),
            hostile::unknown_shapes_are_refused(plugin),
            diagnostics::have_paths_of_the_request(plugin, &requests, &hostile),
            diagnostics::are_well_formed(plugin, &requests, &hostile),
            golden::check(plugin, cases),
        ],
    )
}
