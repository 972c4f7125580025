//! Which generated ConfigMaps no pod needs any more.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;

/// The names to delete: all but the current one, the newest other, and those that pods still mount.
pub(super) fn superfluous(
    generated: &[impl AsRef<DynamicObject>],
    current: &str,
    mounted: &BTreeSet<String>,
) -> Vec<String> {
    let mut others: Vec<(Option<Timestamp>, String)> = generated
        .iter()
        .map(AsRef::as_ref)
        .filter(|map| map.name_any() != current)
        .map(|map| {
            let made = map.metadata.creation_timestamp.as_ref();
            (made.map(|time| time.0), map.name_any())
        })
        .collect();
    others.sort_by(|one, other| other.cmp(one));
    let old = others.into_iter().skip(1).map(|(_, name)| name);
    old.filter(|name| !mounted.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_current_the_previous_and_the_mounted_stay() {
        let map = |name: &str, second: i64| {
            let time = Timestamp::from_second(second).expect("a time");
            let object = json!({"metadata": {"name": name, "creationTimestamp": time}});
            Arc::new(serde_json::from_value::<DynamicObject>(object).expect("a ConfigMap"))
        };
        let maps = [
            map("oldest", 1),
            map("mounted", 2),
            map("previous", 3),
            map("current", 4),
        ];
        let mounted = BTreeSet::from(["mounted".to_owned()]);
        assert_eq!(superfluous(&maps, "current", &mounted), ["oldest"]);
        // A file that was used before and is used again.
        assert_eq!(
            superfluous(&maps, "oldest", &BTreeSet::new()),
            ["previous", "mounted"]
        );
    }
}
