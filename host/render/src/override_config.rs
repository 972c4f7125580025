//! Checks a complete configuration of the user against the resource that mounts it.

use llsd_api::checked::{Checked, CheckedExternal};
use llsd_api::{Diagnostic, FieldPath};
use serde_json::Value;

use crate::objects::tls;
use crate::yaml;

/// The keys that make a server use TLS.
const TLS_KEYS: [&str; 2] = ["tls_certfile", "tls_keyfile"];

/// Problems of the configuration in ConfigMap `config_map`: fields of the resource that have no effect with
/// it, or that contradict it.
pub fn check(checked: &Checked, config_map: &str, text: &str) -> Vec<Diagnostic> {
    // The server reports a file that it cannot read.
    let Ok(config) = yaml::read(text) else {
        return Vec::new();
    };
    let mut found = check_tls(checked, config_map, &config);
    found.extend(check_port(checked, config_map, &config));
    let workers = config["server"]["workers"].as_i64();
    if workers != checked.workload.workers.map(i64::from) {
        found.extend(warn_of_workers(checked));
    }
    let unlisted = checked
        .external
        .iter()
        .filter(|one| !is_listed(one, &config));
    found.extend(unlisted.map(warn_of_external));
    found
}

/// The fields of a resource whose effect depends on its configuration, which was not read.
pub fn check_unread(checked: &Checked) -> Vec<Diagnostic> {
    let external = checked.external.iter().map(warn_of_external);
    warn_of_workers(checked)
        .into_iter()
        .chain(external)
        .collect()
}

/// Published images of llama-stack take the number of workers from the file only.
fn warn_of_workers(checked: &Checked) -> Option<Diagnostic> {
    let workers = checked.workload.workers.filter(|workers| *workers > 1)?;
    Some(Diagnostic::warning(
        FieldPath::spec().at(&["workload", "workers"]),
        "a server with overrideConfig takes the number from its file; only images of ogx read it from OGX_WORKERS, which the operator sets",
        format!("set server.workers to {workers} in the configuration"),
    ))
}

fn warn_of_external(provider: &CheckedExternal) -> Diagnostic {
    let CheckedExternal { api, path, id, .. } = provider;
    Diagnostic::warning(
        path.clone(),
        format!(
            "the package is installed, but overrideConfig is a complete configuration, so the server uses the provider only if that file lists {:?} in providers.{api}",
            id.as_str()
        ),
        "list the provider in the configuration, with its module",
    )
}

/// Whether the configuration lists a provider with the id of an external one.
fn is_listed(provider: &CheckedExternal, config: &Value) -> bool {
    let listed = config["providers"][provider.api].as_array();
    let mut listed = listed.into_iter().flatten();
    listed.any(|one| one["provider_id"] == provider.id.as_str())
}

/// The operator sets the port of the server by a variable, which overrides the one in the file. A command of
/// the user may not read the variable.
fn check_port(checked: &Checked, config_map: &str, config: &Value) -> Option<Diagnostic> {
    let port = checked.networking.port();
    let in_file = config["server"]["port"].as_i64()?;
    (in_file != i64::from(port) && is_started_by_user(checked)).then(|| {
        Diagnostic::warning(
            FieldPath::spec().at(&["networking", "port"]),
            format!(
                "the configuration in ConfigMap {config_map:?} sets server.port to {in_file}, but the probe and the Service use {port}"
            ),
            format!("set the field to {in_file}, or let the command use LLAMA_STACK_PORT"),
        )
    })
}

/// The probe and the Service use TLS if the resource has a serving certificate; a server that does otherwise
/// never becomes ready.
fn check_tls(checked: &Checked, config_map: &str, config: &Value) -> Vec<Diagnostic> {
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
        let workload = json!({"overrides": overrides});
        let more = json!({"networking": networking, "workload": workload});
        let found = check(&checked(more), "mine", text).into_iter();
        found.map(|one| (one.is_error(), one.to_string())).collect()
    }

    fn checked(more: Value) -> Checked {
        let mut document = json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution",
            "metadata": {"name": "demo"},
            "spec": {
                "distribution": {"name": "starter"},
                "overrideConfig": {"configMapName": "mine"},
            },
        });
        let spec = document["spec"].as_object_mut().expect("an object");
        spec.extend(more.as_object().expect("an object").clone());
        check_document(document).result.expect("a valid resource")
    }

    /// The fields that are warned about.
    fn fields(found: &[Diagnostic]) -> Vec<String> {
        assert!(found.iter().all(|one| !one.is_error()), "{found:?}");
        found.iter().map(|one| one.field.to_string()).collect()
    }

    #[test]
    fn workers_and_external_providers_have_an_effect_only_if_the_file_says_the_same() {
        let provider = json!({"providerId": "acme", "image": "quay.io/acme/provider:1"});
        let checked = checked(json!({
            "workload": {"workers": 3}, "externalProviders": {"inference": [provider]},
        }));
        let both = [
            "spec.workload.workers",
            "spec.externalProviders.inference[0]",
        ];
        assert_eq!(fields(&check_unread(&checked)), both);
        assert_eq!(
            fields(&check(&checked, "mine", "server: {workers: 2}")),
            both
        );
        let listed = "providers: {inference: [{provider_id: acme}]}\n";
        assert_eq!(fields(&check(&checked, "mine", listed)), both[..1]);
        let same = format!("{listed}server: {{workers: 3}}");
        assert_eq!(
            fields(&check(&checked, "mine", &same)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn another_port_in_the_file_is_a_warning_only_if_a_command_may_use_it() {
        let file = "server: {port: 9000}";
        assert_eq!(problems(json!({}), json!({}), file), []);
        let command = json!({"command": ["serve"]});
        let found = problems(json!({}), command.clone(), file);
        assert!(
            found.len() == 1 && found[0].1.starts_with("spec.networking.port: "),
            "{found:?}"
        );
        assert_eq!(problems(json!({"port": 9000}), command, file), []);
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
