//! Generates the configuration of a resource for today's release and for another one.

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::{Checked, ConfigSource, DEFAULT_CONFIG_KEY, DEFAULT_MOUNT_PATH};
use llsd_api::conversion::{Version, convert};
use llsd_api::{API_VERSION_V1ALPHA1, check_document};
use llsd_render::adapter::Adapter;
use llsd_render::distributions::{KnownDistribution, labelled_base};
use llsd_render::{ValueSource, candidate, schema_of_base, served_schemas, yaml};
use serde_json::{Value, json};

use super::destination::Destination;
use super::plan::{self, BaseFit, Case, Plan, PlannedEdit, Side};
use super::report::Row;
use super::state::Variables;
use super::subjects::Subject;
use super::target::{Movement, Target, movement, renamed_types};
use crate::generation::{self, BaseOptions, LoadedBase, Outcome, Overrides, Report};
use crate::operator_config_map::Distributions;
use crate::yaml_edit::Edit;

/// Generates for today and for a release.
pub(super) struct Planner<'a> {
    pub(super) options: &'a BaseOptions,
    pub(super) adapters: &'a [&'a dyn Adapter],
    /// The base configuration of `--base-config` or `--image`.
    pub(super) base: Option<&'a LoadedBase>,
    pub(super) distributions: Distributions,
}

/// A resource as it is today.
struct Present {
    /// As v1alpha2.
    resource: Value,
    side: Side,
    /// The base configuration, if it is known.
    base: Option<Value>,
}

/// A plan, and what it was made from.
struct Judged {
    plan: Plan,
    target: Side,
    /// The edits of the distribution, then the others.
    edits: Vec<Edit>,
    moved: usize,
}

