//! Answers a question of the page: what becomes of a resource, and which releases accept it.
//!
//! In: a text, the plugins and the options of the command. Out: parts of an answer, each as soon as it is
//! known. The code that generates is that of `llsd render`. It uses no server, clock or network: `stop`
//! says when to end, and is asked before every call of a plugin.

use std::collections::BTreeMap;

use anyhow::Context;
use llsd_adapter_sdk::documents::{Description, ModelId, ServedSchema};
use llsd_api::{Diagnostic, FieldPath, escape_line, escape_lines};
use llsd_plugin::Plugin;
use llsd_render::adapter::Adapter;
use llsd_render::{Generated, ReleaseRange, served_schemas, yaml};
use serde_json::json;

use super::document::{
    BaseSource, Comparison, Facts, ObjectYaml, Part, Problem, Question, ReleaseRow, Side, Verdict,
    View,
};
use super::interruptible::Interruptible;
use super::reading::{self, Marks, Reading};
use super::{bases, line_diff};
use crate::generation::{self, BaseOptions, LoadedBase, Outcome, Overrides, Report};
use crate::objects::{self, RenderedObject};
use crate::{render, upgrade};

/// Problems that a page shows. More would be a list that no one reads.
const PROBLEMS: usize = 200;

/// Dialects that are asked. All plugins of this repository serve nine.
const DIALECTS: usize = 32;

/// What an exploration uses besides the question.
pub(super) struct Explorer<'a> {
    /// The plugins by priority.
    pub(super) plugins: &'a [Plugin],
    /// How many of them are from `--plugin`; they come first.
    pub(super) given: usize,
    /// The base configuration of `--base-config` or `--image`.
    pub(super) base: Option<&'a LoadedBase>,
    /// The options of the command.
    pub(super) options: &'a BaseOptions,
}

/// A dialect and the plugin that serves it.
struct Dialect<'a> {
    schema: &'a ServedSchema,
    plugin: &'a Plugin,
    is_given: bool,
}

/// One generation.
struct Run {
    /// The result, or why there is none: a plugin failed, or a file cannot be read.
    result: Result<Report, String>,
    base: BaseSource,
}

impl Explorer<'_> {
    /// Emits the parts of the answer, and stops early if `stop` says so.
    pub(super) fn answer(
        &self,
        question: &Question,
        stop: &dyn Fn() -> bool,
        emit: &mut dyn FnMut(Part),
    ) {
        let reading = match reading::read(&question.text) {
            Ok(reading) => reading,
            Err(problem) => {
                let view = View {
                    summary: "The text cannot be read, so nothing is generated.".to_owned(),
                    problems: vec![*problem],
                    ..View::default()
                };
                return emit(Part::View(Box::new(view)));
            }
        };
        let interruptible = self.interruptible(stop);
        let adapters = as_adapters(&interruptible);
        let generator = Generator {
            explorer: self,
            reading: &reading,
            adapters: &adapters,
        };
        let mut runs = Runs::new(generator);
        let view = runs.view(question.dialect.as_deref());
        if stop() {
            return;
        }
        emit(Part::View(Box::new(view)));
        for dialect in self.dialects() {
            let row = runs.row(&dialect);
            if stop() {
                return;
            }
            emit(Part::Release(row));
        }
        if let Some((left, right)) = &question.compare {
            let comparison = runs.compare(left, right);
            if stop() {
                return;
            }
            emit(Part::Comparison(comparison));
        }
    }

    /// The plan to move the resource to the second dialect that is compared, the one that is shown, or the
    /// newest one, as a page.
    pub(super) fn plan(
        &self,
        question: &Question,
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<String> {
        let reading = reading::read(&question.text)
            .map_err(|problem| anyhow::anyhow!("{}; {}", problem.problem, problem.fix))?;
        let interruptible = self.interruptible(stop);
        let adapters = as_adapters(&interruptible);
        let served = served_schemas(&adapters);
        let compared = question.compare.as_ref().map(|(_, right)| right);
        let wanted = compared.or(question.dialect.as_ref()).or(served.last());
        let dialect = wanted.filter(|dialect| served.contains(dialect));
        let dialect = dialect.context("no plugin serves this release; choose another one")?;
        let Reading {
            resource, objects, ..
        } = reading;
        let objects = std::iter::once(resource).chain(objects).collect();
        upgrade::plan_page(objects, dialect, self.options, self.base, &adapters)
    }

    fn interruptible<'a>(&'a self, stop: &'a dyn Fn() -> bool) -> Vec<Interruptible<'a>> {
        let plugins = self.plugins.iter();
        plugins
            .map(|plugin| Interruptible { plugin, stop })
            .collect()
    }

    /// The dialects of all schema adapters, each once, with the plugin that generates it.
    fn dialects(&self) -> Vec<Dialect<'_>> {
        let mut all: Vec<Dialect<'_>> = Vec::new();
        for (index, plugin) in self.plugins.iter().enumerate() {
            if !plugin.is_schema_adapter() {
                continue;
            }
            for schema in &plugin.description().schemas {
                let is_new = all.iter().all(|known| known.schema.id != schema.id);
                if is_new && all.len() < DIALECTS {
                    all.push(Dialect {
                        schema,
                        plugin,
                        is_given: index < self.given,
                    });
                }
            }
        }
        all
    }
}

