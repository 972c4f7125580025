//! The last good plugin, in pieces that fit into ConfigMaps.
//!
//! An object in etcd may have about a megabyte, so a component of up to 900 KiB goes into the
//! `binaryData` of one ConfigMap and a larger one is split. Whatever comes back is put together and hashed
//! before anybody believes it.

use crate::digest::Digest;

/// What fits into one ConfigMap with room for its metadata; base64 is not counted by the API server.
const PART_BYTES: usize = 900 << 10;
/// 16 parts are 14 MiB: the largest component any rule is expected to allow.
pub const MAX_PARTS: usize = 16;

/// Why a component is not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It would need too many objects.
    #[error(
        "the component has {size} bytes and at most {} are kept in the cluster; after a restart it is fetched again",
        MAX_PARTS * PART_BYTES
    )]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// What was kept is not what was put there.
    #[error(
        "the kept parts have digest {found}, not {expected}; they are ignored and the plugin is fetched again"
    )]
    Damaged {
        /// The digest they should have.
        expected: Digest,
        /// The digest they have.
        found: Digest,
    },
}

/// Splits a component into pieces for one ConfigMap each, in order.
pub fn split(component: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let parts: Vec<_> = component.chunks(PART_BYTES).collect();
    if parts.len() > MAX_PARTS {
        return Err(Error::TooLarge {
            size: component.len(),
        });
    }
    Ok(parts)
}

/// Puts the pieces together again and checks the whole.
pub fn join<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
    expected: &Digest,
) -> Result<Vec<u8>, Error> {
    let whole = parts.into_iter().collect::<Vec<_>>().concat();
    let found = Digest::of(&whole);
    match found == *expected {
        true => Ok(whole),
        false => Err(Error::Damaged {
            expected: expected.clone(),
            found,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_whole_and_what_does_not_comes_back_together() {
        for (size, count) in [
            (1, 1),
            (PART_BYTES, 1),
            (PART_BYTES + 1, 2),
            (MAX_PARTS * PART_BYTES, 16),
        ] {
            let component: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let parts = split(&component).unwrap();
            assert_eq!(parts.len(), count);
            assert!(parts.iter().all(|part| part.len() <= PART_BYTES));
            assert_eq!(join(parts, &Digest::of(&component)).unwrap(), component);
        }
        let huge = vec![0; MAX_PARTS * PART_BYTES + 1];
        assert_eq!(split(&huge), Err(Error::TooLarge { size: huge.len() }));
    }

    #[test]
    fn a_missing_swapped_or_changed_part_is_noticed() {
        let component: Vec<u8> = (0..PART_BYTES * 2).map(|n| (n / 7) as u8).collect();
        let digest = Digest::of(&component);
        let parts = split(&component).unwrap();
        assert!(join([parts[1], parts[0]], &digest).is_err());
        assert!(join([parts[0]], &digest).is_err());
        assert!(join([], &digest).is_err());
    }
}
