//! Test programs as cargo builds them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

/// A built test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    /// The package that it tests.
    pub package: String,
    /// The name of its target: a file of `tests`, or the name of the library or program.
    pub target: String,
    executable: PathBuf,
    manifest: PathBuf,
}

/// Something of which there is only one. Programs that use the same do not run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// The control planes, whose namespaces and audit log are shared.
    ControlPlane,
    /// The real node.
    Node,
    /// The server packages. Each server needs a core while it starts.
    Servers,
    /// The browser.
    Browser,
}

impl TestProgram {
    /// Reads a message of `cargo test --no-run --message-format=json`. `None` if it is about something
    /// else.
    pub fn from_message(message: &str) -> anyhow::Result<Option<Self>> {
        let message: Value =
            serde_json::from_str(message).context("cargo printed a message that is not JSON")?;
        let is_test = message["profile"]["test"].as_bool().unwrap_or(false);
        let Some(executable) = message["executable"].as_str().filter(|_| is_test) else {
            return Ok(None);
        };
        // `path+file:///checkout/host/api#llsd-api@0.1.0`, without the name if the folder has it.
        let id = message["package_id"].as_str().unwrap_or_default();
        let (path, version) = id.rsplit_once('#').context("a package has no version")?;
        let package = match version.split_once('@') {
            Some((name, _)) => name,
            None => path.rsplit('/').next().unwrap_or_default(),
        };
        Ok(Some(Self {
            package: package.to_owned(),
            target: message["target"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            executable: executable.into(),
            manifest: message["manifest_path"].as_str().unwrap_or_default().into(),
        }))
    }

    /// What it uses that no other program may use at the same time.
    pub fn shared(&self) -> Option<Shared> {
        match self.package.as_str() {
            "llsd-e2e" | "llsd-install" | "llsd-testbed" => Some(Shared::ControlPlane),
            "llsd-node" => Some(Shared::Node),
            "llsd-servers" => Some(Shared::Servers),
            "llsd-explore" => Some(Shared::Browser),
            _ => None,
        }
    }

    /// Whether it needs the whole machine, because it measures delays and interruptions.
    pub fn runs_alone(&self) -> bool {
        ["llsd-node", "llsd-hostile"].contains(&self.package.as_str())
    }

    /// Whether it can run beside `others`.
    pub fn can_run_beside(&self, others: &[Self]) -> bool {
        others.iter().all(|other| {
            let is_free = self.shared().is_none() || self.shared() != other.shared();
            is_free && !self.runs_alone() && !other.runs_alone()
        })
    }

    /// Runs it as cargo does: in the folder of its package.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        if self.package == "llsd-e2e" {
            // Its tests wait for the API server and for rollouts half of the time.
            command.env("RUST_TEST_THREADS", "4");
        }
        if let Some(folder) = self.manifest.parent() {
            command
                .current_dir(folder)
                .env("CARGO_MANIFEST_DIR", folder);
        }
        command
    }
}

#[cfg(test)]
impl TestProgram {
    /// A program of this package, for tests of the order.
    pub fn stand_in(package: &str) -> Self {
        Self {
            package: package.to_owned(),
            target: String::new(),
            executable: PathBuf::new(),
            manifest: PathBuf::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_read_from_the_messages_of_cargo() {
        let message = |package: &str, profile: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///llsd/{package}",
                "manifest_path":"/llsd/tests/e2e/Cargo.toml","target":{{"name":"operator"}},
                "profile":{{"test":{profile}}},"executable":"/llsd/target/debug/deps/operator-1"}}"#
            )
        };
        let read = |text: &str| TestProgram::from_message(text).unwrap();
        let program = read(&message("tests/e2e#llsd-e2e@0.1.0", "true")).unwrap();
        assert_eq!(
            (program.package.as_str(), program.target.as_str()),
            ("llsd-e2e", "operator")
        );
        assert_eq!(program.shared(), Some(Shared::ControlPlane));
        let folder = program.command().get_current_dir().map(PathBuf::from);
        assert_eq!(folder, Some("/llsd/tests/e2e".into()));

        let named_by_folder = read(&message("xtask#0.1.0", "true")).unwrap();
        assert_eq!(named_by_folder.package, "xtask");
        assert_eq!(named_by_folder.shared(), None);
        assert_eq!(read(&message("xtask#0.1.0", "false")), None);
        assert_eq!(read(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
