//! The rights of the shipped manifests, granted to the user that an operator of the tests is.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::DEADLINE;

const CLUSTER: &str = include_str!("../../../deploy/kustomize/rbac/cluster.yaml");
const RESOURCES: &str = include_str!("../../../deploy/kustomize/rbac/resources.yaml");
const OWN_NAMESPACE: &str = include_str!("../../../deploy/kustomize/rbac/own-namespace.yaml");

/// Lets a user do what the operator of one namespace may, and waits until the API server agrees.
pub(crate) async fn grant(client: &Client, namespace: &str, user: &str) {
    let cluster: ClusterRole = shipped(CLUSTER, "ClusterRole");
    let resources: ClusterRole = shipped(RESOURCES, "ClusterRole");
    let own: Role = shipped(OWN_NAMESPACE, "Role");
    static SHIPPED: OnceCell<()> = OnceCell::const_new();
    SHIPPED
        .get_or_init(async || {
            for role in [&cluster, &resources] {
                apply(&Api::all(client.clone()), role).await;
            }
        })
        .await;

    let subjects = Some(vec![Subject {
        kind: "User".to_owned(),
        name: user.to_owned(),
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        namespace: None,
    }]);
    let reference = |kind: &str, name: String| RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name,
    };
    let named = |name: String| ObjectMeta {
        name: Some(name),
        ..ObjectMeta::default()
    };
    let everywhere = ClusterRoleBinding {
        metadata: named(user.to_owned()),
        role_ref: reference("ClusterRole", cluster.name_any()),
        subjects: subjects.clone(),
    };
    apply(&Api::all(client.clone()), &everywhere).await;
    let own = Role {
        metadata: named(own.name_any()),
        ..own
    };
    apply(&Api::namespaced(client.clone(), namespace), &own).await;
    let here = [
        reference("Role", own.name_any()),
        reference("ClusterRole", resources.name_any()),
    ];
    for role_ref in here {
        let binding = RoleBinding {
            metadata: named(role_ref.name.clone()),
            role_ref,
            subjects: subjects.clone(),
        };
        apply(&Api::namespaced(client.clone(), namespace), &binding).await;
    }
    wait_until_effective(client, namespace, user).await;
}

/// The one object of a kind in a file.
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

/// The authorizer hears of new bindings a moment after they are stored.
async fn wait_until_effective(client: &Client, namespace: &str, user: &str) {
    let review = |group: &str, resource: &str, namespace: Option<&str>| SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some("list".to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let wanted = [
        review("apps", "deployments", Some(namespace)),
        review("", "secrets", Some(namespace)),
        review("llamastack.io", "schemaplugins", None),
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
        .expect("the API server never grants the rights");
}
