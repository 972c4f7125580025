//! The way of a vendor, in an empty directory without this checkout: from a new plugin to a cluster that
//! generates with it, takes the next version after a comparison, and goes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use llsd_api::Distribution;
use llsd_e2e::{Operator, TestRegistry, config_map, on_image};
use llsd_testbed::Access;
use serde_json::json;
use tempfile::TempDir;

use crate::generated_by;
use crate::revocation::{Signer, enforce, run, variable};
use crate::test_plugin::TestPlugin;

/// The type of the attestation that the conformance suite passed.
const CONFORMANCE: &str = "https://llamastack.io/attestations/conformance/v1";

/// The base configuration of the vendor's distribution.
const BASE: &str = "version: 2\ndistro_name: acme\n";

/// What differs between languages.
struct Language {
    /// Value of `--lang`.
    name: &'static str,
    /// Commands that install dependencies and run the tests of the plugin.
    checks: &'static [&'static [&'static str]],
    /// Changes of the next version: file, text, replacement. The first one changes the output.
    next: &'static [(&'static str, &'static str, &'static str)],
}

const RUST: Language = Language {
    name: "rust",
    checks: &[&["cargo", "test", "--quiet"]],
    next: &[
        (
            "src/lib.rs",
            "config.insert(\"base_url\"",
            "config.insert(\"url\"",
        ),
        ("Cargo.toml", "version = \"0.1.0\"", "version = \"0.2.0\""),
    ],
};

const JAVASCRIPT: Language = Language {
    name: "js",
    checks: &[
        &[
            "npm",
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ],
        &["npm", "test"],
    ],
    next: &[
        ("src/adapter.js", "config.base_url =", "config.url ="),
        ("src/adapter.js", "version: \"0.1.0\"", "version: \"0.2.0\""),
    ],
};

/// The directory of a vendor.
struct Vendor {
    home: TempDir,
    /// The plugin.
    plugin: PathBuf,
}

impl Vendor {
    /// Creates a plugin, and runs its own tests.
    fn new(language: &Language) -> Self {
        let home = tempfile::tempdir().unwrap();
        let plugin = home.path().join("acme");
        let vendor = Self { home, plugin };
        let new = ["plugin", "new", "acme", "--lang", language.name];
        run(vendor.llsd(vendor.home.path()).args(new));
        if language.name == "rust" {
            // The versions of the workspace, so that a new release of a dependency cannot fail the test.
            let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
            std::fs::copy(lock, vendor.plugin.join("Cargo.lock")).unwrap();
        }
        for check in language.checks {
            run(vendor.command(check[0], &vendor.plugin).args(&check[1..]));
        }
        vendor
    }

