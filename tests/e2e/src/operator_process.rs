//! The operator as a separate process.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::TestEnv;

/// A running `llsd operator`, killed when dropped.
pub struct OperatorProcess(Child);

impl OperatorProcess {
    /// Starts `llsd operator` for the namespace of a test.
    pub fn start(env: &TestEnv) -> Self {
        let kubeconfig = env.testbed.kubeconfig(&env.user).unwrap();
        Self::start_with(env, &kubeconfig, |command| command)
    }

    /// Starts it with another kubeconfig and a changed command line.
    pub fn start_with(
        env: &TestEnv,
        kubeconfig: &Path,
        configure: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let program = std::env::var("LLSD_BIN")
            .expect("LLSD_BIN is not set; run the tests with `cargo xtask test`");
        let mut command = Command::new(program);
        command
            // No server runs in the pods, and the cluster's DNS names do not resolve.
            .args(["operator", "--no-webhooks", "--poll-servers", "0"])
            .args(["--namespace", env.namespace.name()])
            .args(["--operator-namespace", env.namespace.name()])
            .env("KUBECONFIG", kubeconfig)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null());
        Self(configure(&mut command).spawn().unwrap())
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