fn as_adapters<'a>(interruptible: &'a [Interruptible<'a>]) -> Vec<&'a dyn Adapter> {
    let all = interruptible.iter();
    all.map(|adapter| adapter as &dyn Adapter).collect()
}

/// Generates the configuration of the resource of one answer.
#[derive(Clone, Copy)]
struct Generator<'a> {
    explorer: &'a Explorer<'a>,
    reading: &'a Reading,
    adapters: &'a [&'a dyn Adapter],
}

impl Generator<'_> {
    fn generate(self, base: Option<&LoadedBase>, schema: Option<&str>, source: BaseSource) -> Run {
        let Reading {
            resource, objects, ..
        } = self.reading;
        let overrides = Overrides { schema, objects };
        let options = self.explorer.options;
        let result =
            generation::run_with(resource.clone(), base, options, overrides, self.adapters);
        Run {
            result: result.map_err(|error| escape_lines(&format!("{error:#}")).into_owned()),
            base: source,
        }
    }
}

/// The generations of one answer. Each is made once.
struct Runs<'a> {
    generator: Generator<'a>,
    /// As the operator would make it.
    own: Run,
    /// The dialect that the operator would select.
    own_dialect: Option<String>,
    /// For other dialects.
    others: BTreeMap<String, Run>,
}

impl<'a> Runs<'a> {
    fn new(generator: Generator<'a>) -> Self {
        let own = generator.generate(generator.explorer.base, None, BaseSource::Own);
        let report = own.result.as_ref().ok();
        let schema = report.and_then(|report| report.outcome.schema());
        Self {
            generator,
            own_dialect: schema.map(|schema| schema.id.clone()),
            own,
            others: BTreeMap::new(),
        }
    }

    /// The generation for a dialect: over the resource's own base in its own dialect, and over an
    /// example in another one.
    fn in_dialect(&mut self, dialect: &str) -> &Run {
        if self.own_dialect.as_deref() == Some(dialect) {
            return &self.own;
        }
        let generator = self.generator;
        let others = self.others.entry(dialect.to_owned());
        others.or_insert_with(|| match bases::example(dialect) {
            Some(base) => generator.generate(Some(&base), Some(dialect), BaseSource::Example),
            None => generator.generate(generator.explorer.base, Some(dialect), BaseSource::Own),
        })
    }

    fn view(&mut self, dialect: Option<&str>) -> View {
        let Generator {
            explorer, reading, ..
        } = self.generator;
        let run = match dialect {
            Some(dialect) => self.in_dialect(dialect),
            None => &self.own,
        };
        let report = match &run.result {
            Ok(report) => report,
            Err(fault) => {
                return View {
                    verdict: Verdict::Failed,
                    summary: format!("Nothing is generated: {fault}"),
                    dialect: dialect.map(str::to_owned),
                    base: run.base,
                    ..View::default()
                };
            }
        };
        let mut diagnostics = reading.diagnostics.clone();
        diagnostics.extend(report.diagnostics.iter().cloned());
        let objects = match build_objects(report, explorer.options) {
            Ok(objects) => objects,
            Err(problems) => {
                diagnostics.extend(problems);
                Vec::new()
            }
        };
        View {
            verdict: verdict(report, &diagnostics),
            more_problems: diagnostics.len().saturating_sub(PROBLEMS),
            problems: problems(&reading.marks, &diagnostics),
            objects,
            base: run.base,
            ..view_of(report)
        }
    }

