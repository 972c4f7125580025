//! `llsd doctor`: whether an installation does its work, found out by asking it.
//!
//! Each check is a dry run: the API server takes a resource through definition, conversion, policy
//! and webhook, and stores nothing. So it needs no right but to create resources in one namespace,
//! and the chart's test runs it as such a nobody.

use anyhow::Context;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::core::Status;
use kube::{Client, Error};
use llsd_api::GROUP;
use serde_json::{Value, json};

use crate::network::cluster::ClusterOptions;
use crate::{Verdict, talk};

/// What an installation must do.
struct Check {
    /// What holds when it does.
    claim: &'static str,
    version: &'static str,
    spec: Value,
    expected: Expected,
    /// What to look at when it does not.
    advice: &'static str,
}

/// What the API server is to say.
enum Expected {
    Accepted,
    /// No, in words that only the layer in question uses.
    Refused(&'static str),
}

fn checks() -> [Check; 4] {
    [
        Check {
            claim: "resources are accepted",
            version: "v1alpha2",
            spec: json!({ "distribution": { "name": "starter" } }),
            expected: Expected::Accepted,
            advice: "install the definitions: kubectl apply --server-side -k deploy/kustomize/default",
        },
        Check {
            claim: "resources of the older version are converted and accepted",
            version: "v1alpha1",
            spec: json!({ "server": { "distribution": { "name": "starter" } } }),
            expected: Expected::Accepted,
            advice: "see whether the pods of llsd-operator are ready, and what they log",
        },
        Check {
            claim: "the admission policy refuses what is wrong by itself",
            version: "v1alpha2",
            spec: json!({
                "distribution": { "name": "starter" },
                "providers": { "inference": [{ "provider": "vllm" }, { "provider": "ollama" }] },
            }),
            expected: Expected::Refused("ValidatingAdmissionPolicy"),
            advice: "apply deploy/kustomize/policy: without it mistakes are found only when a resource is served",
        },
        Check {
            claim: "the webhook refuses what only plugins and the operator know to be wrong",
            version: "v1alpha2",
            spec: json!({ "distribution": { "name": "no-such-distribution" } }),
            expected: Expected::Refused("spec.distribution.name"),
            advice: "see whether the pods of llsd-operator are ready, and apply deploy/kustomize/webhook",
        },
    ]
}

/// Arguments of `doctor`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Asks the cluster.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    arguments.cluster.ask(async |client| {
        let mut verdict = Verdict::Done;
        for check in checks() {
            match check.ask(&client).await? {
                Ok(()) => talk::data(&format!("ok    {}", check.claim)),
                Err(why) => {
                    verdict = Verdict::Refused;
                    talk::data(&format!(
                        "FAIL  {}: {why}\n      {}",
                        check.claim, check.advice
                    ));
                }
            }
        }
        Ok(verdict)
    })
}

impl Check {
    /// Whether it holds, and otherwise why not; an error when the cluster cannot be asked.
    async fn ask(&self, client: &Client) -> anyhow::Result<Result<(), String>> {
        let kind = GroupVersionKind::gvk(GROUP, self.version, "LlamaStackDistribution");
        let resource = ApiResource::from_gvk_with_plural(&kind, "llamastackdistributions");
        let object =
            DynamicObject::new("llsd-doctor", &resource).data(json!({ "spec": self.spec }));
        let api = Api::<DynamicObject>::default_namespaced_with(client.clone(), &resource);
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match api.create(&parameters, &object).await {
            Ok(_) => Ok(self.judge(None)),
            Err(Error::Api(status)) if status.is_forbidden() && !is_of_admission(&status) => {
                Err(Error::Api(status)).context(
                    "the doctor may not create resources here; ask as somebody who may, or in another namespace",
                )
            }
            Err(Error::Api(status)) => Ok(self.judge(Some(&status.message))),
            Err(error) => Err(error).context("the cluster does not answer"),
        }
    }

    /// What an answer means: accepted, or refused with a message.
    fn judge(&self, refusal: Option<&str>) -> Result<(), String> {
        match (&self.expected, refusal) {
            (Expected::Accepted, None) => Ok(()),
            (Expected::Accepted, Some(message)) => Err(message.to_owned()),
            (Expected::Refused(words), Some(message)) if message.contains(words) => Ok(()),
            (Expected::Refused(_), Some(message)) => {
                Err(format!("somebody else refuses it: {message}"))
            }
            (Expected::Refused(_), None) => Err("it is accepted".to_owned()),
        }
    }
}

/// Admission refuses with the same code as the authorizer, but in other words.
fn is_of_admission(status: &Status) -> bool {
    !status.message.contains("cannot create resource")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_only_when_the_layer_in_question_refuses() {
        let [accepted, _, policy, _] = checks();
        assert!(accepted.judge(None).is_ok());
        assert_eq!(accepted.judge(Some("no")), Err("no".to_owned()));
        assert!(
            policy
                .judge(Some("ValidatingAdmissionPolicy 'x' denied"))
                .is_ok()
        );
        assert!(policy.judge(Some("failed calling webhook")).is_err());
        assert_eq!(policy.judge(None), Err("it is accepted".to_owned()));
    }
}
