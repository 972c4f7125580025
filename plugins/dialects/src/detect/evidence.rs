//! Which dialects read which keys, provider types and forms: only what not all of them read.
//!
//! `catalog/evidence.txt` is generated from the dialects, their catalogues and `catalog/layouts.txt`
//! by the test below, because an adapter carries the catalogue of its own dialects only. A line holds
//! the API and type of a provider (or `@` and a section of the file), one character per dialect, and the
//! keys that differ, with one bit per dialect: `inference remote::vllm 11111111 base_url=1f url=e0`. A
//! key after `!` is required by some, and the bits are those of the dialects that do without it.

use llsd_adapter_sdk::Release;

use crate::catalog::slice::{self, Line, Merged, Slice};

static EVIDENCE: Slice = {
    const TEXT: &str = include_str!("../../catalog/evidence.txt");
    const LINES: [Line; slice::count_lines(TEXT)] = Merged::of(&[TEXT]).index(TEXT);
    Slice {
        from: Release::first(0, 0, 0),
        text: TEXT,
        lines: &LINES,
    }
};

/// The first word of lines about the file itself; others are about a provider type.
pub(super) const FILE: &str = "@";
/// The second word of the line about top-level keys. Other lines name their section such that the
/// name followed by the key is what a user reads.
pub(super) const TOP: &str = ".";

/// A line of the evidence.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The API, or `@`.
    pub(super) section: &'static str,
    /// The provider type, or the section of the file.
    pub(super) name: &'static str,
    /// A character per dialect: `1` has the type or section, `0` does not, `.` does not even have the
    /// API.
    pub(super) known: &'static str,
    keys: &'static str,
}

/// The line of a provider type, or of a section of the file under `@`.
pub(super) fn row(section: &str, name: &str) -> Option<Row> {
    let [section, name, rest] = EVIDENCE.row(section, name)?;
    let (known, keys) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Row {
        section,
        name,
        known,
        keys,
    })
}

/// What marks a required key in a line.
pub(super) const REQUIRED: char = '!';

impl Row {
    /// A key that not all dialects read, and the bits of those that do.
    pub(super) fn key(&self, wanted: &str) -> Option<(&'static str, &'static str)> {
        self.keys.split(' ').find_map(|word| {
            let readers = word.strip_prefix(wanted)?.strip_prefix('=')?;
            Some((word.get(..wanted.len())?, readers))
        })
    }

