//! What is said to whoever wrote a resource: what is wrong, where, and how to put it right.
//!
//! A [`Rejection`] refuses the resource; a [`Notice`] lets it pass. All of them are reported at
//! once, in the order of their places.

use crate::field_path::FieldPath;
use crate::rules::Rule;

/// One reason to refuse a resource, addressed to whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{field}: {problem}; {fix}")]
pub struct Rejection {
    /// Where it stands.
    pub field: FieldPath,
    /// What is wrong, in lower case, without a full stop.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// Something that works, but probably not as its author thinks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{field}: {problem}; {fix}")]
pub struct Notice {
    /// Where it stands.
    pub field: FieldPath,
    /// What is surprising, in lower case, without a full stop.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

/// Every reason to refuse a resource, sorted by place. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Rejections(Vec<Rejection>);

impl Rejections {
    /// Sorts, removes repetitions, and says `None` when there is nothing to refuse.
    pub fn new(mut rejections: Vec<Rejection>) -> Option<Self> {
        rejections.sort();
        rejections.dedup();
        (!rejections.is_empty()).then_some(Self(rejections))
    }

    /// The rejections in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Rejection> {
        self.0.iter()
    }

    /// How many there are; at least one.
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The rejections of both, in order.
    #[must_use]
    pub fn and(mut self, more: impl IntoIterator<Item = Rejection>) -> Self {
        self.0.extend(more);
        self.0.sort();
        self.0.dedup();
        self
    }
}

impl From<Rejection> for Rejections {
    fn from(rejection: Rejection) -> Self {
        Self(vec![rejection])
    }
}

impl IntoIterator for Rejections {
    type Item = Rejection;
    type IntoIter = std::vec::IntoIter<Rejection>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Rejections {
    type Item = &'a Rejection;
    type IntoIter = std::slice::Iter<'a, Rejection>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Collects what the checks find, so that each can go on after a problem.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) rejections: Vec<Rejection>,
    pub(crate) notices: Vec<Notice>,
}

impl Findings {
    pub(crate) fn refuse(
        &mut self,
        field: &FieldPath,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.rejections.push(Rejection {
            field: field.clone(),
            problem: problem.into(),
            fix: fix.into(),
        });
    }

    /// Refuses what breaks a rule, in the rule's own words.
    pub(crate) fn breaks(&mut self, rule: &Rule, field: &FieldPath) {
        self.refuse(field, rule.problem, rule.fix);
    }

    pub(crate) fn note(
        &mut self,
        field: &FieldPath,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.notices.push(Notice {
            field: field.clone(),
            problem: problem.into(),
            fix: fix.into(),
        });
    }
}

/// Names the choices when they are few, and the nearest when they are many: the tail of a fix.
pub fn choices<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    if let Some(near) = nearest(wrong, known.iter().copied()) {
        return format!("did you mean {near:?}?");
    }
    match known.as_slice() {
        [] => "remove it".to_owned(),
        [one] => format!("use {one}"),
        many => format!("use one of: {}", many.join(", ")),
    }
}

/// The known name that `wrong` was probably meant to be.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(wrong);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &fold(name)), name))
        // A third of the letters may be wrong: more is another word.
        .filter(|(distance, name)| {
            *distance <= name.chars().count().max(folded.chars().count()) / 3
        })
        .min()
        .map(|(_, name)| name)
}

/// `api_key`, `apikey` and `apiKey` differ in nothing that matters to a reader.
fn fold(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

fn lines(rejections: &[Rejection]) -> String {
    let lines: Vec<String> = rejections.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(field: &str) -> Rejection {
        Rejection {
            field: FieldPath::root().field(field),
            problem: "is wrong".into(),
            fix: "mend it".into(),
        }
    }

    #[test]
    fn rejections_are_sorted_and_said_once() {
        let all = Rejections::new(vec![rejection("b"), rejection("a"), rejection("b")]).unwrap();
        assert_eq!(
            all.to_string(),
            "a: is wrong; mend it\nb: is wrong; mend it"
        );
        assert_eq!(all.len(), 2);
        assert_eq!(all.clone().and([rejection("a"), rejection("c")]).len(), 3);
        assert_eq!((&all).into_iter().count(), 2);
        assert_eq!(all.into_iter().next(), Some(rejection("a")));
        assert_eq!(Rejections::new(Vec::new()), None);
        assert_eq!(Rejections::from(rejection("a")).len(), 1);
    }

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_gets_the_list() {
        let known = ["apiKey", "endpoint", "id"];
        assert_eq!(choices("api_key", known), r#"did you mean "apiKey"?"#);
        assert_eq!(choices("endpiont", known), r#"did you mean "endpoint"?"#);
        assert_eq!(
            choices("temperature", known),
            "use one of: apiKey, endpoint, id"
        );
        assert_eq!(choices("temperature", ["id"]), "use id");
        assert_eq!(choices("temperature", []), "remove it");
    }

    #[test]
    fn a_notice_reads_like_a_rejection() {
        let mut findings = Findings::default();
        findings.note(&FieldPath::spec(), "is odd", "look again");
        assert_eq!(findings.notices[0].to_string(), "spec: is odd; look again");
    }
}
