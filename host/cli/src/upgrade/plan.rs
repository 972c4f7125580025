//! Decides what a move to another release does to one resource.
//!
//! In: what is generated for the resource today and on the other release, and what is known about the
//! base configuration there. Out: a [`Plan`]. Nothing is read or generated here, and equal inputs give
//! equal plans.

use llsd_api::Diagnostic;
use serde_json::Value;

use super::state::{self, Place, StateMove, Variables};

/// Whether a resource can move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Only the distribution changes.
    Ready,
    /// It can move, and something is different afterwards.
    ReadyWithWarnings,
    /// It can move after a change of the resource or of its base configuration.
    NeedsEdit,
    /// Something that decides was not read.
    NotJudged,
    /// The release lacks something that the resource asks for.
    Cannot,
}

impl Verdict {
    pub(crate) const ALL: [Self; 5] = [
        Self::Ready,
        Self::ReadyWithWarnings,
        Self::NeedsEdit,
        Self::NotJudged,
        Self::Cannot,
    ];

    /// As people read it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::ReadyWithWarnings => "ready with warnings",
            Self::NeedsEdit => "needs an edit",
            Self::NotJudged => "not judged",
            Self::Cannot => "cannot",
        }
    }

    /// The value in JSON output.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::ReadyWithWarnings => "readyWithWarnings",
            Self::NeedsEdit => "needsEdit",
            Self::NotJudged => "notJudged",
            Self::Cannot => "cannot",
        }
    }

    /// Whether the resource can move as it is.
    pub(crate) fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::ReadyWithWarnings)
    }
}

/// What is known about the configuration that the resource is merged into on the release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BaseFit {
    /// It is that of the release, or the release reads every key of it.
    Fits,
    /// It is the author's, and written for another release.
    Differs {
        /// The field that names it.
        field: &'static str,
        /// Providers that the release does not have: `safety: inline::llama-guard`.
        lost: Vec<String>,
        /// Keys that the release ignores or refuses, as far as they are known.
        ignored: Vec<String>,
    },
    /// It was not read; what to pass.
    Unknown { field: &'static str, fix: String },
    /// The server uses an image of its own, and no image of the release is known.
    NoImage,
}

/// One side of a move: today, or on the release.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// The dialect, if it is known.
    pub(crate) schema: Option<String>,
    /// The file that the server reads; `None` if it was not generated or not read.
    pub(crate) config: Option<Value>,
    /// The same as text.
    pub(crate) text: String,
    /// Variables of the pod.
    pub(crate) variables: Variables,
    /// Errors and warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// An edit that the author makes, or that `--write` makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedEdit {
    pub(crate) field: String,
    pub(crate) problem: String,
    pub(crate) fix: String,
    /// Whether `--write` makes it.
    pub(crate) is_mechanical: bool,
}

/// What is compared for one resource.
pub(crate) struct Case<'a> {
    /// The release.
    pub(crate) to: &'a str,
    pub(crate) present: &'a Side,
    pub(crate) target: &'a Side,
    pub(crate) fit: &'a BaseFit,
    /// Mechanical edits besides that of the distribution. `target` was generated with them.
    pub(crate) renamed: Vec<PlannedEdit>,
    /// Whether the state is on a volume.
    pub(crate) has_volume: bool,
    /// Where the volume is mounted.
    pub(crate) mount_path: &'a str,
}

/// What a move does to one resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) verdict: Verdict,
    /// What was not read: the field, and what to pass.
    pub(crate) unread: Option<(&'static str, String)>,
    /// What the release lost.
    pub(crate) lost: Vec<Diagnostic>,
    /// What has to change before the move.
    pub(crate) edits: Vec<PlannedEdit>,
    /// What is different afterwards. Warnings that the resource has today are left out.
    pub(crate) warnings: Vec<Diagnostic>,
    /// State that does not move by itself.
    pub(crate) state: Vec<StateMove>,
}

/// Codes of errors and warnings that mean: the release does not have this.
const LOST: [&str; 6] = [
    "no-such-api",
    "no-such-provider",
    "unknown-provider",
    "unknown-tool",
    "unknown-model-type",
    "unsupported-field",
];
/// Codes of warnings about a base configuration with which the server does not start.
const BROKEN_BASE: [&str; 2] = ["base-missing-api", "base-dangling-resource"];

