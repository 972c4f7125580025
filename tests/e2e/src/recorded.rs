//! The encoding of recorded resolutions: base64 of gzip.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Decodes a recorded resolution.
pub fn gunzip(encoded: &str) -> Vec<u8> {
    let compressed = STANDARD.decode(encoded).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(compressed.as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// Encodes a recorded resolution.
pub fn gzip(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    STANDARD.encode(encoder.finish().unwrap())
}
