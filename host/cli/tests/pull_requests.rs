//! `llsd diff`, the GitHub Action and the pre-commit hook, in Git repositories of the test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const LLSD: &str = env!("CARGO_BIN_EXE_llsd");

fn root() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    path.canonicalize().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn resource(endpoint: &str, replicas: u32) -> String {
    format!(
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata:\n  name: chat\n  namespace: ml\nspec:\n  distribution:\n    name: starter\n  providers:\n    inference:\n      provider: vllm\n      endpoint: {endpoint}\n  workload:\n    replicas: {replicas}\n"
    )
}

/// A repository with a resource on `main`, and a checked out branch `change`.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        this.git(&["init", "--quiet", "--initial-branch=main"]);
        this.git(&["config", "user.name", "test"]);
        this.git(&["config", "user.email", "test@example.com"]);
        this.write("chat.yaml", &resource("http://vllm:8000", 1));
        this.write("other.yaml", "kind: Other\n");
        this.write("chart/templates/a.yaml", "{{ if .Values.a }}\n");
        this.commit("first");
        this.git(&["checkout", "--quiet", "-b", "change"]);
        this
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn try_git(&self, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(self.path())
            .env("LLSD_BIN", LLSD)
            .output()
            .unwrap()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = self.try_git(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
    }

    fn llsd(&self, arguments: &[&str]) -> Output {
        Command::new(LLSD)
            .args(arguments)
            .current_dir(self.path())
            .output()
            .unwrap()
    }

    fn diff(&self, arguments: &[&str]) -> Value {
        let output = self.llsd(&[&["diff", "--output", "json"], arguments].concat());
        assert!(output.status.code() < Some(2), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn a_branch_is_compared_with_where_it_began() {
    let repository = Repository::new();
    repository.write("chat.yaml", &resource("http://other:8000", 1));
    repository.commit("change");
    // What happens on main afterwards is not a change of the branch.
    repository.git(&["checkout", "--quiet", "main"]);
    repository.write(
        "late.yaml",
        &resource("http://late:8000", 1).replace("chat", "late"),
    );
    repository.commit("late");
    repository.git(&["checkout", "--quiet", "change"]);
    let changes = repository.diff(&["--git", "main...HEAD"]);
    assert_eq!(changes.as_array().unwrap().len(), 1, "{changes:#}");
    let change = &changes[0];
    assert_eq!(change["name"], "ml/chat");
    assert_eq!(change["file"], "chat.yaml");
    assert_eq!(change["restarts"], true);
    assert_eq!(change["changes"][0]["what"], "configuration");
    let diff = change["changes"][0]["diff"].as_str().unwrap();
    assert!(
        diff.contains("+      base_url: http://other:8000/v1"),
        "{diff}"
    );
    // Between the tips, the late resource is missing on the branch.
    let tips = repository.diff(&["--git", "main..HEAD"]);
    assert_eq!(tips[1]["change"], "removed", "{tips:#}");
}

#[test]
fn the_working_tree_and_paths_can_be_compared() {
    let repository = Repository::new();
    repository.write("chat.yaml", &resource("http://vllm:8000", 2));
    repository.commit("two pods, which are spread over nodes");
    repository.write("chat.yaml", &resource("http://vllm:8000", 3));
    repository.write(
        "new.yaml",
        &resource("http://vllm:8000", 1).replace("chat", "new"),
    );
    let changes = repository.diff(&["--git", "HEAD"]);
    assert_eq!(changes[0]["restarts"], false, "{changes:#}");
    assert_eq!(changes[0]["changes"][0]["what"], "Deployment chat");
    assert_eq!(changes[1]["change"], "added");
    let only = repository.diff(&["--git", "HEAD", "--", "new.yaml"]);
    assert_eq!(only.as_array().unwrap().len(), 1);
    let output = repository.llsd(&["diff", "--git", "no-such-branch...HEAD"]);
    assert_eq!(output.status.code(), Some(2));
    let output = repository.llsd(&["diff", "--git=--output=x", "chat.yaml"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn files_and_folders_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.yaml");
    let new = folder.path().join("new.yaml");
    std::fs::write(&old, resource("http://vllm:8000", 1)).unwrap();
    std::fs::write(
        &new,
        resource("http://vllm:8000", 1).replace("replicas: 1", "replicas: 1 # same"),
    )
    .unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(LLSD);
        command
            .arg("diff")
            .arg(&old)
            .arg(&new)
            .args(arguments)
            .output()
            .unwrap()
    };
    let same = run(&["--exit-code"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert_eq!(text(&same.stdout), "");
    std::fs::write(&new, resource("http://vllm:8000", 2)).unwrap();
    assert_eq!(run(&[]).status.code(), Some(0));
    let changed = run(&["--exit-code"]);
    assert_eq!(changed.status.code(), Some(1));
    assert!(
        text(&changed.stdout).contains("+  replicas: 2"),
        "{}",
        text(&changed.stdout)
    );
    std::fs::write(
        &new,
        resource("http://vllm:8000", 1).replace("vllm\n", "no-such\n"),
    )
    .unwrap();
    let rejected = run(&[]);
    assert_eq!(rejected.status.code(), Some(1));
    assert!(
        text(&rejected.stdout).contains("rejected:"),
        "{}",
        text(&rejected.stdout)
    );
}

/// Runs the steps of the Action with bash, as the runner does. Returns the output of the last step, and
/// the summary.
fn run_action(
    repository: &Repository,
    inputs: &[(&str, &str)],
    environment: &[(&str, &str)],
) -> (Output, String) {
    let path = root().join(".github/actions/diff");
    let action: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(path.join("action.yml")).unwrap()).unwrap();
    let runner = tempfile::tempdir().unwrap();
    let file = |name: &str| runner.path().join(name);
    for name in ["path", "output", "summary"] {
        std::fs::write(file(name), "").unwrap();
    }
    let given: BTreeMap<&str, &str> = inputs.iter().copied().collect();
    let mut last = None;
    for step in action["runs"]["steps"].as_array().unwrap() {
        assert_eq!(step["shell"], "bash");
        let outputs = std::fs::read_to_string(file("output")).unwrap();
        let evaluate = |expression: &str| -> String {
            let expression = expression
                .trim_start_matches("${{ ")
                .trim_end_matches(" }}");
            let value = match expression.split_once('.').unwrap() {
                ("inputs", name) => {
                    let default = action["inputs"][name]["default"].as_str();
                    given.get(name).copied().or(default).unwrap()
                }
                ("steps", name) => {
                    let key = name.strip_prefix("compare.outputs.").unwrap();
                    let line = outputs
                        .lines()
                        .find_map(|line| line.strip_prefix(&format!("{key}=")));
                    line.unwrap()
                }
                ("github", "action_path") => path.to_str().unwrap(),
                ("github", "repository") => "acme/servers",
                ("github", "event.pull_request.number") => "7",
                ("github", "token") => "secret",
                other => panic!("{other:?}"),
            };
            value.to_owned()
        };
        if let Some(condition) = step["if"].as_str() {
            let (input, value) = condition.split_once(" == ").unwrap();
            if evaluate(input) != value.trim_matches('\'') {
                continue;
            }
        }
        let script = step["run"].as_str().unwrap();
        assert!(
            !script.contains("${{"),
            "an expression in a script can be a command: {script}"
        );
        let mut found: Vec<PathBuf> = std::fs::read_to_string(file("path"))
            .unwrap()
            .lines()
            .map(PathBuf::from)
            .collect();
        found.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(repository.path())
            .envs(environment.iter().copied())
            .env("PATH", std::env::join_paths(found).unwrap())
            .env("RUNNER_TEMP", runner.path())
            .env("GITHUB_PATH", file("path"))
            .env("GITHUB_OUTPUT", file("output"))
            .env("GITHUB_STEP_SUMMARY", file("summary"));
        for (name, value) in step["env"].as_object().unwrap() {
            command.env(name, evaluate(value.as_str().unwrap()));
        }
        let output = command.output().unwrap();
        let failed = !output.status.success();
        last = Some(output);
        if failed {
            break;
        }
    }
    (
        last.unwrap(),
        std::fs::read_to_string(file("summary")).unwrap(),
    )
}

#[test]
fn the_action_reports_a_pull_request() {
    let repository = Repository::new();
    repository.write("chat.yaml", &resource("http://other:8000", 1));
    repository.commit("change");
    let inputs = [("binary", LLSD), ("range", "main...change")];
    let (output, summary) = run_action(&repository, &inputs, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(summary.starts_with("<!-- llsd diff -->\n"), "{summary}");
    assert!(
        summary.contains("| `ml/chat` | `chat.yaml` | changed | restart |"),
        "{summary}"
    );
    assert!(
        summary.contains("+      base_url: http://other:8000/v1"),
        "{summary}"
    );
    let inputs = [
        ("binary", LLSD),
        ("range", "main...change"),
        ("paths", "other.yaml\n"),
    ];
    let (_, summary) = run_action(&repository, &inputs, &[]);
    assert!(summary.contains("no resource changes"), "{summary}");
}

#[test]
fn the_action_fails_for_a_rejected_resource_after_it_commented() {
    let repository = Repository::new();
    repository.write(
        "chat.yaml",
        &resource("http://vllm:8000", 1).replace("vllm\n", "no-such\n"),
    );
    repository.commit("change");
    // A program in place of gh, which records how it is called. There is no comment yet.
    let programs = tempfile::tempdir().unwrap();
    let calls = programs.path().join("calls");
    let script = format!("#!/bin/sh\necho \"$@\" >> {}\n", calls.display());
    let gh = programs.path().join("gh");
    std::fs::write(&gh, script).unwrap();
    std::fs::set_permissions(&gh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.path().display());
    let inputs = [
        ("binary", LLSD),
        ("range", "main...change"),
        ("comment", "true"),
    ];
    let (output, summary) = run_action_with_path(&repository, &inputs, &path);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(summary.contains("**rejected**"), "{summary}");
    let calls = std::fs::read_to_string(calls).unwrap();
    assert!(
        calls.contains("api --method POST repos/acme/servers/issues/7/comments --field body=@"),
        "{calls}"
    );
}

/// [`run_action`] with programs that come first.
fn run_action_with_path(
    repository: &Repository,
    inputs: &[(&str, &str)],
    path: &str,
) -> (Output, String) {
    // Steps prepend what earlier steps wrote to GITHUB_PATH, so BASH_ENV is the place that comes last.
    let profile = repository.path().join(".git/profile");
    std::fs::write(&profile, format!("export PATH='{path}':\"$PATH\"\n")).unwrap();
    run_action(
        repository,
        inputs,
        &[("BASH_ENV", profile.to_str().unwrap())],
    )
}

#[test]
fn the_action_installs_a_release_and_verifies_its_checksum() {
    let repository = Repository::new();
    let release = tempfile::tempdir().unwrap();
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let name = format!("llsd-9.9.9-{target}");
    let folder = release.path().join(&name).join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(LLSD, folder.join("llsd")).unwrap();
    let archive = format!("{name}.tar.gz");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(release.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    run(
        "tar",
        &["--use-compress-program=gzip -1", "-cf", &archive, &name],
    );
    let sums = run("sha256sum", &[&archive]);
    std::fs::write(release.path().join("SHA256SUMS"), &sums).unwrap();
    let address = format!("file://{}", release.path().display());
    let environment = [("LLSD_RELEASES", address.as_str())];
    let inputs = [("version", "9.9.9"), ("range", "main...change")];
    let (output, summary) = run_action(&repository, &inputs, &environment);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(summary.contains("no resource changes"), "{summary}");
    std::fs::write(
        release.path().join("SHA256SUMS"),
        sums.replacen(|_: char| true, "", 1),
    )
    .unwrap();
    let (output, _) = run_action(&repository, &inputs, &environment);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("the checksum of"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_hook_refuses_a_commit_with_an_invalid_resource() {
    let repository = Repository::new();
    let hooks: Value = serde_saphyr::from_str(
        &std::fs::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap(),
    )
    .unwrap();
    assert_eq!(hooks[0]["language"], "script");
    let entry = root().join(hooks[0]["entry"].as_str().unwrap());
    // pre-commit calls the entry with the staged files of the types that the hook names.
    let script = format!(
        "#!/bin/sh\ngit diff --cached --name-only --diff-filter=d -- '*.yaml' | xargs {}\n",
        entry.display()
    );
    let hook = repository.path().join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    repository.write(
        "chat.yaml",
        &resource("http://vllm:8000", 1).replace("vllm\n", "no-such\n"),
    );
    repository.write("other.yaml", "kind: Another\n");
    repository.git(&["add", "--all"]);
    let refused = repository.try_git(&["commit", "-m", "bad"]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("spec.providers.inference.provider"),
        "{}",
        text(&refused.stderr)
    );
    repository.write("chat.yaml", &resource("http://vllm:8000", 2));
    repository.commit("good");
    repository.write("other.yaml", "kind: Third\n");
    repository.commit("no resource");
}
