//! `llsd plugin rollback`: uses the previous version of an installed plugin again.

use anyhow::Context;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use llsd_api::SchemaPlugin;
use llsd_api::schema_plugin::LoadedPlugin;
use serde_json::json;

use crate::network::cluster::ClusterOptions;
use crate::{Exit, output};

/// How often the change is tried while the operator writes the status at the same time.
const ATTEMPTS: u32 = 10;

/// Arguments of `plugin rollback`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Name of the SchemaPlugin
    name: String,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Sets `spec.rollout.rollbackFrom` to the version in use.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let cluster = ClusterOptions::in_context(arguments.context.clone());
    cluster.run(async |client| {
        let api = Api::<SchemaPlugin>::all(client);
        let name = &arguments.name;
        let mut plugin = get(&api, name).await?;
        for attempt in 1.. {
            let (current, _) = versions(&plugin)?;
            let change = json!({
                "metadata": { "resourceVersion": plugin.resource_version() },
                "spec": { "rollout": { "rollbackFrom": current.component_digest } },
            });
            let parameters = PatchParams::default();
            let error = match api.patch(name, &parameters, &Patch::Merge(change)).await {
                Ok(_) => break,
                Err(error) => error,
            };
            let is_conflict = matches!(&error, kube::Error::Api(status) if status.is_conflict());
            if !is_conflict || attempt == ATTEMPTS {
                return Err(error)
                    .context("failed to change the SchemaPlugin; run the command again");
            }
            let newer = get(&api, name).await?;
            ensure_same_version(&plugin, &newer)?;
            plugin = newer;
        }
        let (current, previous) = versions(&plugin)?;
        output::print(&format!(
            "SchemaPlugin {name:?} is rolled back\n  from {}\n  to   {}",
            describe(current),
            describe(previous)
        ));
        Ok(Exit::Success)
    })
}

async fn get(api: &Api<SchemaPlugin>, name: &str) -> anyhow::Result<SchemaPlugin> {
    api.get_opt(name)
        .await
        .context("failed to get the SchemaPlugin; check with `llsd doctor` that llsd is installed")?
        .with_context(|| {
            format!("there is no SchemaPlugin {name:?}; see `kubectl get schemaplugins`")
        })
}

/// The version in use and the previous one.
fn versions(plugin: &SchemaPlugin) -> anyhow::Result<(&LoadedPlugin, &LoadedPlugin)> {
    let name = plugin.name_any();
    anyhow::ensure!(
        plugin.spec.proposal_prefix.is_none(),
        "SchemaPlugin {name:?} loads the plugins that images propose; change the label of the image instead"
    );
    let status = plugin.status.as_ref();
    let current = status.and_then(|status| status.current.as_ref());
    let current =
        current.with_context(|| format!("SchemaPlugin {name:?} has no version in use"))?;
    let previous = status.and_then(|status| status.previous.as_ref());
    let previous = previous.with_context(|| {
        format!(
            "SchemaPlugin {name:?} has no previous version; publish a corrected version, or change spec.reference"
        )
    })?;
    Ok((current, previous))
}

/// After a conflict: fails if another version is in use now, which the user did not ask to roll back. It
/// may be the result of a rollback by someone else.
fn ensure_same_version(before: &SchemaPlugin, now: &SchemaPlugin) -> anyhow::Result<()> {
    let ((before, _), (current, _)) = (versions(before)?, versions(now)?);
    anyhow::ensure!(
        before.component_digest == current.component_digest,
        "SchemaPlugin {:?} changed from {} to {} meanwhile, and was not rolled back; run the command again if it should be",
        now.name_any(),
        describe(before),
        describe(current)
    );
    Ok(())
}

fn describe(plugin: &LoadedPlugin) -> String {
    format!(
        "{} {} ({})",
        plugin.name.as_deref().unwrap_or("unknown"),
        plugin.version.as_deref().unwrap_or_default(),
        plugin.component_digest
    )
}

#[cfg(test)]
mod tests {
    use llsd_api::schema_plugin::SchemaPluginStatus;

    use super::*;

    #[test]
    fn a_rollback_needs_a_version_in_use_and_a_previous_one() {
        let version = |digest: &str| LoadedPlugin {
            component_digest: digest.to_owned(),
            ..LoadedPlugin::default()
        };
        let mut plugin = SchemaPlugin::new("acme", Default::default());
        let problem = |plugin: &SchemaPlugin| versions(plugin).map(|_| ()).unwrap_err().to_string();
        assert!(problem(&plugin).contains("no version in use"));
        plugin.status = Some(SchemaPluginStatus {
            current: Some(version("sha256:2")),
            ..SchemaPluginStatus::default()
        });
        assert!(problem(&plugin).contains("no previous version"));
        plugin.status.as_mut().unwrap().previous = Some(version("sha256:1"));
        let (current, previous) = versions(&plugin).unwrap();
        assert_eq!(
            (&*current.component_digest, &*previous.component_digest),
            ("sha256:2", "sha256:1")
        );
        plugin.spec.proposal_prefix = Some("quay.io/acme".to_owned());
        assert!(problem(&plugin).contains("label of the image"));
    }

    #[test]
    fn a_version_that_changed_meanwhile_is_not_rolled_back() {
        let plugin = |current: &str, previous: &str| {
            let version = |digest: &str| {
                let component_digest = digest.to_owned();
                Some(LoadedPlugin {
                    component_digest,
                    ..LoadedPlugin::default()
                })
            };
            let mut plugin = SchemaPlugin::new("acme", Default::default());
            plugin.status = Some(SchemaPluginStatus {
                current: version(current),
                previous: version(previous),
                ..SchemaPluginStatus::default()
            });
            plugin
        };
        let read = plugin("sha256:2", "sha256:1");
        assert!(ensure_same_version(&read, &read).is_ok());
        let rolled_back = plugin("sha256:1", "sha256:2");
        let error = ensure_same_version(&read, &rolled_back).unwrap_err();
        assert!(error.to_string().contains("was not rolled back"), "{error}");
    }
}
