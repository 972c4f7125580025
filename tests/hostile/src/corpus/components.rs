//! Hostile components.

use std::fmt::Write as _;

use crate::{Attack, Case, Outcome};

pub(super) fn cases() -> Vec<Case> {
    vec![Case {
        name: "a component whose types double 40 times is rejected",
        budget: "size of the types of a component",
        attack: Attack::Plugin {
            component: doubled_types(40),
        },
        outcome: Outcome::PluginRejected(&["127.0.0.1", "hostile/plugin"]),
    }]
}

/// A component that exports a function whose parameter has two to the power of `levels` parts.
fn doubled_types(levels: usize) -> Vec<u8> {
    let mut text = String::from("(component (type $t0 (tuple u8 u8))\n");
    for level in 1..levels {
        let before = level - 1;
        let _ = writeln!(text, "(type $t{level} (tuple $t{before} $t{before}))");
    }
    let last = levels - 1;
    let _ = writeln!(text, "(type $f (func (param \"x\" $t{last})))");
    text.push_str("(import \"f\" (func (type $f))))");
    wat::parse_str(&text).unwrap()
}
