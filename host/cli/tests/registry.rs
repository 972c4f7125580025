//! The commands that ask a registry, against a real one: what is written is read back, by us and by others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use llsd_testbed::{Access, Registry, RegistryOptions};
use serde_json::Value;
use tempfile::TempDir;

const PASSWORD: &str = "s3cret-canary";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tool(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run the tests through `cargo xtask test`")
    })
}

fn component(name: &str) -> String {
    format!("{}/{name}.wasm", tool("LLSD_PLUGINS"))
}

/// A registry, and a folder for who uses it.
struct Bench {
    registry: Registry,
    home: TempDir,
}

impl Bench {
    async fn start(tls: bool, access: Access) -> Self {
        let registry = Registry::start(&RegistryOptions { tls, access }).await;
        Self {
            registry: registry.unwrap(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.registry.host())
    }

    /// `llsd` with what it takes to reach this registry.
    fn llsd(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llsd"));
        command
            .args(arguments)
            .current_dir(root())
            .env("DOCKER_CONFIG", self.registry.docker_config())
            // One for all tests and runs: what is compiled once need not be compiled again.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        match self.registry.ca_certificate() {
            Some(authority) => command.arg("--registry-ca").arg(authority),
            // The token service is another port of the same machine.
            None => command.args([
                "--plain-http",
                self.registry.host(),
                "--plain-http",
                "localhost",
            ]),
        };
        command.args(["--allow-address", "localhost"]);
        command.output().unwrap()
    }

    async fn crane(&self, arguments: &[&str]) -> String {
        let run = self.registry.crane().args(arguments).run().await;
        run.unwrap().success().unwrap()
    }

    /// An image with one file and no labels.
    async fn push_image(&self, rest: &str) -> String {
        let reference = self.reference(rest);
        let layer = self.home.path().join("layer.tar");
        std::fs::write(&layer, [0; 1024]).unwrap();
        let layer = layer.to_str().unwrap();
        self.crane(&["append", "--new_tag", &reference, "--new_layer", layer])
            .await;
        reference
    }

    /// How many requests were answered so far.
    async fn requests(&self) -> usize {
        self.registry.requests().await.unwrap().len()
    }
}

fn basic() -> Access {
    Access::Basic {
        user: "puller".to_owned(),
        password: PASSWORD.to_owned(),
    }
}

fn token() -> Access {
    Access::Token {
        user: "puller".to_owned(),
        password: PASSWORD.to_owned(),
        anonymous_pull: false,
    }
}

fn said(output: &Output) -> String {
    let (data, talk) = (&output.stdout, &output.stderr);
    format!(
        "{}\n{}",
        String::from_utf8_lossy(data),
        String::from_utf8_lossy(talk)
    )
}