impl Planner<'_> {
    /// The row of a resource, and its mechanical edits.
    pub(super) fn row(
        &self,
        subject: &Subject,
        release: &Destination,
        releases: &[String],
    ) -> anyhow::Result<(Row, Vec<Edit>)> {
        let present = self.present(subject)?;
        let judged = self.judge(subject, &present, release)?;
        let mut matrix = Vec::new();
        for schema in releases {
            matrix.push(if *schema == release.schema {
                judged.plan.verdict
            } else {
                let other = Destination::dialect(schema);
                self.judge(subject, &present, &other)?.plan.verdict
            });
        }
        let moves = judged.edits.iter().take(judged.moved);
        let known = |side: &Side| side.config.is_some().then(|| side.text.clone());
        let row = Row {
            place: subject.place.clone(),
            name: subject.object["metadata"]["name"]
                .as_str()
                .unwrap_or("(unnamed)")
                .to_owned(),
            from: present.side.schema.clone(),
            moves: moves
                .map(|edit| (edit.field(), edit.value().to_owned()))
                .collect(),
            before: known(&present.side),
            after: known(&judged.target),
            plan: judged.plan,
            matrix,
        };
        Ok((row, judged.edits))
    }

    fn present(&self, subject: &Subject) -> anyhow::Result<Present> {
        let resource = if subject.object["apiVersion"] == API_VERSION_V1ALPHA1 {
            convert(subject.object.clone(), Version::V1Alpha2)?
        } else {
            subject.object.clone()
        };
        let overrides = Overrides {
            schema: None,
            objects: &subject.objects,
        };
        let report = generation::run_with(
            resource.clone(),
            self.base,
            self.options,
            overrides,
            self.adapters,
        )?;
        let base = (!report.base.is_null()).then(|| report.base.clone());
        let mut side = self.side(subject, &report)?;
        // What is not read today says nothing about the move.
        side.diagnostics.retain(|one| one.code != "no-base");
        if let Some((schema, config)) = &subject.running {
            side.schema = Some(schema.clone());
            side.text = yaml::write(config);
            side.config = Some(config.clone());
        }
        if side.schema.is_none() {
            side.schema = self.stated_schema(&resource, side.config.as_ref());
        }
        Ok(Present {
            resource,
            side,
            base,
        })
    }

    /// The dialect of a resource for which nothing is generated.
    fn stated_schema(&self, resource: &Value, config: Option<&Value>) -> Option<String> {
        let distribution = &resource["spec"]["distribution"];
        let stated = distribution["schema"].as_str().map(str::to_owned);
        let named = || {
            let name = distribution["name"].as_str()?;
            let known = self.distributions.get(name)?.as_ref().ok()?;
            known.schema.clone()
        };
        let detected = || {
            let choice = schema_of_base(self.adapters, config?, &Hints::default());
            Some(choice.ok()?.id)
        };
        stated.or_else(named).or_else(detected)
    }

    /// What was generated, as one side of a move.
    fn side(&self, subject: &Subject, report: &Report) -> anyhow::Result<Side> {
        let mut side = Side {
            schema: report.outcome.schema().map(|schema| schema.id.clone()),
            diagnostics: report.diagnostics.clone(),
            ..Side::default()
        };
        if let Some(checked) = &report.checked {
            side.variables = own_variables(checked);
        }
        match &report.outcome {
            Outcome::Generated(generated) => {
                side.text.clone_from(&generated.yaml);
                side.config = Some(generated.config.clone());
                for variable in &generated.variables {
                    let value = match &variable.source {
                        ValueSource::Literal(value) => Some(value.clone()),
                        ValueSource::Secret(_) | ValueSource::Part(..) => None,
                    };
                    side.variables.insert(variable.name.clone(), value);
                }
            }
            Outcome::Unchanged if !report.base.is_null() => {
                side.text = yaml::write(&report.base);
                side.config = Some(report.base.clone());
            }
            Outcome::Override { config_map, .. } => {
                if let Some(text) = self.config_map(subject, config_map, DEFAULT_CONFIG_KEY)? {
                    // An invalid file is reported as the base configuration of the release.
                    side.config = yaml::read(&text).ok();
                    side.text = text;
                }
            }
            Outcome::Unchanged | Outcome::Rejected(_) => {}
        }
        Ok(side)
    }

    fn config_map(
        &self,
        subject: &Subject,
        name: &str,
        key: &str,
    ) -> anyhow::Result<Option<String>> {
        let overrides = Overrides {
            schema: None,
            objects: &subject.objects,
        };
        overrides.config_map_value(self.options, name, key)
    }

    fn judge(
        &self,
        subject: &Subject,
        present: &Present,
        release: &Destination,
    ) -> anyhow::Result<Judged> {
        let known = self
            .distributions
            .iter()
            .filter_map(|(name, known)| Some((name.as_str(), known.as_ref().ok()?)));
        let to = Target {
            schema: &release.schema,
            image: release.image.as_deref(),
        };
        let from = present.side.schema.as_deref();
        let movement = movement(&present.resource, from, &to, known);
        let mut edits = match &movement {
            Movement::Edits { edits, .. } => edits.clone(),
            Movement::Stays | Movement::OwnImage => Vec::new(),
        };
        let moved = edits.len();
        edits.extend(renamed_types(&present.resource, &|api, provider| {
            self.has_provider(&release.schema, api, provider)
        }));
        let mut resource = present.resource.clone();
        edits.iter().for_each(|edit| edit.apply(&mut resource));
        let checked = check_document(resource.clone()).result;
        let (base, fit) = match &checked {
            Ok(checked) => self.target_base(subject, present, release, &movement, checked)?,
            // The diagnostics say what is wrong.
            Err(_) => (None, BaseFit::Fits),
        };
        let overrides = Overrides {
            schema: Some(&release.schema),
            objects: &subject.objects,
        };
        let base = base.map(LoadedBase::without_hints);
        let empty = LoadedBase::without_hints(json!({ "version": 2 }));
        let generates = matches!(&checked, Ok(checked) if matches!(checked.config_source, ConfigSource::Generated { .. }));
        // Without a base, what the release lacks is still found.
        let report = generation::run_with(
            resource,
            base.as_ref().or(generates.then_some(&empty)),
            self.options,
            overrides,
            self.adapters,
        )?;
        let mut target = self.side(subject, &report)?;
        if base.is_none() && generates {
            target.config = None;
        }
        if !generates {
            target.diagnostics.retain(|one| one.code != "no-base");
        }
        let renamed = edits.iter().skip(moved).map(|edit| PlannedEdit {
            field: edit.field(),
            problem: format!("{} calls this provider by another name", release.schema),
            fix: format!("write {}", edit.value()),
            is_mechanical: true,
        });
        let volume = checked
            .as_ref()
            .ok()
            .and_then(|checked| checked.workload.volume.as_ref());
        let plan = plan::plan(Case {
            to: &release.schema,
            present: &present.side,
            target: &target,
            fit: &fit,
            renamed: renamed.collect(),
            has_volume: volume.is_some(),
            mount_path: volume.map_or(DEFAULT_MOUNT_PATH, |volume| &volume.mount_path),
        });
        Ok(Judged {
            plan,
            target,
            edits,
            moved,
        })
    }

    /// The base configuration of a resource on the release, and what is known about it.
    fn target_base(
        &self,
        subject: &Subject,
        present: &Present,
        release: &Destination,
        movement: &Movement,
        checked: &Checked,
    ) -> anyhow::Result<(Option<Value>, BaseFit)> {
        let own = |text: Option<String>, field: &'static str| -> anyhow::Result<_> {
            let Some(text) = text else {
                let fix =
                    "pass the ConfigMap with --config-map, or in a file of --filename".to_owned();
                return Ok((None, BaseFit::Unknown { field, fix }));
            };
            let config = match yaml::read(&text) {
                Ok(config) => config,
                Err(error) => {
                    let fix = format!("fix the configuration: {error}");
                    return Ok((None, BaseFit::Unknown { field, fix }));
                }
            };
            let fit = if present.side.schema.as_ref() == Some(&release.schema) {
                BaseFit::Fits
            } else {
                self.fit(&config, &release.schema, field)
            };
            let base = Some(config);
            Ok(match (fit, movement) {
                // The file fits, but nobody knows which image to run.
                (BaseFit::Fits, Movement::OwnImage) => (base, BaseFit::NoImage),
                (fit, _) => (base, fit),
            })
        };
        match &checked.config_source {
            ConfigSource::Override { config_map, .. } => {
                let text = self.config_map(subject, config_map, DEFAULT_CONFIG_KEY)?;
                return own(text, "spec.overrideConfig.configMapName");
            }
            ConfigSource::Generated { base: Some(base) } => {
                let text = self.config_map(subject, &base.name, &base.key)?;
                return own(text, "spec.distribution.baseConfig");
            }
            ConfigSource::Generated { base: None } | ConfigSource::DistributionDefault => {}
        }
        if let Some(base) = &release.base {
            return Ok((Some(base.config.clone()), BaseFit::Fits));
        }
        match movement {
            Movement::OwnImage => return Ok((None, BaseFit::NoImage)),
            Movement::Stays if present.base.is_some() => {
                return Ok((present.base.clone(), BaseFit::Fits));
            }
            Movement::Stays => {}
            Movement::Edits { distribution, .. } => {
                if let Some(text) = distribution
                    .as_deref()
                    .and_then(|name| self.known_base(name))
                {
                    return Ok((Some(yaml::read(&text)?), BaseFit::Fits));
                }
            }
        }
        if checked.config_source == ConfigSource::DistributionDefault {
            // The server uses the file of its image, whatever that is.
            return Ok((None, BaseFit::Fits));
        }
        let fix = format!(
            "read it from an image with --to IMAGE, or pass that of {} with --to-base-config",
            release.schema
        );
        Ok((
            None,
            BaseFit::Unknown {
                field: "spec.distribution",
                fix,
            },
        ))
    }

    fn known_base(&self, name: &str) -> Option<String> {
        match self.distributions.get(name) {
            Some(Ok(KnownDistribution {
                base: Some(base), ..
            })) => Some(base.clone()),
            _ => labelled_base(name).map(str::to_owned),
        }
    }

    /// Whether a release reads every key of a configuration, and has all of its providers.
    fn fit(&self, config: &Value, schema: &str, field: &'static str) -> BaseFit {
        let candidate = candidate(self.adapters, config, schema);
        let lost = self.lost_providers(config, schema);
        if lost.is_empty() && candidate.as_ref().is_some_and(|one| one.points == Some(0)) {
            return BaseFit::Fits;
        }
        BaseFit::Differs {
            field,
            lost,
            ignored: candidate.map(|one| one.contradicts).unwrap_or_default(),
        }
    }

    /// The provider types of a configuration that another release has and this one does not.
    fn lost_providers(&self, config: &Value, schema: &str) -> Vec<String> {
        let mut lost = Vec::new();
        for (api, entries) in config["providers"].as_object().into_iter().flatten() {
            for entry in entries.as_array().into_iter().flatten() {
                let Some(provider) = entry["provider_type"].as_str() else {
                    continue;
                };
                let mut all = served_schemas(self.adapters).into_iter();
                let is_ours = all.any(|other| self.has_provider(&other, api, provider));
                let text = format!("{api}: {provider}");
                if is_ours && !self.has_provider(schema, api, provider) && !lost.contains(&text) {
                    lost.push(text);
                }
            }
        }
        lost
    }

    /// Whether a release has a provider type, by the name of the API in the resource or in the file.
    fn has_provider(&self, schema: &str, api: &str, provider: &str) -> bool {
        let same = |other: &str| {
            let letters = |name: &str| name.replace('_', "").to_ascii_lowercase();
            letters(api) == letters(other)
                || (api == "agents" && other == "responses")
                || (api == "responses" && other == "agents")
        };
        self.adapters.iter().any(|adapter| {
            let apis = adapter
                .description()
                .providers
                .get(schema)
                .into_iter()
                .flatten();
            apis.filter(|(other, _)| same(other))
                .flat_map(|(_, known)| known)
                .any(|known| known.provider_type == provider)
        })
    }
}

/// The variables that a resource sets itself.
fn own_variables(checked: &Checked) -> Variables {
    let own = checked.workload.overrides.env.iter().flatten();
    own.map(|variable| {
        let is_known = variable.value_from.is_none();
        let value = is_known.then(|| variable.value.clone().unwrap_or_default());
        (variable.name.clone(), value)
    })
    .collect()
}
