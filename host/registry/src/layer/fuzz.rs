//! Random and damaged layers: a search ends with a result or an error, and never panics.

use proptest::prelude::*;

use super::tests::{gzip, layer, zstd};
use super::*;

/// Entries with hostile names, kinds and sizes.
fn entries() -> impl Strategy<Value = Vec<(String, u8, Vec<u8>)>> {
    let name = prop_oneof![
        Just("run.yaml".to_owned()),
        Just("../run.yaml".to_owned()),
        "[a-z./\u{1b}]{1,90}",
    ];
    let kind = prop_oneof![
        Just(b'0'),
        Just(b'1'),
        Just(b'2'),
        Just(b'5'),
        Just(b'x'),
        Just(b'L'),
        any::<u8>()
    ];
    let content = prop::collection::vec(any::<u8>(), 0..90);
    prop::collection::vec((name, kind, content), 0..12)
}

fn archive(entries: &[(String, u8, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, kind, content)| {
            (
                name.as_str(),
                tar::EntryType::new(*kind),
                content.as_slice(),
            )
        })
        .collect();
    layer(&entries)
}

/// Changes some bytes, as a hostile registry would.
pub(crate) fn damaged_copy(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
    }
    bytes
}

proptest! {
    #[test]
    fn any_layer_is_searched_within_its_limits_or_refused(
        entries in entries(),
        compression in 0..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let plain = archive(&entries);
        let bytes = match compression {
            0 => plain,
            1 => gzip(&plain),
            _ => zstd(&plain),
        };
        let limits = ScanLimits { unpacked_bytes: 1 << 20, file_bytes: 1 << 10 };
        for query in [
            FileQuery::Path(LayerPath::parse("run.yaml").unwrap()),
            FileQuery::Content(Digest::of(b"")),
        ] {
            let found = scan(&damaged_copy(bytes.clone(), &changes)[..], &query, limits);
            match found {
                Ok(Found::File { content, .. }) => prop_assert!(content.len() <= 1 << 10),
                Ok(_) => {}
                Err(error) => prop_assert!(error.to_string().len() < 5_000),
            }
        }
    }
}
