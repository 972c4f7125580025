//! Checks `secretFiles` of a provider: keys of Secrets that the provider reads as files.
//!
//! The path of a file is known here, so it becomes an ordinary setting of the provider, which every
//! adapter understands.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::checked::secrets::{Reference, VARIABLE_PREFIX};
use crate::checked::untyped::UntypedObject;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::json_type::type_name;
use crate::names;

/// Directory of the files that have no path of their own.
pub const SECRET_FILES_FOLDER: &str = "/etc/llama-stack-files";
/// Maximum number of files of one provider.
const MAX_FILES: usize = 32;
const FIELDS: &[&str] = &["name", "key", "path", "setting", "env"];
const EXAMPLE: &str =
    "write {name: <secret>, key: <key in it>, setting: <setting of the provider>}";

/// A key of a Secret that is a file in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// The key. It has no variable.
    pub reference: Reference,
    /// Path of the file below [`SECRET_FILES_FOLDER`].
    pub relative_path: String,
    /// Path of the file in the resource. `None`: below [`SECRET_FILES_FOLDER`].
    pub requested_path: Option<String>,
    /// The variable that has the path of the file.
    pub variable: Option<String>,
}

impl SecretFile {
    /// Path of the file in the pod.
    pub fn path(&self) -> String {
        let default = || format!("{SECRET_FILES_FOLDER}/{}", self.relative_path);
        self.requested_path.clone().unwrap_or_else(default)
    }
}

/// Checks the files of one provider, and adds their paths to its settings. `references` are its secret
/// references by field.
pub(super) fn check(
    entry: &UntypedObject<'_>,
    provider: &str,
    settings: &mut Map<String, Value>,
    references: &BTreeMap<String, Reference>,
    diagnostics: &mut Collector,
) -> Vec<SecretFile> {
    let path = entry.field("secretFiles");
    let entries = match entry.value("secretFiles") {
        None => return Vec::new(),
        Some(Value::Array(entries)) if entries.len() > MAX_FILES => {
            let problem = format!("has {} items", entries.len());
            diagnostics.error(&path, problem, format!("use at most {MAX_FILES} items"));
            return Vec::new();
        }
        Some(Value::Array(entries)) => entries,
        Some(other) => {
            let problem = format!("must be a list, not {}", type_name(other));
            diagnostics.error(&path, problem, EXAMPLE);
            return Vec::new();
        }
    };
    let mut files = Vec::new();
    for (position, value) in entries.iter().enumerate() {
        let path = path.index(position);
        let Value::Object(map) = value else {
            let problem = format!("must be an object, not {}", type_name(value));
            diagnostics.error(&path, problem, EXAMPLE);
            continue;
        };
        let object = UntypedObject::open(map, path, FIELDS, diagnostics);
        let Some(file) = read(&object, provider, diagnostics) else {
            continue;
        };
        if let Some(setting) = setting(&object, references, diagnostics) {
            insert(settings, &setting, &file, &object, diagnostics);
        }
        files.push(file);
    }
    files
}

