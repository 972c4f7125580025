//! The conditions of a status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use llsd_api::escape_lines;

/// The longest message that the API server accepts.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// The conditions of an old status, while they become those of the new one.
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

    /// Sets a condition. Its transition time changes only with its status.
    pub(crate) fn set(
        &mut self,
        kind: &str,
        is_true: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let status = if is_true { "True" } else { "False" };
        self.set_status(kind, status, reason, message);
    }

    /// Sets a condition that is neither true nor false yet.
    pub(crate) fn set_unknown(&mut self, kind: &str, reason: &str, message: impl Into<String>) {
        self.set_status(kind, "Unknown", reason, message);
    }

    fn set_status(&mut self, kind: &str, status: &str, reason: &str, message: impl Into<String>) {
        let message: String = message.into();
        let mut message = escape_lines(&message).into_owned();
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
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

    /// Removes a condition that no longer applies.
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
    fn the_transition_time_changes_only_with_the_status() {
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

    #[test]
    fn control_characters_in_a_message_are_escaped() {
        let mut conditions = Conditions::new(&[], None, Timestamp::UNIX_EPOCH);
        conditions.set("Ready", false, "NotAnImage", "it is \u{1b}[2J\u{9b}x\nnext");
        let all = conditions.into_vec();
        assert_eq!(all[0].message, "it is \\u001b[2J\\u009bx\nnext");
    }
}
