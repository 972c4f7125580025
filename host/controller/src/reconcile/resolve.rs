//! Makes a resolution: everything that the objects of a resource are built from, and the objects.
//!
//! A resource without a recorded resolution is resolved completely. Otherwise only the parts that
//! changed are resolved again, and the difference is applied to the recorded objects: certificates
//! that change bring no other image, and neither brings the pod template of a newer operator. A change
//! of the spec that concerns the pods, or of the file that it names, takes everything that is current,
//! except the digest of the image while the resource asks for the same one.

use kube::api::DynamicObject;
use llsd_api::checked::Checked;
use llsd_api::conditions::condition;
use llsd_api::v1alpha2::DistributionStatus;
use llsd_api::{Diagnostics, Distribution};
use llsd_render::ca_bundle::{CaBundle, TrustedCa};
use llsd_render::digest;
use llsd_render::objects::{
    CA_BUNDLE_BACKUP_SUFFIX, CA_BUNDLE_KEY, Cluster, ConfigPlan, DerivedValues, Desired,
    FrozenObjects, ObjectInputs, Owner, Privileges, build_objects, config_map_name,
    is_generated_config_map,
};
use tracing::Instrument;

use super::apply::{Requested, TEMPLATE_KEPT_FOR, kept_template, was_created_for};
use super::error::Error;
use super::gather::{self, CurrentCa, Gathered, Stated, author_file, gather, stated, trusted_ca};
use super::generate::generate;
use super::resolve_secrets::{Resolved as Secrets, resolve_secrets};
use super::revisions::{AuthorInputs, Resolution};
use super::tags::Tags;
use super::updates::{OPERATOR_VERSION, Renewed};
use crate::active_plugins::ActivePlugins;
use crate::cache::ContentCache;
use crate::images::ImageReader;
use crate::settings::Settings;

/// The key of a server configuration in its ConfigMap.
const CONFIG_KEY: &str = "config.yaml";
/// The volume of the server configuration.
const CONFIG_VOLUME: &str = "user-config";

/// What it takes to resolve one resource.
pub(crate) struct Resolver<'a, I> {
    pub(crate) cr: &'a Distribution,
    pub(crate) owner: &'a Owner,
    pub(crate) status: &'a DistributionStatus,
    pub(crate) contents: &'a ContentCache,
    pub(crate) settings: &'a Settings,
    pub(crate) images: &'a I,
    pub(crate) plugins: &'a ActivePlugins,
    /// Who is to blame for faults of plugins.
    pub(crate) author: &'a str,
    /// What the tags in use point to; `None` if nobody checks them.
    pub(crate) tags: Option<&'a Tags>,
    pub(crate) cluster: &'a Cluster,
    /// Whether Secrets are read. If not, the digest of their values is assumed to stay.
    pub(crate) reads_secrets: bool,
    /// Called with the result of each gather step.
    pub(crate) gathered: &'a (dyn Fn(&Result<Gathered, gather::Error>) + Send + Sync),
}

/// What is read in every reconciliation.
pub(crate) struct Current {
    pub(crate) checked: Checked,
    pub(crate) stated: Stated,
    pub(crate) author: AuthorInputs,
    pub(crate) ca: CurrentCa,
}

/// A resolution, with what is not recorded of it.
pub(crate) struct Resolved {
    pub(crate) resolution: Resolution,
    pub(crate) secrets: Secrets,
}

