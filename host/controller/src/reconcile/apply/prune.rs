//! Selects the generated ConfigMaps that no pod uses any more.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::cache::version;

/// The names to delete: all except the current one if there is one, the previous one, and those that
/// pods mount.
pub(super) fn unused(
    generated: &[DynamicObject],
    current: Option<&str>,
    mounted: &BTreeSet<String>,
) -> Vec<String> {
    // Creation times have a resolution of one second; the resource version decides between two
    // ConfigMaps of the same second.
    let mut others: Vec<(Option<Timestamp>, u64, String)> = generated
        .iter()
        .filter(|map| Some(map.name_any().as_str()) != current)
        .map(|map| {
            let created = map.metadata.creation_timestamp.as_ref();
            (created.map(|time| time.0), version(map), map.name_any())
        })
        .collect();
    others.sort_by(|one, other| other.cmp(one));
    let old = others.into_iter().skip(1).map(|(_, _, name)| name);
    old.filter(|name| !mounted.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(name: &str, second: i64, version: u64) -> DynamicObject {
        let time = Timestamp::from_second(second).expect("a time");
        let metadata = json!({
            "name": name, "creationTimestamp": time, "resourceVersion": version.to_string(),
        });
        let object = serde_json::from_value(json!({ "metadata": metadata }));
        object.expect("a ConfigMap")
    }

    #[test]
    fn of_two_created_within_a_second_the_later_one_is_the_previous_one() {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let maps = [map(first, 1, 9), map(second, 1, 10), map("current", 1, 11)];
            assert_eq!(unused(&maps, Some("current"), &BTreeSet::new()), [first]);
        }
    }

    #[test]
    fn the_current_the_previous_and_the_mounted_stay() {
        let map = |name, second: u64| map(name, second.try_into().expect("a time"), second);
        let maps = [
            map("oldest", 1),
            map("mounted", 2),
            map("previous", 3),
            map("current", 4),
        ];
        let mounted = BTreeSet::from(["mounted".to_owned()]);
        assert_eq!(unused(&maps, Some("current"), &mounted), ["oldest"]);
        // A configuration that is in use again.
        assert_eq!(
            unused(&maps, Some("oldest"), &BTreeSet::new()),
            ["previous", "mounted"]
        );
    }
    #[test]
    fn without_a_generated_configuration_only_the_newest_and_the_mounted_stay() {
        let maps = [
            map("oldest", 1, 1),
            map("mounted", 2, 2),
            map("newest", 3, 3),
        ];
        let mounted = BTreeSet::from(["mounted".to_owned()]);
        assert_eq!(unused(&maps, None, &mounted), ["oldest"]);
    }
}
