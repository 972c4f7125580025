//! What the API can say and this operator does not do yet.
//!
//! Each entry goes when its object is rendered. Until then a resource that asks for it is refused
//! with the field's name: half of what was asked for would look like all of it.

use llsd_api::checked::{Checked, ConfigSource};
use llsd_api::{FieldPath, Rejection, Rejections};

use super::{ConfigPlan, Owner};
use crate::generate::ValueSource;

pub(super) fn refuse(
    checked: &Checked,
    plan: &ConfigPlan,
    owner: &Owner,
) -> Result<(), Rejections> {
    let workload = &checked.workload;
    let networking = &checked.networking;
    let is_elsewhere = matches!(
        &checked.config_source,
        ConfigSource::Override { namespace: Some(namespace), .. } if *namespace != owner.namespace
    );
    let fields: [(&[&str], bool, &str); 8] = [
        (
            &["workload", "autoscaling"],
            workload.autoscaling.is_some(),
            "remove it and set workload.replicas",
        ),
        (
            &["workload", "podDisruptionBudget"],
            workload.disruption_budget.is_some(),
            "remove it",
        ),
        (
            &["networking", "tls", "secretName"],
            networking.tls_secret.is_some(),
            "remove it",
        ),
        (
            &["networking", "tls", "caBundle"],
            networking.ca_bundle.is_some(),
            "remove it",
        ),
        (
            &["networking", "expose"],
            networking.expose.is_some(),
            "remove it and make an Ingress for the Service",
        ),
        (
            &["networking", "allowedFrom"],
            networking.allowed_from != Default::default(),
            "remove it and make a NetworkPolicy",
        ),
        (
            &["externalProviders"],
            !checked.external.is_empty(),
            "remove them",
        ),
        (
            &["overrideConfig", "configMapNamespace"],
            is_elsewhere,
            "copy the ConfigMap to the resource's namespace and remove the field",
        ),
    ];
    let mut rejections: Vec<Rejection> = fields
        .into_iter()
        .filter(|(_, is_asked, _)| *is_asked)
        .map(|(path, _, fix)| {
            not_yet(
                FieldPath::spec().at(path),
                "this operator does not do this yet",
                fix,
            )
        })
        .collect();
    if let ConfigPlan::Generated(generated) = plan {
        for variable in &generated.variables {
            if let ValueSource::Part(reference, _) = &variable.source {
                let problem = format!(
                    "the schema {} takes a connection apart, and this operator does not do that with a Secret's value yet",
                    generated.schema
                );
                rejections.push(not_yet(
                    reference.path.clone(),
                    &problem,
                    "give host, port, database, user and password",
                ));
            }
        }
    }
    Rejections::new(rejections).map_or(Ok(()), Err)
}

fn not_yet(field: FieldPath, problem: &str, fix: &str) -> Rejection {
    Rejection {
        field,
        problem: problem.to_owned(),
        fix: fix.to_owned(),
    }
}
