//! Which dialect is a base written in?
//!
//! The integer `version` separates none of them, so the shape decides. Each fact about the base
//! rules dialects out; a fact that would rule out all that is left is not believed. What remains
//! when the facts are used up is the answer: one, or "one of these".

use llsd_adapter_sdk::Detection;
use llsd_adapter_sdk::documents::Hints;
use llsd_adapter_sdk::serde_json::Value;

use crate::env::{self, Syntax};
use crate::layout::Dialect;
use crate::release::Release;

/// A set of dialects, one bit each, oldest first.
type Set = u8;
const A: Set = 1;
const B: Set = 1 << 1;
const C: Set = 1 << 2;
const D: Set = 1 << 3;
const E: Set = 1 << 4;
const F: Set = 1 << 5;
const G: Set = 1 << 6;
const H: Set = 1 << 7;
const ALL: Set = u8::MAX;

const IDS: [(&str, Set); 8] = [
    ("llama-stack/0.1.3", A),
    ("llama-stack/0.2.13", B),
    ("llama-stack/0.3", C),
    ("llama-stack/0.4", D),
    ("llama-stack/0.5", E),
    ("llama-stack/0.7", F),
    ("ogx/0.8", G),
    ("ogx/1.0", H),
];

/// First release of each dialect; the numbers of the two products do not overlap.
const FIRST: [(Release, Set); 8] = [
    (Release(1, 0, 0), H),
    (Release(0, 8, 0), G),
    (Release(0, 7, 0), F),
    (Release(0, 5, 0), E),
    (Release(0, 4, 0), D),
    (Release(0, 3, 0), C),
    (Release(0, 2, 13), B),
    (Release(0, 1, 3), A),
];

