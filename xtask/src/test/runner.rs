//! Runs test programs, several at a time.
//!
//! Many tests wait: for a rollout, a probe, a timeout. Meanwhile another program uses the cores.

use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::program::TestProgram;

/// How many programs run at the same time. More would only delay each other: most programs run two
/// tests at a time.
const PROGRAMS: usize = 2;

/// How often a program that is still running is reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// What the tests of several programs resulted in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub passed: u64,
    pub failed: u64,
    /// The programs that failed, each with its failed tests.
    pub failures: Vec<String>,
}

/// The programs that wait, and those that run.
#[derive(Default)]
struct Queue {
    waiting: Vec<TestProgram>,
    running: Vec<TestProgram>,
}

/// Runs all programs with additional environment variables, and prints the output of each when it ends.
pub fn run(
    programs: Vec<TestProgram>,
    environment: &[(String, String)],
) -> anyhow::Result<Summary> {
    let total = programs.len();
    let queue = Mutex::new(Queue {
        waiting: programs,
        running: Vec::new(),
    });
    let ended = Condvar::new();
    let summary = Mutex::new((0, Summary::default()));
    let work = || {
        while let Some(program) = next(&queue, &ended) {
            let started = Instant::now();
            let output = run_program(&program, environment);
            lock(&queue).running.retain(|running| *running != program);
            ended.notify_all();
            let output = output?;
            let (count, summary) = &mut *lock(&summary);
            *count += 1;
            print(&program, &output, *count, total, started.elapsed());
            summary.add(&program, &output);
        }
        anyhow::Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..PROGRAMS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let (_, summary) = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(summary)
}

/// Takes the first program that can run beside the running ones. Waits if there is none; `None` at the
/// end.
fn next(queue: &Mutex<Queue>, ended: &Condvar) -> Option<TestProgram> {
    let mut queue = lock(queue);
    while !queue.waiting.is_empty() {
        let can_run = |program: &TestProgram| program.can_run_beside(&queue.running);
        if let Some(index) = queue.waiting.iter().position(can_run) {
            let program = queue.waiting.remove(index);
            queue.running.push(program.clone());
            return Some(program);
        }
        queue = ended.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_program(program: &TestProgram, environment: &[(String, String)]) -> anyhow::Result<Output> {
    let TestProgram {
        package, target, ..
    } = program;
    let mut command = program.command();
    command
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command
        .spawn()
        .with_context(|| format!("failed to start the tests of {package} ({target})"))?;
    eprintln!("    started: {package} {target}");
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let started = Instant::now();
            while watched.recv_timeout(REPORT_EVERY)
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                let minutes = started.elapsed().as_secs() / 60;
                eprintln!("    still running: {package} {target} ({minutes} min)");
            }
        });
        let output = child.wait_with_output();
        drop(ended);
        Ok(output?)
    })
}

fn print(program: &TestProgram, output: &Output, ended: usize, total: usize, time: Duration) {
    let TestProgram {
        package, target, ..
    } = program;
    let mut stdout = std::io::stdout().lock();
    // The results count also if nobody reads what is printed.
    let _ = writeln!(
        stdout,
        "\n==> {package} {target} ({ended} of {total}), {:.0} s",
        time.as_secs_f64()
    );
    let _ = stdout.write_all(&output.stdout);
    let _ = stdout.write_all(&output.stderr);
    let _ = stdout.flush();
}

impl Summary {
    fn add(&mut self, program: &TestProgram, output: &Output) {
        let stdout = String::from_utf8_lossy(&output.stdout);
        for line in stdout.lines() {
            self.count(line);
        }
        if output.status.success() {
            return;
        }
        let failed: Vec<&str> = stdout
            .lines()
            .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
            .collect();
        let what = if failed.is_empty() {
            output.status.to_string()
        } else {
            failed.join(", ")
        };
        self.failures
            .push(format!("{} {}: {what}", program.package, program.target));
    }

    /// Adds the numbers of a line such as `test result: ok. 12 passed; 0 failed; …`.
    fn count(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let number_before = |word: &str| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.passed += number_before("passed");
        self.failed += number_before("failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_several_programs_are_added() {
        let mut summary = Summary::default();
        summary.count("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        summary.count("some other line: 99 passed");
        summary.count("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        assert_eq!((summary.passed, summary.failed), (15, 2));
    }

    #[test]
    fn programs_that_share_something_run_one_after_the_other_and_the_node_runs_alone() {
        let packages = ["llsd-e2e", "llsd-install", "llsd-node", "llsd-render"];
        let queue = Mutex::new(Queue {
            waiting: packages.map(TestProgram::stand_in).into(),
            running: Vec::new(),
        });
        let ended = Condvar::new();
        let take = || next(&queue, &ended).map(|program| program.package);
        let end_all = || lock(&queue).running.clear();
        let taken = |package: &str| Some(package.to_owned());
        assert_eq!([take(), take()], [taken("llsd-e2e"), taken("llsd-render")]);
        end_all();
        assert_eq!(take(), taken("llsd-install"));
        end_all();
        assert_eq!(take(), taken("llsd-node"));
        assert_eq!(take(), None);
    }
}
