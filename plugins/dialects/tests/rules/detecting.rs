//! Telling the dialects apart.

use super::*;
use llsd_adapter_sdk::documents::Hints;
use llsd_adapter_sdk::{Candidate, Detection};

fn detect(base: &Value, hints: Value) -> Detection {
    ALL.detect(base, &serde_json::from_value::<Hints>(hints).unwrap())
}

fn one(id: &str) -> Detection {
    Detection::One(id.to_owned())
}

#[test]
fn a_whole_base_gives_its_dialect_away() {
    for schema in SCHEMAS {
        let expected = match schema {
            // Without datasetio, eval and scoring both releases read the file alike.
            F => Detection::OneOf(vec![G.to_owned(), F.to_owned()]),
            _ => one(schema),
        };
        let base = &golden(schema, "minimal")["base"];
        assert_eq!(detect(base, json!({})), expected, "{schema}");
    }
}

#[test]
fn a_stated_schema_or_release_decides_before_the_shape() {
    let base = golden(E, "minimal")["base"].clone();
    for (hints, answer) in [
        (json!({"schema": F}), one(F)),
        (json!({"schema": "other/1"}), Detection::None),
        (
            json!({"labels": {"io.llamastack.config.schema": D}}),
            one(D),
        ),
        (json!({"serverVersion": "0.1.2"}), Detection::None),
        (json!({"serverVersion": "0.2.12"}), one(A)),
        (json!({"serverVersion": "0.2.13"}), one(B)),
        (json!({"serverVersion": "0.3.0rc3+rhai0"}), one(B)),
        (json!({"serverVersion": "0.3.0rc4"}), one(C)),
        (json!({"serverVersion": "0.4.0rc1"}), one(D)),
        (json!({"serverVersion": "0.6.1"}), one(E)),
        (json!({"serverVersion": "0.7.1"}), one(F)),
        (json!({"serverVersion": "0.8.0"}), one(G)),
        (json!({"serverVersion": "1.6.0"}), one(H)),
        (json!({"serverVersion": "latest"}), one(E)),
    ] {
        assert_eq!(detect(&base, hints.clone()), answer, "{hints}");
    }
}

#[test]
fn a_trimmed_base_is_one_of_several() {
    let trimmed = json!({"version": 2, "distro_name": "x", "apis": ["inference"], "providers": {"inference": []}});
    let all_but_the_oldest = SCHEMAS.iter().filter(|schema| **schema != A);
    assert_eq!(
        detect(&trimmed, json!({})),
        Detection::OneOf(all_but_the_oldest.map(ToString::to_string).collect())
    );
    const ONLY_NEW: Adapter = Adapter {
        name: "new",
        version: "0",
        dialects: &[&LLAMA_STACK_0_7],
    };
    let answer = ONLY_NEW.detect(&trimmed, &Hints::default());
    assert_eq!(
        answer,
        Detection::OneOf(vec![F.to_owned()]),
        "other dialects are candidates, too"
    );
}

#[test]
fn a_file_that_no_known_release_reads_is_not_detected() {
    for base in [
        json!({"version": "v1", "providers": {}}),
        json!({"version": 3, "providers": {}}),
        json!({"version": 2, "routing_table": {}, "providers": {}}),
        json!({"version": 2, "api_providers": {}}),
        json!({"hello": "world"}),
        json!([]),
        json!(null),
        json!("text"),
    ] {
        assert_eq!(detect(&base, json!({})), Detection::None, "{base}");
    }
}

#[test]
fn a_weighed_candidate_carries_its_points_and_what_supports_and_contradicts_it() {
    // A store that came with 0.4, and an endpoint key that went with it.
    let mut base = golden(D, "minimal")["base"].clone();
    base["providers"]["inference"] = json!([
        {"provider_id": "tgi", "provider_type": "remote::tgi", "config": {"url": "http://tgi:80"}}
    ]);
    let Detection::OneOf(texts) = detect(&base, json!({"weigh": true})) else {
        panic!("a contradictory base is a question");
    };
    let candidates: Vec<Candidate> = texts.iter().map(|text| Candidate::parse(text)).collect();
    let of = |schema| candidates.iter().find(|c| c.schema == schema).unwrap();
    assert_eq!(of(C).supports, ["url of remote::tgi"]);
    assert_eq!(of(C).contradicts, ["safety", "storage.stores.prompts"]);
    assert_eq!(of(D).supports, ["safety", "storage.stores.prompts"]);
    assert_eq!(of(D).contradicts, ["url of remote::tgi"]);
    assert_eq!((of(C).points, of(D).points), (Some(2), Some(1)));
}

#[test]
fn a_plugin_does_not_claim_the_bases_of_others() {
    const OLD: Adapter = Adapter {
        name: "old",
        version: "0",
        dialects: &[&LLAMA_STACK_0_2_13, &LLAMA_STACK_0_1_3],
    };
    for schema in [C, D, E, F, G, H] {
        assert_eq!(
            OLD.detect(&golden(schema, "minimal")["base"], &Hints::default()),
            Detection::None,
            "{schema}"
        );
    }
}
