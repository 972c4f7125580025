//! Which dialect is a base written in?
//!
//! The integer `version` is the same in all of them, and real bases carry keys of other dialects. So
//! every key that not all dialects read is a [`Sign`](signs::Sign) with points against the dialects
//! that would drop it or refuse it. Dialects are compared in pairs, by the signs that tell the two
//! apart. A dialect is the answer only when it clearly beats every other one; otherwise all that are
//! not clearly beaten are candidates, and the user decides.

mod evidence;
mod signs;

use llsd_adapter_sdk::documents::Hints;
use llsd_adapter_sdk::serde_json::Value;
use llsd_adapter_sdk::{Candidate, Detection, Release};

use crate::dialects::DIALECTS;
use crate::layout::Dialect;
use signs::{DROPPED, REFUSED, Sign, Signs};

/// How many dialects there are.
const COUNT: usize = DIALECTS.len();

/// A dialect clearly beats another when the points against the other are this many times its own.
/// With equal points on both sides, or twice as many, vendors' bases are of either dialect.
const RATIO: u32 = 3;
/// A base with fewer APIs than this lacks most signs, so that one dropped key decides nothing.
const ENOUGH_APIS: usize = 5;
/// The points of two refused keys: a dialect with so many against it is not worth offering.
const NOT_OFFERED: u32 = 2 * REFUSED;
/// How many signs are listed for and against a candidate.
const LISTED_SIGNS: usize = 4;

pub(crate) fn detect(served: &[&'static Dialect], base: &Value, hints: &Hints) -> Detection {
    if let Some(stated) = stated(hints) {
        let is_served = |id: &&str| served.iter().any(|dialect| dialect.id == *id);
        return match stated.filter(is_served) {
            Some(id) => Detection::One(id.to_owned()),
            None => Detection::None,
        };
    }
    let Some(signs) = Signs::of(base) else {
        return Detection::None;
    };
    let candidates = candidates(&signs);
    let mut ours: Vec<String> = served
        .iter()
        .filter_map(|dialect| {
            let place = candidates
                .iter()
                .copied()
                .find(|place| DIALECTS.get(*place).is_some_and(|d| d.id == dialect.id))?;
            Some(if hints.weigh {
                weighed(dialect.id, place, &candidates, &signs.list).to_text()
            } else {
                dialect.id.to_owned()
            })
        })
        .collect();
    match (ours.len(), candidates.len()) {
        (0, _) => Detection::None,
        (1, 1) => Detection::One(ours.remove(0)),
        _ => Detection::OneOf(ours),
    }
}

/// The dialect that a hint names: by its id, or by the release of the package. `Some(None)` when the
/// hint names one that does not exist.
fn stated(hints: &Hints) -> Option<Option<&'static str>> {
    let label = |name: &str| hints.labels.get(name).map(String::as_str);
    if let Some(schema) = hints
        .schema
        .as_deref()
        .or_else(|| label("io.llamastack.config.schema"))
    {
        return Some(DIALECTS.iter().find(|d| d.id == schema).map(|d| d.id));
    }
    let release = Release::parse(hints.server_version.as_deref()?)?;
    Some(
        DIALECTS
            .iter()
            .rfind(|dialect| release >= dialect.first)
            .map(|dialect| dialect.id),
    )
}

/// The places in [`DIALECTS`] of the dialects that a base may be written in, oldest first.
fn candidates(signs: &Signs) -> Vec<usize> {
    let against = compare(&signs.list);
    let clearly = if signs.apis < ENOUGH_APIS { REFUSED } else { 1 };
    let left = unbeaten(&against, clearly);
    match left.as_slice() {
        [_] => left,
        [older, newer] if is_same_file(&against, *older, *newer) => vec![*older],
        _ => unbeaten(&against, NOT_OFFERED),
    }
}

/// `[a][b]`: the points against dialect `a` of the signs that `b` reads.
fn compare(signs: &[Sign]) -> [[u32; COUNT]; COUNT] {
    let mut against = [[0; COUNT]; COUNT];
    for sign in signs {
        for (place, row) in against.iter_mut().enumerate() {
            if !sign.is_against(place) {
                continue;
            }
            for (other, points) in row.iter_mut().enumerate() {
                if !sign.is_against(other) {
                    *points += sign.points;
                }
            }
        }
    }
    against
}

