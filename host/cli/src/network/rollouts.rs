//! `llsd rollouts`: shows how far paced rollouts are.

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use llsd_api::labels::ROLLOUTS_CONFIG_MAP;
use serde_json::Value;

use crate::Exit;
use crate::network::operator_settings::OperatorNamespace;
use crate::output::{self, OutputFormat};

/// Arguments of `rollouts`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Format of the output
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Human)]
    output: OutputFormat,
    #[command(flatten)]
    operator: OperatorNamespace,
}

/// Prints the progress of each rollout. Exits with 1 if one is halted.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    arguments.operator.run(async |client, namespace| {
        let found = Api::<ConfigMap>::namespaced(client, &namespace)
            .get_opt(ROLLOUTS_CONFIG_MAP)
            .await
            .with_context(|| {
                format!(
                    "failed to get ConfigMap {ROLLOUTS_CONFIG_MAP:?} in namespace {namespace:?}"
                )
            })?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        let rollouts: serde_json::Map<String, Value> = data
            .into_iter()
            .filter_map(|(name, text)| Some((name, serde_json::from_str(&text).ok()?)))
            .collect();
        let is_halted = rollouts.values().any(|one| one["haltedAt"].is_string());
        match arguments.output {
            OutputFormat::Json => output::print(&Value::Object(rollouts).to_string()),
            OutputFormat::Human if rollouts.is_empty() => {
                output::print_note("no rollout has started");
            }
            OutputFormat::Human => {
                let lines: Vec<String> = rollouts.iter().map(line).collect();
                output::print(&lines.join("\n"));
            }
        }
        Ok(match is_halted {
            true => Exit::Rejected,
            false => Exit::Success,
        })
    })
}

fn line((name, progress): (&String, &Value)) -> String {
    let text = |field: &str| progress[field].as_str().unwrap_or_default().to_owned();
    let mut line = format!("{name:<28} {}  (to {})", text("summary"), text("target"));
    let message = text("message");
    if !message.is_empty() {
        line.push_str(&format!("\n  {}", message.replace('\n', "\n  ")));
    }
    line
}