fn succeed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&succeed(output)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_labelled_by_us_is_rendered_from_every_kind_of_registry() {
    let config = "host/render/distributions/starter.yaml";
    for (tls, access) in [
        (false, Access::Anyone),
        (true, basic()),
        (true, token()),
        (false, token()),
    ] {
        let bench = Bench::start(tls, access).await;
        let build = bench.push_image("acme/stack:build").await;
        let labelled = bench.llsd(&[
            "image",
            "label",
            &build,
            "--config",
            config,
            "--schema",
            "llama-stack/0.7",
            "--tag",
            "1",
            "--output",
            "json",
        ]);
        let labelled = json(&labelled);
        let image = bench.reference("acme/stack:1");
        assert_eq!(labelled["reference"], image.as_str());

        let render = ["render", "-f", "samples/minimal.yaml", "--image"];
        let rendered = succeed(&bench.llsd(&[&render[..], &[&image]].concat()));
        assert!(
            rendered.contains("base_url: http://vllm:8000/v1"),
            "{rendered}"
        );
        let offline = [
            "render",
            "-f",
            "samples/minimal.yaml",
            "--base-config",
            config,
        ];
        assert_eq!(rendered, succeed(&bench.llsd(&offline)));

        // What a digest names cannot change, so nobody is asked again.
        let pinned = bench.reference(&format!(
            "acme/stack@{}",
            labelled["digest"].as_str().unwrap()
        ));
        let before = bench.requests().await;
        let again = succeed(&bench.llsd(&[&render[..], &[&pinned]].concat()));
        assert_eq!((again, bench.requests().await), (rendered.clone(), before));

        let mirror = format!("quay.example/acme={}/acme", bench.registry.host());
        let mirrored = [
            &render[..],
            &["quay.example/acme/stack:1", "--mirror", &mirror],
        ];
        assert_eq!(succeed(&bench.llsd(&mirrored.concat())), rendered);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_shown_as_the_operator_reads_it() {
    let bench = Bench::start(false, Access::Anyone).await;
    let build = bench.push_image("acme/stack:build").await;
    let bare = bench.llsd(&["image", "inspect", &build, "--output", "json"]);
    assert_eq!(bare.status.code(), Some(1), "{}", said(&bare));
    let bare: Value = serde_json::from_slice(&bare.stdout).unwrap();
    assert_eq!(bare["problem"]["reason"], "MissingConfigLabels");
    let rendered = bench.llsd(&["render", "-f", "samples/minimal.yaml", "--image", &build]);
    assert_eq!(rendered.status.code(), Some(1), "{}", said(&rendered));
    assert!(said(&rendered).contains("missing config labels"));

    let plugin = "quay.example/acme/adapter:1";
    succeed(&bench.llsd(&[
        "image",
        "label",
        &build,
        "--config",
        "host/render/distributions/starter.yaml",
        "--schema",
        "llama-stack/0.7",
        "--plugin",
        plugin,
        "--tag",
        "1",
    ]));
    let image = bench.reference("acme/stack:1");
    let shown = json(&bench.llsd(&["image", "inspect", &image, "--output", "json"]));
    assert_eq!(shown["config"]["schema"], "llama-stack/0.7");
    assert_eq!(shown["config"]["plugin"], plugin);
    let file = std::fs::metadata(root().join("host/render/distributions/starter.yaml")).unwrap();
    assert_eq!(shown["config"]["size"], file.len());
    let people = succeed(&bench.llsd(&["image", "inspect", &image]));
    assert!(people.contains("schema    llama-stack/0.7"), "{people}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_goes_to_a_registry_and_comes_back_the_same() {
    let bench = Bench::start(true, basic()).await;
    let (file, reference) = (
        component("example-pack"),
        bench.reference("acme/pack:1.0.0"),
    );
    let push = ["plugin", "push", &reference, &file, "--output", "json"];
    let first = json(&bench.llsd(&push));
    assert_eq!(
        json(&bench.llsd(&push)),
        first,
        "the same bytes, the same manifest"
    );

    let manifest: Value =
        serde_json::from_str(&bench.crane(&["manifest", &reference]).await).unwrap();
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"][0]["digest"], first["componentDigest"]);
    let annotations = &manifest["annotations"];
    assert_eq!(
        annotations["org.opencontainers.image.title"],
        "example-pack"
    );
    let digest = bench.crane(&["digest", &reference]).await;
    assert_eq!(digest.trim(), first["manifestDigest"]);

    // What another client copied is the same plugin.
    let copy = bench.reference("mirror/pack:1");
    bench.crane(&["copy", &reference, &copy]).await;
    let back = bench.home.path().join("back.wasm");
    succeed(&bench.llsd(&["plugin", "pull", &copy, back.to_str().unwrap()]));
    assert_eq!(std::fs::read(back).unwrap(), std::fs::read(&file).unwrap());
    let shown = succeed(&bench.llsd(&["plugin", "inspect", &copy]));
    assert!(shown.contains("world     provider-pack"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_fails_its_checks_never_gets_the_tag() {
    let bench = Bench::start(false, Access::Anyone).await;
    let (file, reference) = (
        component("example-pack"),
        bench.reference("acme/pack:1.0.0"),
    );
    let case = bench.home.path().join("golden/wrong");
    std::fs::create_dir_all(&case).unwrap();
    std::fs::write(case.join("request.json"), r#"{"call": "describe"}"#).unwrap();
    std::fs::write(case.join("answer.json"), r#"{"name": "another"}"#).unwrap();
    let fixtures = bench.home.path().join("golden");
    let fixtures = ["--fixtures", fixtures.to_str().unwrap()];
    let refused = bench.llsd(&[&["plugin", "push", &reference, &file][..], &fixtures].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains("the tag is left alone"),
        "{}",
        said(&refused)
    );
    let asked = bench.registry.crane().args(["digest", &reference]).run();
    asked.await.unwrap().failure().unwrap();

    let text = bench.home.path().join("text.wasm");
    std::fs::write(&text, "no component").unwrap();
    let refused = bench.llsd(&["plugin", "push", &reference, text.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_a_trusted_key_signed_is_verified() {
    let bench = Bench::start(false, Access::Anyone).await;
    let signer = |name: &str| {
        let folder = bench.home.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        cosign(&folder, &["generate-key-pair"]);
        folder
    };
    let (alice, bob) = (signer("alice"), signer("bob"));
    let public = |folder: &Path| folder.join("cosign.pub").display().to_string();
    for form in ["--new-bundle-format=true", "--new-bundle-format=false"] {
        let reference = bench.reference(&format!("acme/pack{}:1", form.len()));
        let push = ["plugin", "push", &reference, &component("example-pack")];
        let pinned = succeed(&bench.llsd(&push)).trim().to_owned();
        let verify = |key: &str| bench.llsd(&["plugin", "verify", &pinned, "--key", key]);
        let unsigned = verify(&public(&alice));
        assert_eq!(unsigned.status.code(), Some(1), "{}", said(&unsigned));
        assert!(
            said(&unsigned).contains("is not signed"),
            "{}",
            said(&unsigned)
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
        assert_eq!(stranger.status.code(), Some(1), "{}", said(&stranger));
        assert!(
            said(&stranger).contains("not by a trusted key"),
            "{}",
            said(&stranger)
        );
        let file = bench.home.path().join("never.wasm");
        let arguments = [
            "plugin",
            "pull",
            &pinned,
            file.to_str().unwrap(),
            "--key",
            &public(&bob),
        ];
        assert_eq!(bench.llsd(&arguments).status.code(), Some(1));
        assert!(!file.exists());
    }
}

fn cosign(folder: &Path, arguments: &[&str]) {
    let output = Command::new(tool("LLSD_COSIGN_BIN"))
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("COSIGN_PASSWORD", "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_credential_is_named_by_its_place_and_never_shown() {
    let bench = Bench::start(true, basic()).await;
    let build = bench.push_image("acme/stack:build").await;
    let wrong = bench.home.path().join("wrong.json");
    let host = bench.registry.host();
    let auths = format!(
        r#"{{"auths": {{"{host}": {{"username": "puller", "password": "wrong-canary"}}}}}}"#
    );
    std::fs::write(&wrong, auths).unwrap();
    let wrong = ["--docker-config", wrong.to_str().unwrap()];
    let file = component("example-pack");
    for arguments in [
        vec!["image", "inspect", &build],
        vec!["render", "-f", "samples/minimal.yaml", "--image", &build],
        vec!["plugin", "push", &build, &file],
        vec!["plugin", "verify", &build],
    ] {
        let refused = bench.llsd(&[&arguments[..], &wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains("denied access with the docker config"));
        for secret in [PASSWORD, "wrong-canary", "d3JvbmctY2FuYXJ5"] {
            assert!(!said(&refused).contains(secret), "{}", said(&refused));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_is_no_verdict() {
    let mut bench = Bench::start(false, Access::Anyone).await;
    let build = bench.push_image("acme/stack:build").await;
    bench.registry.stop();
    let down = bench.llsd(&["image", "inspect", &build]);
    assert_eq!(down.status.code(), Some(2), "{}", said(&down));
    assert!(
        said(&down).contains("failed to connect to the registry"),
        "{}",
        said(&down)
    );
}