    /// The keys that some dialects require: the word that stands for a missing one, the key, and the
    /// bits of the dialects that do without it. They come before the other keys.
    pub(super) fn required(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.keys.split(' ').map_while(|word| {
            let (word, readers) = word.split_once('=')?;
            Some((word, word.strip_prefix(REQUIRED)?, readers))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write as _;

    use super::*;
    use crate::catalog::{Catalog, Filling, Provider, Unknown};
    use crate::dialects::{ALL, DIALECTS};
    use crate::env::Syntax;
    use crate::layout::{Dialect, Kind, State};

    const LAYOUTS: &str = include_str!("../../catalog/layouts.txt");

    /// One character per dialect; `None` is not concerned.
    fn readers(reads: impl Fn(&'static Dialect) -> Option<bool>) -> String {
        ALL.iter()
            .map(|dialect| match reads(dialect) {
                Some(true) => '1',
                Some(false) => '0',
                None => '.',
            })
            .collect()
    }

    /// A line, unless it tells nothing apart.
    fn line(section: &str, name: &str, known: &str, keys: BTreeMap<String, String>) -> String {
        let mut text = format!("{section} {name} {known}");
        let differs = |readers: &str| readers.contains('0') && readers.contains('1');
        for (key, readers) in keys.iter().filter(|(_, readers)| differs(readers)) {
            write!(text, " {key}={}", bits(readers)).unwrap();
        }
        if text.contains('=') || known.contains('0') {
            text + "\n"
        } else {
            String::new()
        }
    }

    /// Four dialects in each hexadecimal digit, the oldest in the highest bit.
    fn bits(readers: &str) -> String {
        let digit = |four: &[u8]| {
            let bit = |place: usize| u32::from(four.get(place) == Some(&b'1')) << (3 - place);
            char::from_digit((0..4).map(bit).sum(), 16).unwrap()
        };
        readers.as_bytes().chunks(4).map(digit).collect()
    }

    fn everywhere() -> String {
        readers(|_| Some(true))
    }

    /// The keys of a section, by dialect: those of all its releases in the list.
    fn layout(section: &str) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut by_dialect: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for line in LAYOUTS.lines() {
            let [slice, of, keys] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            if of != section {
                continue;
            }
            let (_, release) = slice.rsplit_once('-').unwrap();
            let release = Release::parse(release).unwrap();
            let dialect = ALL.iter().rfind(|dialect| release >= dialect.from).unwrap();
            // Later releases still accept tool groups in the file, and ignore them.
            let reads = |key: &&str| *key != "tool_groups" || dialect.tool_groups;
            let known = by_dialect.entry(dialect.id).or_default();
            known.extend(keys.split(',').filter(reads));
        }
        by_dialect
    }

    fn section(section: &str, name: &str) -> String {
        let by_dialect = layout(section);
        let all: BTreeSet<&str> = by_dialect.values().flatten().copied().collect();
        let keys = all.iter().map(|key| {
            let reads = readers(|dialect| Some(by_dialect.get(dialect.id)?.contains(key)));
            ((*key).to_owned(), reads)
        });
        let known = readers(|dialect| by_dialect.get(dialect.id).map(|_| true));
        line(FILE, name, &known, keys.collect())
    }

    fn forms(name: &str, forms: &[(&str, String)]) -> String {
        let keys = forms
            .iter()
            .map(|(form, reads)| ((*form).to_owned(), reads.clone()));
        line(FILE, name, &everywhere(), keys.collect())
    }

    fn sql_stores() -> String {
        let stores = |dialect: &'static Dialect| match dialect.state {
            State::Backends(stores) => stores,
            State::Blocks => &[],
        };
        let all: BTreeSet<&str> = ALL.iter().flat_map(|d| stores(d)).map(|s| s.name).collect();
        let keys = all.iter().map(|name| {
            let reads = readers(|dialect| {
                let store = stores(dialect).iter().find(|store| store.name == *name)?;
                Some(store.kind == Kind::Sql)
            });
            // Only a store that is a table somewhere: elsewhere the key tells nothing apart.
            let reads = if reads.contains('1') {
                reads
            } else {
                everywhere()
            };
            ((*name).to_owned(), reads)
        });
        let known = readers(|dialect| (!stores(dialect).is_empty()).then_some(true));
        line(FILE, "table_name:", &known, keys.collect())
    }

    fn providers() -> String {
        let mut all: BTreeSet<(&str, &str)> = BTreeSet::new();
        for dialect in ALL {
            let catalog = Catalog::of(dialect, None);
            for api in catalog.apis() {
                all.extend(
                    catalog
                        .types(api)
                        .iter()
                        .map(|known| (api, known.provider_type)),
                );
            }
        }
        let mut text = String::new();
        for (api, kind) in all {
            let slices = |dialect: &'static Dialect| {
                let found = dialect.slices.iter().filter_map(|slice| {
                    let release = Some(slice.from);
                    Catalog::of(dialect, release).find(api, kind)
                });
                found.collect::<Vec<_>>()
            };
            let known = readers(|dialect| {
                let has_api = Catalog::of(dialect, None).apis().contains(&api);
                has_api.then(|| !slices(dialect).is_empty())
            });
            let names: BTreeSet<&str> = ALL
                .iter()
                .flat_map(|dialect| slices(dialect))
                .flat_map(|provider| {
                    provider
                        .fields()
                        .map(|field| field.name)
                        .collect::<Vec<_>>()
                })
                .collect();
            let keys = names.iter().map(|key| {
                let reads = readers(|dialect| {
                    let found = slices(dialect);
                    let reads = found.iter().any(|provider| {
                        provider.field(key).is_some() || provider.unknown() == Unknown::Kept
                    });
                    (!found.is_empty()).then_some(reads)
                });
                ((*key).to_owned(), reads)
            });
            let required = names.iter().map(|key| {
                let does_without = readers(|dialect| {
                    let found = slices(dialect);
                    let requires = |provider: &Provider| {
                        provider.field(key).is_some_and(|field| {
                            field.is_required && field.filling == Filling::Nothing
                        })
                    };
                    (!found.is_empty()).then(|| !found.iter().all(requires))
                });
                (format!("{REQUIRED}{key}"), does_without)
            });
            text += &line(api, kind, &known, keys.chain(required).collect());
        }
        text
    }

    fn apis() -> String {
        let all: BTreeSet<&str> = ALL
            .iter()
            .flat_map(|d| Catalog::of(d, None).apis())
            .collect();
        let keys = all.iter().map(|api| {
            let reads = readers(|d| Some(Catalog::of(d, None).apis().contains(api)));
            ((*api).to_owned(), reads)
        });
        line(FILE, "apis.", &everywhere(), keys.collect())
    }

    fn homes() -> String {
        let all: BTreeSet<&str> = ALL.iter().flat_map(|d| d.homes).copied().collect();
        let keys = all.iter().map(|home| {
            let reads = readers(|dialect| Some(dialect.homes.contains(home)));
            (home.trim_start_matches("~/").to_owned(), reads)
        });
        line(FILE, "~/", &everywhere(), keys.collect())
    }

    #[test]
    fn the_evidence_is_what_dialects_catalogues_and_layouts_give() {
        let blocks = readers(|d| Some(matches!(d.state, State::Blocks)));
        let references = readers(|d| Some(matches!(d.state, State::Backends(_))));
        let colon = readers(|d| Some(d.env == Syntax::Colon));
        let plain = readers(|d| Some(d.env == Syntax::Plain));
        let number = readers(|d| Some(!d.text_version));
        let mut lines: Vec<String> = [
            apis(),
            homes(),
            section("registered_resources", "registered_resources."),
            section("server", "server."),
            section("stores", "storage.stores."),
            section("top", TOP),
            section("vector_stores", "vector_stores."),
            sql_stores(),
            forms("state:", &[("block", blocks), ("reference", references)]),
            forms(
                "variables:",
                &[("${env.X:=default}", colon), ("${env.X:default}", plain)],
            ),
            forms("version:", &[("integer", number)]),
            providers(),
        ]
        .iter()
        .flat_map(|text| text.lines())
        .map(str::to_owned)
        .collect();
        lines.sort_by_key(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            (words.next(), words.next())
        });
        let text = lines.join("\n") + "\n";
        if std::env::var_os("LLSD_GOLDEN").is_some_and(|value| value == "rewrite") {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/catalog/evidence.txt");
            std::fs::write(path, &text).unwrap();
            return;
        }
        assert!(
            text == EVIDENCE.text,
            "catalog/evidence.txt is stale; run this test with LLSD_GOLDEN=rewrite"
        );
    }

    #[test]
    fn every_dialect_has_a_layout_and_every_line_of_the_evidence_a_column_for_it() {
        for dialect in ALL {
            for section in ["top", "server"] {
                assert!(layout(section).contains_key(dialect.id), "{}", dialect.id);
            }
        }
        for line in EVIDENCE.text.lines() {
            for word in line.split(' ').skip(2) {
                match word.rsplit_once('=') {
                    Some((_, bits)) => assert_eq!(bits.len(), DIALECTS.len().div_ceil(4), "{line}"),
                    None => assert_eq!(word.len(), DIALECTS.len(), "{line}"),
                }
            }
        }
    }
}
