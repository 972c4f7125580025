//! Compares two sets of rendered resources. Pure: nothing is read or generated here.

use std::collections::BTreeMap;

/// What one resource becomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// The file that it is in.
    pub(crate) file: String,
    /// The resource itself as YAML.
    pub(crate) resource: String,
    /// The server's file; `None` if it is that of the image, or was not generated.
    pub(crate) config: Option<String>,
    /// Kubernetes objects as YAML, by kind and name.
    pub(crate) objects: BTreeMap<String, String>,
    /// Why it is rejected; empty if it is accepted.
    pub(crate) problems: Vec<String>,
    /// Warnings.
    pub(crate) warnings: Vec<String>,
    /// Whether something that decides was not read, so that only the resource itself can be compared.
    pub(crate) is_unread: bool,
}

/// Resources by namespace and name.
pub(crate) type Resources = BTreeMap<String, Rendered>;

/// What happens to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Removed,
    Changed,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// The text of one thing before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextChange {
    /// `configuration`, `resource`, or the kind and name of an object.
    pub(crate) what: String,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// The change of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) kind: Kind,
    /// Whether running pods are replaced; `None` if it is not known.
    pub(crate) restarts: Option<bool>,
    pub(crate) texts: Vec<TextChange>,
    /// Why the new resource is rejected.
    pub(crate) problems: Vec<String>,
    /// Warnings that the old resource does not have.
    pub(crate) warnings: Vec<String>,
}

/// The changes, sorted by name. A resource without a difference is left out.
pub(crate) fn compare(old: &Resources, new: &Resources) -> Vec<Change> {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let changes = names.into_iter().map(|name| {
        let (before, after) = (old.get(name), new.get(name));
        change(name, before, after)
    });
    changes.flatten().collect()
}

fn change(name: &str, before: Option<&Rendered>, after: Option<&Rendered>) -> Option<Change> {
    let kind = match (before, after) {
        (None, _) => Kind::Added,
        (_, None) => Kind::Removed,
        _ => Kind::Changed,
    };
    let nothing = Rendered::default();
    let (old, new) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
    // Without the rendered form of both sides only the resource can be compared.
    let is_rendered = |side: &Rendered| !side.is_unread && side.problems.is_empty();
    let texts = if is_rendered(old) && is_rendered(new) {
        rendered_changes(old, new)
    } else {
        text_change("resource", &old.resource, &new.resource)
            .into_iter()
            .collect()
    };
    let problems_changed = old.problems != new.problems;
    if kind == Kind::Changed && texts.is_empty() && !problems_changed {
        return None;
    }
    let warnings = new
        .warnings
        .iter()
        .filter(|one| !old.warnings.contains(one));
    Some(Change {
        name: name.to_owned(),
        file: if after.is_some() {
            &new.file
        } else {
            &old.file
        }
        .clone(),
        kind,
        restarts: restarts(kind, old, new),
        texts,
        problems: new.problems.clone(),
        warnings: warnings.cloned().collect(),
    })
}

fn rendered_changes(old: &Rendered, new: &Rendered) -> Vec<TextChange> {
    let text = |config: &Option<String>| config.clone().unwrap_or_default();
    let config = text_change("configuration", &text(&old.config), &text(&new.config));
    let mut names: Vec<&String> = old.objects.keys().chain(new.objects.keys()).collect();
    names.sort();
    names.dedup();
    let objects = names.into_iter().filter_map(|name| {
        let text =
            |objects: &BTreeMap<String, String>| objects.get(name).cloned().unwrap_or_default();
        text_change(name, &text(&old.objects), &text(&new.objects))
    });
    config.into_iter().chain(objects).collect()
}

fn text_change(what: &str, before: &str, after: &str) -> Option<TextChange> {
    (before != after).then(|| TextChange {
        what: what.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    })
}

