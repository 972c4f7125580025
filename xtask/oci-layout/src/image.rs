//! The configuration of an image: what a container of it runs, and as whom.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::layer::Layer;

/// The operating system and the architecture of an image, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Such as `amd64`.
    pub architecture: String,
}

impl Platform {
    /// The platform of this machine.
    pub fn current() -> Self {
        Self::of_rust(std::env::consts::ARCH)
    }

    /// The platform of a Rust architecture, such as `x86_64`.
    pub fn of_rust(architecture: &str) -> Self {
        let name = match architecture {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            architecture: name.to_owned(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({"architecture": self.architecture, "os": "linux"})
    }
}

/// The configuration of an image.
#[derive(Debug, Clone)]
pub struct ImageConfig {
    /// The platform that the layers are built for.
    pub platform: Platform,
    /// User and group, such as `65532:65532`. Empty means root.
    pub user: String,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// The folder in which the program starts.
    pub working_dir: String,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// When the image was created, in RFC 3339. `None` leaves it out.
    pub created: Option<String>,
}

impl ImageConfig {
    /// A configuration that runs `entrypoint` as root.
    pub fn new(platform: Platform, entrypoint: &[&str]) -> Self {
        Self {
            platform,
            user: String::new(),
            entrypoint: entrypoint.iter().map(|&word| word.to_owned()).collect(),
            working_dir: String::new(),
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            created: None,
        }
    }

    /// The configuration blob of an image with these layers.
    pub(crate) fn to_json(&self, layers: &[Layer]) -> Value {
        let Self {
            platform,
            user,
            entrypoint,
            working_dir,
            env,
            labels,
            created,
        } = self;
        let mut config = json!({"Entrypoint": entrypoint});
        if !user.is_empty() {
            config["User"] = json!(user);
        }
        if !working_dir.is_empty() {
            config["WorkingDir"] = json!(working_dir);
        }
        if !env.is_empty() {
            let pairs: Vec<String> = env.iter().map(|(k, v)| format!("{k}={v}")).collect();
            config["Env"] = json!(pairs);
        }
        if !labels.is_empty() {
            config["Labels"] = json!(labels);
        }
        let mut blob = platform.to_json();
        if let Some(created) = created {
            blob["created"] = json!(created);
        }
        blob["config"] = config;
        let ids: Vec<&str> = layers.iter().map(Layer::diff_id).collect();
        blob["rootfs"] = json!({"type": "layers", "diff_ids": ids});
        blob
    }
}