fn read(
    object: &UntypedObject<'_>,
    provider: &str,
    diagnostics: &mut Collector,
) -> Option<SecretFile> {
    let secret = object.required_string(
        "name",
        names::subdomain,
        "set the name of a Secret in the same namespace",
        diagnostics,
    );
    let key = object.required_string(
        "key",
        names::data_key,
        "set a key of the Secret",
        diagnostics,
    );
    let requested_path = object.string("path", |_| Ok(()), "use an absolute path", diagnostics);
    if let Some(path) = &requested_path
        && !is_file_path(path)
    {
        let problem =
            format!("{path:?} is not an absolute path of a file without \":\" and \"..\"");
        let fix = "use a path such as /etc/credentials/key.json";
        diagnostics.error(&object.field("path"), problem, fix);
    }
    let variable = object.string(
        "env",
        names::variable,
        "use letters, digits and \"_\"",
        diagnostics,
    );
    if let Some(name) = variable
        .as_ref()
        .filter(|name| name.starts_with(VARIABLE_PREFIX))
    {
        let problem =
            format!("{name:?} starts with {VARIABLE_PREFIX}, which is reserved for the operator");
        diagnostics.error(&object.field("env"), problem, "use another name");
    }
    let readers = ["path", "setting", "env"];
    if readers.iter().all(|one| object.value(one).is_none()) {
        diagnostics.error(
            &object.path,
            "does not say who reads the file",
            "add setting (of the provider), env (a variable), or path (in the pod)",
        );
    }
    let (secret, key) = (secret?, key?);
    Some(SecretFile {
        relative_path: format!("{provider}/{secret}/{key}"),
        reference: Reference {
            path: object.path.clone(),
            secret,
            key,
            env: String::new(),
        },
        requested_path,
        variable,
    })
}

fn is_file_path(path: &str) -> bool {
    let mut parts = path.split('/');
    path.starts_with('/')
        && !path.ends_with('/')
        && !path.contains(':')
        && !path.starts_with(SECRET_FILES_FOLDER)
        && parts.all(|part| part != ".." && part != ".")
}

/// The setting that gets the path of the file: its names, from the outside in.
fn setting(
    object: &UntypedObject<'_>,
    references: &BTreeMap<String, Reference>,
    diagnostics: &mut Collector,
) -> Option<Vec<String>> {
    let fix =
        "use the name of a setting, or names with dots in between, such as network.tls.verify";
    let written = object.string("setting", |_| Ok(()), fix, diagnostics)?;
    let parts: Vec<String> = written.split('.').map(str::to_owned).collect();
    if parts.iter().any(|part| names::setting(part).is_err()) {
        let problem = format!("{written:?} is not the name of a setting");
        diagnostics.error(&object.field("setting"), problem, fix);
        return None;
    }
    if let Some(reference) = references.get(&format!("secretRefs.{}", parts[0])) {
        let problem = format!("{} already sets {:?}", reference.path, parts[0]);
        diagnostics.error(&object.field("setting"), problem, "remove one of the two");
        return None;
    }
    Some(parts)
}

/// Sets the setting to the path of the file.
fn insert(
    settings: &mut Map<String, Value>,
    setting: &[String],
    file: &SecretFile,
    object: &UntypedObject<'_>,
    diagnostics: &mut Collector,
) {
    let Some((last, groups)) = setting.split_last() else {
        return;
    };
    let mut group = Some(settings);
    for name in groups {
        group = group.and_then(|group| {
            let entry = group.entry(name.clone()).or_insert_with(|| json!({}));
            entry.as_object_mut()
        });
    }
    match group {
        Some(group) if !group.contains_key(last) => {
            group.insert(last.clone(), Value::from(file.path()));
        }
        _ => diagnostics.error(
            &object.field("setting"),
            format!(
                "settings or another file already set {:?}",
                setting.join(".")
            ),
            "remove one of the two",
        ),
    }
}

/// Rejects two files at one path, and two that set one variable.
pub(super) fn check_unique<'a>(
    files: impl Iterator<Item = &'a SecretFile>,
    diagnostics: &mut Collector,
) {
    let (mut paths, mut variables): (BTreeMap<&str, &FieldPath>, BTreeMap<&str, &FieldPath>) =
        Default::default();
    for file in files {
        let field = &file.reference.path;
        let values = [
            ("path", file.requested_path.as_deref(), &mut paths),
            ("env", file.variable.as_deref(), &mut variables),
        ];
        for (name, value, seen) in values {
            let Some(value) = value else { continue };
            if let Some(first) = seen.insert(value, field) {
                let problem = format!("{value:?} is already the {name} of {first}");
                diagnostics.error(&field.field(name), problem, "change one of the two");
            }
        }
    }
}
