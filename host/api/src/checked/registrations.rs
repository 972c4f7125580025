//! Checks the typed lists of `spec.resources`: vector stores, datasets, scoring functions and benchmarks.
//!
//! Which of them a release has is known to the adapters.

use serde::Serialize;
use serde_json::{Map, Value};

use super::resources::check_unique;
use super::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names;
use crate::v1alpha2::{Benchmark, Dataset, Resources, ScoringFn, VectorStore};

/// A resource of the server to register.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedRegistration {
    /// `spec.resources.vectorStores[0]`.
    pub path: FieldPath,
    /// The list that it is in: `vectorStores`, `datasets`, `scoringFns` or `benchmarks`.
    pub kind: &'static str,
    /// Its id.
    pub name: String,
    /// Id of the provider. `None`: the first one of the API.
    pub provider: Option<String>,
    /// Its other fields, as written.
    pub settings: Map<String, Value>,
}

const NAME_FIX: &str = "set a name";
const PROVIDER_FIX: &str = "set the id of a provider";

/// Checks all lists. Benchmarks come after the datasets that they name.
pub(super) fn check(
    resources: &Resources,
    diagnostics: &mut Collector,
) -> Vec<CheckedRegistration> {
    let mut all = Vec::new();
    let vector_stores = resources.vector_stores.iter().flatten();
    all.extend(list("vectorStores", vector_stores, |one: &VectorStore| {
        (one.name.clone(), one.provider.clone())
    }));
    let datasets = resources.datasets.iter().flatten();
    all.extend(list("datasets", datasets, |one: &Dataset| {
        (one.name.clone(), None)
    }));
    let scoring_fns = resources.scoring_fns.iter().flatten();
    all.extend(list("scoringFns", scoring_fns, |one: &ScoringFn| {
        (one.name.clone(), one.provider.clone())
    }));
    let benchmarks = resources.benchmarks.iter().flatten();
    all.extend(list("benchmarks", benchmarks, |one: &Benchmark| {
        (one.name.clone(), one.provider.clone())
    }));
    for one in &mut all {
        if one.kind == "scoringFns" {
            let default = || Value::from("number");
            one.settings.entry("returnType").or_insert_with(default);
        }
        let path = one.path.field("name");
        untyped::check_string(
            &one.name,
            &path,
            names::short(&one.name),
            NAME_FIX,
            diagnostics,
        );
        if let Some(provider) = &one.provider {
            let path = one.path.field("provider");
            let valid = names::provider_id(provider);
            untyped::check_string(provider, &path, valid, PROVIDER_FIX, diagnostics);
        }
    }
    let names = all.iter().map(|one| (&one.path, (one.kind, &one.name)));
    check_unique(names, diagnostics);
    all
}

/// The items of a list, with their names and providers taken out of their fields.
fn list<'a, T: Serialize + 'a>(
    kind: &'static str,
    items: impl Iterator<Item = &'a T>,
    named: impl Fn(&T) -> (String, Option<String>),
) -> Vec<CheckedRegistration> {
    let path = FieldPath::spec().at(&["resources", kind]);
    let check = |(position, item): (usize, &T)| {
        let (name, provider) = named(item);
        let mut settings = untyped::fields(item);
        settings.remove("name");
        settings.remove("provider");
        CheckedRegistration {
            path: path.index(position),
            kind,
            name,
            provider,
            settings,
        }
    };
    items.enumerate().map(check).collect()
}
