//! The two traits a plugin author implements, one for each world of the contract.

use serde_json::Value;

use crate::diagnostic::Answer;
use crate::documents::{
    Assembly, AssemblyRequest, Description, Expansion, ExpansionRequest, Hints,
};

/// A plugin that expands provider entries: the `provider-pack` world, and half of a schema adapter.
///
/// Every function depends on its arguments alone.
pub trait ProviderPack {
    /// Who this plugin is and what it serves. Constant.
    fn describe() -> Description;

    /// One provider entry of the resource to one provider entry of the server's file.
    fn expand(request: ExpansionRequest) -> Answer<Expansion>;
}

/// A plugin that knows whole dialects: the `schema-adapter` world.
pub trait SchemaAdapter: ProviderPack {
    /// Which schema is this base written in? Must not guess.
    fn detect(base: &Value, hints: &Hints) -> Detection;

    /// The complete file, and what it needs around it.
    fn assemble(request: AssemblyRequest) -> Answer<Assembly>;
}

/// The result of `detect`.
///
/// The strings are schema ids. Where the hints have `weigh`, each may be the text of a [`Candidate`]
/// instead, so that the host can compare the candidates of several plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detection {
    /// Exactly this schema.
    One(String),
    /// One of these, or of schemas that the plugin does not serve; the base does not tell which.
    OneOf(Vec<String>),
    /// None of the schemas served.
    None,
}

/// A schema that a base may be written in, with what supports and contradicts it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// The schema id.
    pub schema: String,
    /// Points against it: 1 for each key of the base that its releases drop silently, 3 for each
    /// that keeps the server from starting. Absent when the plugin does not weigh.
    pub points: Option<u32>,
    /// Keys of the base that it reads and another candidate does not.
    pub supports: Vec<String>,
    /// Keys of the base that it does not read and another candidate does.
    pub contradicts: Vec<String>,
}

impl Candidate {
    /// The form in which it crosses the boundary: the id, a space and a JSON object.
    #[cold]
    pub fn to_text(&self) -> String {
        let Self {
            schema,
            points,
            supports,
            contradicts,
        } = self;
        let mut text = format!("{schema} {{\"contradicts\":");
        write_list(&mut text, contradicts);
        if let Some(points) = points {
            text += ",\"points\":";
            text += &points.to_string();
        }
        text += ",\"supports\":";
        write_list(&mut text, supports);
        text.push('}');
        text
    }

    /// Reads what a plugin answered: a schema id, with or without details.
    ///
    /// Details that are not understood are left out, so that the schema still counts as unweighed.
    pub fn parse(text: &str) -> Self {
        let (schema, details) = text.split_once(' ').unwrap_or((text, ""));
        let details: Value = serde_json::from_str(details).unwrap_or_default();
        let list = |key: &str| {
            let items = details.get(key).and_then(Value::as_array);
            items
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Self {
            schema: schema.to_owned(),
            points: details
                .get("points")
                .and_then(Value::as_u64)
                .map(|points| u32::try_from(points).unwrap_or(u32::MAX)),
            supports: list("supports"),
            contradicts: list("contradicts"),
        }
    }

    /// Whether the points leave no doubt that this candidate explains the base better.
    ///
    /// Three times as many points against the other: vendors keep leftovers of other releases in
    /// their files, so that a smaller difference proves nothing.
    pub fn clearly_beats(&self, other: &Self) -> bool {
        match (self.points, other.points) {
            (Some(own), Some(others)) => others > own && others >= own.saturating_mul(3),
            _ => false,
        }
    }
}

/// Writes a list of strings as JSON. A string that would need an escape is left out.
///
/// By hand: this is the only list of strings that leaves an adapter outside a document, and the
/// serializer for it would cost each adapter two kilobytes.
#[cold]
fn write_list(text: &mut String, items: &[String]) {
    let mut separator = "[\"";
    for item in items {
        if item.bytes().any(|b| b < b' ' || matches!(b, b'"' | b'\\')) {
            continue;
        }
        text.push_str(separator);
        text.push_str(item);
        separator = "\",\"";
    }
    text.push_str(if separator.starts_with('[') {
        "[]"
    } else {
        "\"]"
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_survives_the_boundary_and_a_bare_id_has_no_points() {
        let candidate = Candidate {
            schema: "acme/1".to_owned(),
            points: Some(2),
            supports: vec!["storage".to_owned(), "safety".to_owned()],
            contradicts: vec!["url of remote::vllm".to_owned()],
        };
        assert_eq!(Candidate::parse(&candidate.to_text()), candidate);
        let odd = Candidate {
            supports: vec!["a \"b\"".to_owned()],
            ..candidate.clone()
        };
        assert_eq!(Candidate::parse(&odd.to_text()).supports.len(), 0);
        assert_eq!(Candidate::parse(&odd.to_text()).points, Some(2));
        for text in ["acme/1", "acme/1 not JSON", "acme/1 {\"points\":-1}"] {
            let unweighed = Candidate::parse(text);
            assert_eq!((&*unweighed.schema, unweighed.points), ("acme/1", None));
        }
    }

    #[test]
    fn a_candidate_is_beaten_by_a_third_of_its_points_and_never_without_points() {
        let with = |points| Candidate {
            points,
            ..Candidate::default()
        };
        assert!(with(Some(0)).clearly_beats(&with(Some(1))));
        assert!(with(Some(2)).clearly_beats(&with(Some(6))));
        assert!(!with(Some(2)).clearly_beats(&with(Some(5))));
        assert!(!with(Some(0)).clearly_beats(&with(Some(0))));
        assert!(!with(Some(0)).clearly_beats(&with(None)));
        assert!(!with(None).clearly_beats(&with(Some(9))));
    }
}
