//! Conversion from and to `OGXServer` (`ogx.io/v1beta1`), the resource of ogx-k8s-operator.
//!
//! In: one resource as JSON. Out: the resource of the other kind, and a warning for each field that the
//! other side cannot say or understands differently. Nothing is dropped without a warning: every field of
//! the input is taken out of it, and what is left at the end is reported.
//!
//! The converted resource carries its origin in the annotation [`CONVERTED_FROM`]. As long as its spec is
//! not edited, converting it back returns the original spec. After an edit, the fields that only the
//! origin could say are put back where the edit left them alone.

mod from_ogx;
mod providers;
mod to_ogx;

use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;
use crate::field_path::FieldPath;
use crate::gvk::{API_VERSION_V1ALPHA2, KIND};

/// `apiVersion` of the other resource.
pub const OGX_API_VERSION: &str = "ogx.io/v1beta1";
/// `kind` of the other resource.
pub const OGX_KIND: &str = "OGXServer";
/// The annotation with the resource that a resource was converted from.
pub const CONVERTED_FROM: &str = "llamastack.io/converted-from";

/// The image that its operator 0.14 runs for a name.
const OGX_IMAGES: &str = "docker.io/ogxai/distribution-";
const OGX_RELEASE: &str = "1.3.0";
/// The names that its operator knows.
const OGX_NAMES: [&str; 4] = [
    "starter",
    "remote-vllm",
    "meta-reference-gpu",
    "postgres-demo",
];
/// The dialect of its servers.
const OGX_SCHEMA: &str = "ogx/1.0";
/// Where its operator mounts the volume.
const OGX_MOUNT_PATH: &str = "/.ogx";
const DEFAULT_PORT: u64 = 8321;

/// A converted resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreign {
    /// The resource.
    pub document: Value,
    /// What the other side cannot say, or understands differently, by field of the input.
    pub warnings: Vec<Diagnostic>,
}

/// Converts an `OGXServer` to a `LlamaStackDistribution` of v1alpha2.
pub fn from_ogx_server(document: Value) -> Result<Foreign, Diagnostic> {
    expect(&document, OGX_API_VERSION, OGX_KIND)?;
    Ok(convert(
        document,
        (API_VERSION_V1ALPHA2, KIND),
        from_ogx::spec,
    ))
}

/// Converts a `LlamaStackDistribution` of v1alpha2 to an `OGXServer`.
pub fn to_ogx_server(document: Value) -> Result<Foreign, Diagnostic> {
    expect(&document, API_VERSION_V1ALPHA2, KIND)?;
    Ok(convert(document, (OGX_API_VERSION, OGX_KIND), to_ogx::spec))
}

fn expect(document: &Value, api_version: &str, kind: &str) -> Result<(), Diagnostic> {
    let found =
        [&document["apiVersion"], &document["kind"]].map(|one| one.as_str().unwrap_or_default());
    if found == [api_version, kind] {
        return Ok(());
    }
    Err(Diagnostic::error(
        FieldPath::from("kind"),
        format!("{} {} cannot be converted", found[0], found[1]),
        format!("pass a resource of kind {kind} and apiVersion {api_version}"),
    ))
}

fn convert(
    mut document: Value,
    (api_version, kind): (&str, &str),
    spec: fn(&mut Fields, &mut Notes) -> Value,
) -> Foreign {
    let original = document["spec"].take();
    let mut notes = Notes::default();
    let mut fields = Fields::of(original.clone());
    let mut converted = spec(&mut fields, &mut notes);
    notes.leftovers(fields, &FieldPath::spec());
    let origin = json!({
        "apiVersion": document["apiVersion"], "kind": document["kind"], "spec": original, "was": converted,
    });
    let mut metadata = Fields::of(document["metadata"].take());
    let mut annotations = Fields::of(metadata.take("annotations").unwrap_or_default());
    let earlier = annotations.text(CONVERTED_FROM);
    for name in ["ogx.io/adopt-storage", "ogx.io/adopt-networking"] {
        if annotations.0.contains_key(name) {
            let path = FieldPath::from("metadata").at(&["annotations", name]);
            notes.lost(
                path,
                "set spec.workload.storage.existingClaim to the claim instead",
            );
        }
    }
    if let Some(earlier) = earlier.and_then(|text| serde_json::from_str::<Value>(&text).ok())
        && earlier["kind"] == kind
    {
        if earlier["was"] == origin["spec"] {
            // Nothing was edited since.
            converted = earlier["spec"].clone();
            notes.0.clear();
        } else {
            restore(
                &mut converted,
                &earlier["spec"],
                &earlier_result(&earlier, spec_of(kind)),
            );
        }
    } else {
        annotations.set(CONVERTED_FROM, Value::String(origin.to_string()));
    }
    // What the API server adds belongs to the other object.
    for key in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "ownerReferences",
        "selfLink",
    ] {
        metadata.take(key);
    }
    metadata.set_unless_empty("annotations", annotations.0);
    let mut result = Fields::default();
    result.set("apiVersion", api_version.into());
    result.set("kind", kind.into());
    result.set("metadata", Value::Object(metadata.0));
    result.set("spec", converted);
    notes.0.sort();
    notes.0.dedup();
    Foreign {
        document: Value::Object(result.0),
        warnings: notes.0,
    }
}

