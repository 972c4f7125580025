//! A registry for one test, and functions that push images and plugins to it.

use std::path::{Path, PathBuf};

use llsd_registry::{Keyring, Labelling};
use llsd_testbed::{Access, Registry, RegistryOptions};

/// A registry that serves plain HTTP.
pub struct TestRegistry {
    /// The running registry.
    pub server: Registry,
}

impl TestRegistry {
    /// Starts an empty registry.
    pub async fn start(access: Access) -> Self {
        let options = RegistryOptions { tls: false, access };
        Self {
            server: Registry::start(&options).await.unwrap(),
        }
    }

    /// A reference to a repository, tag or digest in it.
    pub fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.server.host())
    }

    /// Registry settings with which an operator can pull from it.
    pub fn settings(&self) -> llsd_registry::Settings {
        llsd_registry::Settings {
            plain_http: vec![self.server.host().to_owned()],
            allowed: vec!["127.0.0.1".parse().unwrap()],
            ..llsd_registry::Settings::default()
        }
    }

    /// The `config.json` with its credentials, as `docker login` writes it.
    pub fn docker_config(&self) -> Vec<u8> {
        std::fs::read(self.server.docker_config().join("config.json")).unwrap()
    }

    /// Pushes an image without labels as `repository:bare`.
    pub async fn push_bare(&self, repository: &str) -> String {
        self.push_files(repository, &[]).await
    }

    /// Pushes an image without labels that holds files, as `repository:bare`.
    pub async fn push_files(&self, repository: &str, files: &[(&str, &str)]) -> String {
        let reference = self.reference(&format!("{repository}:bare"));
        let layer = self.server.docker_config().join("layer.tar");
        let mut archive = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(text.len().try_into().unwrap());
            archive
                .append_data(&mut header, path, text.as_bytes())
                .unwrap();
        }
        std::fs::write(&layer, archive.into_inner().unwrap()).unwrap();
        let crane = self.server.crane();
        let crane = crane.args(["append", "--new_tag", &reference, "--new_layer"]);
        crane.arg(layer).run().await.unwrap().success().unwrap();
        reference
    }

    /// Pushes a copy of an image with another `USER`.
    pub async fn set_user(&self, reference: &str, user: &str) -> String {
        let (name, _) = reference.rsplit_once([':', '@']).unwrap();
        let tagged = format!("{}:as-{user}", name.trim_end_matches("@sha256"));
        let crane = self.server.crane();
        let crane = crane.args(["mutate", reference, "--user", user, "--tag", &tagged]);
        crane.run().await.unwrap().success().unwrap();
        tagged
    }

    /// Pushes an image whose labels hold a base configuration.
    pub async fn push_labelled(
        &self,
        repository: &str,
        tag: &str,
        config: &str,
        schema: &str,
        plugin: Option<&str>,
    ) -> String {
        let bare = self.push_bare(repository).await.parse().unwrap();
        let mut keyring = Keyring::empty();
        keyring
            .add_docker_config("docker", &self.docker_config())
            .unwrap();
        let labelling = Labelling {
            config: config.as_bytes().to_vec(),
            version: Some("2".to_owned()),
            schema: Some(schema.to_owned()),
            plugin: plugin.map(str::to_owned),
        };
        let registry = llsd_registry::Registry::new(self.settings()).unwrap();
        let labelled = registry
            .label_image(&bare, tag, &labelling, &keyring)
            .await
            .unwrap();
        labelled.reference.to_string()
    }

    /// Pushes a shipped component with `llsd plugin push`.
    pub fn push_plugin(&self, name: &str, rest: &str) -> String {
        self.push_component(&shipped(name), rest)
    }

    /// Pushes a shipped component in which every occurrence of a string is replaced by another one of
    /// the same length.
    pub fn push_patched(&self, name: &str, rest: &str, from: &str, to: &str) -> String {
        assert_eq!(from.len(), to.len());
        let mut bytes = std::fs::read(shipped(name)).unwrap();
        let offsets: Vec<_> = bytes
            .windows(from.len())
            .enumerate()
            .filter_map(|(at, found)| (found == from.as_bytes()).then_some(at))
            .collect();
        assert!(!offsets.is_empty(), "{name} does not contain {from:?}");
        for at in offsets {
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
        let file = self.server.docker_config().join("patched.wasm");
        std::fs::write(&file, bytes).unwrap();
        self.push_component(&file, rest)
    }

    fn push_component(&self, file: &Path, rest: &str) -> String {
        let reference = self.reference(rest);
        let pushed = std::process::Command::new(variable("LLSD_BIN"))
            .args(["plugin", "push", &reference])
            .arg(file)
            .args(["--plain-http", self.server.host()])
            .env("DOCKER_CONFIG", self.server.docker_config())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&pushed.stderr);
        assert!(pushed.status.success(), "{stderr}");
        reference
    }
}

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(variable("LLSD_PLUGINS")).join(format!("{name}.wasm"))
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run the tests with `cargo xtask test`"))
}
