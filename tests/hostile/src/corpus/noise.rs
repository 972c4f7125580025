//! Inputs that are harmless alone, in hostile amounts.

use crate::fair_tenant::sample;
use crate::{Attack, Case, Outcome};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a resource that is changed all the time delays nobody",
            budget: "reconciliations of one resource",
            attack: Attack::Churn {
                resource: sample("hostile"),
                writers: 4,
            },
            outcome: Outcome::Served,
        },
        Case {
            name: "ConfigMaps with 200 KiB of annotations are not kept in memory",
            budget: "bytes of the metadata of one object",
            attack: Attack::Clutter {
                count: 100,
                bytes: 200 << 10,
            },
            outcome: Outcome::Served,
        },
        Case {
            name: "connections to the webhook that send nothing delay nobody",
            budget: "idle time of a connection to the webhook",
            attack: Attack::Idle { connections: 200 },
            outcome: Outcome::Served,
        },
    ]
}
