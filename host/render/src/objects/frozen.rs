//! The objects of a resource as they were applied, so that they can be applied again as they are.
//!
//! ConfigMaps and Secrets are not part of them: their content is built again from the configuration
//! plan, the certificates and the secret values, none of which depend on the release of the operator.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::merge::merge;
use super::{Child, DESIRED_DIGEST, Desired, Kind, ObjectInputs, before_pods, retired};

/// The objects of a resource except ConfigMaps and Secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrozenObjects {
    before: Vec<Child>,
    deployment: Child,
    after: Vec<Child>,
}

impl FrozenObjects {
    /// Takes the objects that were built.
    pub fn of(desired: &Desired) -> Self {
        let frozen = |children: &[Child]| {
            let kept = children.iter().filter(|child| !has_content(child));
            kept.cloned().collect()
        };
        Self {
            before: frozen(&desired.before),
            deployment: desired.deployment.clone(),
            after: frozen(&desired.after),
        }
    }

    /// The objects, complete. Only ConfigMaps and Secrets are built from `inputs`.
    pub fn thaw(&self, inputs: &ObjectInputs<'_>) -> Desired {
        let content = before_pods(inputs).into_iter().filter(has_content);
        let mut desired = Desired {
            before: content.chain(self.before.iter().cloned()).collect(),
            deployment: self.deployment.clone(),
            after: self.after.clone(),
            retired: Vec::new(),
        };
        desired.retired = retired(&desired, inputs);
        desired
    }

    /// Applies the difference between two states of the inputs. `old` and `new` are built by the same
    /// release of the operator, `self` possibly by another one.
    #[must_use]
    pub fn merge(&self, old: &Self, new: &Self) -> Self {
        Self {
            before: merge_children(&old.before, &new.before, &self.before),
            deployment: merge_child(&old.deployment, &new.deployment, &self.deployment),
            after: merge_children(&old.after, &new.after, &self.after),
        }
    }

    /// The same objects with another pod template, and with another deadline of its rollout.
    #[must_use]
    pub fn with_template(mut self, template: Value, deadline: Option<Value>) -> Self {
        let spec = &mut self.deployment.object["spec"];
        spec["template"] = template;
        if let Some(deadline) = deadline {
            spec["progressDeadlineSeconds"] = deadline;
        }
        self.deployment = sealed(self.deployment);
        self
    }

    /// The same objects with another label of the Deployment.
    #[must_use]
    pub fn with_label(mut self, key: &str, value: &str) -> Self {
        self.deployment.object["metadata"]["labels"][key] = Value::from(value);
        self.deployment = sealed(self.deployment);
        self
    }

    /// The digest that a Deployment of these objects has in its label.
    pub fn deployment_digest(&self) -> Option<&str> {
        self.deployment.object["metadata"]["labels"][DESIRED_DIGEST].as_str()
    }

    /// The pod template.
    pub fn template(&self) -> &Value {
        &self.deployment.object["spec"]["template"]
    }

    /// Kind and name of the objects that differ, for example `Deployment demo`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let all = |one: &Self| -> Vec<Child> {
            let children = one.before.iter().chain([&one.deployment]).chain(&one.after);
            children.cloned().collect()
        };
        let (mine, theirs) = (all(self), all(other));
        // The digest depends on the order of fields, which a merge may change.
        let is_in = |child: &Child, list: &[Child]| {
            list.iter()
                .any(|one| is_same(one, child) && unsealed(&one.object) == unsealed(&child.object))
        };
        let changed = mine.iter().filter(|child| !is_in(child, &theirs));
        let changed = changed.chain(theirs.iter().filter(|child| !is_in(child, &mine)));
        let mut names: Vec<String> = changed
            .map(|child| format!("{:?} {}", child.kind, child.name))
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Whether the object is built again each time, from content that the inputs provide.
fn has_content(child: &Child) -> bool {
    matches!(child.kind, Kind::ConfigMap | Kind::Secret)
}

fn is_same(one: &Child, other: &Child) -> bool {
    one.kind == other.kind && one.name == other.name
}

fn merge_children(old: &[Child], new: &[Child], current: &[Child]) -> Vec<Child> {
    let find = |list: &[Child], child: &Child| list.iter().find(|one| is_same(one, child)).cloned();
    let added = new
        .iter()
        .filter(|child| find(current, child).is_none() && find(old, child).is_none());
    let kept = current.iter().filter_map(|child| {
        match (find(old, child), find(new, child)) {
            (Some(old), Some(new)) => Some(merge_child(&old, &new, child)),
            // No longer wanted.
            (Some(_), None) => None,
            (None, Some(new)) => Some(new),
            (None, None) => Some(child.clone()),
        }
    });
    kept.chain(added.cloned()).collect()
}

fn merge_child(old: &Child, new: &Child, current: &Child) -> Child {
    if old == new {
        return current.clone();
    }
    let [old_object, new_object, object] = [old, new, current].map(|one| unsealed(&one.object));
    sealed(Child {
        object: merge(&old_object, &new_object, &object),
        ..current.clone()
    })
}

/// Without the digest, which the merged object gets anew.
fn unsealed(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.shift_remove(DESIRED_DIGEST);
    }
    object
}

fn sealed(child: Child) -> Child {
    let Child {
        kind,
        name,
        write,
        need,
        object,
    } = child;
    Child::from_json(kind, write, need, name, unsealed(&object))
}
