//! Reads the operator's ConfigMap whenever it changes, and wakes whom that concerns.

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

use super::{Configuration, Distributions, NAME, Registries, source};
use crate::metrics::Metrics;
use crate::references::{References, Referent};
use crate::report::Events;
use crate::view::Wake;

/// Until an API server that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(2);

/// What is in force, for all reconciliations.
#[derive(Default)]
pub(crate) struct Configurations(watch::Sender<Option<Arc<Configuration>>>);

impl Configurations {
    /// What is in force; waits for the first reading, because a guess could change what runs.
    pub(crate) async fn current(&self) -> Arc<Configuration> {
        let mut receiver = self.0.subscribe();
        loop {
            if let Some(current) = &*receiver.borrow_and_update() {
                return current.clone();
            }
            // The sender lives as long as this, so waiting cannot fail.
            let _ = receiver.changed().await;
        }
    }

    /// Puts a configuration into force, and gives the one before it.
    fn replace(&self, next: Arc<Configuration>) -> Option<Arc<Configuration>> {
        self.0.send_replace(Some(next))
    }

    fn last(&self) -> Option<Arc<Configuration>> {
        self.0.borrow().clone()
    }
}

/// What reading needs.
pub(crate) struct Follower {
    pub(crate) client: Client,
    /// The operator's own namespace.
    pub(crate) home: String,
    pub(crate) configurations: Arc<Configurations>,
    /// Told of the distributions that resources can name.
    pub(crate) distributions: watch::Sender<Arc<Distributions>>,
    pub(crate) registries: Arc<Registries>,
    pub(crate) references: Arc<References>,
    pub(crate) wake: Wake,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Follower {
    /// Follows the ConfigMap, and those with bases that it names, for ever.
    pub(crate) async fn follow(self) {
        let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(self.client.clone(), &self.home);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut events = pin!(events);
        let mut named = BTreeSet::from([NAME.to_owned()]);
        while let Some(event) = events.next().await {
            let concerns = match event {
                Ok(Event::Apply(one) | Event::Delete(one)) => named.contains(&one.name_any()),
                // Whatever happened while nobody watched.
                Ok(Event::InitDone) => true,
                Ok(Event::Init | Event::InitApply(_)) => false,
                Err(error) => {
                    tracing::warn!(%error, "the watch of the operator's settings was cut; it starts again");
                    false
                }
            };
            if concerns {
                named = self.read().await;
            }
        }
    }

    /// Reads everything anew, and gives the names of the ConfigMaps that it depends on.
    /// Asks until there is an answer.
    async fn read(&self) -> BTreeSet<String> {
        let (reading, names) = loop {
            match source::read(&self.client, &self.home).await {
                Ok(read) => break read,
                Err(error) => {
                    tracing::warn!(%error, "the API server did not give a ConfigMap of the operator");
                }
            }
            tokio::time::sleep(RETRY).await;
        };
        let last = self.configurations.last();
        let next = Configuration::after(last.as_deref(), reading);
        self.put_into_force(next).await;
        names
    }

    async fn put_into_force(&self, next: Configuration) {
        if let Ok(mirrors) = next.mirrors()
            && let Err(error) = self.registries.redirect(mirrors.value)
        {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the mirrors cannot be used; those before them stay");
        }
        let distributions = next.distributions();
        if **self.distributions.borrow() != distributions {
            self.distributions.send_replace(Arc::new(distributions));
        }
        let next = Arc::new(next);
        let last = self.configurations.replace(next.clone());
        for referent in self.references.all() {
            if concerns(&referent, last.as_deref(), &next) {
                for (namespace, name) in self.references.referrers(&referent) {
                    self.wake.resource(&namespace, &name);
                }
            }
        }
        let problems = next.problems();
        self.metrics.set_configuration_problems(problems.len());
        if last.is_none_or(|last| last.problems() != problems) {
            self.tell(&problems).await;
        }
    }

    async fn tell(&self, problems: &[&str]) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("ConfigMap".to_owned()),
            namespace: Some(self.home.clone()),
            name: Some(NAME.to_owned()),
            ..ObjectReference::default()
        };
        for problem in problems {
            tracing::warn!(problem, "the last good reading stays in force");
        }
        if !problems.is_empty() {
            let note = problems.join("\n");
            self.events
                .warn(reason::OPERATOR_CONFIG_INVALID, &note, &regarding)
                .await;
        }
    }
}

/// Whether what resources refer to is other than before.
fn concerns(referent: &Referent, last: Option<&Configuration>, next: &Configuration) -> bool {
    let Some(last) = last else {
        // Nobody has looked yet.
        return false;
    };
    match referent {
        Referent::Distribution(name) => last.distribution(name) != next.distribution(name),
        Referent::NetworkPolicySwitch => last.network_policy() != next.network_policy(),
        Referent::Mirrors => last.mirrors() != next.mirrors(),
        Referent::Secret { .. } | Referent::ConfigMap { .. } => false,
    }
}
