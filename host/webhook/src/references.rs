//! Whether the Secrets and ConfigMaps that a resource names are there.
//!
//! Only ever warnings: a set of files may be applied in any order. What the process has seen is there;
//! for what it has not seen the API server is asked, because it may be a moment old. Of Secrets nothing
//! but metadata is asked for.

use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use kube::api::{Api, DynamicObject};
use llsd_api::checked::{BaseConfigMap, Checked, ConfigSource};
use llsd_api::{FieldPath, Notice};
use llsd_render::objects::Kind;

/// Warnings are worth no longer wait.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the process knows of the cluster without asking.
pub trait Objects: Send + Sync {
    /// Whether an object is known to be there. A no is no proof that it is not.
    fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool;
}

/// An object of the resource's namespace, and where the resource names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    kind: Kind,
    name: String,
    field: FieldPath,
}

/// Looks for everything at once. What cannot be asked in time is taken to be there.
pub(crate) async fn survey(
    client: &Client,
    objects: &dyn Objects,
    namespace: &str,
    checked: &Checked,
) -> Vec<Notice> {
    let mut unseen = names(checked);
    unseen.retain(|one| !objects.has(one.kind, namespace, &one.name));
    let ask = join_all(unseen.iter().map(|one| look(client, namespace, one)));
    let answers = tokio::time::timeout(PATIENCE, ask).await;
    answers.unwrap_or_default().into_iter().flatten().collect()
}

/// Every object that the resource names, each once.
fn names(checked: &Checked) -> Vec<Named> {
    let field = |path: &[&str]| FieldPath::spec().at(path);
    let secret = |name: &str, field| Named {
        kind: Kind::Secret,
        name: name.to_owned(),
        field,
    };
    let config_map = |name: &str, field| Named {
        kind: Kind::ConfigMap,
        name: name.to_owned(),
        field,
    };
    let mut named: Vec<Named> = checked
        .references()
        .into_iter()
        .map(|one| secret(&one.secret, one.path.clone()))
        .collect();
    match &checked.config_source {
        ConfigSource::Override {
            config_map: name,
            namespace: None,
        } => named.push(config_map(
            name,
            field(&["overrideConfig", "configMapName"]),
        )),
        ConfigSource::Generated {
            base: Some(BaseConfigMap { name, .. }),
        } => named.push(config_map(
            name,
            field(&["distribution", "baseConfig", "configMapName"]),
        )),
        _ => {}
    }
    let networking = &checked.networking;
    if let Some(name) = &networking.tls_secret {
        named.push(secret(name, field(&["networking", "tls", "secretName"])));
    }
    if let Some(bundle) = &networking.ca_bundle
        && bundle
            .config_map_namespace
            .as_deref()
            .unwrap_or_default()
            .is_empty()
    {
        let field = field(&["networking", "tls", "caBundle", "configMapName"]);
        named.push(config_map(&bundle.config_map_name, field));
    }
    let mut once: Vec<Named> = Vec::new();
    for one in named {
        if !once
            .iter()
            .any(|known| (known.kind, &known.name) == (one.kind, &one.name))
        {
            once.push(one);
        }
    }
    once
}

async fn look(client: &Client, namespace: &str, named: &Named) -> Option<Notice> {
    let Named { kind, name, field } = named;
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind.resource());
    // Whoever may not look cannot say that it is missing.
    let Ok(None) = api.get_metadata_opt(name).await else {
        return None;
    };
    Some(Notice {
        field: field.clone(),
        problem: format!("namespace {namespace:?} has no {kind:?} {name:?} yet"),
        fix: "create it, or correct the name; until then nothing changes".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn checked(spec: Value) -> Checked {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "a"}, "spec": spec,
        });
        llsd_api::review(document).result.unwrap()
    }

    fn named(spec: Value) -> Vec<String> {
        let line = |one: &Named| format!("{:?} {} at {}", one.kind, one.name, one.field);
        names(&checked(spec)).iter().map(line).collect()
    }

    /// A process that has seen one object.
    struct HasSeen(Kind, &'static str);

    impl Objects for HasSeen {
        fn has(&self, kind: Kind, namespace: &str, name: &str) -> bool {
            (kind, namespace, name) == (self.0, "n", self.1)
        }
    }

    /// An API server that knows of nothing, and the paths that it was asked for.
    fn empty_cluster(answer: StatusCode) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let asking = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            asking.lock().unwrap().push(path);
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": answer.as_u16(),
                "message": "", "reason": if answer == StatusCode::NOT_FOUND { "NotFound" } else { "Forbidden" },
            });
            let body = Body::from(status.to_string().into_bytes());
            let response = Response::builder().status(answer).body(body).unwrap();
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        });
        (Client::new(service, "default"), asked)
    }

    fn with_tls() -> Checked {
        checked(json!({
            "distribution": {"name": "starter"},
            "networking": {"tls": {"enabled": true, "secretName": "tls", "caBundle": {"configMapName": "ca"}}},
        }))
    }

    #[tokio::test]
    async fn what_was_seen_is_not_asked_for_and_what_was_not_is_missing_only_when_the_api_server_says_so()
     {
        let (client, asked) = empty_cluster(StatusCode::NOT_FOUND);
        let seen = HasSeen(Kind::Secret, "tls");
        let notices = survey(&client, &seen, "n", &with_tls()).await;
        assert_eq!(
            *asked.lock().unwrap(),
            ["/api/v1/namespaces/n/configmaps/ca"]
        );
        let problems: Vec<&str> = notices.iter().map(|one| one.problem.as_str()).collect();
        assert_eq!(problems, ["namespace \"n\" has no ConfigMap \"ca\" yet"]);
    }

    #[tokio::test]
    async fn who_may_not_look_does_not_say_that_something_is_missing() {
        let (client, asked) = empty_cluster(StatusCode::FORBIDDEN);
        let seen = HasSeen(Kind::Secret, "ca");
        assert_eq!(survey(&client, &seen, "n", &with_tls()).await, []);
        assert_eq!(asked.lock().unwrap().len(), 2);
    }

    #[test]
    fn every_object_of_the_namespace_is_looked_for_once() {
        let reference = json!({"name": "creds", "key": "k"});
        assert_eq!(
            named(json!({
                "distribution": {"name": "starter", "baseConfig": {"configMapName": "base"}},
                "providers": {"inference": {"provider": "vllm", "apiKey": reference}},
                "storage": {"kv": {"type": "redis", "endpoint": "r:1", "password": reference}},
                "networking": {"tls": {"secretName": "tls", "caBundle": {"configMapName": "ca"}}},
            })),
            [
                "Secret creds at spec.providers.inference.apiKey",
                "ConfigMap base at spec.distribution.baseConfig.configMapName",
                "Secret tls at spec.networking.tls.secretName",
                "ConfigMap ca at spec.networking.tls.caBundle.configMapName",
            ]
        );
    }

    #[test]
    fn objects_of_other_namespaces_are_left_alone() {
        let elsewhere = json!({"configMapName": "a", "configMapNamespace": "b"});
        assert_eq!(
            named(json!({
                "distribution": {"name": "starter"},
                "overrideConfig": elsewhere,
                "networking": {"tls": {"caBundle": elsewhere}},
            })),
            [""; 0]
        );
    }
}
