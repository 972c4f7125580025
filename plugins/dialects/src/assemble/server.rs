//! The server's address, TLS and start command.

use std::collections::BTreeMap;

use llsd_adapter_sdk::documents::{Server, Startup};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use crate::env::{self, Form};

/// The server's default port.
const PORT: u16 = 8321;

/// Writes the `server` section, and returns how to start the server.
pub(super) fn apply(stack: &mut Stack, server: Server) -> Startup {
    let Server {
        config_file,
        data_dir,
        port,
        tls,
        workers,
    } = server;
    let port = port.unwrap_or(PORT);
    if port < 1024 {
        stack.diagnostics.error(
            "bad-port",
            "spec.networking.port",
            format!("the server does not accept port {port}"),
            "use a port from 1024 to 65535",
        );
    }
    if workers.is_some()
        && !stack
            .dialect
            .workers_from
            .is_some_and(|first| stack.is_from(first, true))
    {
        stack.diagnostics.warning(
            "no-workers",
            "spec.workload.workers",
            "this release supports only one worker process",
            "remove it, and increase spec.workload.replicas instead",
        );
    }
    let takes_workers = stack
        .dialect
        .workers_from
        .is_some_and(|first| stack.is_from(first, true));
    let asks_for_tls = stack
        .dialect
        .insecure_from
        .is_some_and(|first| stack.is_from(first, true));
    if let Some(section) = stack.section_mut("server") {
        section.insert("port".to_owned(), json!(port));
        if let Some(tls) = tls {
            section.insert("tls_certfile".to_owned(), Value::String(tls.cert_file));
            section.insert("tls_keyfile".to_owned(), Value::String(tls.key_file));
            section.remove("insecure");
        } else if asks_for_tls
            && !["tls_certfile", "tls_config"]
                .iter()
                .any(|key| section.get(*key).is_some_and(|value| !value.is_null()))
        {
            section.insert("insecure".to_owned(), Value::Bool(true));
        }
        if let Some(workers) = workers.filter(|_| takes_workers) {
            section.insert("workers".to_owned(), json!(workers));
        }
    }
    start(stack, config_file, &data_dir, port)
}

fn start(stack: &Stack, config_file: String, data_dir: &str, port: u16) -> Startup {
    let dialect = stack.dialect;
    let data_dir = data_dir.trim_end_matches('/');
    let mut env = folders(stack, data_dir);
    if !data_dir.is_empty() {
        env.insert(dialect.home_variable.to_owned(), data_dir.to_owned());
    }
    env.insert(dialect.port_variable.to_owned(), port.to_string());
    let mut command = Vec::new();
    if !config_file.is_empty() {
        // The entry point of published images reads the first, the server reads the second.
        env.insert("RUN_CONFIG_PATH".to_owned(), config_file.clone());
        env.insert(dialect.config_variable.to_owned(), config_file.clone());
        if !dialect.command.is_empty() {
            command = dialect
                .command
                .iter()
                .map(|word| (*word).to_owned())
                .collect();
            command.extend([config_file, "--port".to_owned(), port.to_string()]);
        }
    }
    Startup {
        env,
        command,
        args: Vec::new(),
    }
}

/// Variables of the file whose default is below a home folder, with the same path on the volume.
fn folders(stack: &Stack, data_dir: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if data_dir.is_empty() {
        return found;
    }
    let mut read = |text: &str| {
        for expression in env::expressions(text) {
            let Form::Or(default) = expression.form else {
                continue;
            };
            let below = |home: &&str| {
                let tail = default.strip_prefix(*home)?;
                (tail.is_empty() || tail.starts_with('/')).then_some(tail)
            };
            let Some(tail) = stack.dialect.homes.iter().find_map(below) else {
                continue;
            };
            let folder = format!("{data_dir}{}", tail.trim_end_matches('/'));
            // The shortest of several is the common parent.
            let kept = found
                .entry(expression.name.to_owned())
                .or_insert_with(|| folder.clone());
            if (folder.len(), &folder) < (kept.len(), &*kept) {
                *kept = folder;
            }
        }
    };
    stack
        .top
        .values()
        .for_each(|value| walk(value, 0, &mut read));
    for (_, entries) in stack.apis_with_providers() {
        entries
            .iter()
            .for_each(|entry| walk(&entry.value, 0, &mut read));
    }
    found
}

/// Deeper than any real file.
const DEPTH: usize = 32;

fn walk(value: &Value, depth: usize, read: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => read(text),
        Value::Array(items) if depth < DEPTH => {
            items.iter().for_each(|item| walk(item, depth + 1, read))
        }
        Value::Object(entries) if depth < DEPTH => entries
            .values()
            .for_each(|entry| walk(entry, depth + 1, read)),
        _ => {}
    }
}