type SpecConversion = fn(&mut Fields, &mut Notes) -> Value;

/// The conversion to a kind.
fn spec_of(kind: &str) -> SpecConversion {
    if kind == OGX_KIND {
        to_ogx::spec
    } else {
        from_ogx::spec
    }
}

/// What the origin becomes when it is converted there and back without an edit.
fn earlier_result(earlier: &Value, back: SpecConversion) -> Value {
    back(
        &mut Fields::of(earlier["was"].clone()),
        &mut Notes::default(),
    )
}

/// Puts the fields of the origin back that a conversion there and back loses and that the edit did not
/// touch: where the converted value equals that of the unedited round trip.
fn restore(converted: &mut Value, origin: &Value, unedited: &Value) {
    if converted == unedited {
        *converted = origin.clone();
        return;
    }
    if let (Value::Object(converted), Value::Object(origin)) = (converted, origin) {
        for (key, value) in origin {
            let before = &unedited[key];
            match converted.get_mut(key) {
                Some(now) => restore(now, value, before),
                None if before.is_null() => {
                    converted.insert(key.clone(), value.clone());
                }
                // The edit removed it.
                None => {}
            }
        }
    }
}

/// An object from which fields are taken.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn of(value: Value) -> Self {
        match value {
            Value::Object(map) => Self(map),
            _ => Self::default(),
        }
    }

    /// Takes a field out. Null counts as absent.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    fn object(&mut self, key: &str) -> Option<Self> {
        match self.take(key)? {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    fn list(&mut self, key: &str) -> Vec<Value> {
        match self.take(key) {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        }
    }

    fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value.into());
        }
    }

    fn set_unless_empty(&mut self, key: &str, value: Map<String, Value>) {
        if !value.is_empty() {
            self.set(key, Value::Object(value));
        }
    }

    /// Moves fields that have the same name and meaning on both sides.
    fn copy_to(&mut self, other: &mut Self, keys: &[&str]) {
        for key in keys {
            other.set_some(key, self.take(key));
        }
    }

    fn into_value(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }
}

/// The warnings of a conversion.
#[derive(Default)]
struct Notes(Vec<Diagnostic>);

impl Notes {
    /// The other side cannot say the field.
    fn lost(&mut self, field: FieldPath, fix: &str) {
        let problem =
            "cannot be converted; it is kept in the annotation llamastack.io/converted-from";
        self.0
            .push(Diagnostic::warning(field, problem, fix).with_code("not-converted"));
    }

    /// The other side understands the field differently.
    fn differs(&mut self, field: FieldPath, problem: &str, fix: &str) {
        self.0
            .push(Diagnostic::warning(field, problem, fix).with_code("converted-differently"));
    }

    /// Reports every field that nobody took.
    fn leftovers(&mut self, fields: Fields, path: &FieldPath) {
        for (key, value) in fields.0 {
            if !value.is_null() && value != json!({}) && value != json!([]) {
                self.lost(
                    path.field(&key),
                    "set what replaces it by hand, if you need it",
                );
            }
        }
    }
}

/// `vectorIo` as `vector_io`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut previous_is_upper = true;
    for c in name.chars() {
        if c.is_ascii_uppercase() && !previous_is_upper {
            snake.push('_');
        }
        previous_is_upper = c.is_ascii_uppercase();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// `vector_io` as `vectorIo`.
fn camel_case(name: &str) -> String {
    let mut camel = String::new();
    let mut is_upper = false;
    for c in name.chars() {
        if c == '_' {
            is_upper = true;
        } else if std::mem::take(&mut is_upper) {
            camel.push(c.to_ascii_uppercase());
        } else {
            camel.push(c);
        }
    }
    camel
}

#[cfg(test)]
mod tests;
