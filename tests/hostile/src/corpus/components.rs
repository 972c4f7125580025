//! Hostile components.

use std::fmt::Write as _;

use crate::{Attack, Case, Outcome};

pub(super) fn cases() -> Vec<Case> {
    vec![Case {
        name: "a component whose instance types double 17 times is rejected",
        budget: "imported items of a component",
        attack: Attack::Plugin {
            component: doubled_types(17),
        },
        outcome: Outcome::PluginRejected(&["imported items", "make it simpler"]),
    }]
}

/// A component of less than 100 KB that imports an instance of two to the power of `levels` functions
/// with long names.
fn doubled_types(levels: usize) -> Vec<u8> {
    let long = "x".repeat(1_000);
    let mut text = String::from("(component (type $t0 (instance (export \"read\" (func))))\n");
    for level in 1..=levels {
        let before = level - 1;
        let _ = writeln!(
            text,
            "(type $t{level} (instance (alias outer 1 $t{before} (type $t)) \
             (export \"a{long}\" (instance (type $t))) (export \"b{long}\" (instance (type $t)))))"
        );
    }
    let _ = writeln!(text, "(import \"x\" (instance (type $t{levels}))))");
    wat::parse_str(&text).unwrap()
}
