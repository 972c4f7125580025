//! Runs test programs, several at a time.
//!
//! Many tests wait: for a rollout, a probe, a timeout. Meanwhile another program uses the cores.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::program::TestProgram;

/// How many programs run at the same time. More would only delay each other: most programs run two
/// tests at a time.
const PROGRAMS: usize = 2;

/// How often a program is asked whether it has ended.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// How long a program may run. The longest needs nine minutes on two cores that nobody else uses.
const TIME_LIMIT: Duration = Duration::from_mins(40);

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
    // Files instead of pipes: a process that a test left behind would keep a pipe open.
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    let mut child = command
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .with_context(|| format!("failed to start the tests of {package} ({target})"))?;
    eprintln!("    started: {package} {target}");
    let status = wait(&mut child, TIME_LIMIT, |state, minutes| {
        eprintln!("    {state}: {package} {target} ({minutes} min)");
    })?;
    Ok(Output {
        status,
        stdout: read_all(&mut stdout)?,
        stderr: read_all(&mut stderr)?,
    })
}

/// Waits until a program ends, and kills it after `limit`.
fn wait(
    child: &mut Child,
    limit: Duration,
    report: impl Fn(&str, u64),
) -> std::io::Result<ExitStatus> {
    let started = Instant::now();
    let mut reported = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let elapsed = started.elapsed();
        let minutes = elapsed.as_secs() / 60;
        if elapsed > limit {
            report("killed because it did not end", minutes);
            child.kill()?;
            return child.wait();
        }
        if minutes > reported {
            report("still running", minutes);
            reported = minutes;
        }
        std::thread::sleep(POLL_EVERY);
    }
}

fn read_all(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut content)?;
    Ok(content)
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

    /// Takes the failures whose tests run again, if few tests failed. Programs that run alone are not
    /// among them: nothing ran beside them, and what they measure must hold every time.
    fn take_repeatable(&mut self) -> Vec<Failure> {
        let failed: usize = self
            .failures
            .iter()
            .map(|failure| failure.tests.len())
            .sum();
        if failed > MAX_REPEATED {
            return Vec::new();
        }
        let is_repeatable =
            |failure: &mut Failure| !failure.tests.is_empty() && !failure.program.runs_alone();
        self.failures.extract_if(.., is_repeatable).collect()
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
    use std::cell::RefCell;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    fn output(code: i32, stdout: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.into(),
            stderr: Vec::new(),
        }
    }

    fn summary_of(package: &str, stdout: &str) -> Summary {
        let mut summary = Summary::default();
        let program = TestProgram::stand_in(package);
        summary.add(&program, &output(101, stdout));
        summary
    }

    #[test]
    fn a_test_that_passes_by_itself_is_reported_as_flaky_and_one_that_fails_again_as_failed() {
        let mut summary = summary_of(
            "llsd-e2e",
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

        let mut summary = summary_of("llsd-e2e", "test a ... FAILED\n");
        let failure = summary.take_repeatable().remove(0);
        summary.add_repeated(failure, &output(134, ""));
        assert_eq!((summary.failures.len(), summary.flaky.len()), (1, 0));
    }

    #[test]
    fn many_failed_tests_crashed_programs_and_programs_that_run_alone_do_not_run_again() {
        let many: String = (0..=MAX_REPEATED)
            .map(|n| format!("test t{n} ... FAILED\n"))
            .collect();
        for (package, stdout) in [
            ("llsd-e2e", many.as_str()),
            ("llsd-e2e", "test a ... ok\n"),
            ("llsd-node", "test a ... FAILED\n"),
        ] {
            let mut summary = summary_of(package, stdout);
            assert_eq!(summary.take_repeatable(), []);
            assert_eq!((summary.failures.len(), summary.flaky.len()), (1, 0));
        }
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_and_its_output_is_kept() {
        let shell = |script: &str, limit: Duration| {
            let mut stdout = tempfile::tempfile().unwrap();
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdout(stdout.try_clone().unwrap())
                .spawn()
                .unwrap();
            let reports = RefCell::new(Vec::new());
            let status = wait(&mut child, limit, |state, _| {
                reports.borrow_mut().push(state.to_owned());
            });
            let stdout = String::from_utf8(read_all(&mut stdout).unwrap()).unwrap();
            (status.unwrap().code(), stdout, reports.take())
        };
        let killed = vec!["killed because it did not end".to_owned()];
        assert_eq!(
            shell("echo before; exec sleep 600", Duration::from_secs(5)),
            (None, "before\n".to_owned(), killed)
        );
        // A process that it started does not keep it from ending.
        let (code, stdout, reports) = shell("sleep 600 & echo after; exit 3", TIME_LIMIT);
        assert_eq!((code, stdout.as_str()), (Some(3), "after\n"));
        assert_eq!(reports, Vec::<String>::new());
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