    fn row(&mut self, dialect: &Dialect<'_>) -> ReleaseRow {
        let id = dialect.schema.id.as_str();
        let is_own = self.own_dialect.as_deref() == Some(id);
        let Description { name, version, .. } = dialect.plugin.description();
        let run = self.in_dialect(id);
        let row = ReleaseRow {
            dialect: escape_line(id).into_owned(),
            releases: releases(&ReleaseRange::from(dialect.schema)),
            adapter: escape_line(&format!("{name} {version}")).into_owned(),
            is_plugin: dialect.is_given,
            is_own,
            verdict: Verdict::Failed,
            base: run.base,
            errors: 1,
            warnings: 0,
            reason: None,
        };
        let report = match &run.result {
            Ok(report) => report,
            Err(fault) => {
                return ReleaseRow {
                    reason: Some(fault.clone()),
                    ..row
                };
            }
        };
        let (errors, warnings): (Vec<_>, Vec<_>) =
            report.diagnostics.iter().partition(|one| one.is_error());
        let first = errors.first().or(warnings.first());
        ReleaseRow {
            verdict: verdict(report, &report.diagnostics),
            errors: errors.len(),
            warnings: warnings.len(),
            reason: first.map(|one| escape_line(&one.to_string()).into_owned()),
            ..row
        }
    }

    fn compare(&mut self, left: &str, right: &str) -> Comparison {
        let (left, left_config) = self.side(left);
        let (right, right_config) = self.side(right);
        Comparison {
            rows: line_diff::side_by_side(&left_config, &right_config),
            left,
            right,
        }
    }

    /// One side of a comparison, and its configuration.
    fn side(&mut self, dialect: &str) -> (Side, String) {
        let marks = &self.generator.reading.marks;
        let run = self.in_dialect(dialect);
        let (verdict, diagnostics, config) = match &run.result {
            Ok(report) => (
                verdict(report, &report.diagnostics),
                report.diagnostics.clone(),
                config(report).unwrap_or_default(),
            ),
            Err(fault) => {
                let fix = "see the limits of plugins, or tell the plugin's author";
                let problem = Diagnostic::error(FieldPath::root(), fault.clone(), fix);
                (Verdict::Failed, vec![problem], String::new())
            }
        };
        let side = Side {
            dialect: dialect.to_owned(),
            verdict,
            problems: problems(marks, &diagnostics),
        };
        (side, config)
    }
}

/// The problems at their marks: errors first, then in the order of the text.
fn problems(marks: &Marks, diagnostics: &[Diagnostic]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = diagnostics
        .iter()
        .map(|one| Problem::new(one, marks.find(&one.field)))
        .collect();
    problems.sort_by_key(|one| (!one.is_error, one.mark.map_or(0, |mark| mark.start)));
    problems.truncate(PROBLEMS);
    problems
}

fn verdict(report: &Report, diagnostics: &[Diagnostic]) -> Verdict {
    let is_refused = matches!(report.outcome, Outcome::Rejected(_));
    if is_refused || diagnostics.iter().any(Diagnostic::is_error) {
        Verdict::Refused
    } else if diagnostics.is_empty() {
        Verdict::Accepted
    } else {
        Verdict::Warnings
    }
}

/// The configuration that the server reads, if it is known.
fn config(report: &Report) -> Option<String> {
    match &report.outcome {
        Outcome::Generated(generated) => Some(generated.yaml.clone()),
        Outcome::Unchanged if !report.base.is_null() => Some(yaml::write(&report.base)),
        Outcome::Unchanged | Outcome::Override { .. } | Outcome::Rejected(_) => None,
    }
}

fn build_objects(
    report: &Report,
    options: &BaseOptions,
) -> Result<Vec<ObjectYaml>, Vec<Diagnostic>> {
    let (Some(checked), Some(plan)) = (&report.checked, report.outcome.plan()) else {
        return Ok(Vec::new());
    };
    // The file of --settings was read when the configuration was generated.
    let distributions = options.settings.distributions().unwrap_or_default();
    match objects::list(checked, &plan, &distributions) {
        Ok(objects) => Ok(objects
            .into_iter()
            .map(|RenderedObject { kind, name, yaml }| ObjectYaml { kind, name, yaml })
            .collect()),
        Err(problems) => Err(problems.into_iter().collect()),
    }
}

