//! The ValidatingAdmissionPolicy, generated from the table of rules.
//!
//! A policy can check untyped fields, which the CEL rules of a CustomResourceDefinition cannot. The API
//! server evaluates it, so it is enforced even when the operator does not run.

use serde_json::{Value, json};

use crate::gvk::GROUP;
use crate::manifest::{Manifest, yaml};
use crate::rules::{Expression, MATCH_CONDITION, POLICY_VARIABLES, Rule, rules};

/// Name of the policy and of its binding.
pub const POLICY_NAME: &str = "llamastackdistributions.llamastack.io";

/// The ValidatingAdmissionPolicy (`admissionregistration.k8s.io/v1`).
pub fn admission_policy() -> Value {
    let variables = POLICY_VARIABLES
        .iter()
        .map(|(name, expression)| json!({ "name": name, "expression": expression }));
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": POLICY_NAME },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                // Requests in v1alpha1 are converted to v1alpha2 first.
                "matchPolicy": "Equivalent",
                "resourceRules": [{
                    "apiGroups": [GROUP],
                    "apiVersions": ["v1alpha2"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["llamastackdistributions"],
                }],
            },
            "matchConditions": [{ "name": "spec-changed", "expression": MATCH_CONDITION }],
            "variables": variables.collect::<Vec<_>>(),
            "validations": rules().filter_map(validation).collect::<Vec<_>>(),
        },
    })
}

/// The ValidatingAdmissionPolicyBinding for all namespaces.
pub fn admission_policy_binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": POLICY_NAME },
        "spec": { "policyName": POLICY_NAME, "validationActions": ["Deny"] },
    })
}

/// The policy and its binding as YAML, with file names in `deploy/kustomize/policy`.
pub fn policy_manifests() -> Vec<Manifest> {
    vec![
        Manifest {
            file: "policy.yaml",
            yaml: yaml(&admission_policy()),
        },
        Manifest {
            file: "binding.yaml",
            yaml: yaml(&admission_policy_binding()),
        },
    ]
}

fn validation(rule: &Rule) -> Option<Value> {
    let message = format!("{}; {}", rule.problem, rule.fix);
    match rule.expression? {
        Expression::Crd { .. } => None,
        Expression::Policy {
            rule: expression,
            field,
            offenders,
        } => {
            let mut validation =
                json!({ "expression": expression, "message": format!("{field}: {message}") });
            if let Some(offenders) = offenders {
                validation["messageExpression"] = json!(format!(
                    "{} + {offenders} + {}",
                    quoted(&format!("{field}: ")),
                    quoted(&format!(": {message}"))
                ));
            }
            Some(validation)
        }
        Expression::PolicyPerApi {
            rule: expression,
            suffix,
        } => {
            let fields = format!(
                "variables.providers.filter(k, !({expression})).map(k, 'spec.providers.' + k + '{suffix}').join(', ')"
            );
            Some(json!({
                "expression": format!("variables.providers.all(k, {expression})"),
                "message": format!("spec.providers.*{suffix}: {message}"),
                "messageExpression": format!("{fields} + {}", quoted(&format!(": {message}"))),
            }))
        }
    }
}

/// A CEL string literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_field_problem_and_fix() {
        let policy = admission_policy();
        let validations = policy["spec"]["validations"].as_array().unwrap();
        assert!(validations.len() >= 15, "{}", validations.len());
        for validation in validations {
            let message = validation["message"].as_str().unwrap();
            let (field, rest) = message.split_once(": ").unwrap();
            assert!(
                field.starts_with("spec") || field == "metadata.name",
                "{message}"
            );
            assert!(rest.contains("; "), "{message}");
            assert!(
                !message.contains('\n') && message.len() <= 1024,
                "{message}"
            );
        }
    }

    #[test]
    fn the_binding_denies_by_the_policy() {
        assert_eq!(
            admission_policy_binding()["spec"]["policyName"],
            admission_policy()["metadata"]["name"]
        );
        let files: Vec<_> = policy_manifests()
            .into_iter()
            .map(|manifest| manifest.file)
            .collect();
        assert_eq!(files, ["policy.yaml", "binding.yaml"]);
    }

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(quoted(r"it's a \ b"), r"'it\'s a \\ b'");
    }
}
