//! Hostile resources and base configurations.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::on_config_map;
use crate::fair_tenant::sample;
use crate::{Attack, Case, Outcome};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a resource that is nested 135 levels deep is rejected",
            budget: "depth of a resource",
            attack: Attack::Apply {
                config_maps: Vec::new(),
                resources: vec![nested(135)],
            },
            outcome: Outcome::Denied(&["32 levels", "use fewer levels"]),
        },
        Case {
            name: "a base configuration of aliases does not use hundreds of megabytes",
            budget: "bytes of an expanded base configuration",
            attack: base(aliases()),
            outcome: Outcome::Condition(
                "ConfigGenerated",
                &[
                    "spec.distribution.baseConfig",
                    "bytes in memory",
                    "use fewer aliases",
                ],
            ),
        },
    ]
}

/// A resource with a base configuration.
fn base(yaml: String) -> Attack {
    Attack::Apply {
        config_maps: vec![("base".to_owned(), "config.yaml".to_owned(), yaml)],
        resources: vec![on_config_map("hostile", "base")],
    }
}

fn nested(levels: usize) -> Value {
    let mut settings = json!("end");
    for _ in 0..levels {
        settings = json!({ "a": settings });
    }
    let mut resource = sample("hostile");
    resource["spec"]["providers"]["inference"] = json!({
        "provider": "vllm", "endpoint": "http://vllm:8000", "settings": settings,
    });
    resource
}

/// A string of 100 KB, and thousands of aliases of it.
fn aliases() -> String {
    let mut yaml = format!("version: 2\nlong: &a {}\nall:\n", "x".repeat(100 << 10));
    for _ in 0..9_000 {
        let _ = writeln!(yaml, "- *a");
    }
    yaml
}
