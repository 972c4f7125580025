//! Telling the dialects apart.

use super::*;
use llsd_adapter_sdk::Detection;
use llsd_adapter_sdk::documents::Hints;

fn detect(base: &Value, hints: Value) -> Detection {
    ALL.detect(base, &serde_json::from_value::<Hints>(hints).unwrap())
}

fn one(id: &str) -> Detection {
    Detection::One(id.to_owned())
}

#[test]
fn a_whole_base_gives_its_dialect_away() {
    for schema in SCHEMAS {
        assert_eq!(
            detect(&golden(schema, "minimal")["base"], json!({})),
            one(schema)
        );
    }
}

#[test]
fn what_somebody_says_goes_first() {
    let base = golden(F, "minimal")["base"].clone();
    for (hints, answer) in [
        (json!({"schema": E}), one(E)),
        (json!({"schema": "other/1"}), Detection::None),
        (
            json!({"labels": {"io.llamastack.config.schema": D}}),
            one(D),
        ),
        (json!({"serverVersion": "0.1.2"}), Detection::None),
        (json!({"serverVersion": "0.2.12"}), one(A)),
        (json!({"serverVersion": "0.2.13"}), one(B)),
        (json!({"serverVersion": "0.3.0rc1"}), one(C)),
        (json!({"serverVersion": "0.6.1"}), one(E)),
        (json!({"serverVersion": "0.7.1"}), one(F)),
        (json!({"serverVersion": "0.8.0"}), one(G)),
        (json!({"serverVersion": "1.6.0"}), one(H)),
        (json!({"serverVersion": "latest"}), one(F)),
    ] {
        assert_eq!(detect(&base, hints.clone()), answer, "{hints}");
    }
}

#[test]
fn a_trimmed_base_is_one_of_several() {
    let trimmed = json!({"version": 2, "distro_name": "x", "apis": ["inference"], "providers": {"inference": []}});
    assert_eq!(
        detect(&trimmed, json!({})),
        Detection::OneOf([H, G, F, E].map(str::to_owned).to_vec())
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
        "it knows that there are others"
    );
}

#[test]
fn what_no_living_release_reads_is_nobodys() {
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
