//! A registry for one test, with images and plugins in it.

use std::path::{Path, PathBuf};

use llsd_registry::{Keyring, Labelling};
use llsd_testbed::{Access, Registry, RegistryOptions};

/// A registry over plain HTTP.
pub struct Shelf {
    /// The registry itself.
    pub registry: Registry,
}

impl Shelf {
    /// Starts an empty one.
    pub async fn start(access: Access) -> Self {
        let options = RegistryOptions { tls: false, access };
        Self {
            registry: Registry::start(&options).await.unwrap(),
        }
    }

    /// A reference to something in it.
    pub fn reference(&self, rest: &str) -> String {
        format!("{}/{rest}", self.registry.host())
    }

    /// Settings that reach it.
    pub fn settings(&self) -> llsd_registry::Settings {
        llsd_registry::Settings {
            plain_http: vec![self.registry.host().to_owned()],
            allowed: vec!["127.0.0.1".parse().unwrap()],
            ..llsd_registry::Settings::default()
        }
    }

    /// Its `config.json`, as `docker login` writes it.
    pub fn docker_config(&self) -> Vec<u8> {
        std::fs::read(self.registry.docker_config().join("config.json")).unwrap()
    }

    /// Pushes an image without labels as `repository:bare`.
    pub async fn push_bare(&self, repository: &str) -> String {
        self.push_files(repository, &[]).await
    }

    /// The same with files in it, by path.
    pub async fn push_files(&self, repository: &str, files: &[(&str, &str)]) -> String {
        let reference = self.reference(&format!("{repository}:bare"));
        let layer = self.registry.docker_config().join("layer.tar");
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
        let crane = self.registry.crane();
        let crane = crane.args(["append", "--new_tag", &reference, "--new_layer"]);
        crane.arg(layer).run().await.unwrap().success().unwrap();
        reference
    }

    /// The same image, with a user to run as.
    pub async fn set_user(&self, reference: &str, user: &str) -> String {
        let (name, _) = reference.rsplit_once([':', '@']).unwrap();
        let tagged = format!("{}:as-{user}", name.trim_end_matches("@sha256"));
        let crane = self.registry.crane();
        let crane = crane.args(["mutate", reference, "--user", user, "--tag", &tagged]);
        crane.run().await.unwrap().success().unwrap();
        tagged
    }

    /// Pushes an image with a configuration on it.
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

    /// Pushes a shipped component with the real command.
    pub fn push_plugin(&self, name: &str, rest: &str) -> String {
        self.push_component(&shipped(name), rest)
    }

    /// Pushes a shipped component in which a text that it knows is another of the same length.
    pub fn push_altered(&self, name: &str, rest: &str, text: &str, other: &str) -> String {
        assert_eq!(text.len(), other.len());
        let mut bytes = std::fs::read(shipped(name)).unwrap();
        let places: Vec<_> = bytes
            .windows(text.len())
            .enumerate()
            .filter_map(|(at, found)| (found == text.as_bytes()).then_some(at))
            .collect();
        assert!(!places.is_empty(), "{name} does not know {text:?}");
        for at in places {
            bytes[at..at + text.len()].copy_from_slice(other.as_bytes());
        }
        let file = self.registry.docker_config().join("altered.wasm");
        std::fs::write(&file, bytes).unwrap();
        self.push_component(&file, rest)
    }

    fn push_component(&self, file: &Path, rest: &str) -> String {
        let reference = self.reference(rest);
        let pushed = std::process::Command::new(variable("LLSD_BIN"))
            .args(["plugin", "push", &reference])
            .arg(file)
            .args(["--plain-http", self.registry.host()])
            .env("DOCKER_CONFIG", self.registry.docker_config())
            .env("XDG_CACHE_HOME", self.registry.docker_config())
            .output()
            .unwrap();
        let talk = String::from_utf8_lossy(&pushed.stderr);
        assert!(pushed.status.success(), "{talk}");
        reference
    }
}

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(variable("LLSD_PLUGINS")).join(format!("{name}.wasm"))
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run the tests through `cargo xtask test`"))
}