impl<I: ImageReader> Resolver<'_, I> {
    /// Reads the author's files, the certificates and the operator's settings.
    pub(crate) async fn observe(&self, checked: Checked) -> Result<Current, Error> {
        let mut stated = stated(self.settings, &checked, self.owner)?;
        let file = author_file(self.contents, &checked, self.owner).await?;
        stated.warnings.extend(file.warnings);
        stated
            .warnings
            .extend(route_warning(&checked, self.cluster));
        let ca = trusted_ca(self.contents, &checked, self.owner).await?;
        Ok(Current {
            stated,
            author: AuthorInputs {
                generation: self.cr.metadata.generation,
                file: file.digest,
                ca: ca.named.clone(),
            },
            ca,
            checked,
        })
    }

    /// Checks the secrets that a configuration needs.
    pub(crate) async fn secrets(
        &self,
        checked: &Checked,
        plan: &ConfigPlan,
        assumed: Option<&str>,
    ) -> Result<Secrets, Error> {
        if !self.reads_secrets {
            return Ok(Secrets {
                digest: assumed.map(str::to_owned),
                derived: DerivedValues::default(),
            });
        }
        Ok(resolve_secrets(self.contents, checked, plan, self.owner)
            .instrument(tracing::debug_span!("resolve_secrets"))
            .await?)
    }

    /// Resolves a resource for the first time. `live` is the Deployment that exists already: its pod
    /// template stays, if it is what the resource asks for.
    pub(crate) async fn first(
        &self,
        current: &Current,
        live: Option<&DynamicObject>,
    ) -> Result<Resolved, Error> {
        let checked = &current.checked;
        let mut gathered = self.gather(current, None).await?;
        // The pods that upstream created for the resource keep the privileges that they have.
        if let Some(live) = live.filter(|live| was_created_for(live, self.cr, self.owner)) {
            let of_pods = Privileges::of_template(&live.data["spec"]["template"]);
            gathered.kept_privileges =
                Privileges::requested(checked, self.owner).in_common(&of_pods);
        }
        let mut plan = self.generate(checked, &gathered).await?;
        let assumed = live.and_then(live_secrets_digest);
        let secrets = self.secrets(checked, &plan, assumed).await?;
        let trusted = &current.ca.trusted;
        let mut built = self.build(checked, &gathered, &plan, &secrets, trusted)?;
        if let Some(live) = live {
            // Pods of an earlier release of the operator name their image by tag.
            let inputs = self.inputs(
                checked,
                &gathered,
                &gathered.image,
                &plan,
                &secrets,
                trusted,
            );
            let ours = FrozenObjects::of(&build_objects(&inputs)?);
            let requested = Requested::of(checked);
            let kept = kept_template(live, ours.template(), requested, self.is_applied());
            if let Some(kept) = kept {
                if kept.is_of_upstream {
                    let wanted = digest::label(&ours.template().to_string());
                    built = built.with_label(TEMPLATE_KEPT_FOR, &wanted);
                } else {
                    plan = self.running_plan(plan, &kept.template).await?;
                }
                built = built.with_template(kept.template, kept.deadline);
            }
        }
        Ok(self.resolved(current, gathered, plan, secrets, current.ca.clone(), built))
    }

    /// Resolves the parts of a resource that changed.
    pub(crate) async fn next(
        &self,
        current: &Current,
        recorded: &Resolution,
        renewed: Renewed,
    ) -> Result<Resolved, Error> {
        let checked = &current.checked;
        let before = recorded.checked(self.cr, checked);
        let has_new_spec = current.author.generation != recorded.author.generation;
        let is_same = |same: fn(&Checked, &Checked) -> bool| {
            !has_new_spec || before.as_ref().is_some_and(|before| same(before, checked))
        };
        let has_same_file = current.author.file == recorded.author.file;
        let has_same_sources = is_same(has_same_sources) && has_same_file && !renewed.image;
        let mut gathered = match has_same_sources {
            true => Gathered {
                network_policy: current.stated.network_policy,
                allows_any_uid: current.stated.allows_any_uid,
                allows_privileged_pods: current.stated.allows_privileged_pods,
                has_ca_bundle: current.ca.trusted.is_some(),
                warnings: current.stated.warnings.clone(),
                ..recorded.gathered.clone()
            },
            false => {
                let image = &current.stated.image;
                let pinned = match renewed.image {
                    true => self.tags.and_then(|tags| tags.newest(image)),
                    false => recorded.gathered.digest().map(str::to_owned),
                };
                let pinned = pinned.filter(|_| *image == recorded.gathered.image);
                self.gather(current, pinned.as_deref()).await?
            }
        };
        // A privilege that the resource no longer requests is not kept for later.
        gathered.kept_privileges = Privileges::requested(checked, self.owner)
            .in_common(&recorded.gathered.kept_privileges);
        let is_scaling = is_same(differs_in_scaling_only) && has_same_file;
        let has_same_plan = has_same_sources && is_scaling;
        let plan = match has_same_plan && !renewed.adapter {
            true => recorded.plan.clone(),
            false => self.generate(checked, &gathered).await?,
        };
        let secrets = self
            .secrets(checked, &plan, recorded.secrets.as_deref())
            .await?;
        let takes_ca = renewed.ca
            || current.author.ca != recorded.author.ca
            || recorded.platform_ca == current.ca.platform;
        let ca = match takes_ca {
            true => current.ca.clone(),
            false => recorded_ca(recorded),
        };
        let build =
            |checked: &Checked| self.build(checked, &gathered, &plan, &secrets, &ca.trusted);
        let new = build(checked)?;
        // What this release would have built before the change.
        let old = before
            .as_ref()
            .and_then(|before| self.built_from(before, recorded));
        let objects = match (old, before) {
            (Some(_), _) if renewed.objects => new,
            (Some(old), _) if !is_scaling && old.template() != new.template() => new,
            (Some(old), Some(before)) => {
                let unscaled = with_replicas(checked, before.workload.requested_replicas);
                let template = build(&unscaled)?.template().clone();
                let new = new.with_template(template, None);
                recorded.objects.merge(&old, &new)
            }
            _ => new,
        };
        Ok(self.resolved(current, gathered, plan, secrets, ca, objects))
    }

    /// The objects of a resolution, complete.
    pub(crate) async fn desired(
        &self,
        current: &Current,
        resolution: &Resolution,
        secrets: &Secrets,
    ) -> Result<Desired, Error> {
        let trusted = self.trusted(current, resolution).await?;
        let Resolution { gathered, plan, .. } = resolution;
        let image = gathered.pod_image();
        let inputs = self.inputs(&current.checked, gathered, &image, plan, secrets, &trusted);
        Ok(resolution.objects.thaw(&inputs))
    }

    /// The objects that this release of the operator would build from the inputs of a resolution. The
    /// pod template depends on whether there are several pods, but scaling does not change it: as
    /// recorded, it may be the one for another number.
    pub(crate) fn rebuilt(
        &self,
        checked: &Checked,
        resolution: &Resolution,
    ) -> Option<FrozenObjects> {
        let rebuilt = self.built_from(checked, resolution)?;
        let template = resolution.objects.template();
        if rebuilt.template() == template {
            return Some(rebuilt);
        }
        let other = match checked.workload.replicas() {
            ..=1 => 2,
            2.. => 1,
        };
        let other = self.built_from(&with_replicas(checked, Some(other)), resolution)?;
        Some(match other.template() == template {
            true => rebuilt.with_template(template.clone(), None),
            false => rebuilt,
        })
    }

    fn built_from(&self, checked: &Checked, resolution: &Resolution) -> Option<FrozenObjects> {
        let secrets = Secrets {
            digest: resolution.secrets.clone(),
            derived: DerivedValues::default(),
        };
        let ca = recorded_ca(resolution).trusted;
        let Resolution { gathered, plan, .. } = resolution;
        self.build(checked, gathered, plan, &secrets, &ca).ok()
    }

    async fn gather(&self, current: &Current, pinned: Option<&str>) -> Result<Gathered, Error> {
        let gathered = gather(
            self.contents,
            self.settings,
            self.images,
            &current.checked,
            self.owner,
            pinned,
            &current.ca,
        )
        .instrument(tracing::debug_span!("gather"))
        .await;
        (self.gathered)(&gathered);
        Ok(Gathered {
            warnings: current.stated.warnings.clone(),
            ..gathered?
        })
    }

    async fn generate(&self, checked: &Checked, gathered: &Gathered) -> Result<ConfigPlan, Error> {
        Ok(
            generate(self.plugins, self.author, checked, gathered, self.status)
                .instrument(tracing::debug_span!("generate"))
                .await?,
        )
    }

    fn build(
        &self,
        checked: &Checked,
        gathered: &Gathered,
        plan: &ConfigPlan,
        secrets: &Secrets,
        trusted: &Option<TrustedCa>,
    ) -> Result<FrozenObjects, Diagnostics> {
        let image = gathered.pod_image();
        let inputs = self.inputs(checked, gathered, &image, plan, secrets, trusted);
        tracing::debug_span!("build_objects")
            .in_scope(|| build_objects(&inputs).map(|desired| FrozenObjects::of(&desired)))
    }

    fn inputs<'b>(
        &'b self,
        checked: &'b Checked,
        gathered: &'b Gathered,
        image: &'b str,
        plan: &'b ConfigPlan,
        secrets: &'b Secrets,
        trusted: &'b Option<TrustedCa>,
    ) -> ObjectInputs<'b> {
        ObjectInputs {
            checked,
            image,
            server: &gathered.server,
            plan,
            secrets_digest: secrets.digest.as_deref(),
            owner: self.owner,
            cluster: self.cluster,
            ca_bundle: trusted.as_ref(),
            derived: &secrets.derived,
            network_policy: gathered.network_policy,
            allows_any_uid: gathered.allows_any_uid,
            allows_privileged_pods: gathered.allows_privileged_pods,
            kept_privileges: &gathered.kept_privileges,
        }
    }

    fn resolved(
        &self,
        current: &Current,
        gathered: Gathered,
        plan: ConfigPlan,
        secrets: Secrets,
        ca: CurrentCa,
        objects: FrozenObjects,
    ) -> Resolved {
        let component = match &plan {
            ConfigPlan::Generated(generated) => Some(&generated.receipt.component),
            ConfigPlan::Override { .. } | ConfigPlan::DistributionDefault => None,
        };
        let schema_plugin = component
            .and_then(|digest| self.plugins.set.schema_plugin_of(digest))
            .map(|(name, _)| name);
        let resolution = Resolution {
            schema_plugin,
            author: current.author.clone(),
            spec: serde_json::to_value(&self.cr.spec).unwrap_or_default(),
            gathered,
            plan,
            secrets: secrets.digest.clone(),
            ca: ca.trusted.map(|trusted| trusted.digest),
            platform_ca: ca.platform,
            objects,
            operator_version: OPERATOR_VERSION.to_owned(),
            is_held: false,
        };
        Resolved {
            resolution,
            secrets,
        }
    }

    /// The certificates of a resolution, with their content if it is at hand.
    async fn trusted(
        &self,
        current: &Current,
        resolution: &Resolution,
    ) -> Result<Option<TrustedCa>, Error> {
        let Some(wanted) = &resolution.ca else {
            return Ok(None);
        };
        let newest = current.ca.trusted.as_ref();
        if let Some(trusted) = newest.filter(|trusted| trusted.digest == *wanted) {
            return Ok(Some(trusted.clone()));
        }
        // Those of the platform changed since. The ones before are kept for the way back.
        let backup = format!("{}{CA_BUNDLE_BACKUP_SUFFIX}", self.owner.name);
        let found = self
            .contents
            .watched_config_map(&self.owner.namespace, &backup)
            .await
            .map_err(|error| gather::Error::api(&backup, error))?;
        let bundle = found.and_then(|data| CaBundle::validated(data.get(CA_BUNDLE_KEY)?, wanted));
        Ok(Some(TrustedCa {
            digest: wanted.clone(),
            bundle,
        }))
    }

    /// Whether the last reconciliation, by a release that recorded nothing, applied the current spec.
    fn is_applied(&self) -> bool {
        let is_true = |kind: &str| {
            let mut conditions = self.status.conditions.iter();
            conditions.any(|one| one.type_ == kind && one.status == "True")
        };
        self.status.observed_generation == self.cr.metadata.generation
            && is_true(condition::CONFIG_GENERATED)
            && is_true(condition::DEPLOYMENT_UPDATED)
    }

    /// The plan with the configuration that runs, if that is another one.
    async fn running_plan(
        &self,
        plan: ConfigPlan,
        template: &serde_json::Value,
    ) -> Result<ConfigPlan, Error> {
        let ConfigPlan::Generated(mut generated) = plan else {
            return Ok(plan);
        };
        let volumes = template["spec"]["volumes"].as_array().into_iter().flatten();
        let mounted = volumes
            .filter(|volume| volume["name"] == CONFIG_VOLUME)
            .find_map(|volume| volume["configMap"]["name"].as_str());
        let name = &self.owner.name;
        let Some(mounted) = mounted.filter(|mounted| {
            is_generated_config_map(mounted, name)
                && **mounted != config_map_name(name, &generated.yaml)
        }) else {
            return Ok(ConfigPlan::Generated(generated));
        };
        let found = self.contents.config_map(&self.owner.namespace, mounted);
        let found = found
            .await
            .map_err(|error| gather::Error::api(mounted, error))?;
        if let Some(text) = found.and_then(|data| data.get(CONFIG_KEY).cloned()) {
            generated.receipt.output = digest::of(&text);
            generated.yaml = text;
        }
        let status = self.status.config_generation.as_ref();
        if let Some(plugin) = status.and_then(|status| status.plugin.as_ref()) {
            generated.receipt.plugin.clone_from(&plugin.name);
            generated.receipt.version = plugin.version.clone().unwrap_or_default();
            generated.receipt.component.clone_from(&plugin.digest);
        }
        Ok(ConfigPlan::Generated(generated))
    }
}

