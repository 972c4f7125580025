//! Starts background processes and makes sure that they are stopped.
//!
//! A process is killed by its id with SIGKILL: kube-apiserver ignores SIGTERM once etcd has exited,
//! and no process has data that must be saved. A [`Watchdog`] stops the processes of a test process
//! that was killed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// What another process needs to signal a running process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProcessHandle {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// The executable, to recognise that the id was reused by another process.
    pub(crate) program: PathBuf,
}

impl ProcessHandle {
    /// Kills the process, if it still runs the same executable.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Suspends the process until it is [resumed](Self::resume).
    pub(crate) fn suspend(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes the process.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            bail!("{} has the invalid process id {}", self.name, self.pid);
        };
        // Without /proc the executable cannot be checked.
        if Path::new("/proc/self/exe").exists() && !self.is_same_program() {
            return Ok(());
        }
        match rustix::process::kill_process(pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("failed to signal {} ({})", self.name, self.pid))
            }
        }
    }

    fn is_same_program(&self) -> bool {
        let link = fs::read_link(format!("/proc/{}/exe", self.pid));
        link.is_ok_and(|found| fs::canonicalize(&self.program).is_ok_and(|own| own == found))
    }
}

/// A child process that is killed when dropped, unless it was released.
#[derive(Debug)]
pub(crate) struct Daemon {
    handle: ProcessHandle,
    arguments: Vec<String>,
    folder: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl Daemon {
    /// Starts `program` in its own process group, with its output in `<folder>/<name>.log`.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = OpenOptions::new().create(true).append(true).open(&log)?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            // Memory is not scarce, so garbage is collected less often.
            .env("GOGC", "400")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C in a terminal must not reach etcd before the API server.
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to run {}", program.display()))?;
        let handle = ProcessHandle {
            name: name.to_owned(),
            pid: child.id(),
            program: program.to_owned(),
        };
        Ok(Self {
            handle,
            arguments: arguments.to_vec(),
            folder: folder.to_owned(),
            log,
            child: Some(child),
        })
    }

    /// Kills the process and starts it again in the same folder.
    pub(crate) fn restart(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child {
            child.kill()?;
            child.wait()?;
        }
        let ProcessHandle { name, program, .. } = self.handle.clone();
        *self = Self::start(&name, &program, &self.arguments, &self.folder)?;
        Ok(())
    }

    pub(crate) fn handle(&self) -> &ProcessHandle {
        &self.handle
    }

    /// Fails with the end of the log if the process has exited.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        let Some(status) = child.try_wait()? else {
            return Ok(());
        };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!(
            "{} exited with {status}; the end of its log:\n{tail}",
            self.handle.name
        )
    }

    /// Lets the process outlive this one.
    pub(crate) fn release(mut self) {
        self.child = None;
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // An error means that the process has exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Kills the watched processes, last one first, when the process that created it has exited.
///
/// It is a shell that reads process ids from a pipe. The kernel closes the pipe however this process
/// exits. The shell then kills the processes and removes the folder.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    const SCRIPT: &str = r#"trap '' INT TERM HUP
pids=
while read -r pid; do
  case $pid in
    -*) rest=; for one in $pids; do [ "-$one" = "$pid" ] || rest="$rest $one"; done; pids=$rest ;;
    *) pids="$pid $pids" ;;
  esac
done
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
[ -z "$1" ] || rm -rf -- "$1""#;

    /// `remove` is a folder to delete after the processes were killed.
    pub(crate) fn start(remove: Option<&Path>) -> Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", Self::SCRIPT, "watchdog"])
            .arg(remove.unwrap_or(Path::new("")))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("failed to run sh")?;
        Ok(Self { shell })
    }

    pub(crate) fn watch(&mut self, daemon: &Daemon) -> Result<()> {
        self.send(&daemon.handle.pid.to_string())
    }

    /// Stops watching a process that is about to exit, because its id may be reused.
    pub(crate) fn unwatch(&mut self, daemon: &Daemon) -> Result<()> {
        self.send(&format!("-{}", daemon.handle.pid))
    }

    fn send(&mut self, line: &str) -> Result<()> {
        let pipe = self
            .shell
            .stdin
            .as_mut()
            .context("the watchdog has no pipe")?;
        writeln!(pipe, "{line}").context("the watchdog has exited")
    }

    /// Stops the watchdog without killing the processes.
    pub(crate) fn dismiss(mut self) {
        // Kill the shell before the pipe closes, because it acts on the closed pipe.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sleeper(folder: &Path) -> Daemon {
        Daemon::start(
            "sleeper",
            Path::new("/bin/sleep"),
            &["600".to_owned()],
            folder,
        )
        .unwrap()
    }

    fn exits(handle: &ProcessHandle) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while handle.is_same_program() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    #[test]
    fn dropping_a_daemon_kills_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = sleeper(folder.path());
        let handle = daemon.handle().clone();
        assert!(handle.is_same_program());
        drop(daemon);
        assert!(exits(&handle));
    }

    #[test]
    fn a_released_daemon_runs_until_its_handle_kills_it() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = sleeper(folder.path());
        let handle = daemon.handle().clone();
        daemon.release();
        assert!(handle.is_same_program());
        handle.kill().unwrap();
        assert!(exits(&handle));
    }

    #[test]
    fn a_process_that_runs_another_executable_is_not_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = sleeper(folder.path());
        let impostor = ProcessHandle {
            program: "/bin/sh".into(),
            ..daemon.handle().clone()
        };
        impostor.kill().unwrap();
        daemon.check_alive().unwrap();
    }

    #[test]
    fn the_watchdog_kills_processes_and_removes_the_folder_when_its_creator_exits() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("run");
        fs::create_dir(&folder).unwrap();
        let daemon = sleeper(&folder);
        let handle = daemon.handle().clone();
        let mut watchdog = Watchdog::start(Some(&folder)).unwrap();
        watchdog.watch(&daemon).unwrap();
        daemon.release();
        // The kernel closes the pipe like this when the process exits.
        drop(watchdog.shell.stdin.take());
        assert!(watchdog.shell.wait().is_ok());
        assert!(exits(&handle));
        assert!(!folder.exists());
    }

    #[test]
    fn a_restarted_daemon_has_a_new_process_and_can_be_unwatched() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = sleeper(folder.path());
        let mut watchdog = Watchdog::start(None).unwrap();
        watchdog.watch(&daemon).unwrap();
        let old_handle = daemon.handle().clone();
        daemon.restart().unwrap();
        assert!(!old_handle.is_same_program());
        watchdog.watch(&daemon).unwrap();
        watchdog.unwatch(&daemon).unwrap();
        drop(watchdog.shell.stdin.take());
        assert!(watchdog.shell.wait().is_ok());
        daemon.check_alive().unwrap();
    }

    #[test]
    fn a_daemon_that_exited_is_reported_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["-c".to_owned(), "echo no such flag; exit 3".to_owned()];
        let mut daemon =
            Daemon::start("sh", Path::new("/bin/sh"), &arguments, folder.path()).unwrap();
        let _ = daemon.child.as_mut().unwrap().wait();
        let message = daemon.check_alive().unwrap_err().to_string();
        assert!(
            message.contains("exit status: 3") && message.contains("no such flag"),
            "{message}"
        );
    }
}