/// Everything about a generation but its problems and objects.
fn view_of(report: &Report) -> View {
    let schema = report.outcome.schema();
    let config = config(report);
    let view = View {
        name: report.name.clone(),
        dialect: schema.map(|schema| schema.id.clone()),
        dialect_source: schema.map(|schema| schema.source.as_str()),
        summary: summary(report),
        diff: match &config {
            Some(config) => line_diff::lines(&yaml::write(&report.base), config),
            None => Vec::new(),
        },
        config,
        ..View::default()
    };
    let Outcome::Generated(generated) = &report.outcome else {
        return view;
    };
    let Generated {
        yaml: _,
        config: _,
        variables,
        startup,
        counts,
        models,
        // Part of the report's diagnostics.
        warnings: _,
        schema: _,
        releases: range,
        receipt,
        packs,
        skipped: _,
    } = &**generated;
    let mut receipt = json!(receipt);
    if !packs.is_empty() {
        receipt["packs"] = json!(packs);
    }
    let models = models.iter();
    View {
        releases: Some(releases(range)),
        variables: variables.iter().map(render::variable).collect(),
        facts: Some(Facts {
            startup: json!(startup),
            counts: json!(counts),
            models: models
                .map(|ModelId { name, id }| json!({ "name": name, "id": id }))
                .collect(),
        }),
        receipt: Some(receipt),
        ..view
    }
}

/// A range of releases as a table shows it. A plugin states its bounds.
fn releases(ReleaseRange { from, before }: &ReleaseRange) -> String {
    let range = match before {
        Some(before) => format!("≥ {from}, < {before}"),
        None => format!("≥ {from}"),
    };
    escape_line(&range).into_owned()
}

