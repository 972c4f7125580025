//! Damaged components: an inspection ends with a result of limited size, and never panics.

use llsd_plugin::{Limits, inspect};
use proptest::prelude::*;

use crate::guests::{Guest, doubled_types};

proptest! {
    #[test]
    fn any_component_is_inspected_with_a_result_of_limited_size(
        levels in 0usize..6,
        is_guest in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..10),
    ) {
        let mut bytes = match is_guest {
            true => Guest::default().build(),
            false => doubled_types(levels),
        };
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        let inspection = inspect(&bytes, &Limits::default());
        for names in [&inspection.imports, &inspection.type_imports, &inspection.exports] {
            prop_assert!(names.len() <= 65);
            prop_assert!(names.iter().all(|name| name.len() < 300 && !name.contains(char::is_control)));
        }
        for problem in &inspection.problems {
            prop_assert!(problem.to_string().len() < 40_000);
        }
    }
}
