//! Checks a complete configuration of the user against the resource that mounts it.

use llsd_api::checked::Checked;
use llsd_api::{Diagnostic, FieldPath};

use crate::objects::tls;
use crate::yaml;

/// The keys that make a server use TLS.
const TLS_KEYS: [&str; 2] = ["tls_certfile", "tls_keyfile"];

/// Problems of the configuration in ConfigMap `config_map`. The probe and the Service use TLS if the
/// resource has a serving certificate; a server that does otherwise never becomes ready.
pub fn check(checked: &Checked, config_map: &str, text: &str) -> Vec<Diagnostic> {
    // The server reports a file that it cannot read.
    let Ok(config) = yaml::read(text) else {
        return Vec::new();
    };
    let missing: Vec<String> = TLS_KEYS
        .into_iter()
        .filter(|key| config["server"][*key].as_str().is_none_or(str::is_empty))
        .map(|key| format!("server.{key}"))
        .collect();
    let field = FieldPath::spec().at(&["networking", "tls", "secretName"]);
    match (&checked.networking.tls_secret, missing.is_empty()) {
        (Some(_), false) => {
            let problem = format!(
                "the configuration in ConfigMap {config_map:?} does not set {}, so the server would not use TLS and never become ready",
                missing.join(" and ")
            );
            let folder = tls::FOLDER;
            let fix = format!(
                "set server.tls_certfile to {folder}/tls.crt and server.tls_keyfile to {folder}/tls.key in the configuration, or remove the field"
            );
            // A command of the user may start the server with TLS.
            vec![match is_started_by_user(checked) {
                true => Diagnostic::warning(field, problem, fix),
                false => Diagnostic::error(field, problem, fix),
            }]
        }
        (None, true) => vec![Diagnostic::warning(
            field,
            format!(
                "the configuration in ConfigMap {config_map:?} sets server.tls_certfile, but the probe and the Service use HTTP without a serving certificate in the resource"
            ),
            "set the field to the Secret with the certificate, or remove the keys from the configuration",
        )],
        _ => Vec::new(),
    }
}

fn is_started_by_user(checked: &Checked) -> bool {
    let overrides = &checked.workload.overrides;
    [&overrides.command, &overrides.args]
        .into_iter()
        .flatten()
        .any(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use llsd_api::check_document;
    use serde_json::{Value, json};

    use super::*;

    fn problems(networking: Value, overrides: Value, text: &str) -> Vec<(bool, String)> {
        let document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"},
            "spec": {
                "distribution": {"name": "starter"},
                "overrideConfig": {"configMapName": "mine"},
                "networking": networking,
                "workload": {"overrides": overrides},
            },
        });
        let checked = check_document(document).result.expect("a valid resource");
        let found = check(&checked, "mine", text).into_iter();
        found.map(|one| (one.is_error(), one.to_string())).collect()
    }

    #[test]
    fn a_serving_certificate_that_the_file_does_not_use_is_rejected_by_field() {
        let tls = json!({"tls": {"secretName": "cert"}});
        let found = problems(
            tls.clone(),
            json!({}),
            "version: 2\nserver: {tls_keyfile: /k}",
        );
        let [(true, message)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(
            message.starts_with("spec.networking.tls.secretName: ")
                && message.contains("\"mine\" does not set server.tls_certfile, so")
                && message.contains("/etc/llama-stack-tls/tls.crt"),
            "{message}"
        );
        let complete = "server: {tls_certfile: /c, tls_keyfile: '${env.KEY}'}";
        assert_eq!(problems(tls.clone(), json!({}), complete), []);
        assert_eq!(problems(tls.clone(), json!({}), "a: [b"), []);
        let by_user = problems(tls, json!({"command": ["serve"]}), "version: 2");
        assert!(!by_user[0].0, "{by_user:?}");
    }

    #[test]
    fn a_file_with_tls_and_a_resource_without_is_a_warning() {
        let complete = "server: {tls_certfile: /c, tls_keyfile: /k}";
        let found = problems(json!({}), json!({}), complete);
        assert!(found.len() == 1 && !found[0].0, "{found:?}");
        assert_eq!(problems(json!({}), json!({}), "server: {port: 1}"), []);
    }
}
