//! Fetches and loads a plugin as the spec of a `SchemaPlugin` allows.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::Api;
use llsd_api::schema_plugin::{NamespacedName, TrustedRootKind, TrustedRootRef, World};
use llsd_plugin::{Host, Plugin};
use llsd_registry::signature::TrustedRoot;
use llsd_registry::{Cause, Keyring, Policy, PullError, PulledPlugin, Reference, Registry, Stage};
use llsd_render::adapter::Adapter;

use super::checked_spec::{CheckedSpec, Grant};
use super::load::load_pulled;

/// The key of the CA bundle in its ConfigMap.
const CA_KEY: &str = "ca.crt";

/// The default key of a trusted root in its object.
const TRUSTED_ROOT_KEY: &str = "trusted_root.json";

/// Fetches plugins.
pub(super) struct Fetcher<'a> {
    pub(super) client: &'a Client,
    pub(super) registry: Registry,
    pub(super) host: &'a Host,
    /// The operator's own namespace.
    pub(super) namespace: &'a str,
}

/// A plugin that was fetched and loaded.
pub(super) struct Fetched {
    pub(super) pulled: PulledPlugin,
    pub(super) plugin: Plugin,
    /// Whether it is already in use.
    pub(super) is_in_use: bool,
}

impl Fetcher<'_> {
    /// Fetches and loads the newest version. `in_use` was loaded with the same spec; if the component
    /// is the same, it is not loaded again.
    pub(super) async fn fetch(
        &self,
        reference: &Reference,
        spec: &CheckedSpec,
        in_use: Option<Plugin>,
    ) -> Result<Fetched, PullError> {
        let registry = self.registry(reference, spec).await?;
        let keyring = self.keyring(reference, spec).await?;
        let mut rule = spec.rule.clone();
        if let Some(at) = &spec.trusted_root {
            rule.verification.trusted_root = Some(self.trusted_root(reference, at).await?);
        }
        let policy = Policy { rules: vec![rule] };
        let pulled = registry.pull_plugin(reference, &keyring, &policy).await?;
        let digest = pulled.layer_digest.to_string();
        let in_use = in_use.filter(|plugin| plugin.digest() == digest);
        let is_in_use = in_use.is_some();
        let plugin = match in_use {
            Some(plugin) => plugin,
            None => load(self.host, reference, &pulled.bytes, &spec.grant).await?,
        };
        Ok(Fetched {
            pulled,
            plugin,
            is_in_use,
        })
    }

    async fn registry(
        &self,
        reference: &Reference,
        spec: &CheckedSpec,
    ) -> Result<Registry, PullError> {
        if spec.ca_bundle.is_none() && spec.mirror.is_none() {
            return Ok(self.registry.clone());
        }
        let ca_bundle = match &spec.ca_bundle {
            Some(at) => self.ca_bundle(reference, at).await?,
            None => String::new(),
        };
        let adapted = self.registry.with_changed_settings(|settings| {
            settings.extra_ca.push(b'\n');
            settings.extra_ca.extend(ca_bundle.as_bytes());
            if let Some(mirror) = &spec.mirror {
                settings.mirrors = settings.mirrors.with(mirror.clone());
            }
        });
        adapted.map_err(|error| failed(reference, Stage::Resolve, error.to_string()))
    }

    async fn ca_bundle(
        &self,
        reference: &Reference,
        at: &NamespacedName,
    ) -> Result<String, PullError> {
        let namespace = at.namespace.as_deref().unwrap_or(self.namespace);
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let problem = |what: String| failed(reference, Stage::Resolve, what);
        let found = api
            .get_opt(&at.name)
            .await
            .map_err(|error| problem(format!("failed to get the CA bundle: {error}")))?;
        let text = found
            .and_then(|map| map.data)
            .and_then(|mut data| data.remove(CA_KEY));
        text.ok_or_else(|| {
            problem(format!(
                "spec.caBundleRef: ConfigMap {namespace}/{} with key {CA_KEY:?} not found; create it",
                at.name
            ))
        })
    }

    /// Reads a trusted root again for each fetch, so that a changed one counts.
    async fn trusted_root(
        &self,
        reference: &Reference,
        at: &TrustedRootRef,
    ) -> Result<TrustedRoot, PullError> {
        let TrustedRootRef {
            kind,
            name,
            namespace,
            key,
        } = at;
        let namespace = namespace.as_deref().unwrap_or(self.namespace);
        let key = key.as_deref().unwrap_or(TRUSTED_ROOT_KEY);
        let kind = kind.unwrap_or_default();
        let object = format!("{kind:?} {namespace}/{name}");
        let problem = |what: String| {
            let what = format!("spec.verify.trustedRootRef: {what}");
            failed(reference, Stage::Verify, what)
        };
        let unreadable = |error: kube::Error| problem(format!("failed to get {object}: {error}"));
        let content = match kind {
            TrustedRootKind::ConfigMap => {
                let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
                let found = api.get_opt(name).await.map_err(unreadable)?;
                let data = found.and_then(|map| map.data);
                data.and_then(|mut data| data.remove(key))
                    .map(String::into_bytes)
            }
            TrustedRootKind::Secret => {
                let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
                let found = api.get_opt(name).await.map_err(unreadable)?;
                let data = found.and_then(|secret| secret.data);
                data.and_then(|mut data| data.remove(key))
                    .map(|value| value.0)
            }
        };
        let content = content
            .ok_or_else(|| problem(format!("{object} with key {key:?} not found; create it")))?;
        TrustedRoot::parse(&content).map_err(|error| problem(format!("{object} {error}")))
    }

    async fn keyring(
        &self,
        reference: &Reference,
        spec: &CheckedSpec,
    ) -> Result<Keyring, PullError> {
        let mut keyring = Keyring::empty();
        let Some(at) = &spec.pull_secret else {
            return Ok(keyring);
        };
        let namespace = at.namespace.as_deref().unwrap_or(self.namespace);
        let api = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let problem = |what: String| failed(reference, Stage::Authenticate, what);
        let found = api
            .get_opt(&at.name)
            .await
            .map_err(|error| problem(format!("failed to get the pull secret: {error}")))?;
        let secret = found.ok_or_else(|| {
            problem(format!(
                "spec.pullSecretRef: Secret {namespace}/{} not found; create it",
                at.name
            ))
        })?;
        let data: BTreeMap<_, _> = secret.data.unwrap_or_default();
        let data = data.into_iter().map(|(key, value)| (key, value.0));
        keyring
            .add_secret(&at.name, &secret.type_.unwrap_or_default(), &data.collect())
            .map_err(|error| problem(error.to_string()))?;
        Ok(keyring)
    }
}