pub(crate) fn detect(served: &[&'static Dialect], base: &Value, hints: &Hints) -> Detection {
    let candidates = match stated(hints) {
        Some(set) => set,
        None => by_shape(base),
    };
    let mut ours: Vec<String> = served
        .iter()
        .filter(|dialect| {
            IDS.iter()
                .any(|(id, bit)| *id == dialect.id && candidates & bit != 0)
        })
        .map(|dialect| dialect.id.to_owned())
        .collect();
    match (ours.len(), candidates.count_ones()) {
        (0, _) => Detection::None,
        (1, 1) => Detection::One(ours.remove(0)),
        _ => Detection::OneOf(ours),
    }
}

/// What somebody said: a schema id, or the release of the package.
fn stated(hints: &Hints) -> Option<Set> {
    let label = |name: &str| hints.labels.get(name).map(String::as_str);
    if let Some(schema) = hints
        .schema
        .as_deref()
        .or_else(|| label("io.llamastack.config.schema"))
    {
        return Some(
            IDS.iter()
                .find(|(id, _)| *id == schema)
                .map_or(0, |(_, bit)| *bit),
        );
    }
    let release = Release::parse(hints.server_version.as_deref()?)?;
    Some(
        FIRST
            .iter()
            .find(|(first, _)| release >= *first)
            .map_or(0, |(_, bit)| *bit),
    )
}

/// The dialects that the shape of a base allows; none for what no living release reads.
fn by_shape(base: &Value) -> Set {
    let Some(top) = base.as_object() else {
        return 0;
    };
    if ["routing_table", "api_providers", "apis_to_serve"]
        .iter()
        .any(|key| top.contains_key(*key))
    {
        return 0;
    }
    let text_version = match top.get("version") {
        Some(Value::String(text)) if text == "2" => true,
        Some(Value::Number(number)) if number.as_u64() == Some(2) => false,
        None => false,
        Some(_) => return 0,
    };
    if !["providers", "apis", "image_name", "distro_name"]
        .iter()
        .any(|key| top.contains_key(*key))
    {
        return 0;
    }
    let mut left = Candidates(ALL);
    let has = |key: &str| top.get(key).is_some_and(|value| !value.is_null());
    let registered = top.get("registered_resources");
    let stores = base.pointer("/storage/stores");

    left.keep_if(has("metadata_store") || has("inference_store"), A | B);
    left.keep_if(
        has("storage") || has("registered_resources"),
        ALL & !(A | B),
    );
    left.keep_if(
        ["models", "shields", "tool_groups", "vector_dbs"]
            .iter()
            .any(|key| has(key)),
        A | B,
    );

    let mut text = Texts::default();
    text.read(base, 0);
    left.keep_if(text.colon, ALL & !A);
    left.keep_if(text.plain && !text.colon, A);
    left.keep_if(text.ogx_home, G | H);
    left.keep_if(text.llama_home && !text.ogx_home, ALL & !(G | H));

    if let Some(prompts) = stores.and_then(|stores| stores.get("prompts")) {
        left.keep_if(prompts.get("table_name").is_some(), H);
        left.keep_if(prompts.get("namespace").is_some(), D | E | F | G);
    }
    left.keep_if(has("distro_name"), E | F | G | H);
    left.keep_if(
        has("connectors") || stores.is_some_and(|stores| stores.get("connectors").is_some()),
        E | F | G | H,
    );
    left.keep_if(
        registered.is_some_and(|resources| resources.get("connectors").is_some()),
        D,
    );
    left.keep_if(has("telemetry"), C);
    left.keep_if(has("safety"), D | E | F | G);

    let serves = |api: &str| {
        let listed = top.get("apis").and_then(Value::as_array);
        listed.is_some_and(|apis| apis.iter().any(|entry| entry == api))
            || top
                .get("providers")
                .and_then(|providers| providers.get(api))
                .is_some()
    };
    for (api, dialects) in [
        ("telemetry", A | B),
        ("agents", A | B | C | D | E),
        ("post_training", A | B | C | D | E),
        ("responses", F | G | H),
        ("messages", G | H),
        ("interactions", G | H),
        ("skills", H),
        ("safety", ALL & !H),
        ("datasetio", ALL & !(G | H)),
        ("eval", ALL & !(G | H)),
        ("scoring", ALL & !(G | H)),
        ("batches", ALL & !A),
        ("file_processors", E | F | G | H),
    ] {
        left.keep_if(serves(api), dialects);
    }
    left.keep_if(text.rag_runtime, A | B | C | D | E);
    left.keep_if(text.file_search, F | G | H);
    left.keep_if(
        base.pointer("/vector_stores/default_reranker_model")
            .is_some(),
        F | G | H,
    );
    left.keep_if(text.url_endpoint && !text.base_url_endpoint, A | B | C);
    left.keep_if(
        text.base_url_endpoint && !text.url_endpoint,
        ALL & !(A | B | C),
    );

    // Not proof, but what every shipped file of the dialect does.
    left.keep_if(has("image_name") && !has("distro_name"), A | B | C | D);
    left.keep_if(text_version && !text.colon, A);
    left.keep_if(!text_version && has("version"), ALL & !A);
    left.0
}

/// The dialects that no fact has ruled out.
struct Candidates(Set);

impl Candidates {
    /// If the fact holds, only these dialects remain; unless none would.
    fn keep_if(&mut self, fact: bool, dialects: Set) {
        if fact && self.0 & dialects != 0 {
            self.0 &= dialects;
        }
    }
}

/// What the texts of a base give away.
#[derive(Default)]
struct Texts {
    plain: bool,
    colon: bool,
    ogx_home: bool,
    llama_home: bool,
    rag_runtime: bool,
    file_search: bool,
    url_endpoint: bool,
    base_url_endpoint: bool,
}

impl Texts {
    /// Deeper than any real file; what lies below tells nothing.
    const DEPTH: usize = 32;

    fn read(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) => self.read_text(text),
            Value::Array(items) if depth < Self::DEPTH => {
                items.iter().for_each(|item| self.read(item, depth + 1))
            }
            Value::Object(entries) if depth < Self::DEPTH => {
                self.read_provider(value);
                entries
                    .values()
                    .for_each(|entry| self.read(entry, depth + 1));
            }
            _ => {}
        }
    }

    fn read_text(&mut self, text: &str) {
        for expression in env::expressions(text) {
            match expression.syntax {
                Some(Syntax::Plain) => self.plain = true,
                Some(Syntax::Colon) => self.colon = true,
                None => {}
            }
        }
        if let Some((_, home)) = text.split_once('~') {
            self.ogx_home |= home.starts_with("/.ogx");
            self.llama_home |= home.starts_with("/.llama");
        }
        self.rag_runtime |= text == "inline::rag-runtime";
        self.file_search |= text == "inline::file-search";
    }

    /// The endpoint key of these types changed its name in 0.4.
    fn read_provider(&mut self, entry: &Value) {
        let kind = entry.get("provider_type").and_then(Value::as_str);
        if matches!(
            kind,
            Some(
                "remote::vllm"
                    | "remote::ollama"
                    | "remote::fireworks"
                    | "remote::together"
                    | "remote::groq"
                    | "remote::nvidia"
            )
        ) && let Some(config) = entry.get("config")
        {
            self.url_endpoint |= config.get("url").is_some();
            self.base_url_endpoint |= config.get("base_url").is_some();
        }
    }
}
