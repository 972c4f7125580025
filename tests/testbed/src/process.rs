//! Starts background programs and makes sure that they end.
//!
//! A program is ended by its own id, with SIGKILL: kube-apiserver ignores SIGTERM once etcd is
//! gone, and nothing here has state worth saving. A [`Watchdog`] ends the programs of a test
//! process that was killed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// A running program, as another process needs to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// The program file, to tell the process from a later one with the same id.
    pub(crate) program: PathBuf,
}

impl Running {
    /// Ends the process if it is still the one that was started.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Stops the process where it is, until it is [resumed](Self::resume).
    pub(crate) fn suspend(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets the process go on.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            bail!("{} has the impossible process id {}", self.name, self.pid);
        };
        // Where there is no /proc the id alone has to do.
        if Path::new("/proc/self/exe").exists() && !self.is_same_program() {
            return Ok(());
        }
        match rustix::process::kill_process(pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("cannot signal {} ({})", self.name, self.pid))
            }
        }
    }

    fn is_same_program(&self) -> bool {
        let link = fs::read_link(format!("/proc/{}/exe", self.pid));
        link.is_ok_and(|found| fs::canonicalize(&self.program).is_ok_and(|own| own == found))
    }
}

/// A program that this process started and ends when dropped, unless it was released.
#[derive(Debug)]
pub(crate) struct Daemon {
    running: Running,
    arguments: Vec<String>,
    folder: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

impl Daemon {
    /// Starts `program` in a process group of its own, with its output in `<folder>/<name>.log`.
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
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C in a terminal must not reach etcd before the API server.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let running = Running {
            name: name.to_owned(),
            pid: child.id(),
            program: program.to_owned(),
        };
        Ok(Self {
            running,
            arguments: arguments.to_vec(),
            folder: folder.to_owned(),
            log,
            child: Some(child),
        })
    }

    /// Ends the program without warning and starts it again, in the same place.
    pub(crate) fn restart(&mut self) -> Result<()> {
        if let Some(child) = &mut self.child {
            child.kill()?;
            child.wait()?;
        }
        let Running { name, program, .. } = self.running.clone();
        *self = Self::start(&name, &program, &self.arguments, &self.folder)?;
        Ok(())
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Fails with the end of the log when the program has ended by itself.
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
            "{} ended with {status}; its log ends with:\n{tail}",
            self.running.name
        )
    }

    /// Lets the program outlive this process.
    pub(crate) fn release(mut self) {
        self.child = None;
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ends the programs it was told about, last one first, when the process that made it is gone.
///
/// It is a shell that reads process ids from a pipe: the kernel closes the pipe however this
/// process ends, and the shell then kills what it has read and removes the folder.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    const SCRIPT: &str = r#"trap '' INT TERM HUP
pids=
while read -r pid; do
  case $pid in
    -*) kept=; for one in $pids; do [ "-$one" = "$pid" ] || kept="$kept $one"; done; pids=$kept ;;
    *) pids="$pid $pids" ;;
  esac
done
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
[ -z "$1" ] || rm -rf -- "$1""#;

    /// `remove` is a folder to delete once the programs have ended.
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
            .context("cannot run sh")?;
        Ok(Self { shell })
    }

    pub(crate) fn watch(&mut self, daemon: &Daemon) -> Result<()> {
        self.tell(&daemon.running.pid.to_string())
    }

    /// Leaves alone a program that ends: its id may soon be another one's.
    pub(crate) fn forget(&mut self, daemon: &Daemon) -> Result<()> {
        self.tell(&format!("-{}", daemon.running.pid))
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let pipe = self
            .shell
            .stdin
            .as_mut()
            .context("the watchdog has no pipe")?;
        writeln!(pipe, "{line}").context("the watchdog has ended")
    }

    /// Calls the watchdog off; the caller has ended the programs itself, or wants them to stay.
    pub(crate) fn dismiss(mut self) {
        // The shell must not see the pipe close, so it goes first.
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

    fn ends(running: &Running) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while running.is_same_program() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    #[test]
    fn a_dropped_daemon_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = sleeper(folder.path());
        let running = daemon.running().clone();
        assert!(running.is_same_program());
        drop(daemon);
        assert!(ends(&running));
    }

    #[test]
    fn a_released_daemon_lives_until_it_is_killed_by_id() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = sleeper(folder.path());
        let running = daemon.running().clone();
        daemon.release();
        assert!(running.is_same_program());
        running.kill().unwrap();
        assert!(ends(&running));
    }

    #[test]
    fn a_process_that_runs_another_program_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = sleeper(folder.path());
        let impostor = Running {
            program: "/bin/sh".into(),
            ..daemon.running().clone()
        };
        impostor.kill().unwrap();
        daemon.check_alive().unwrap();
    }

    #[test]
    fn the_watchdog_ends_programs_and_removes_the_folder_when_its_maker_is_gone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("run");
        fs::create_dir(&folder).unwrap();
        let daemon = sleeper(&folder);
        let running = daemon.running().clone();
        let mut watchdog = Watchdog::start(Some(&folder)).unwrap();
        watchdog.watch(&daemon).unwrap();
        daemon.release();
        // What the kernel does with the pipe of a process that ended.
        drop(watchdog.shell.stdin.take());
        assert!(watchdog.shell.wait().is_ok());
        assert!(ends(&running));
        assert!(!folder.exists());
    }

    #[test]
    fn a_restarted_program_is_another_process_and_the_former_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = sleeper(folder.path());
        let mut watchdog = Watchdog::start(None).unwrap();
        watchdog.watch(&daemon).unwrap();
        let former = daemon.running().clone();
        daemon.restart().unwrap();
        assert!(!former.is_same_program());
        watchdog.watch(&daemon).unwrap();
        watchdog.forget(&daemon).unwrap();
        drop(watchdog.shell.stdin.take());
        assert!(watchdog.shell.wait().is_ok());
        daemon.check_alive().unwrap();
    }

    #[test]
    fn a_program_that_ended_is_reported_with_its_log() {
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
