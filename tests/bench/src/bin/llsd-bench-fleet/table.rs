//! The figures of a run.

use std::collections::BTreeMap;

use llsd_bench::{Goal, Measurement};

/// A figure that is measured for each number of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    FirstStartPeak,
    LeaderMemory,
    StandbyMemory,
    RequestsAtRest,
    RequestsForTouch,
    RestartWrites,
    RestartCalls,
    RestartReads,
    RestartSeconds,
    FailOverStopped,
    FailOverKilled,
    RequestsEach,
    ReconcilesEach,
    ConversionsEach,
    OperatorCpuEach,
    ReferenceCpu,
    OperatorWorkEach,
    ApiServerCpuEach,
    BareDeploymentCpu,
    AuthorSlowdown,
    AuthorBesideIdle,
    ShadowSeconds,
    ListSeconds,
    ListAgainSeconds,
    ListStoredSeconds,
    ListPeak,
    DeployedSeconds,
    ReportedSeconds,
}

impl Figure {
    const ALL: [Self; 28] = [
        Self::FirstStartPeak,
        Self::LeaderMemory,
        Self::StandbyMemory,
        Self::RequestsAtRest,
        Self::RequestsForTouch,
        Self::RestartWrites,
        Self::RestartCalls,
        Self::RestartReads,
        Self::RestartSeconds,
        Self::FailOverStopped,
        Self::FailOverKilled,
        Self::RequestsEach,
        Self::ReconcilesEach,
        Self::ConversionsEach,
        Self::OperatorCpuEach,
        Self::ReferenceCpu,
        Self::OperatorWorkEach,
        Self::ApiServerCpuEach,
        Self::BareDeploymentCpu,
        Self::AuthorSlowdown,
        Self::AuthorBesideIdle,
        Self::ShadowSeconds,
        Self::ListSeconds,
        Self::ListAgainSeconds,
        Self::ListStoredSeconds,
        Self::ListPeak,
        Self::DeployedSeconds,
        Self::ReportedSeconds,
    ];

    /// What it is, with its unit, and the most that it should be.
    fn described(self) -> (&'static str, Option<f64>) {
        match self {
            Self::FirstStartPeak => (
                "peak memory of a first start, nothing compiled, MiB",
                Some(96.0),
            ),
            Self::LeaderMemory => ("memory of the leader at rest, MiB", Some(150.0)),
            Self::StandbyMemory => ("memory of a standby at rest, MiB", Some(120.0)),
            Self::RequestsAtRest => ("requests in a minute at rest", Some(0.0)),
            Self::RequestsForTouch => ("requests for a touch without a change", Some(0.0)),
            Self::RestartWrites => ("writes after a restart", Some(0.0)),
            Self::RestartCalls => ("calls of plugins after a restart", Some(0.0)),
            Self::RestartReads => ("requests to registries after a restart", Some(0.0)),
            Self::RestartSeconds => ("restart until quiet, s", Some(20.0)),
            Self::FailOverStopped => ("fail-over after a clean stop, s", Some(5.0)),
            Self::FailOverKilled => ("fail-over after kill -9, s", Some(18.0)),
            Self::RequestsEach => ("requests for each new resource", Some(5.0)),
            Self::ReconcilesEach => ("reconciliations of each new resource", None),
            Self::ConversionsEach => ("conversions of each new resource", None),
            Self::OperatorCpuEach => ("operator CPU for each new resource, ms", Some(8.0)),
            Self::ReferenceCpu => ("CPU of a reference workload meanwhile, ms", None),
            Self::OperatorWorkEach => (
                "operator CPU for each new resource, in reference workloads",
                None,
            ),
            Self::ApiServerCpuEach => ("API server CPU for each new resource, ms", None),
            Self::BareDeploymentCpu => ("API server CPU for a bare Deployment, ms", None),
            Self::AuthorSlowdown => ("author's creates beside a busy operator, ratio", Some(2.0)),
            Self::AuthorBesideIdle => ("author's creates beside an idle operator, ratio", None),
            Self::ShadowSeconds => ("comparison of a new adapter, CPU s", Some(10.0)),
            Self::ListSeconds => ("first list in the older version, s", Some(2.0)),
            Self::ListAgainSeconds => ("the same list again, s", Some(2.0)),
            Self::ListStoredSeconds => ("a list in the stored version, s", None),
            Self::ListPeak => ("peak memory of the operator that converts it, MiB", None),
            Self::DeployedSeconds => ("until all Deployments exist, s", None),
            Self::ReportedSeconds => ("until all statuses are written, s", None),
        }
    }
}

/// The figures for one number of resources.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// The figures of all numbers of resources, and those of the previous release.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<usize, (Figures, Option<Figures>)>);

impl Table {
    /// Adds the figures for a number of resources.
    pub(crate) fn add(&mut self, resources: usize, now: Figures, previous: Option<Figures>) {
        self.0.insert(resources, (now, previous));
    }

    /// All figures that were measured.
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let measurements = Figure::ALL.iter().map(|figure| {
            let (name, most) = figure.described();
            let values = |of: fn(&(Figures, Option<Figures>)) -> Option<&Figures>| {
                let all = self.0.iter();
                let all = all.filter_map(|(resources, figures)| {
                    Some((*resources, *of(figures)?.get(figure)?))
                });
                all.collect()
            };
            Measurement {
                figure: name.to_owned(),
                goal: most.map(Goal::AtMost),
                values: values(|(now, _)| Some(now)),
                previous: values(|(_, previous)| previous.as_ref()),
            }
        });
        measurements.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_listed_by_the_number_of_resources() {
        let mut table = Table::default();
        for (resources, memory) in [(100, 40.0), (10_000, 160.0)] {
            let now = Figures::from([(Figure::LeaderMemory, memory)]);
            let previous = Figures::from([(Figure::LeaderMemory, 80.0)]);
            table.add(resources, now, Some(previous));
        }
        let all = table.measurements();
        let memory = all.iter().find(|one| one.figure.contains("leader"));
        let memory = memory.unwrap();
        assert_eq!(memory.goal, Some(Goal::AtMost(150.0)));
        assert_eq!(
            memory.values,
            BTreeMap::from([(100, 40.0), (10_000, 160.0)])
        );
        assert_eq!(
            memory.previous,
            BTreeMap::from([(100, 80.0), (10_000, 80.0)])
        );
    }
}
