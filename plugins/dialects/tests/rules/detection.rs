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
        let found = detect(&golden(schema, "minimal")["base"], json!({}));
        if schema == V0_7 {
            // Without datasetio, eval and scoring 0.7 and ogx 0.8 read the file alike.
            let Detection::OneOf(ids) = found else {
                panic!("{found:?}");
            };
            assert!(
                [V0_7, OGX_0_8]
                    .iter()
                    .all(|id| ids.contains(&(*id).to_owned()))
            );
        } else {
            assert_eq!(found, one(schema), "{schema}");
        }
    }
}

/// Issue H, must show 2: why such a base may be a question.
#[test]
fn what_two_dialects_read_alike_is_generated_alike() {
    let config = |schema: &str| {
        let mut request = golden(V0_7, "minimal");
        request["schema"] = json!(schema);
        request["serverVersion"] = json!(null);
        assemble(request).config().clone()
    };
    assert_eq!(config(V0_7), config(OGX_0_8));
}

#[test]
fn a_stated_schema_or_release_decides_before_the_shape() {
    let base = golden(V0_5, "minimal")["base"].clone();
    for (hints, answer) in [
        (json!({"schema": V0_7}), one(V0_7)),
        (json!({"schema": "other/1"}), Detection::None),
        (
            json!({"labels": {"io.llamastack.config.schema": V0_4}}),
            one(V0_4),
        ),
        (json!({"serverVersion": "0.1.2"}), Detection::None),
        (json!({"serverVersion": "0.2.12"}), one(V0_1_3)),
        (json!({"serverVersion": "0.2.13"}), one(V0_2_13)),
        (json!({"serverVersion": "0.3.0rc3+rhai0"}), one(V0_2_13)),
        (json!({"serverVersion": "0.3.0rc4"}), one(V0_3)),
        (json!({"serverVersion": "0.4.0rc1"}), one(V0_4)),
        (json!({"serverVersion": "0.6.1"}), one(V0_5)),
        (json!({"serverVersion": "0.7.1"}), one(V0_7)),
        (json!({"serverVersion": "0.8.0"}), one(OGX_0_8)),
        (json!({"serverVersion": "1.6.0"}), one(OGX_1_0)),
        (json!({"serverVersion": "latest"}), one(V0_5)),
    ] {
        assert_eq!(detect(&base, hints.clone()), answer, "{hints}");
    }
}

#[test]
fn a_trimmed_base_is_one_of_several() {
    let trimmed = json!({"version": 2, "distro_name": "x", "apis": ["inference"], "providers": {"inference": []}});
    let all_but_the_oldest = SCHEMAS.iter().filter(|schema| **schema != V0_1_3);
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
        Detection::OneOf(vec![V0_7.to_owned()]),
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
    // A store that came with 0.4, and an endpoint key that vLLM does not start without before 0.4.
    let mut base = golden(V0_4, "minimal")["base"].clone();
    base["providers"]["inference"] = json!([
        {"provider_id": "v", "provider_type": "remote::vllm", "config": {"url": "http://vllm:80"}}
    ]);
    let Detection::OneOf(texts) = detect(&base, json!({"weigh": true})) else {
        panic!("a contradictory base is a question");
    };
    let candidates: Vec<Candidate> = texts.iter().map(|text| Candidate::parse(text)).collect();
    let of = |schema| candidates.iter().find(|c| c.schema == schema).unwrap();
    let of_old = ["remote::vllm without base_url", "url of remote::vllm"];
    let of_new = ["storage.stores.prompts", "safety"];
    assert_eq!(of(V0_3).supports, of_old);
    assert_eq!(of(V0_3).contradicts, of_new);
    assert_eq!(of(V0_4).supports, of_new);
    assert_eq!(of(V0_4).contradicts, of_old);
    assert_eq!((of(V0_3).points, of(V0_4).points), (Some(4), Some(4)));
}

/// Release 0.4.7 ships such a file: it still has the address of TGI under a key that 0.4 ignores.
#[test]
fn a_store_that_a_release_would_lose_outweighs_an_optional_key() {
    let mut base = golden(V0_4, "minimal")["base"].clone();
    base["providers"]["inference"] = json!([
        {"provider_id": "tgi0", "provider_type": "remote::tgi", "config": {"url": "${env.DEH_URL}"}}
    ]);
    assert_eq!(detect(&base, json!({})), one(V0_4));
}

#[test]
fn a_plugin_does_not_claim_the_bases_of_others() {
    const OLD: Adapter = Adapter {
        name: "old",
        version: "0",
        dialects: &[&LLAMA_STACK_0_2_13, &LLAMA_STACK_0_1_3],
    };
    for schema in [V0_3, V0_4, V0_5, V0_7, OGX_0_8, OGX_1_0] {
        assert_eq!(
            OLD.detect(&golden(schema, "minimal")["base"], &Hints::default()),
            Detection::None,
            "{schema}"
        );
    }
}
