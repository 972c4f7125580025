//! `llsd plugin push`, `pull`, `verify` and `inspect`.

use std::path::Path;
use std::process::Command;

use llsd_testbed::Access;
use serde_json::Value;

use crate::{Setup, basic, component, json, printed, succeed, tool};

#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_plugin_is_pulled_unchanged() {
    let setup = Setup::start(true, basic()).await;
    let (file, reference) = (
        component("example-pack"),
        setup.reference("acme/pack:0.1.0"),
    );
    let push = ["plugin", "push", &reference, &file, "--output", "json"];
    let first = json(&setup.llsd(&push));
    assert_eq!(
        json(&setup.llsd(&push)),
        first,
        "the same bytes, the same manifest"
    );

    let manifest: Value =
        serde_json::from_str(&setup.crane(&["manifest", &reference]).await).unwrap();
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"][0]["digest"], first["componentDigest"]);
    let annotations = &manifest["annotations"];
    assert_eq!(
        annotations["org.opencontainers.image.title"],
        "example-pack"
    );
    let digest = setup.crane(&["digest", &reference]).await;
    assert_eq!(digest.trim(), first["manifestDigest"]);

    // A copy made by another client is the same plugin.
    let copy = setup.reference("mirror/pack:1");
    setup.crane(&["copy", &reference, &copy]).await;
    let back = setup.home.path().join("back.wasm");
    succeed(&setup.llsd(&["plugin", "pull", &copy, back.to_str().unwrap()]));
    assert_eq!(std::fs::read(back).unwrap(), std::fs::read(&file).unwrap());
    let shown = succeed(&setup.llsd(&["plugin", "inspect", &copy]));
    assert!(shown.contains("world     provider-pack"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_fails_conformance_is_not_tagged() {
    let setup = Setup::start(false, Access::Anyone).await;
    let (file, reference) = (
        component("example-pack"),
        setup.reference("acme/pack:0.1.0"),
    );
    let case = setup.home.path().join("golden/wrong");
    std::fs::create_dir_all(&case).unwrap();
    std::fs::write(case.join("request.json"), r#"{"call": "describe"}"#).unwrap();
    std::fs::write(case.join("answer.json"), r#"{"name": "another"}"#).unwrap();
    let fixtures = setup.home.path().join("golden");
    let fixtures = ["--fixtures", fixtures.to_str().unwrap()];
    let rejected = setup.llsd(&[&["plugin", "push", &reference, &file][..], &fixtures].concat());
    assert_eq!(rejected.status.code(), Some(1), "{}", printed(&rejected));
    assert!(
        printed(&rejected).contains("the tag was not written"),
        "{}",
        printed(&rejected)
    );
    let digest = setup.registry.crane().args(["digest", &reference]).run();
    digest.await.unwrap().failure().unwrap();

    let text = setup.home.path().join("text.wasm");
    std::fs::write(&text, "not a component").unwrap();
    let rejected = setup.llsd(&["plugin", "push", &reference, text.to_str().unwrap()]);
    assert_eq!(rejected.status.code(), Some(1), "{}", printed(&rejected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_published_once_and_under_its_own_tag() {
    let setup = Setup::start(false, Access::Anyone).await;
    let (file, reference) = (
        component("example-pack"),
        setup.reference("acme/pack:0.1.0"),
    );
    let push = |reference: &str, options: &[&str]| {
        setup.llsd(&[&["plugin", "push", reference, &file][..], options].concat())
    };
    succeed(&push(&reference, &[]));
    let digest = setup.crane(&["digest", &reference]).await;

    // Another manifest: the same component with one more annotation.
    let other = [
        "--annotation",
        "org.opencontainers.image.url=https://acme.example",
    ];
    let rejected = push(&reference, &other);
    assert_eq!(rejected.status.code(), Some(1), "{}", printed(&rejected));
    assert!(printed(&rejected).contains("is already published as sha256:"));
    assert_eq!(setup.crane(&["digest", &reference]).await, digest);

    let wrong = push(&setup.reference("acme/pack:0.2.0"), &[]);
    assert_eq!(wrong.status.code(), Some(1), "{}", printed(&wrong));
    assert!(printed(&wrong).contains("is not the plugin's version 0.1.0"));

    let moving = setup.reference("acme/pack:latest");
    succeed(&push(&moving, &[]));
    succeed(&push(&moving, &other));
    succeed(&push(&reference, &[&other[..], &["--force"]].concat()));
    assert_ne!(setup.crane(&["digest", &reference]).await, digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_apply_to_published_plugins() {
    let setup = Setup::start(false, Access::Anyone).await;
    let (file, reference) = (component("example-pack"), setup.reference("acme/pack:1"));
    let small = setup.home.path().join("small.yaml");
    std::fs::write(&small, "component: 10Ki\n").unwrap();
    let small = ["--limits", small.to_str().unwrap()];
    let with_limits = |arguments: &[&str]| setup.llsd(&[arguments, &small].concat());
    let push = ["plugin", "push", &reference, &file];
    let rejected = with_limits(&push);
    assert_eq!(rejected.status.code(), Some(1), "{}", printed(&rejected));
    assert!(printed(&rejected).contains("raise spec.limits.component of the SchemaPlugin"));
    succeed(&setup.llsd(&push));
    for command in ["verify", "inspect"] {
        let rejected = with_limits(&["plugin", command, &reference]);
        assert_eq!(rejected.status.code(), Some(1), "{}", printed(&rejected));
        assert!(printed(&rejected).contains("raise spec.limits.component of the SchemaPlugin"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_signatures_of_a_trusted_key_are_accepted() {
    let setup = Setup::start(false, Access::Anyone).await;
    let signer = |name: &str| {
        let folder = setup.home.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        cosign(&folder, &["generate-key-pair"]);
        folder
    };
    let (alice, bob) = (signer("alice"), signer("bob"));
    let public = |folder: &Path| folder.join("cosign.pub").display().to_string();
    for form in ["--new-bundle-format=true", "--new-bundle-format=false"] {
        let reference = setup.reference(&format!("acme/pack{}:1", form.len()));
        let push = ["plugin", "push", &reference, &component("example-pack")];
        let pinned = succeed(&setup.llsd(&push)).trim().to_owned();
        let verify = |key: &str| setup.llsd(&["plugin", "verify", &pinned, "--key", key]);
        let unsigned = verify(&public(&alice));
        assert_eq!(unsigned.status.code(), Some(1), "{}", printed(&unsigned));
        assert!(
            printed(&unsigned).contains("is not signed"),
            "{}",
            printed(&unsigned)
        );

        let key = alice.join("cosign.key").display().to_string();
        cosign(
            &alice,
            &[
                "sign",
                "--key",
                &key,
                "--tlog-upload=false",
                "--use-signing-config=false",
                "--allow-http-registry",
                "-y",
                form,
                &pinned,
            ],
        );
        succeed(&verify(&public(&alice)));
        let stranger = verify(&public(&bob));
        assert_eq!(stranger.status.code(), Some(1), "{}", printed(&stranger));
        assert!(
            printed(&stranger).contains("not by a trusted key"),
            "{}",
            printed(&stranger)
        );
        let file = setup.home.path().join("never.wasm");
        let arguments = [
            "plugin",
            "pull",
            &pinned,
            file.to_str().unwrap(),
            "--key",
            &public(&bob),
        ];
        assert_eq!(setup.llsd(&arguments).status.code(), Some(1));
        assert!(!file.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_attached_and_required_as_attestations() {
    const CONFORMANCE: &str = "https://llamastack.io/attestations/conformance/v1";
    const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
    let setup = Setup::start(false, Access::Anyone).await;
    let home = setup.home.path();
    let (reference, predicates) = (setup.reference("acme/pack:0.1.0"), home.join("predicates"));
    let sbom = home.join("sbom.json");
    std::fs::write(&sbom, r#"{"bomFormat":"CycloneDX"}"#).unwrap();
    let push = [
        "plugin",
        "push",
        &reference,
        &component("example-pack"),
        "--source",
        "git+https://acme.example/pack.git@0123abcd",
        "--builder",
        "https://acme.example/ci/7",
        "--sbom",
        sbom.to_str().unwrap(),
        "--predicates",
        predicates.to_str().unwrap(),
    ];
    let pinned = succeed(&setup.llsd(&push)).trim().to_owned();
    // A second push attaches nothing twice.
    succeed(&setup.llsd(&push));

    let digest = setup.crane(&["digest", &reference]).await;
    let tag = setup.reference(&format!("acme/pack:{}", digest.trim().replace(':', "-")));
    let index: Value = serde_json::from_str(&setup.crane(&["manifest", &tag]).await).unwrap();
    let types: Vec<&str> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["artifactType"].as_str().unwrap())
        .collect();
    let statement = "application/vnd.in-toto+json";
    assert_eq!(
        types,
        [statement, statement, "application/vnd.cyclonedx+json"]
    );
    let provenance = std::fs::read_to_string(predicates.join("provenance.json")).unwrap();
    assert!(provenance.contains("0123abcd") && provenance.contains("https://acme.example/ci/7"));

    cosign(home, &["generate-key-pair"]);
    let offline = ["--tlog-upload=false", "--use-signing-config=false"];
    let sign = [
        &["sign", "--key", "cosign.key", "--allow-http-registry", "-y"][..],
        &offline,
    ];
    cosign(home, &[&sign.concat()[..], &[&pinned]].concat());
    let key = home.join("cosign.pub").display().to_string();
    let verify = |types: &[&str]| {
        let required = types.iter().flat_map(|one| ["--require-attestation", one]);
        let mut arguments = vec!["plugin", "verify", &pinned, "--key", &key];
        arguments.extend(required);
        setup.llsd(&arguments)
    };
    succeed(&verify(&[]));
    let attest = |name: &str, kind: &str| {
        let predicate = predicates.join(name).display().to_string();
        let attest = [
            "attest",
            "--key",
            "cosign.key",
            "--allow-http-registry",
            "-y",
        ];
        let what = ["--predicate", &predicate, "--type", kind, &pinned];
        cosign(home, &[&attest[..], &offline, &what].concat());
    };
    // The attached statements are not signed, so they do not count.
    let missing = verify(&[CONFORMANCE]);
    assert_eq!(missing.status.code(), Some(1), "{}", printed(&missing));
    attest("conformance.json", CONFORMANCE);
    succeed(&verify(&[CONFORMANCE]));
    let missing = verify(&[CONFORMANCE, PROVENANCE]);
    assert_eq!(missing.status.code(), Some(1), "{}", printed(&missing));
    let expected = format!("has no attestation of type {PROVENANCE:?} by a trusted signer");
    assert!(
        printed(&missing).contains(&expected),
        "{}",
        printed(&missing)
    );
    attest("provenance.json", PROVENANCE);
    succeed(&verify(&[CONFORMANCE, PROVENANCE]));
}

fn cosign(folder: &Path, arguments: &[&str]) {
    let output = Command::new(tool("LLSD_COSIGN_BIN"))
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("COSIGN_PASSWORD", "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
}
