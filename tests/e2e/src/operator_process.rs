//! The operator as a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Stage;

/// The program itself, ended without warning when dropped.
pub struct Process(Child);

impl Process {
    /// Starts `llsd operator` for the namespace of a stage.
    pub fn start(stage: &Stage) -> Self {
        let kubeconfig = stage.testbed.kubeconfig(&stage.user).unwrap();
        Self::start_with(stage, &kubeconfig, |command| command)
    }

    /// Starts it with a kubeconfig of the caller's, and what else the caller wants.
    pub fn start_with(
        stage: &Stage,
        kubeconfig: &Path,
        adapt: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let program = std::env::var("LLSD_BIN")
            .expect("LLSD_BIN is not set: run the tests through `cargo xtask test`");
        let mut command = Command::new(program);
        command
            // No server runs in the pods, and no name of the cluster leads anywhere.
            .args(["operator", "--no-webhooks", "--poll-servers", "0"])
            .args(["--namespace", stage.namespace.name()])
            .args(["--operator-namespace", stage.namespace.name()])
            .env("KUBECONFIG", kubeconfig)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null());
        Self(adapt(&mut command).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