/// Plans the move of one resource.
pub(crate) fn plan(case: Case<'_>) -> Plan {
    let Case {
        to,
        present,
        target,
        fit,
        renamed,
        has_volume,
        mount_path,
    } = case;
    let is_new = |one: &&Diagnostic| {
        !present.diagnostics.iter().any(|old| {
            old.field == one.field && old.code == one.code && old.severity == one.severity
        })
    };
    let mut edits = base_edits(to, fit);
    edits.extend(renamed);
    let (mut lost, mut warnings) = (Vec::new(), Vec::new());
    // A base that nobody read has no providers: what refers to one of them says nothing.
    let is_known = !matches!(fit, BaseFit::Unknown { .. } | BaseFit::NoImage);
    for found in &target.diagnostics {
        let is_lost = LOST.contains(&found.code.as_str());
        // Disabling what the release does not have is no loss.
        let is_disabled = found.field.as_str().starts_with("spec.disabled");
        if is_lost && !is_disabled && (found.is_error() || is_new(&found)) {
            lost.push(found.clone());
        } else if found.is_error() {
            if is_known {
                edits.push(planned(found));
            }
        } else if is_new(&found) && BROKEN_BASE.contains(&found.code.as_str()) {
            edits.push(planned(found));
        } else if is_new(&found) && is_known {
            warnings.push(found.clone());
        }
    }
    let state = match (&present.config, &target.config) {
        (Some(before), Some(after)) if is_known => state::moves(
            Place {
                config: before,
                variables: &present.variables,
                mount_path,
            },
            Place {
                config: after,
                variables: &target.variables,
                mount_path,
            },
            has_volume,
        ),
        _ => Vec::new(),
    };
    let verdict = if !lost.is_empty() {
        Verdict::Cannot
    } else if !edits.is_empty() {
        Verdict::NeedsEdit
    } else if !is_known {
        Verdict::NotJudged
    } else if !warnings.is_empty() || !state.is_empty() {
        Verdict::ReadyWithWarnings
    } else {
        Verdict::Ready
    };
    let unread = match fit {
        BaseFit::Unknown { field, fix } => Some((*field, fix.clone())),
        BaseFit::Fits | BaseFit::Differs { .. } | BaseFit::NoImage => None,
    };
    Plan {
        verdict,
        unread,
        lost,
        edits,
        warnings,
        state,
    }
}

fn planned(found: &Diagnostic) -> PlannedEdit {
    PlannedEdit {
        field: found.field.to_string(),
        problem: found.problem.clone(),
        fix: found.fix.clone(),
        is_mechanical: false,
    }
}

/// The edits that the base configuration or the image needs.
fn base_edits(to: &str, fit: &BaseFit) -> Vec<PlannedEdit> {
    let edit = |field: &str, problem: String, fix: String| {
        vec![PlannedEdit {
            field: field.to_owned(),
            problem,
            fix,
            is_mechanical: false,
        }]
    };
    match fit {
        BaseFit::Fits => Vec::new(),
        BaseFit::Unknown { .. } => Vec::new(),
        BaseFit::NoImage => edit(
            "spec.distribution",
            format!("no image of {to} is known for this distribution"),
            "set spec.distribution.image to one, and plan again with --to IMAGE".to_owned(),
        ),
        BaseFit::Differs {
            field,
            lost,
            ignored,
        } => {
            let mut problem = format!("the configuration is not written for {to}");
            if !lost.is_empty() {
                problem += &format!(
                    "; it names providers that {to} does not have: {}",
                    lost.join(", ")
                );
            }
            if !ignored.is_empty() {
                problem += &format!("; {to} does not read: {}", ignored.join(", "));
            }
            edit(
                field,
                problem,
                format!("write the configuration again from that of an image of {to}"),
            )
        }
    }
}

