//! `llsd doctor`: checks an installation.
//!
//! Each check creates a resource with a dry run: the API server runs schema validation, conversion,
//! admission policy and webhooks, and stores nothing. Doctor therefore only needs the permission to
//! create resources in one namespace, which is what the chart's test gives it.

use anyhow::Context;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::core::Status;
use kube::{Client, Error};
use llsd_api::GROUP;
use serde_json::{Value, json};

use crate::network::cluster::ClusterOptions;
use crate::{Exit, output};

/// One check.
struct Check {
    /// What the check proves.
    claim: &'static str,
    version: &'static str,
    spec: Value,
    expected: Expected,
    /// What to do if the check fails.
    fix: &'static str,
}

/// The expected response of the API server.
enum Expected {
    Accepted,
    /// Rejected, with a message that contains this string, which only the checked layer writes.
    Rejected(&'static str),
}

fn checks() -> [Check; 4] {
    [
        Check {
            claim: "v1alpha2 resources are accepted",
            version: "v1alpha2",
            spec: json!({ "distribution": { "name": "starter" } }),
            expected: Expected::Accepted,
            fix: "install the custom resource definitions: kubectl apply --server-side -k deploy/kustomize/default",
        },
        Check {
            claim: "v1alpha1 resources are converted and accepted",
            version: "v1alpha1",
            spec: json!({ "server": { "distribution": { "name": "starter" } } }),
            expected: Expected::Accepted,
            fix: "check that the pods of llsd-operator are ready, and read their logs",
        },
        Check {
            claim: "the admission policy rejects an invalid resource",
            version: "v1alpha2",
            spec: json!({
                "distribution": { "name": "starter" },
                "providers": { "inference": [{ "provider": "vllm" }, { "provider": "ollama" }] },
            }),
            expected: Expected::Rejected("ValidatingAdmissionPolicy"),
            fix: "apply deploy/kustomize/policy; without it, such errors are only reported in the status",
        },
        Check {
            claim: "the webhook rejects an unknown distribution",
            version: "v1alpha2",
            spec: json!({ "distribution": { "name": "no-such-distribution" } }),
            expected: Expected::Rejected("spec.distribution.name"),
            fix: "check that the pods of llsd-operator are ready, and apply deploy/kustomize/webhook",
        },
    ]
}

/// Arguments of `doctor`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Runs the checks and prints a line for each. Rejects if one fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    arguments.cluster.run(async |client| {
        let mut exit = Exit::Success;
        for check in checks() {
            match check.run(&client).await? {
                Ok(()) => output::print(&format!("ok    {}", check.claim)),
                Err(why) => {
                    exit = Exit::Rejected;
                    output::print(&format!(
                        "FAIL  {}: {why}\n      {}",
                        check.claim, check.fix
                    ));
                }
            }
        }
        Ok(exit)
    })
}

impl Check {
    /// Runs the check. The inner error says why it failed; the outer one, why it could not run.
    async fn run(&self, client: &Client) -> anyhow::Result<Result<(), String>> {
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
            Ok(_) => Ok(self.evaluate(None)),
            Err(Error::Api(status)) if status.is_forbidden() && !is_from_admission(&status) => {
                Err(Error::Api(status)).context(
                    "doctor needs the permission to create LlamaStackDistributions in this namespace; use another user or --namespace",
                )
            }
            Err(Error::Api(status)) => Ok(self.evaluate(Some(&status.message))),
            Err(error) => Err(error).context("failed to reach the cluster"),
        }
    }

    /// Compares the response with what is expected. `rejection` is the message of a rejection.
    fn evaluate(&self, rejection: Option<&str>) -> Result<(), String> {
        match (&self.expected, rejection) {
            (Expected::Accepted, None) => Ok(()),
            (Expected::Accepted, Some(message)) => Err(message.to_owned()),
            (Expected::Rejected(part), Some(message)) if message.contains(part) => Ok(()),
            (Expected::Rejected(_), Some(message)) => {
                Err(format!("rejected for another reason: {message}"))
            }
            (Expected::Rejected(_), None) => Err("the resource was accepted".to_owned()),
        }
    }
}

/// Whether admission rejected the request. The authorizer uses the same code with another message.
fn is_from_admission(status: &Status) -> bool {
    !status.message.contains("cannot create resource")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_counts_only_if_the_checked_layer_rejects() {
        let [accepted, _, policy, _] = checks();
        assert!(accepted.evaluate(None).is_ok());
        assert_eq!(accepted.evaluate(Some("no")), Err("no".to_owned()));
        assert!(
            policy
                .evaluate(Some("ValidatingAdmissionPolicy 'x' denied"))
                .is_ok()
        );
        assert!(policy.evaluate(Some("failed calling webhook")).is_err());
        assert_eq!(
            policy.evaluate(None),
            Err("the resource was accepted".to_owned())
        );
    }
}
