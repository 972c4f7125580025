//! `sha256:…` of a text.

use sha2::{Digest, Sha256};

pub(crate) fn of(text: &str) -> String {
    let digits: String = Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}