/// The order in which to move resources: what is safest first, by name.
pub(crate) fn order(plans: &[(String, Verdict, bool)]) -> Vec<String> {
    let mut steps = Vec::new();
    let names = |verdict: Verdict| {
        let found = plans.iter().filter(|(_, other, _)| *other == verdict);
        let names: Vec<&str> = found.map(|(name, ..)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let state: Vec<&str> = plans
        .iter()
        .filter(|(_, verdict, has_state)| *has_state && verdict.is_ready())
        .map(|(name, ..)| name.as_str())
        .collect();
    if let Some(names) = names(Verdict::NotJudged) {
        steps.push(format!("Pass what is missing, and plan again: {names}."));
    }
    if let Some(names) = names(Verdict::Cannot) {
        steps.push(format!(
            "Decide what replaces the features that the release lost, or keep these on their release: {names}."
        ));
    }
    if let Some(names) = names(Verdict::NeedsEdit) {
        steps.push(format!(
            "Make the edits, and plan again until these are ready: {names}."
        ));
    }
    if !state.is_empty() {
        steps.push(format!(
            "Back up the volumes, and export the state that does not move by itself: {}.",
            state.join(", ")
        ));
    }
    if let Some(names) = names(Verdict::Ready) {
        steps.push(format!(
            "Move these first, one at a time, and wait until each is ready (llsd why NAME): {names}."
        ));
    }
    if let Some(names) = names(Verdict::ReadyWithWarnings) {
        steps.push(format!(
            "Then move these, and check what their warnings name: {names}."
        ));
    }
    steps
}

#[cfg(test)]
mod tests {
    use llsd_api::FieldPath;
    use serde_json::json;

    use super::*;

    fn error(field: &str, code: &str) -> Diagnostic {
        Diagnostic::error(FieldPath::from(field), "p", "f").with_code(code)
    }

    fn warning(field: &str, code: &str) -> Diagnostic {
        Diagnostic::warning(FieldPath::from(field), "p", "f").with_code(code)
    }

    fn side(diagnostics: Vec<Diagnostic>) -> Side {
        Side {
            config: Some(json!({})),
            diagnostics,
            ..Side::default()
        }
    }

    fn planned_with(present: &Side, target: &Side, fit: &BaseFit) -> Plan {
        plan(Case {
            to: "ogx/1.0",
            present,
            target,
            fit,
            renamed: Vec::new(),
            has_volume: true,
            mount_path: "/.llama",
        })
    }

    #[test]
    fn nothing_new_is_ready() {
        let both = side(vec![warning("spec.a", "notice")]);
        let plan = planned_with(&both, &both, &BaseFit::Fits);
        assert_eq!(plan.verdict, Verdict::Ready);
        assert_eq!(plan.warnings, []);
    }

    #[test]
    fn a_new_warning_and_moved_state_are_warnings() {
        let target = side(vec![warning("spec.a", "notice")]);
        let plan = planned_with(&side(vec![]), &target, &BaseFit::Fits);
        assert_eq!(plan.verdict, Verdict::ReadyWithWarnings);
        let mut before = side(vec![]);
        before.config =
            Some(json!({"metadata_store": {"type": "sqlite", "db_path": "/.llama/a.db"}}));
        let plan = planned_with(&before, &side(vec![]), &BaseFit::Fits);
        assert_eq!(plan.verdict, Verdict::ReadyWithWarnings);
        assert_eq!(plan.state.len(), 1);
    }

    #[test]
    fn what_the_release_lost_is_cannot_and_other_errors_are_edits() {
        let lost = side(vec![
            error("spec.providers.safety", "no-such-api"),
            error("spec.b", "invalid"),
        ]);
        let plan = planned_with(&side(vec![]), &lost, &BaseFit::Fits);
        assert_eq!(plan.verdict, Verdict::Cannot);
        assert_eq!((plan.lost.len(), plan.edits.len()), (1, 1));
        // A provider type of the author is a warning on both sides: its image has it.
        let own = side(vec![warning(
            "spec.providers.eval.provider",
            "unknown-provider",
        )]);
        assert_eq!(
            planned_with(&own, &own, &BaseFit::Fits).verdict,
            Verdict::Ready
        );
        assert_eq!(
            planned_with(&side(vec![]), &own, &BaseFit::Fits).verdict,
            Verdict::Cannot
        );
        let disabled = side(vec![warning("spec.disabled[0]", "no-such-api")]);
        assert_eq!(
            planned_with(&side(vec![]), &disabled, &BaseFit::Fits).verdict,
            Verdict::ReadyWithWarnings
        );
    }

    #[test]
    fn a_base_with_which_the_server_does_not_start_is_an_edit() {
        let broken = side(vec![warning("", "base-missing-api")]);
        assert_eq!(
            planned_with(&side(vec![]), &broken, &BaseFit::Fits).verdict,
            Verdict::NeedsEdit
        );
    }

    #[test]
    fn the_base_decides_unless_the_release_lost_something() {
        let differs = BaseFit::Differs {
            field: "spec.distribution.baseConfig",
            lost: vec!["safety: inline::llama-guard".to_owned()],
            ignored: vec!["shields".to_owned()],
        };
        let plan = planned_with(&side(vec![]), &side(vec![]), &differs);
        assert_eq!(plan.verdict, Verdict::NeedsEdit);
        assert_eq!(
            plan.edits[0].problem,
            "the configuration is not written for ogx/1.0; it names providers that ogx/1.0 does not have: safety: inline::llama-guard; ogx/1.0 does not read: shields"
        );
        let unknown = BaseFit::Unknown {
            field: "spec.distribution.image",
            fix: "pass it".to_owned(),
        };
        let target = side(vec![error(
            "spec.resources.models[0].provider",
            "unknown-provider-id",
        )]);
        assert_eq!(
            planned_with(&side(vec![]), &target, &unknown).verdict,
            Verdict::NotJudged
        );
        let lost = side(vec![error("spec.resources.shields[0]", "no-such-api")]);
        assert_eq!(
            planned_with(&side(vec![]), &lost, &unknown).verdict,
            Verdict::Cannot
        );
        assert_eq!(
            planned_with(&side(vec![]), &side(vec![]), &BaseFit::NoImage).verdict,
            Verdict::NeedsEdit
        );
    }

    #[test]
    fn what_is_safest_moves_first() {
        let plans = [
            ("a".to_owned(), Verdict::Cannot, false),
            ("b".to_owned(), Verdict::ReadyWithWarnings, true),
            ("c".to_owned(), Verdict::Ready, false),
        ];
        let steps = order(&plans);
        let starts: Vec<&str> = steps
            .iter()
            .map(|step| step.split(' ').next().unwrap())
            .collect();
        assert_eq!(starts, ["Decide", "Back", "Move", "Then"]);
        assert!(steps[1].ends_with(": b."));
    }
}
