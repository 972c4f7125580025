//! Warns about keys of the resource's patch that no release of the dialect reads.
//!
//! The host merges the patch after `assemble`. `catalog/layouts.txt` has the keys that each release reads
//! in each section; other sections, and the settings of providers, are not checked.

use llsd_adapter_sdk::documents::Object;
use llsd_adapter_sdk::serde_json::Value;

use super::base::Stack;
use crate::names;

/// The sections of the list, and where they are in the file.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("top", &[]),
    ("server", &["server"]),
    ("registered_resources", &["registered_resources"]),
    ("vector_stores", &["vector_stores"]),
    ("stores", &["storage", "stores"]),
];

/// Adds a warning for each key that the server ignores. `null` removes a key, so it is not one.
pub(super) fn check(stack: &mut Stack, patch: &Object) {
    for (section, path) in SECTIONS {
        let found = path
            .iter()
            .try_fold(patch, |object, key| object.get(*key)?.as_object());
        let Some(found) = found else { continue };
        let known = stack.dialect.keys(section);
        if known.is_empty() {
            continue;
        }
        for (key, value) in found {
            if *value == Value::Null || known.contains(&key.as_str()) {
                continue;
            }
            let mut field = "spec.configPatch".to_owned();
            for part in path.iter().chain([&key.as_str()]) {
                field.push('.');
                field.push_str(part);
            }
            let problem = format!(
                "the known releases of {} do not read this key",
                stack.dialect.id
            );
            let fix = names::choose(key, known.iter().copied());
            stack
                .diagnostics
                .warning("unknown-key", field, problem, fix);
        }
    }
}
