//! The samples of both versions describe the same resources.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::process::Command;

use llsd_install::{checkout, program};
use serde_json::Value;

#[test]
fn every_v1alpha1_sample_converts_to_the_v1alpha2_sample_of_its_name() {
    let mut pairs = 0;
    for entry in std::fs::read_dir(checkout().join("samples/v1alpha1")).unwrap() {
        let v1alpha1 = entry.unwrap().path();
        let v1alpha2 = checkout()
            .join("samples")
            .join(v1alpha1.file_name().unwrap());
        let output = Command::new(program("LLSD_BIN").unwrap())
            .args(["convert", "--to", "v1alpha2", "--lift-env", "-f"])
            .arg(&v1alpha1)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", v1alpha1.display());
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        let converted = read(std::str::from_utf8(&output.stdout).unwrap());
        let expected = read(&std::fs::read_to_string(v1alpha2).unwrap());
        assert_eq!(converted, expected, "{}", v1alpha1.display());
        pairs += 1;
    }
    assert!(pairs >= 2);
}
