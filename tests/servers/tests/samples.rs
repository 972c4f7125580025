//! Every sample on the starter of every release: accepted by the release itself, no key dropped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use llsd_render::yaml;
use llsd_servers::{RELEASES, Release, judge, render, samples};

/// What a release cannot do, and where the refusal must point.
const REFUSED: [(&str, &str, &str); 1] = [("ogx-1.5.0", "full", "spec.providers.safety")];

fn samples_are_accepted_by(release: Release) {
    let folder = tempfile::tempdir().unwrap();
    let base = release.starter().unwrap();
    let mut generated = Vec::new();
    for sample in samples().unwrap() {
        let name = sample.file_stem().unwrap().to_str().unwrap();
        let answer = render(&sample, &base, &["--server-version", release.version()]).unwrap();
        let refused = REFUSED
            .iter()
            .find(|(who, what, _)| (*who, *what) == (release.name, name));
        match (answer, refused) {
            (Ok(report), None) => {
                assert_eq!(report["schema"], release.schema, "{name}");
                let file = folder.path().join(format!("{name}.yaml"));
                std::fs::write(&file, yaml::write(&report["config"])).unwrap();
                generated.push(file);
            }
            (Err(talk), Some((_, _, field))) => assert!(talk.contains(field), "{name}: {talk}"),
            (Ok(_), Some(_)) => panic!("{name} should be refused"),
            (Err(talk), None) => panic!("{name} was refused: {talk}"),
        }
    }
    assert!(!generated.is_empty());
    for (file, verdict) in judge(release, &generated).unwrap() {
        assert!(
            verdict.errors().is_empty(),
            "{}: {:#?}\n{}",
            file.display(),
            verdict.errors(),
            std::fs::read_to_string(&file).unwrap()
        );
    }
}

macro_rules! releases {
    ($($name:ident: $index:literal),+) => {
        $(#[test]
        fn $name() {
            samples_are_accepted_by(RELEASES[$index]);
        })+
    };
}

releases! {
    samples_are_accepted_by_0_2_12: 0,
    samples_are_accepted_by_0_2_24: 1,
    samples_are_accepted_by_0_3_5: 2,
    samples_are_accepted_by_0_4_7: 3,
    samples_are_accepted_by_0_5_4: 4,
    samples_are_accepted_by_0_6_1: 5,
    samples_are_accepted_by_0_7_3: 6,
    samples_are_accepted_by_ogx_1_5_0: 7
}

#[test]
fn the_bases_built_into_the_binary_are_accepted_by_their_release() {
    let release = RELEASES[6];
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (name, known) in llsd_render::distributions::builtin() {
        let Some(base) = known.base else { continue };
        assert_eq!(known.schema.as_deref(), Some(release.schema));
        let file = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, base).unwrap();
        files.push(file);
    }
    for (file, verdict) in judge(release, &files).unwrap() {
        assert!(
            verdict.errors().is_empty(),
            "{}: {:#?}",
            file.display(),
            verdict.errors()
        );
    }
}
