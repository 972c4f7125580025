//! The plan of a text, for the page of `llsd explore`.

use anyhow::ensure;
use llsd_api::KIND;
use llsd_render::adapter::Adapter;
use serde_json::Value;

use super::destination::Destination;
use super::plan_all;
use super::planner::Planner;
use super::subjects::resources_of;
use crate::generation::{BaseOptions, LoadedBase};

/// The plan to move the resources among objects to a dialect, as a page.
pub(crate) fn plan_page(
    objects: Vec<Value>,
    dialect: &str,
    options: &BaseOptions,
    base: Option<&LoadedBase>,
    adapters: &[&dyn Adapter],
) -> anyhow::Result<String> {
    let planner = Planner {
        options,
        adapters,
        base,
        distributions: options.settings.distributions()?,
    };
    let objects = objects.into_iter().map(|object| (None, object)).collect();
    let subjects = resources_of(objects);
    ensure!(!subjects.is_empty(), "the text contains no {KIND}");
    let (report, _) = plan_all(&planner, &subjects, &Destination::dialect(dialect))?;
    Ok(report.page())
}