fn summary(report: &Report) -> String {
    match &report.outcome {
        Outcome::Generated(_) => "A configuration is generated.".to_owned(),
        Outcome::Unchanged if report.base.is_null() => {
            "The server uses the configuration of its image; nothing is generated.".to_owned()
        }
        Outcome::Unchanged => {
            "The server uses the configuration of its distribution unchanged.".to_owned()
        }
        Outcome::Override { config_map, .. } => format!(
            "The configuration is taken from ConfigMap {config_map:?}; nothing is generated."
        ),
        Outcome::Rejected(_) => "The resource is refused, so nothing is generated.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::LazyLock;

    use clap::Parser as _;
    use llsd_adapter_sdk::Detection;
    use llsd_adapter_sdk::documents::Hints;

    use super::*;
    use crate::explore::assets::SAMPLES;
    use crate::plugin_loader;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        base: BaseOptions,
    }

    fn options() -> BaseOptions {
        Options::parse_from(["test"]).base
    }

    static PLUGINS: LazyLock<Vec<Plugin>> = LazyLock::new(|| {
        plugin_loader::load(&plugin_loader::host().unwrap(), &options().plugins).unwrap()
    });

    struct Answered {
        view: View,
        rows: Vec<ReleaseRow>,
        comparison: Option<Comparison>,
    }

    fn explorer(options: &BaseOptions) -> Explorer<'_> {
        Explorer {
            plugins: &PLUGINS,
            given: 0,
            base: None,
            options,
        }
    }

    fn answer(question: &Question) -> Answered {
        let options = options();
        let explorer = explorer(&options);
        let (mut view, mut rows, mut comparison) = (None, Vec::new(), None);
        explorer.answer(question, &|| false, &mut |part| match part {
            Part::View(one) => view = Some(*one),
            Part::Release(row) => rows.push(row),
            Part::Comparison(one) => comparison = Some(one),
            Part::End { .. } | Part::Stopped { .. } => {}
        });
        Answered {
            view: view.unwrap(),
            rows,
            comparison,
        }
    }

    fn of(text: &str) -> Answered {
        answer(&Question {
            text: text.to_owned(),
            ..Question::default()
        })
    }

    fn sample(name: &str) -> &'static str {
        let found = SAMPLES.iter().find(|sample| sample.name == name);
        found.unwrap().text
    }

    #[test]
    fn a_valid_resource_becomes_a_configuration_objects_variables_and_a_receipt() {
        let Answered { view, rows, .. } = of(sample("full"));
        assert_ne!(view.verdict, Verdict::Refused, "{:?}", view.problems);
        assert_eq!(view.dialect.as_deref(), Some("llama-stack/0.7"));
        let config = view.config.unwrap();
        assert!(config.contains("base_url: http://vllm:8000/v1"), "{config}");
        assert!(view.diff.iter().any(|line| line.0 == '+'));
        assert!(
            view.objects
                .iter()
                .any(|object| object.kind == "Deployment")
        );
        assert!(
            view.variables
                .iter()
                .any(|one| one["secret"] == "vllm-creds")
        );
        assert_eq!(view.receipt.unwrap()["plugin"], "llama-stack-0.7");
        let dialects: Vec<&str> = rows.iter().map(|row| row.dialect.as_str()).collect();
        assert_eq!(dialects.len(), 8, "{dialects:?}");
        assert_eq!(rows.iter().filter(|row| row.is_own).count(), 1);
    }

    #[test]
    fn every_dialect_accepts_the_minimal_sample_over_a_base_that_its_adapter_recognises() {
        let Answered { rows, .. } = of(sample("minimal"));
        for row in rows {
            assert_eq!(row.errors, 0, "{}: {:?}", row.dialect, row.reason);
            let base = bases::example(&row.dialect).unwrap();
            let adapters = plugin_loader::as_adapters(&PLUGINS);
            let found = adapters.iter().any(|adapter| {
                let detection = adapter.detect(&base.config, &Hints::default()).unwrap();
                match detection.output {
                    Detection::One(id) => id == row.dialect,
                    Detection::OneOf(ids) => ids.contains(&row.dialect),
                    Detection::None => false,
                }
            });
            assert!(
                found,
                "no adapter recognises the example of {}",
                row.dialect
            );
        }
    }

    #[test]
    fn a_release_without_shields_refuses_the_field_that_others_accept() {
        let Answered { rows, .. } = of(sample("full"));
        let verdict = |dialect: &str| rows.iter().find(|row| row.dialect == dialect).unwrap();
        assert_eq!(verdict("ogx/1.0").verdict, Verdict::Refused);
        let reason = verdict("ogx/1.0").reason.clone().unwrap();
        assert!(reason.starts_with("spec."), "{reason}");
        assert_ne!(verdict("llama-stack/0.7").verdict, Verdict::Refused);
    }

    #[test]
    fn a_problem_is_marked_at_its_field() {
        let text = sample("minimal").replace("provider: vllm", "provider: vlm");
        let Answered { view, rows, .. } = of(&text);
        assert_eq!(view.verdict, Verdict::Refused);
        let problem = &view.problems[0];
        let mark = problem.mark.unwrap();
        assert_eq!(problem.field, "spec.providers.inference.provider");
        assert_eq!(&text[mark.start..mark.end], "provider: vlm");
        assert!(problem.fix.contains("vllm"), "{}", problem.fix);
        assert!(rows.iter().all(|row| row.verdict == Verdict::Refused));
    }

    #[test]
    fn the_shown_dialect_decides_about_configuration_and_problems() {
        let question = Question {
            text: sample("full").to_owned(),
            dialect: Some("ogx/1.0".to_owned()),
            compare: None,
        };
        let Answered { view, .. } = answer(&question);
        assert_eq!(view.dialect.as_deref(), Some("ogx/1.0"));
        assert_eq!(
            (view.verdict, view.base),
            (Verdict::Refused, BaseSource::Example)
        );
        assert!(view.problems.iter().any(|problem| problem.mark.is_some()));
    }

    #[test]
    fn two_dialects_are_compared_line_by_line() {
        let question = Question {
            text: sample("minimal").to_owned(),
            dialect: None,
            compare: Some(("llama-stack/0.3".to_owned(), "llama-stack/0.7".to_owned())),
        };
        let comparison = answer(&question).comparison.unwrap();
        let has = |side: &Option<(usize, String)>, text: &str| {
            side.as_ref().is_some_and(|(_, line)| line.contains(text))
        };
        assert!(
            comparison
                .rows
                .iter()
                .any(|row| has(&row.left, "image_name: starter"))
        );
        assert!(
            comparison
                .rows
                .iter()
                .any(|row| has(&row.right, "distro_name: starter"))
        );
        assert!(comparison.rows.iter().any(|row| row.is_equal()));
    }

    #[test]
    fn a_dialect_that_no_plugin_serves_is_a_problem() {
        let question = Question {
            text: sample("minimal").to_owned(),
            dialect: Some("nobody/9".to_owned()),
            compare: None,
        };
        let view = answer(&question).view;
        assert_eq!(view.verdict, Verdict::Refused);
        assert!(
            view.problems[0].problem.contains("nobody/9"),
            "{:?}",
            view.problems
        );
    }

    #[test]
    fn every_sample_is_answered_for_every_dialect() {
        for sample in SAMPLES {
            let Answered { view, rows, .. } = of(sample.text);
            assert_ne!(view.verdict, Verdict::Failed, "{}", sample.name);
            assert_eq!(rows.len(), 8, "{}", sample.name);
            assert!(rows.iter().all(|row| row.verdict != Verdict::Failed));
        }
    }

    #[test]
    fn an_answer_that_is_not_wanted_any_more_ends() {
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let options = options();
        let explorer = explorer(&options);
        let question = Question {
            text: sample("full").to_owned(),
            ..Question::default()
        };
        let mut parts = 0;
        explorer.answer(&question, &stop, &mut |_| parts += 1);
        assert_eq!(parts, 0);
        assert!(asked.get() < 20, "{}", asked.get());
    }
}
