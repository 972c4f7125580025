//! Names of APIs, as users spell them and as releases spell them.

/// Whether two spellings name the same API: `vectorIo`, `vector_io`, `VectorIO`.
pub(crate) fn same(a: &str, b: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = u8> {
        name.bytes()
            .filter(|b| *b != b'_' && *b != b'-')
            .map(|b| b.to_ascii_lowercase())
    }
    letters(a).eq(letters(b))
}

/// The other name of an API that was renamed between releases.
pub(crate) fn other_name(api: &str) -> Option<&'static str> {
    match api {
        "agents" => Some("responses"),
        "responses" => Some("agents"),
        _ => None,
    }
}

/// The API that serves a kind of resource.
pub(crate) fn of_resource(kind: &str) -> Option<&'static str> {
    match kind {
        "models" => Some("inference"),
        "shields" => Some("safety"),
        "vector_dbs" | "vector_stores" => Some("vector_io"),
        "datasets" => Some("datasetio"),
        "scoring_fns" => Some("scoring"),
        "benchmarks" => Some("eval"),
        "tool_groups" => Some("tool_runtime"),
        _ => None,
    }
}

/// The routing APIs of an API: they have no providers of their own, and a server that lists one of
/// them does not start without the API.
pub(crate) fn routing(api: &str) -> &'static [&'static str] {
    match api {
        "datasetio" => &["datasets"],
        "eval" => &["benchmarks"],
        "inference" => &["models"],
        "safety" => &["shields"],
        "scoring" => &["scoring_functions"],
        "tool_runtime" => &["tool_groups"],
        "vector_io" => &["vector_dbs", "vector_stores"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_api_is_understood() {
        for written in ["vectorIo", "vector_io", "VectorIO", "vector-io"] {
            assert!(same(written, "vector_io"), "{written}");
        }
        assert!(!same("vector", "vector_io"));
    }
}
