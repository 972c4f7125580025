//! The permissions of the shipped roles, granted to the user of a test's operator.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use llsd_controller::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::DEADLINE;

const CLUSTER: &str = include_str!("../../../deploy/kustomize/rbac/cluster.yaml");
const RESOURCES: &str = include_str!("../../../deploy/kustomize/rbac/resources.yaml");
const OWN_NAMESPACE: &str = include_str!("../../../deploy/kustomize/rbac/own-namespace.yaml");

/// A verb on a resource, as a shipped role grants it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// Whether it applies to the operator's own namespace instead of the namespaces that it serves.
    pub is_own: bool,
    /// The API group.
    pub group: String,
    /// The resource, with its subresource if there is one: `deployments/scale`.
    pub resource: String,
    /// The verb.
    pub verb: String,
}

/// Every permission that the shipped roles grant to an operator.
pub fn granted() -> BTreeSet<Permission> {
    let of_cluster = [CLUSTER, RESOURCES].map(|file| {
        let role: ClusterRole = shipped(file, "ClusterRole");
        (false, role.rules.unwrap())
    });
    let of_namespace = [(false, CLUSTER), (true, OWN_NAMESPACE)].map(|(is_own, file)| {
        let role: Role = shipped(file, "Role");
        (is_own, role.rules.unwrap())
    });
    let rules = of_cluster.into_iter().chain(of_namespace);
    rules
        .flat_map(|(is_own, rules)| {
            rules
                .into_iter()
                .flat_map(move |one| permissions(is_own, one))
        })
        .collect()
}

fn permissions(is_own: bool, rule: PolicyRule) -> Vec<Permission> {
    let mut permissions = Vec::new();
    for group in rule.api_groups.unwrap() {
        for resource in rule.resources.iter().flatten() {
            let permission = |verb: &String| Permission {
                is_own,
                group: group.clone(),
                resource: resource.clone(),
                verb: verb.clone(),
            };
            permissions.extend(rule.verbs.iter().map(permission));
        }
    }
    permissions
}

/// Grants a user the permissions of an operator in the namespace `home`, and waits until they are in
/// effect.
pub(crate) async fn grant(client: &Client, user: &str, home: &str, scope: &Scope) {
    let cluster: ClusterRole = shipped(CLUSTER, "ClusterRole");
    let resources: ClusterRole = shipped(RESOURCES, "ClusterRole");
    let own: Role = shipped(OWN_NAMESPACE, "Role");
    for role in [&cluster, &resources] {
        apply(&Api::all(client.clone()), role).await;
    }
    let own = Role {
        metadata: named(own.name_any()),
        ..own
    };
    apply(&Api::namespaced(client.clone(), home), &own).await;
    let events: Role = shipped(CLUSTER, "Role");
    let of_events = events.namespace().unwrap();
    apply(&Api::namespaced(client.clone(), &of_events), &events).await;

    bind_everywhere(client, user, &cluster).await;
    bind(client, home, user, "Role", own.name_any()).await;
    bind(client, &of_events, user, "Role", events.name_any()).await;
    match scope {
        Scope::Cluster => bind_everywhere(client, user, &resources).await,
        Scope::Namespace(served) => {
            bind(client, served, user, "ClusterRole", resources.name_any()).await;
        }
    }
    wait_until_effective(client, user, scope, &of_events).await;
}

async fn bind_everywhere(client: &Client, user: &str, role: &ClusterRole) {
    let binding = ClusterRoleBinding {
        metadata: named(format!("{user}-{}", role.name_any())),
        role_ref: reference("ClusterRole", role.name_any()),
        subjects: Some(vec![subject(user)]),
    };
    apply(&Api::all(client.clone()), &binding).await;
}

async fn bind(client: &Client, namespace: &str, user: &str, kind: &str, role: String) {
    let binding = RoleBinding {
        metadata: named(format!("{user}-{role}")),
        role_ref: reference(kind, role),
        subjects: Some(vec![subject(user)]),
    };
    apply(&Api::namespaced(client.clone(), namespace), &binding).await;
}

fn named(name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        ..ObjectMeta::default()
    }
}

fn reference(kind: &str, name: String) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name,
    }
}

fn subject(user: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        name: user.to_owned(),
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        namespace: None,
    }
}

/// The only object of a kind in a manifest.
fn shipped<K: DeserializeOwned>(file: &str, kind: &str) -> K {
    let documents: Vec<Value> = serde_saphyr::from_multiple(file).unwrap();
    let found = documents.into_iter().find(|one| one["kind"] == kind);
    serde_json::from_value(found.unwrap()).unwrap()
}

async fn apply<K>(api: &Api<K>, object: &K)
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let parameters = PatchParams::apply("tests").force();
    api.patch(&object.name_any(), &parameters, &Patch::Apply(object))
        .await
        .unwrap();
}

/// Waits for the authorizer, which learns of new bindings a moment after they are stored.
async fn wait_until_effective(client: &Client, user: &str, scope: &Scope, of_events: &str) {
    let namespace = match scope {
        Scope::Namespace(namespace) => Some(namespace.as_str()),
        Scope::Cluster => None,
    };
    let review =
        |group: &str, resource: &str, verb: &str, namespace: Option<&str>| SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    verb: Some(verb.to_owned()),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
    let wanted = [
        review("apps", "deployments", "list", namespace),
        review("", "secrets", "list", namespace),
        review("llamastack.io", "schemaplugins", "list", None),
        review("events.k8s.io", "events", "create", Some(of_events)),
    ];
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let effective = async {
        for review in &wanted {
            while !api
                .create(&PostParams::default(), review)
                .await
                .unwrap()
                .status
                .unwrap()
                .allowed
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(DEADLINE, effective)
        .await
        .expect("the permissions did not take effect");
}
