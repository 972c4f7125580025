//! Loads the settings whenever the operator's ConfigMap changes, and triggers the affected resources.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use llsd_api::conditions::reason;
use tokio::sync::watch;

use super::{Distributions, NAME, Settings, load};
use crate::cache::{ReconcileTrigger, References, Referent};
use crate::images::Registries;
use crate::process::{Events, Metrics};

/// Delay before a failed request is retried.
const RETRY: Duration = Duration::from_secs(2);

/// The settings in effect, for all reconciliations.
#[derive(Default)]
pub(crate) struct CurrentSettings(watch::Sender<Option<Arc<Settings>>>);

impl CurrentSettings {
    /// The settings in effect. Waits until they are loaded for the first time, because defaults
    /// could change what runs.
    pub(crate) async fn get(&self) -> Arc<Settings> {
        let mut receiver = self.0.subscribe();
        loop {
            if let Some(current) = &*receiver.borrow_and_update() {
                return current.clone();
            }
            // The sender lives as long as `self`, so that waiting cannot fail.
            let _ = receiver.changed().await;
        }
    }

    /// Replaces the settings and returns the previous ones.
    fn replace(&self, next: Arc<Settings>) -> Option<Arc<Settings>> {
        self.0.send_replace(Some(next))
    }

    fn last(&self) -> Option<Arc<Settings>> {
        self.0.borrow().clone()
    }
}

/// Watches the ConfigMap.
pub(crate) struct SettingsWatcher {
    pub(crate) client: Client,
    pub(crate) operator_namespace: String,
    pub(crate) settings: Arc<CurrentSettings>,
    /// Receives the distributions whenever they change.
    pub(crate) distributions: watch::Sender<Arc<Distributions>>,
    pub(crate) registries: Arc<Registries>,
    pub(crate) references: Arc<References>,
    pub(crate) trigger: ReconcileTrigger,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
}

impl SettingsWatcher {
    /// Watches the ConfigMap, and the ConfigMaps with base configurations that it names, forever.
    pub(crate) async fn run(self) {
        let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(
            self.client.clone(),
            &self.operator_namespace,
        );
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut events = pin!(events);
        let mut dependencies = BTreeSet::from([NAME.to_owned()]);
        while let Some(event) = events.next().await {
            let is_affected = match event {
                Ok(Event::Apply(one) | Event::Delete(one)) => {
                    dependencies.contains(&one.name_any())
                }
                // Something may have changed while the watch was down.
                Ok(Event::InitDone) => true,
                Ok(Event::Init | Event::InitApply(_)) => false,
                Err(error) => {
                    tracing::warn!(%error, "watch of the operator settings failed, restarting it");
                    false
                }
            };
            if is_affected {
                dependencies = self.load().await;
            }
        }
    }

    /// Loads the settings, with retries, and puts them into effect. Returns the names of the
    /// ConfigMaps that they depend on.
    async fn load(&self) -> BTreeSet<String> {
        let (parsed, names) = loop {
            match load::load(&self.client, &self.operator_namespace).await {
                Ok(loaded) => break loaded,
                Err(error) => {
                    tracing::warn!(%error, "failed to load the operator settings, retrying");
                }
            }
            tokio::time::sleep(RETRY).await;
        };
        let last = self.settings.last();
        let next = Settings::after(last.as_deref(), parsed);
        self.put_into_effect(next).await;
        names
    }

    async fn put_into_effect(&self, next: Settings) {
        if let Ok(mirrors) = next.mirrors()
            && let Err(error) = self.registries.set_mirrors(mirrors.value)
        {
            let error = &error as &dyn std::error::Error;
            tracing::error!(
                error,
                "failed to apply the mirrors, the previous ones stay in use"
            );
        }
        let distributions = next.distributions();
        if **self.distributions.borrow() != distributions {
            self.distributions.send_replace(Arc::new(distributions));
        }
        let next = Arc::new(next);
        let last = self.settings.replace(next.clone());
        for referent in self.references.all() {
            if is_changed(&referent, last.as_deref(), &next) {
                for (namespace, name) in self.references.referrers(&referent) {
                    self.trigger.request(&namespace, &name);
                }
            }
        }
        let problems = next.problems();
        self.metrics.set_configuration_problems(problems.len());
        if last.is_none_or(|last| last.problems() != problems) {
            self.report(&problems).await;
        }
    }

    async fn report(&self, problems: &[&str]) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("ConfigMap".to_owned()),
            namespace: Some(self.operator_namespace.clone()),
            name: Some(NAME.to_owned()),
            ..ObjectReference::default()
        };
        for problem in problems {
            tracing::warn!(
                problem,
                "invalid operator settings, the last valid value stays in effect"
            );
        }
        if !problems.is_empty() {
            let note = problems.join("\n");
            self.events
                .warn(reason::OPERATOR_CONFIG_INVALID, &note, &regarding)
                .await;
        }
    }
}

/// Whether the value of a referent changed.
fn is_changed(referent: &Referent, last: Option<&Settings>, next: &Settings) -> bool {
    let Some(last) = last else {
        // No resource has been reconciled yet.
        return false;
    };
    match referent {
        Referent::Distribution(name) => last.distribution(name) != next.distribution(name),
        Referent::NetworkPolicySwitch => last.network_policy() != next.network_policy(),
        Referent::Mirrors => last.mirrors() != next.mirrors(),
        Referent::PodPermissions { namespace } => {
            last.allows_any_uid(namespace) != next.allows_any_uid(namespace)
                || last.allows_privileged_pods(namespace) != next.allows_privileged_pods(namespace)
        }
        Referent::RolloutSettings => last.rollouts() != next.rollouts(),
        Referent::Secret { .. } | Referent::ConfigMap { .. } => false,
    }
}
