//! Suggestions for misspelt names, and other helpers for names.

/// Longer than any valid name: longer words are not compared, because that is expensive.
const LONGEST_WORD: usize = 64;

/// The candidates nearest to a misspelt word, best first, at most three.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Vec<&'c str> {
    if word.len() > LONGEST_WORD {
        return Vec::new();
    }
    let lower = word.to_ascii_lowercase();
    let mut best: Vec<(f64, &str)> = Vec::new();
    for candidate in candidates {
        let score = strsim::jaro_winkler(&lower, candidate);
        if score > 0.8 && !best.iter().any(|(_, known)| *known == candidate) {
            let place = best
                .iter()
                .position(|(other, _)| *other < score)
                .unwrap_or(best.len());
            best.insert(place, (score, candidate));
            best.truncate(3);
        }
    }
    best.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Inserts an item into a sorted list, unless the list contains it.
///
/// The lists are short, and a sorted collection of the standard library adds kilobytes of code to a
/// component for each item type.
pub(crate) fn insert_sorted<T: Ord>(list: &mut Vec<T>, item: T) {
    if let Err(place) = list.binary_search(&item) {
        list.insert(place, item);
    }
}

/// `did you mean …`, or the whole list if no candidate is similar.
pub(crate) fn choose<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    let near = nearest(word, all.iter().copied());
    if all.is_empty() {
        "remove it: there are no values to choose from".to_owned()
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

/// Converts a name to lower-case letters, digits and `_`, for tables and files.
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
