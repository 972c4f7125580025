//! Conditions: how each part stands, and since when.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Longest message that the API server takes.
const LONGEST_MESSAGE: usize = 32_768;

/// The conditions of a resource, on the way from an old status to a new one.
pub(crate) struct Conditions {
    all: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    pub(crate) fn new(old: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        Self {
            all: old.to_vec(),
            generation,
            now,
        }
    }

    /// Sets one. Its time moves only when its status does.
    pub(crate) fn set(
        &mut self,
        kind: &str,
        is_true: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let status = if is_true { "True" } else { "False" };
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        let position = self.all.iter().position(|one| one.type_ == kind);
        let since = position
            .map(|at| &self.all[at])
            .filter(|one| one.status == status);
        let condition = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: since
                .map_or(Time(self.now), |one| one.last_transition_time.clone()),
        };
        match position {
            Some(at) => self.all[at] = condition,
            None => self.all.push(condition),
        }
    }

    /// Removes one that no longer applies.
    pub(crate) fn remove(&mut self, kind: &str) {
        self.all.retain(|one| one.type_ != kind);
    }

    pub(crate) fn into_vec(self) -> Vec<Condition> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_moves_only_with_its_status() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let mut conditions = Conditions::new(&[], Some(1), at(1));
        conditions.set("Available", false, "ReplicasUnavailable", "none");
        let first = conditions.into_vec();

        let mut conditions = Conditions::new(&first, Some(2), at(2));
        conditions.set("Available", false, "RolloutInProgress", "soon");
        let second = conditions.into_vec();
        assert_eq!(
            (
                second[0].last_transition_time.0,
                second[0].observed_generation
            ),
            (at(1), Some(2))
        );

        let mut conditions = Conditions::new(&second, Some(2), at(3));
        conditions.set("Available", true, "MinimumReplicasAvailable", "all");
        let third = conditions.into_vec();
        assert_eq!((third.len(), third[0].last_transition_time.0), (1, at(3)));
    }
}