/// Whether running pods are replaced. A rejected resource leaves them as they are.
fn restarts(kind: Kind, old: &Rendered, new: &Rendered) -> Option<bool> {
    match kind {
        Kind::Added => Some(false),
        Kind::Removed => Some(true),
        Kind::Changed if !new.problems.is_empty() => Some(false),
        Kind::Changed if old.is_unread || new.is_unread || !old.problems.is_empty() => None,
        Kind::Changed => {
            let template = |side: &Rendered| {
                let found = side
                    .objects
                    .iter()
                    .find(|(name, _)| name.starts_with("Deployment "));
                found.map(|(_, text)| pod_template(text))
            };
            Some(old.config != new.config || template(old) != template(new))
        }
    }
}

/// The lines of the pod template in a Deployment that this program wrote.
fn pod_template(deployment: &str) -> String {
    let lines = deployment.lines().skip_while(|line| *line != "  template:");
    let mut lines = lines.peekable();
    let first = lines.next().unwrap_or_default().to_owned();
    let rest = lines.take_while(|line| line.starts_with("   ") || line.starts_with("  -"));
    rest.fold(first, |text, line| text + "\n" + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: u32, image: &str) -> String {
        format!(
            "kind: Deployment\nspec:\n  replicas: {replicas}\n  template:\n    spec:\n      image: {image}\n  zz: 1\n"
        )
    }

    fn rendered(replicas: u32, image: &str, config: &str) -> Rendered {
        Rendered {
            file: "a.yaml".to_owned(),
            resource: format!("{replicas} {image} {config}\n"),
            config: Some(config.to_owned()),
            objects: BTreeMap::from([("Deployment a".to_owned(), deployment(replicas, image))]),
            ..Rendered::default()
        }
    }

    fn changes(old: Rendered, new: Rendered) -> Vec<Change> {
        let one = |side| Resources::from([("ns/a".to_owned(), side)]);
        compare(&one(old), &one(new))
    }

    #[test]
    fn equal_resources_have_no_change_even_in_another_file() {
        let mut moved = rendered(1, "i", "c");
        moved.file = "b.yaml".to_owned();
        assert_eq!(changes(rendered(1, "i", "c"), moved), []);
    }

    #[test]
    fn pods_restart_when_the_file_or_the_template_changes() {
        for (new, restarts) in [
            (rendered(2, "i", "c"), false),
            (rendered(1, "j", "c"), true),
            (rendered(1, "i", "d"), true),
        ] {
            let found = changes(rendered(1, "i", "c"), new);
            assert_eq!(found[0].restarts, Some(restarts), "{found:?}");
            assert_eq!(found[0].kind, Kind::Changed);
        }
    }

    #[test]
    fn resources_are_added_and_removed() {
        let one = Resources::from([("ns/a".to_owned(), rendered(1, "i", "c"))]);
        let none = Resources::new();
        let added = compare(&none, &one);
        assert_eq!(
            (added[0].kind, added[0].restarts),
            (Kind::Added, Some(false))
        );
        assert_eq!(added[0].texts.len(), 2);
        let removed = compare(&one, &none);
        assert_eq!(
            (removed[0].kind, removed[0].restarts),
            (Kind::Removed, Some(true))
        );
        assert_eq!(removed[0].file, "a.yaml");
    }

    #[test]
    fn a_rejected_resource_is_reported_and_stops_nothing() {
        let mut bad = rendered(1, "i", "c");
        bad.problems = vec!["spec.a: wrong".to_owned()];
        let found = changes(rendered(1, "i", "c"), bad);
        assert_eq!(found[0].problems, ["spec.a: wrong"]);
        assert_eq!(found[0].restarts, Some(false));
    }

    #[test]
    fn what_was_not_read_is_compared_as_a_resource() {
        let mut old = rendered(1, "i", "c");
        old.is_unread = true;
        let mut new = rendered(2, "i", "c");
        new.is_unread = true;
        let found = changes(old.clone(), new);
        assert_eq!(found[0].restarts, None);
        assert_eq!(found[0].texts[0].what, "resource");
        assert_eq!(changes(old.clone(), old), []);
    }

    #[test]
    fn only_new_warnings_are_listed() {
        let mut old = rendered(1, "i", "c");
        old.warnings = vec!["a".to_owned()];
        let mut new = rendered(2, "i", "c");
        new.warnings = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(changes(old, new)[0].warnings, ["b"]);
    }
}
