//! Runs test programs, several at a time.
//!
//! Many tests wait: for a rollout, a probe, a timeout. Meanwhile another program uses the cores.

use std::fmt;
use std::io::Write;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::program::TestProgram;

/// How many programs run at the same time. More would only delay each other: most programs run two
/// tests at a time.
const PROGRAMS: usize = 2;

/// How often a program that is still running is reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// How many failed tests run again. If more fail, the machine was not the reason.
const MAX_REPEATED: usize = 5;

/// What the tests of several programs resulted in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub passed: u64,
    pub failed: u64,
    /// The programs that failed.
    pub failures: Vec<Failure>,
    /// Tests that failed beside others and passed when they ran again by themselves.
    pub flaky: Vec<Failure>,
}

/// A program that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    program: TestProgram,
    /// Its failed tests. Empty if it ended in another way.
    tests: Vec<String>,
    /// How it ended.
    status: ExitStatus,
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
            let output = run_program(&program, &[], environment);
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
    let (_, mut summary) = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    for failure in summary.take_repeatable() {
        let Failure { program, tests, .. } = &failure;
        println!("\n==> again, by themselves: {failure}");
        let started = Instant::now();
        let output = run_program(program, tests, environment)?;
        print(program, &output, total, total, started.elapsed());
        summary.add_repeated(failure, &output);
    }
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

/// Runs the tests of a program with these names, or all if there are none.
fn run_program(
    program: &TestProgram,
    tests: &[String],
    environment: &[(String, String)],
) -> anyhow::Result<Output> {
    let TestProgram {
        package, target, ..
    } = program;
    let mut command = program.command();
    if !tests.is_empty() {
        command.args(["--exact", "--test-threads=1"]).args(tests);
    }
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
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            self.count(line);
        }
        if !output.status.success() {
            self.failures.push(Failure::of(program.clone(), output));
        }
    }

    /// Takes the failures whose tests run again: all, if few tests failed.
    fn take_repeatable(&mut self) -> Vec<Failure> {
        let failed: usize = self
            .failures
            .iter()
            .map(|failure| failure.tests.len())
            .sum();
        if failed > MAX_REPEATED {
            return Vec::new();
        }
        let names_tests = |failure: &mut Failure| !failure.tests.is_empty();
        self.failures.extract_if(.., names_tests).collect()
    }

    /// Adds the result of tests that failed before.
    fn add_repeated(&mut self, mut before: Failure, output: &Output) {
        let again = Failure::of(before.program.clone(), output);
        if !output.status.success() {
            let crashed = again.tests.is_empty();
            before
                .tests
                .retain(|test| !crashed && !again.tests.contains(test));
            self.failures.push(again);
        }
        let passed = before.tests.len() as u64;
        self.passed += passed;
        self.failed = self.failed.saturating_sub(passed);
        if passed > 0 {
            self.flaky.push(before);
        }
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

impl Failure {
    fn of(program: TestProgram, output: &Output) -> Self {
        let failed = |line: &str| {
            let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
            Some(name.to_owned())
        };
        let stdout = String::from_utf8_lossy(&output.stdout);
        Self {
            program,
            tests: stdout.lines().filter_map(failed).collect(),
            status: output.status,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.program.package, self.program.target)?;
        match self.tests.as_slice() {
            [] => write!(f, "{}", self.status),
            tests => write!(f, "{}", tests.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn output(code: i32, stdout: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.into(),
            stderr: Vec::new(),
        }
    }

    fn summary_of(stdout: &str) -> Summary {
        let mut summary = Summary::default();
        let program = TestProgram::stand_in("llsd-e2e");
        summary.add(&program, &output(101, stdout));
        summary
    }

    #[test]
    fn a_test_that_passes_by_itself_is_reported_as_flaky_and_one_that_fails_again_as_failed() {
        let mut summary = summary_of(
            "test a ... FAILED\ntest b ... ok\ntest c ... FAILED\ntest result: FAILED. 1 passed; 2 failed; 0 ignored",
        );
        let mut repeatable = summary.take_repeatable();
        let failure = repeatable.remove(0);
        assert_eq!(
            (repeatable.len(), failure.tests.join(" ")),
            (0, "a c".to_owned())
        );
        summary.add_repeated(failure, &output(101, "test a ... ok\ntest c ... FAILED\n"));
        assert_eq!((summary.passed, summary.failed), (2, 1));
        let text =
            |failures: &[Failure]| failures.iter().map(Failure::to_string).collect::<String>();
        assert_eq!(text(&summary.flaky), "llsd-e2e : a");
        assert_eq!(text(&summary.failures), "llsd-e2e : c");

        let mut summary = summary_of("test a ... FAILED\n");
        let failure = summary.take_repeatable().remove(0);
        summary.add_repeated(failure, &output(134, ""));
        assert_eq!((summary.failures.len(), summary.flaky.len()), (1, 0));
    }

    #[test]
    fn neither_many_failed_tests_nor_a_program_that_crashed_run_again() {
        let many: String = (0..=MAX_REPEATED)
            .map(|n| format!("test t{n} ... FAILED\n"))
            .collect();
        for stdout in [many.as_str(), "test a ... ok\n"] {
            let mut summary = summary_of(stdout);
            assert_eq!(summary.take_repeatable(), []);
            assert_eq!((summary.failures.len(), summary.flaky.len()), (1, 0));
        }
    }

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