/// The dialects that no other beats by at least `least` points.
fn unbeaten(against: &[[u32; COUNT]; COUNT], least: u32) -> Vec<usize> {
    (0..COUNT)
        .filter(|place| {
            !(0..COUNT).any(|other| {
                let lost = against[*place][other];
                lost >= least && lost >= RATIO * against[other][*place]
            })
        })
        .collect()
}

/// Whether no sign tells two neighbours apart, and the newer one reads what the older one writes.
fn is_same_file(against: &[[u32; COUNT]; COUNT], older: usize, newer: usize) -> bool {
    newer == older + 1
        && DIALECTS.get(newer).is_some_and(|d| d.reads_previous)
        && against[older][newer] == 0
        && against[newer][older] == 0
}

/// A candidate with its points, and the signs that tell it apart from the other candidates.
fn weighed(id: &str, place: usize, candidates: &[usize], signs: &[Sign]) -> Candidate {
    let differs = |sign: &&Sign| {
        let is_against = |place: &usize| sign.is_against(*place);
        candidates.iter().any(is_against) && !candidates.iter().all(is_against)
    };
    let listed = |is_against: bool| {
        // What a server refuses comes first.
        [REFUSED, DROPPED]
            .into_iter()
            .flat_map(|points| signs.iter().filter(move |sign| sign.points == points))
            .filter(differs)
            .filter(|sign| sign.is_against(place) == is_against)
            .take(LISTED_SIGNS)
            .map(Sign::to_string)
            .collect()
    };
    Candidate {
        schema: id.to_owned(),
        points: Some(
            signs
                .iter()
                .filter(|sign| sign.is_against(place))
                .map(|sign| sign.points)
                .sum(),
        ),
        supports: listed(false),
        contradicts: listed(true),
    }
}

#[cfg(test)]
#[allow(
    clippy::print_stdout,
    reason = "the counts are of interest when the test passes"
)]
mod tests {
    use super::*;
    use crate::dialects::ALL;

    /// Skeletons of bases that vendors publish, with the dialect of the release that they run.
    const VENDOR_BASES: &str = include_str!("../tests/fixtures/vendor-bases.jsonl");

    fn place(id: &str) -> usize {
        DIALECTS.iter().position(|d| d.id == id).unwrap()
    }

    #[test]
    fn no_base_of_a_vendor_is_taken_for_another_dialect() {
        let (mut right, mut same, mut offered) = (0, 0, 0);
        let (mut missed, mut wrong) = (Vec::new(), Vec::new());
        for line in VENDOR_BASES.lines() {
            let case: Value = llsd_adapter_sdk::serde_json::from_str(line).unwrap();
            let (id, truth) = (&case["id"], case["dialect"].as_str().unwrap());
            match detect(ALL, &case["base"], &Hints::default()) {
                Detection::One(found) if found == truth => right += 1,
                Detection::One(found) => {
                    let against = compare(&Signs::of(&case["base"]).unwrap().list);
                    // No sign tells the two apart, so that what is generated for one serves both.
                    if is_same_file(&against, place(&found), place(truth)) {
                        same += 1;
                    } else {
                        wrong.push(format!("{id}: {found} instead of {truth}"));
                    }
                }
                Detection::OneOf(ids) if ids.iter().any(|id| id == truth) => offered += 1,
                other => missed.push(format!("{id}: {truth} is not offered: {other:?}")),
            }
        }
        let all = VENDOR_BASES.lines().count();
        println!(
            "{all} bases: {right} right, {same} read alike by two dialects, {offered} questions that \
             offer the truth, {} that do not, {} wrong",
            missed.len(),
            wrong.len()
        );
        assert!(wrong.is_empty(), "{wrong:#?}");
        let good = right + same + offered;
        assert!(good * 100 >= all * 95, "{good} of {all}: {missed:#?}");
    }
}
