//! Every command of every guide, typed as it stands there.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use llsd_install::{Block, Cluster, Place, blocks, checkout, program};
use llsd_testbed::toolchain::{Tool, cache_dir, ensure_built};
use llsd_testbed::{Registry, RegistryOptions};
use tempfile::TempDir;
use tokio::process::Command;

/// The longest guide compiles a plugin twice.
const DEADLINE: Duration = Duration::from_secs(600);

/// Pages with commands, below the checkout.
fn pages() -> Vec<PathBuf> {
    let folder = |name: &str| {
        let entries = std::fs::read_dir(checkout().join(name)).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let mut pages = [folder("."), folder("docs")].concat();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

fn read(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap();
    blocks(&text).unwrap_or_else(|error| panic!("{}: {error:#}", page.display()))
}

/// A machine as a reader has it: our programs on PATH, an empty folder, a registry, and a cluster when
/// the guide is about one.
struct Reader {
    home: TempDir,
    registry: Registry,
    cluster: Option<Cluster>,
}

impl Reader {
    async fn new(wants_cluster: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let llsd = program("LLSD_BIN").unwrap();
        let tools = [Tool::Kubectl, Tool::Helm, Tool::Crane];
        let built = ensure_built(&cache_dir().unwrap(), &tools).unwrap();
        let given = [
            ("llsd", llsd.clone()),
            ("kubectl-llsd", llsd),
            ("wasmtime", program("LLSD_WASMTIME_BIN").unwrap()),
            ("cosign", program("LLSD_COSIGN_BIN").unwrap()),
        ];
        let built = tools.iter().map(|tool| tool.name()).zip(built);
        for (name, program) in built.chain(given) {
            symlink(program, bin.join(name)).unwrap();
        }
        let work = home.path().join("work");
        std::fs::create_dir(&work).unwrap();
        for name in ["samples", "deploy"] {
            symlink(checkout().join(name), work.join(name)).unwrap();
        }
        let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
        let cluster = match wants_cluster {
            true => Some(Cluster::start(&registry).await.unwrap()),
            false => None,
        };
        let reader = Self {
            home,
            registry,
            cluster,
        };
        reader.bring_own_things().await;
        reader
    }

    /// What the guides take for granted: the server's file, an image that holds it, a resource.
    async fn bring_own_things(&self) {
        let base = checkout().join("host/render/distributions/starter.yaml");
        let base = base.display();
        self.run(&format!(
            "cp {base} config.yaml
             mkdir app && cp config.yaml app
             tar -cf layer.tar app
             crane append --oci-empty-base --new_layer layer.tar --new_tag $REGISTRY/stack:build
             cp samples/minimal.yaml my-stack.yaml"
        ))
        .await;
    }

    /// Types the commands into one shell, and stops at the first that fails.
    async fn type_in(&self, page: &Path, blocks: &[Block]) {
        let mut script = String::new();
        for block in blocks {
            for command in &block.commands {
                script += &format!(
                    "echo '--- {}:{}' >&2\n{command}\n",
                    page.display(),
                    block.line
                );
            }
        }
        self.run(&script).await;
    }

    /// Runs a script as the reader would.
    async fn run(&self, script: &str) {
        let path = std::env::join_paths(
            [self.home.path().join("bin")]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut shell = Command::new("bash");
        shell
            .args(["-euc", script])
            .current_dir(self.home.path().join("work"))
            .env("PATH", path.unwrap())
            .env("LLSD", checkout())
            .env("REGISTRY", format!("{}/acme", self.registry.host()))
            .env("LLSD_PLAIN_HTTP", self.registry.host())
            // A reader's own crates are built in folders of their own.
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(cluster) = &self.cluster {
            shell.env("KUBECONFIG", cluster.kubeconfig());
        }
        let output = tokio::time::timeout(DEADLINE, shell.output()).await;
        let output = output.unwrap().unwrap();
        assert!(
            output.status.success(),
            "{}\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// What a test can run of a page.
fn runnable(page: &Path) -> Vec<Block> {
    let mut blocks = read(page);
    blocks.retain(|block| block.place != Place::ByHand);
    blocks
}

fn wants_cluster(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| block.place == Place::Cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_guides_about_clusters_work() {
    let reader = Reader::new(true).await;
    for page in pages() {
        let blocks = runnable(&page);
        if wants_cluster(&blocks) {
            reader.type_in(&page, &blocks).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_all_other_guides_work() {
    for page in pages() {
        let blocks = runnable(&page);
        if !blocks.is_empty() && !wants_cluster(&blocks) {
            Reader::new(false).await.type_in(&page, &blocks).await;
        }
    }
}

#[test]
fn what_is_to_be_typed_by_hand_names_things_that_exist() {
    let tasks = std::fs::read_to_string(checkout().join("xtask/src/main.rs")).unwrap();
    for page in pages() {
        for block in read(&page) {
            for command in block.commands {
                let words: Vec<&str> = command.split_whitespace().collect();
                if let Some(at) = words.windows(2).position(|pair| pair == ["cargo", "xtask"]) {
                    let task = camel_case(words[at + 2].trim_end_matches(')').trim_matches('"'));
                    let is_task = [" ", ",", "{"]
                        .iter()
                        .any(|end| tasks.contains(&format!("    {task}{}", end.trim_end())));
                    assert!(is_task, "{}:{}: no task {task}", page.display(), block.line);
                }
                if let Some(test) = named_test(&words) {
                    assert!(
                        is_defined(test),
                        "{}:{}: no test {test}",
                        page.display(),
                        block.line
                    );
                }
            }
        }
    }
}

fn camel_case(task: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    task.split('-').map(capital).collect()
}

/// The test that a `cargo test` command filters for.
fn named_test<'a>(words: &[&'a str]) -> Option<&'a str> {
    let at = words
        .windows(2)
        .position(|pair| pair == ["cargo", "test"])?;
    let words: Vec<&str> = words[at + 2..]
        .iter()
        .take_while(|word| **word != "#")
        .copied()
        .collect();
    let mut skip = false;
    let free = words.into_iter().find(|word| {
        let is_value = std::mem::replace(&mut skip, ["-p", "--package", "--test"].contains(word));
        !is_value && !word.starts_with('-')
    })?;
    free.rsplit("::").next()
}

/// Whether a function of that name, or whose name begins with it, is in our sources.
fn is_defined(test: &str) -> bool {
    let found = std::process::Command::new("grep")
        .args(["-rqE", "--include=*.rs"])
        .arg(format!(r"(fn |\b){test}"))
        .args(["host", "plugins", "tests", "guest-sdk"])
        .current_dir(checkout())
        .status();
    found.unwrap().success()
}