/// Loads a component that was verified before.
pub(super) async fn load(
    host: &Host,
    reference: &Reference,
    bytes: &[u8],
    grant: &Grant,
) -> Result<Plugin, PullError> {
    let (host, limits) = (host.clone(), grant.limits.clone());
    let (named, bytes) = (reference.clone(), bytes.to_vec());
    let loading = llsd_blocking::LOADING.run(move || load_pulled(&host, &named, &bytes, &limits));
    let plugin = loading
        .await
        .map_err(|error| PullError::rejected(reference, Stage::Compile, error.to_string()))??;
    let world = world(&plugin);
    if !grant.worlds.contains(&world) {
        let problem = format!(
            "the plugin is a {}, which spec.worlds does not allow",
            name_of(world)
        );
        return Err(PullError::rejected(reference, Stage::Inspect, problem));
    }
    Ok(plugin)
}

/// The world of a plugin.
pub(super) fn world(plugin: &Plugin) -> World {
    match plugin.is_schema_adapter() {
        true => World::SchemaAdapter,
        false => World::ProviderPack,
    }
}

fn name_of(world: World) -> &'static str {
    match world {
        World::SchemaAdapter => "schema-adapter",
        World::ProviderPack => "provider-pack",
    }
}

fn failed(reference: &Reference, stage: Stage, problem: String) -> PullError {
    PullError {
        plugin: reference.to_string(),
        stage,
        cause: Box::new(Cause::Settings(problem)),
    }
}
