//! Suggesting what somebody meant.

/// The candidates nearest to a misspelt word, best first, at most three.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Vec<&'c str> {
    let lower = word.to_lowercase();
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored
        .into_iter()
        .take(3)
        .map(|(_, candidate)| candidate)
        .collect()
}

/// `did you mean …`, or the whole list when nothing is near.
pub(crate) fn choose<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    let near = nearest(word, all.iter().copied());
    if all.is_empty() {
        "leave it out: there is none to choose".to_owned()
    } else if near.is_empty() {
        format!("use one of: {}", all.join(", "))
    } else {
        format!(
            "did you mean {}? all: {}",
            near.join(" or "),
            all.join(", ")
        )
    }
}

/// Only letters, digits and `_`, in lower case: for table and file names.
pub(crate) fn plain(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect()
}