/// The recorded certificates, without their content.
fn recorded_ca(recorded: &Resolution) -> CurrentCa {
    CurrentCa {
        trusted: recorded.ca.clone().map(|digest| TrustedCa {
            digest,
            bundle: None,
        }),
        named: recorded.author.ca.clone(),
        platform: recorded.platform_ca.clone(),
    }
}

/// Whether two specs take image, configuration and packages from the same places.
fn has_same_sources(before: &Checked, now: &Checked) -> bool {
    before.server == now.server
        && before.config_source == now.config_source
        && before.external == now.external
        && before.schema == now.schema
}

/// Whether two specs differ only in what does not concern the server configuration: the number of
/// pods, and access from outside.
fn differs_in_scaling_only(before: &Checked, now: &Checked) -> bool {
    let mut same = before.clone();
    same.warnings.clone_from(&now.warnings);
    same.updates = now.updates;
    same.workload.requested_replicas = now.workload.requested_replicas;
    same.workload.autoscaling = now.workload.autoscaling;
    same.workload
        .disruption_budget
        .clone_from(&now.workload.disruption_budget);
    same.networking.expose.clone_from(&now.networking.expose);
    same.networking
        .allowed_from
        .clone_from(&now.networking.allowed_from);
    same.networking.egress.clone_from(&now.networking.egress);
    same.networking.mentions_access = now.networking.mentions_access;
    same == *now
}

fn with_replicas(checked: &Checked, replicas: Option<i32>) -> Checked {
    let mut checked = checked.clone();
    checked.workload.requested_replicas = replicas;
    checked
}

/// The warning about a field of the Ingress, where a Route takes its place.
fn route_warning(checked: &Checked, cluster: &Cluster) -> Option<String> {
    let class = checked
        .networking
        .expose
        .as_ref()?
        .ingress_class_name
        .as_ref()?;
    cluster.has_routes.then(|| {
        format!(
            "spec.networking.expose.ingressClassName: {class:?} has no effect, because this cluster has Routes, and the server gets one instead of an Ingress; remove it"
        )
    })
}

fn live_secrets_digest(live: &DynamicObject) -> Option<&str> {
    let annotations = &live.data["spec"]["template"]["metadata"]["annotations"];
    annotations[llsd_render::objects::SECRETS_DIGEST].as_str()
}
