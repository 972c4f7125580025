//! The samples of both versions, beside each other.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::process::Command;

use llsd_install::{checkout, program};
use serde_json::Value;

#[test]
fn each_older_sample_becomes_the_newer_one_of_its_name() {
    let mut pairs = 0;
    for entry in std::fs::read_dir(checkout().join("samples/v1alpha1")).unwrap() {
        let older = entry.unwrap().path();
        let newer = checkout().join("samples").join(older.file_name().unwrap());
        let output = Command::new(program("LLSD_BIN").unwrap())
            .args(["convert", "--to", "v1alpha2", "--lift-env", "-f"])
            .arg(&older)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", older.display());
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        let converted = read(std::str::from_utf8(&output.stdout).unwrap());
        let written = read(&std::fs::read_to_string(newer).unwrap());
        assert_eq!(converted, written, "{}", older.display());
        pairs += 1;
    }
    assert!(pairs >= 2);
}