    /// A program with the pinned Node.js on its path.
    fn command(&self, program: &str, folder: &Path) -> Command {
        let node = PathBuf::from(variable("LLSD_NODE_BIN"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = node.parent().map(Path::to_owned).into_iter();
        let folders = folders.chain(std::env::split_paths(&path));
        let mut command = Command::new(program);
        command
            .current_dir(folder)
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("XDG_CACHE_HOME", self.home.path().join("cache"))
            // The target directory and the manifest of the checkout are those of another workspace.
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_MANIFEST_DIR");
        command
    }

    fn llsd(&self, folder: &Path) -> Command {
        self.command(&variable("LLSD_BIN"), folder)
    }

    fn plugin_command(&self, arguments: &[&str]) -> String {
        run(self.llsd(&self.plugin).arg("plugin").args(arguments))
    }

    /// Generates the configuration of a sample with the built component.
    fn render(&self) {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/minimal.yaml");
        std::fs::write(self.plugin.join("base.yaml"), BASE).unwrap();
        let mut render = self.llsd(&self.plugin);
        render.args(["render", "--base-config", "base.yaml", "-f"]);
        render.arg(sample);
        render.args(["--plugin", "target/acme.wasm", "--schema", "acme/1.0"]);
        let config = run(&mut render);
        assert!(config.contains("base_url: http://vllm:8000"), "{config}");
    }

    /// Pushes the component, signs it, and verifies it. Returns the reference.
    fn publish(&self, registry: &TestRegistry, signer: &Signer, version: &str) -> String {
        let reference = registry.reference(&format!("acme/adapter:{version}"));
        let plain = ["--plain-http", registry.server.host()];
        let push = ["push", &reference, "target/acme.wasm"];
        let predicates = ["--predicates", "target/predicates"];
        self.plugin_command(&[&push[..], &predicates, &plain].concat());
        signer.sign(&reference);
        let predicate = self.plugin.join("target/predicates/conformance.json");
        signer.attest(&reference, CONFORMANCE, &predicate);
        let key = self.home.path().join("cosign.pub");
        std::fs::write(&key, signer.public_key()).unwrap();
        let key = [
            "--key",
            key.to_str().unwrap(),
            "--require-attestation",
            CONFORMANCE,
        ];
        self.plugin_command(&[&["verify", &reference][..], &key, &plain].concat());
        reference
    }

    /// Edits the plugin, and builds its next version.
    fn build_next(&self, language: &Language) {
        for (file, text, replacement) in language.next {
            let file = self.plugin.join(file);
            let source = std::fs::read_to_string(&file).unwrap();
            assert!(source.contains(text), "{text}");
            std::fs::write(&file, source.replacen(text, replacement, 1)).unwrap();
        }
        self.plugin_command(&["build"]);
    }
}

async fn a_vendor_ships(language: &Language) {
    let vendor = Vendor::new(language);
    vendor.plugin_command(&["build"]);
    let wasmtime = run(Command::new(variable("LLSD_WASMTIME_BIN"))
        .args(["run", "--invoke", "describe()", "target/acme.wasm"])
        .current_dir(&vendor.plugin));
    assert!(wasmtime.contains("acme/1.0"), "{wasmtime}");
    let fixtures = ["target/acme.wasm", "--fixtures", "tests/golden"];
    vendor.plugin_command(&[&["test"][..], &fixtures].concat());
    vendor.plugin_command(&[&["bench", "--runs", "10"][..], &fixtures].concat());

    vendor.render();

    let registry = TestRegistry::start(Access::Anyone).await;
    let signer = Signer::new();
    let first = vendor.publish(&registry, &signer, "0.1.0");
    let image = registry
        .push_labelled("acme/stack", "1", BASE, "acme/1.0", None)
        .await;
    let name = format!("vendor-{}", language.name);
    let operator = Operator::start_with_registry(&name, registry.settings()).await;
    let mut verify = enforce(&signer.public_key());
    verify["attestations"] = json!([CONFORMANCE]);
    let spec = json!({
        "reference": first,
        "verify": verify,
        "rollout": { "maxDiff": 0, "existing": "Follow" },
    });
    let installed = TestPlugin::create(&operator, spec).await;
    installed.wait_for("Ready", "True", "InUse").await;
    operator.create(&on_image("stack", &image)).await;
    let cr = operator.wait_until_ready("stack").await;
    assert_eq!(generated_by(&cr), "acme");
    let before = config_map(&cr);

    vendor.build_next(language);
    let second = vendor.publish(&registry, &signer, "0.2.0");
    installed.edit(json!({ "reference": second })).await;
    let waiting = installed.wait_for("Shadowed", "False", "ShadowDiff").await;
    assert_eq!(waiting.status.unwrap().shadow.unwrap().changed, 1);
    installed.edit(json!({ "rollout": { "maxDiff": 1 } })).await;
    let changed = |cr: &Distribution| config_map(cr) != before;
    operator.wait_for("stack", "changed", changed).await;

    let kubeconfig = operator.testbed.kubeconfig("admin").unwrap();
    run(vendor
        .llsd(&vendor.plugin)
        .args(["plugin", "rollback", &installed.name])
        .env("KUBECONFIG", kubeconfig));
    installed.wait_for("Promoted", "False", "RolledBack").await;
    let is_back = |cr: &Distribution| config_map(cr) == before;
    operator.wait_for("stack", "as before", is_back).await;
    installed.delete().await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_ships_a_plugin_in_rust_without_the_checkout() {
    a_vendor_ships(&RUST).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_ships_a_plugin_in_javascript_without_the_checkout() {
    a_vendor_ships(&JAVASCRIPT).await;
}
