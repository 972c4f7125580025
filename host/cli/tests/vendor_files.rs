//! Resources and base configurations as vendors write them: `check`, `render` and `convert`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs `llsd` on files of a temporary folder, in which the arguments are names of files.
fn llsd(folder: &TempDir, arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn resource(version: &str, spec: &str) -> String {
    format!(
        "apiVersion: llamastack.io/{version}\nkind: LlamaStackDistribution\nmetadata: {{name: mine}}\nspec: {spec}\n"
    )
}

/// A base configuration of release 0.7 that needs a variable. It lists an API that no release of ogx has,
/// so that its dialect is certain.
fn vendor_base() -> String {
    let starter = std::fs::read_to_string(root().join("host/render/distributions/starter.yaml"));
    let starter = starter.unwrap();
    let vendor = "  inference:\n  - provider_id: vendor\n    provider_type: remote::vllm\n    config:\n      base_url: ${env.VENDOR_URL}\n";
    let base = starter.replacen("  inference:\n", vendor, 1);
    let base = base.replacen("apis: [", "apis: [scoring, ", 1);
    assert!(base.contains("[scoring, "));
    assert_ne!(base, starter);
    base
}

/// D2: the base still reads the variables, so that they stay, and every decision is reported.
#[test]
fn convert_keeps_variables_that_the_base_reads() {
    let old = resource(
        "v1alpha1",
        "{server: {distribution: {name: vendor}, containerSpec: {env: [{name: VLLM_URL, value: 'http://v'}, {name: INFERENCE_MODEL, value: m}, {name: VLLM_TLS_VERIFY, value: 'false'}, {name: VLLM_MAX_TOKENS, value: '1'}]}}}",
    );
    let base = "{version: 2, providers: {inference: [{provider_id: vllm-inference, provider_type: 'remote::vllm', config: {url: '${env.VLLM_URL}'}}]}, models: [{model_id: '${env.INFERENCE_MODEL}'}]}";
    let folder = folder(&[("old.yaml", &old), ("base.yaml", base)]);
    let run = llsd(
        &folder,
        &[
            "convert",
            "-f",
            "old.yaml",
            "--lift-env",
            "--base-config",
            "base.yaml",
        ],
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for name in [
        "VLLM_URL",
        "INFERENCE_MODEL",
        "VLLM_TLS_VERIFY",
        "VLLM_MAX_TOKENS",
    ] {
        assert!(run.stdout.contains(name), "{}", run.stdout);
        let kept = format!("{name} is not converted: ");
        assert!(run.stderr.contains(&kept), "{}", run.stderr);
    }
    // Without a base configuration, it is not known what reads the variables.
    let run = llsd(&folder, &["convert", "-f", "old.yaml", "--lift-env"]);
    assert!(run.stdout.contains("VLLM_URL"), "{}", run.stdout);
    assert!(run.stderr.contains("--base-config"), "{}", run.stderr);
}

/// D5.
#[test]
fn convert_keeps_variables_of_a_resource_with_args() {
    let old = resource(
        "v1alpha1",
        "{server: {distribution: {name: starter}, containerSpec: {args: [--yaml-config, /etc/own.yaml], env: [{name: VLLM_URL, value: 'http://v'}]}}}",
    );
    let folder = folder(&[("old.yaml", &old)]);
    let run = llsd(&folder, &["convert", "-f", "old.yaml", "--lift-env"]);
    assert!(run.stdout.contains("VLLM_URL"), "{}", run.stdout);
    assert!(!run.stdout.contains("endpoint"), "{}", run.stdout);
    assert!(run.stderr.contains("command or args"), "{}", run.stderr);
}

/// D6.
#[test]
fn a_resource_with_only_an_image_needs_no_base() {
    let image = resource(
        "v1alpha2",
        "{distribution: {image: 'registry.example.com/stack:1'}}",
    );
    let generated = resource(
        "v1alpha2",
        "{distribution: {image: 'registry.example.com/stack:1'}, disabled: [eval]}",
    );
    let folder = folder(&[("image.yaml", &image), ("generated.yaml", &generated)]);
    let run = llsd(&folder, &["check", "-f", "image.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("accepted"), "{}", run.stderr);
    let run = llsd(&folder, &["render", "-f", "image.yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("nothing is generated"),
        "{}",
        run.stderr
    );
    let run = llsd(&folder, &["check", "-f", "generated.yaml"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("--base-config"), "{}", run.stderr);
}

/// D7.
#[test]
fn a_v1alpha1_resource_is_converted_and_its_own_fields_are_named() {
    for name in ["ollama.yaml", "vllm.yaml"] {
        let text = std::fs::read_to_string(root().join("samples/v1alpha1").join(name)).unwrap();
        let folder = folder(&[("old.yaml", &text)]);
        let run = llsd(&folder, &["check", "-f", "old.yaml"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let wrong = resource(
        "v1alpha1",
        "{server: {distribution: {name: starter}, port: 8321, containerSpec: {port: 70000}}, env: []}",
    );
    let folder = folder(&[("wrong.yaml", &wrong)]);
    for command in ["check", "render"] {
        let run = llsd(&folder, &[command, "-f", "wrong.yaml"]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        for field in [
            "spec.server.port",
            "spec.env",
            "spec.server.containerSpec.port",
        ] {
            assert!(run.stderr.contains(field), "{field}: {}", run.stderr);
        }
    }
}

/// D8.
#[test]
fn a_distribution_of_an_installation_is_known_with_its_settings() {
    let mine = resource(
        "v1alpha2",
        "{distribution: {name: rh-dev}, disabled: [eval]}",
    );
    let settings = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: llama-stack-operator-config}}\ndata:\n  distributions: |\n    rh-dev: {{image: 'registry.example.com/dev:1', schema: llama-stack/0.7, baseConfig: {{configMapName: base}}}}\n    broken: {{image: 'registry.example.com/dev:1', baseConfig: {{configMapName: absent}}}}\n    plain: {{image: 'registry.example.com/dev:1'}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: base}}\ndata:\n  config.yaml: |\n    {}\n",
        std::fs::read_to_string(root().join("host/render/distributions/starter.yaml"))
            .unwrap()
            .replace('\n', "\n    ")
    );
    let broken = resource(
        "v1alpha2",
        "{distribution: {name: broken}, disabled: [eval]}",
    );
    let plain = resource("v1alpha2", "{distribution: {name: plain}}");
    let folder = folder(&[
        ("mine.yaml", &mine),
        ("settings.yaml", &settings),
        ("broken.yaml", &broken),
        ("plain.yaml", &plain),
    ]);
    let run = llsd(&folder, &["check", "-f", "mine.yaml"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("no distribution is called \"rh-dev\""),
        "{}",
        run.stderr
    );
    for option in ["--base-config", "--settings"] {
        assert!(run.stderr.contains(option), "{option}: {}", run.stderr);
    }
    assert_eq!(run.stderr.contains("--image"), cfg!(feature = "network"));
    for command in ["check", "render"] {
        let run = llsd(
            &folder,
            &[command, "-f", "mine.yaml", "--settings", "settings.yaml"],
        );
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let run = llsd(
        &folder,
        &["check", "-f", "plain.yaml", "--settings", "settings.yaml"],
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run = llsd(
        &folder,
        &["check", "-f", "broken.yaml", "--settings", "settings.yaml"],
    );
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("\"absent\""), "{}", run.stderr);
    let run = llsd(
        &folder,
        &["check", "-f", "mine.yaml", "--settings", "mine.yaml"],
    );
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("llama-stack-operator-config"),
        "{}",
        run.stderr
    );
}

/// D10.
#[test]
fn an_ogx_server_is_named_as_a_different_resource() {
    let other = "apiVersion: ogx.io/v1beta1\nkind: OGXServer\nmetadata: {name: other}\nspec: {}\n";
    let folder = folder(&[("other.yaml", other)]);
    let run = llsd(&folder, &["check", "-f", "other.yaml"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("is a different resource"),
        "{}",
        run.stderr
    );
}

/// D10.
#[test]
fn the_diff_keeps_the_order_of_an_access_policy() {
    let mine = resource(
        "v1alpha2",
        "{distribution: {name: starter}, disabled: [eval]}",
    );
    let starter = std::fs::read_to_string(root().join("host/render/distributions/starter.yaml"));
    let policy = "server:\n  auth:\n    access_policy:\n    - permit:\n        principal: user::a\n        actions: [read]\n      description: first\n";
    let starter = starter.unwrap();
    let base = match starter.contains("\nserver:\n") {
        true => starter.replacen("\nserver:\n", &format!("\n{policy}"), 1),
        false => format!("{starter}\n{policy}"),
    };
    let folder = folder(&[("mine.yaml", &mine), ("base.yaml", &base)]);
    let options = ["--base-config", "base.yaml", "--schema", "llama-stack/0.7"];
    let mut arguments = vec!["render", "-f", "mine.yaml", "--output", "diff"];
    arguments.extend(options);
    let run = llsd(&folder, &arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let changed = run
        .stdout
        .lines()
        .filter(|line| line.starts_with(['+', '-']));
    for line in changed {
        for key in ["principal", "actions", "description"] {
            assert!(!line.contains(key), "{}", run.stdout);
        }
    }
}

/// D11.
#[test]
fn a_base_that_needs_a_variable_is_rejected_until_the_resource_sets_it() {
    let spec = "{distribution: {name: starter}, disabled: [eval]";
    let without = resource("v1alpha2", &format!("{spec}}}"));
    let with = resource(
        "v1alpha2",
        &format!(
            "{spec}, workload: {{overrides: {{env: [{{name: VENDOR_URL, value: 'http://v'}}]}}}}}}"
        ),
    );
    let base = vendor_base();
    let folder = folder(&[
        ("without.yaml", &without),
        ("with.yaml", &with),
        ("base.yaml", &base),
    ]);
    let check = |file: &str| {
        let options = ["--base-config", "base.yaml", "--schema", "llama-stack/0.7"];
        let mut arguments = vec!["check", "-f", file];
        arguments.extend(options);
        llsd(&folder, &arguments)
    };
    let run = check("without.yaml");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    for part in ["spec.workload.overrides.env", "VENDOR_URL"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let run = check("with.yaml");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

/// Issue H: the dialect is shown also if the resource is rejected for another reason.
#[test]
fn a_rejected_resource_shows_the_dialect_and_how_it_was_found() {
    let without = resource(
        "v1alpha2",
        "{distribution: {name: starter}, disabled: [eval]}",
    );
    let folder = folder(&[("a.yaml", &without), ("base.yaml", &vendor_base())]);
    let run = |command: &str, options: &[&str]| {
        let mut arguments = vec![command, "-f", "a.yaml", "--base-config", "base.yaml"];
        arguments.extend(options);
        let run = llsd(&folder, &arguments);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        run
    };
    for (options, id, source, text) in [
        (
            &[][..],
            "llama-stack/0.7",
            "detected",
            "  schema: llama-stack/0.7 (detected in the base configuration)\n",
        ),
        (
            &["--schema", "llama-stack/0.5"],
            "llama-stack/0.5",
            "stated",
            "  schema: llama-stack/0.5 (stated)\n",
        ),
        (
            &["--server-version", "0.7.2"],
            "llama-stack/0.7",
            "serverVersion",
            "  schema: llama-stack/0.7 (derived from the release of the server)\n",
        ),
    ] {
        for command in ["check", "render"] {
            let human = run(command, options);
            assert!(human.stderr.contains(text), "{}", human.stderr);
            assert_eq!(human.stdout, "");
            let json = run(command, &[options, &["--output", "json"]].concat());
            let found: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
            let report = match command {
                "check" => &found[0],
                _ => &found,
            };
            assert_eq!(report["schema"], id);
            assert_eq!(report["schemaSource"], source);
            assert_eq!(report["findings"][0]["code"], "missing-variable");
        }
    }
}
