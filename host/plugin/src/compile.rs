//! Inspects components and compiles them to machine code.
//!
//! Parsing and compiling are where a hostile component can use the most resources: the libraries do not
//! bound the time and memory that they take. So components that are not part of the binary are inspected
//! and compiled in a child process of the same binary, with limits on memory and time, one at a
//! time. The child runs no guest, opens no file and gets no environment: it reads the component from
//! standard input and writes its structure and machine code to standard output.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use llsd_api::escape_line;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::engine;
use crate::limits::Limits;
use crate::load::{LoadError, error_chain};
use crate::structure::{self, Structure};

/// The hidden first argument that starts the child process.
const SUBCOMMAND: &str = "__compile-component";

/// The child writes this first, so that the output of another program is not mistaken for its own.
const OUTPUT_HEADER: &[u8] = b"llsd compiled component\n";

/// Maximum ratio of machine code to WebAssembly. Machine code is usually a few times larger.
const MAX_GROWTH: usize = 8;

/// Maximum size of the structure, which is limited in the number and length of its names.
const MAX_STRUCTURE: u64 = 1 << 20;

/// Address space for the program's file and its libraries, which are mapped before the limits are set.
const PROGRAM_BYTES: u64 = 512 << 20;

/// How many times longer than its CPU time the child process may run. On a busy machine it waits for a
/// core, which is not the fault of the component.
const MAX_WAITING: u32 = 20;

/// Held while a child process runs: the memory of the operator's pod is enough for one.
static CHILD_RUNS: Mutex<()> = Mutex::new(());

/// What the child process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Reads the structure of a component.
    Inspect,
    /// Reads the structure and, if the component can be loaded, compiles it.
    Compile,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Compile => "compile",
        }
    }
}

/// The output of the child process.
pub(crate) struct ChildOutput {
    pub(crate) structure: Result<Structure, LoadError>,
    /// Machine code. Empty if it was not requested, or if a load rule is violated.
    pub(crate) code: Vec<u8>,
}

/// How the child writes the structure.
#[derive(Serialize, Deserialize)]
enum StructureMessage {
    Structure(Structure),
    Malformed(String),
    TooComplex { what: String, limit: usize },
}

/// How much of the child's standard error is stored.
const MAX_STDERR: u64 = 2 << 10;

/// Why compiling a component failed.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler rejected it.
    #[error("the compiler rejected the component: {0}; rebuild it")]
    Rejected(String),
    /// It needs too much memory.
    #[error(
        "compiling exceeded the limit of {limit} bytes of memory; make the component smaller, or raise spec.limits.compileMemory of the SchemaPlugin (compileMemory in the file of --limits)"
    )]
    OutOfMemory {
        /// The limit.
        limit: u64,
    },
    /// It takes too long.
    #[error(
        "compiling exceeded the limit of {limit:?} of CPU time; make the component smaller, or raise spec.limits.compileTimeMillis of the SchemaPlugin (compileTimeMillis in the file of --limits)"
    )]
    OutOfTime {
        /// The limit.
        limit: Duration,
    },
    /// It got too little CPU time to end.
    #[error(
        "the compiler process did not end within {limit:?}; check the CPU load of this machine and try again"
    )]
    Stalled {
        /// The limit of the wall clock.
        limit: Duration,
    },
    /// The machine code is too large.
    #[error("the machine code exceeds the limit of {limit} bytes; make the component smaller")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The child process crashed.
    #[error(
        "the compiler process ended with {status}: {stderr}; report this together with the component"
    )]
    Crashed {
        /// Its exit status.
        status: String,
        /// Its standard error.
        stderr: String,
    },
    /// The program is not a compiler.
    #[error(
        "the program that was started does not compile components; call `child_main` first in its `main`"
    )]
    NotACompiler,
    /// The child process could not be started, or its pipes failed.
    #[error("failed to run the compiler process")]
    Start(#[source] io::Error),
}

/// Compiles in this process, for components that are part of the binary.
pub(crate) fn in_process(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, CompileError> {
    engine
        .precompile_component(bytes)
        .map_err(|error| CompileError::Rejected(error_chain(&error)))
}

/// Inspects a component in a child process of `program`, and compiles it if `task` says so, with limits.
/// Waits while another child process runs.
pub(crate) fn in_child(
    program: &Path,
    task: Task,
    bytes: &[u8],
    limits: &Limits,
) -> Result<ChildOutput, CompileError> {
    // The kernel counts whole seconds.
    let seconds = limits.compile_time.as_millis().div_ceil(1000);
    let _running = CHILD_RUNS.lock();
    let child = Command::new(program)
        .arg(SUBCOMMAND)
        .arg(task.name())
        .arg(limits.compile_memory_bytes.to_string())
        .arg(seconds.to_string())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(CompileError::Start)?;
    CompilerProcess(child).finish(bytes, limits)
}

/// Compiles a component if this process was started as the compiler's child process. A binary calls
/// it before anything else in `main`.
///
/// `None`: continue with `main`. `Some`: exit with this code.
pub fn child_main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != SUBCOMMAND {
        return None;
    }
    Some(match compile_stdin(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // If the parent has gone away, nothing can be reported.
            let _ = io::stderr().write_all(message.as_bytes());
            ExitCode::FAILURE
        }
    })
}

/// The child process. Sets its limits before it reads any input.
fn compile_stdin(mut arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let task = arguments.next();
    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
    let (Some(task), Some(memory_bytes), Some(seconds)) = (task, number(), number()) else {
        return Err("the arguments for the limits are missing".into());
    };
    set_limits(memory_bytes, seconds)?;
    let mut bytes = Vec::new();
    io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    let structure = structure::read(&bytes);
    let is_compiled = task == Task::Compile.name()
        && structure
            .as_ref()
            .is_ok_and(|structure| structure.forbidden_feature.is_none());
    let message = match structure {
        Ok(structure) => StructureMessage::Structure(structure),
        Err(LoadError::TooComplex { what, limit }) => StructureMessage::TooComplex { what, limit },
        Err(error) => StructureMessage::Malformed(match error {
            LoadError::Malformed(problem) => problem,
            other => other.to_string(),
        }),
    };
    let message = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
    let code = match is_compiled {
        true => engine::compiler()
            .and_then(|engine| engine.precompile_component(&bytes))
            .map_err(|error| error_chain(&error))?,
        false => Vec::new(),
    };
    let mut out = io::stdout().lock();
    out.write_all(OUTPUT_HEADER)
        .and_then(|()| out.write_all(&(message.len() as u64).to_le_bytes()))
        .and_then(|()| out.write_all(&message))
        .and_then(|()| out.write_all(&code))
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}

fn set_limits(memory_bytes: u64, seconds: u64) -> Result<(), String> {
    // The soft limit on CPU time sends SIGXCPU, which tells the parent the reason. The hard limit is
    // one second later.
    let address_space = memory_bytes.saturating_add(PROGRAM_BYTES);
    for (resource, soft, hard) in [
        // Memory that is written. The address space also contains the program's file, whose pages are
        // shared with the parent.
        (Resource::Data, memory_bytes, memory_bytes),
        (Resource::As, address_space, address_space),
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
    ] {
        let limits = Rlimit {
            current: Some(soft),
            maximum: Some(hard),
        };
        setrlimit(resource, limits)
            .map_err(|error| format!("failed to set the limit {resource:?}: {error}"))?;
    }
    Ok(())
}

/// The child process; killed and reaped on drop.
struct CompilerProcess(Child);

impl CompilerProcess {
    fn finish(mut self, bytes: &[u8], limits: &Limits) -> Result<ChildOutput, CompileError> {
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (
            self.0.stdin.take(),
            self.0.stdout.take(),
            self.0.stderr.take(),
        ) else {
            return Err(CompileError::Start(io::Error::other(
                "a standard stream is missing",
            )));
        };
        let max_code = limits.component_bytes.saturating_mul(MAX_GROWTH);
        let max_time = limits.compile_time.saturating_mul(MAX_WAITING);
        std::thread::scope(|scope| {
            // If the child exits early, this write fails. Its exit status then tells the reason.
            scope.spawn(move || stdin.write_all(bytes));
            let stderr = scope.spawn(move || read_stderr(stderr));
            let (sender, output) = mpsc::channel();
            scope.spawn(move || {
                // The receiver may have timed out.
                let _ = sender.send(read_output(stdout, max_code));
            });
            let output = output
                .recv_timeout(max_time)
                .unwrap_or(Err(CompileError::Stalled { limit: max_time }))
                // Closes the pipes, so that the threads of this scope end.
                .inspect_err(|_| self.kill())?;
            let status = self.0.wait().map_err(CompileError::Start)?;
            let stderr = stderr.join().unwrap_or_default();
            interpret(status, stderr, output, limits)
        })
    }

    fn kill(&mut self) {
        // Both fail if the child has exited and was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for CompilerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads the beginning of standard error and discards the rest.
fn read_stderr(mut stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    let _ = stderr.by_ref().take(MAX_STDERR).read_to_end(&mut text);
    let _ = io::copy(&mut stderr, &mut io::sink());
    escape_line(String::from_utf8_lossy(&text).trim()).into_owned()
}

/// Reads the output of the child. `None` if it is not that of a compiler.
fn read_output(mut stdout: ChildStdout, limit: usize) -> Result<Option<ChildOutput>, CompileError> {
    let mut header = Vec::new();
    let header_length = OUTPUT_HEADER.len() as u64 + 8;
    stdout
        .by_ref()
        .take(header_length)
        .read_to_end(&mut header)
        .map_err(CompileError::Start)?;
    let length = header
        .strip_prefix(OUTPUT_HEADER)
        .and_then(|length| length.try_into().ok())
        .map(u64::from_le_bytes);
    let Some(length) = length.filter(|length| *length <= MAX_STRUCTURE) else {
        return Ok(None);
    };
    let mut message = Vec::new();
    stdout
        .by_ref()
        .take(length)
        .read_to_end(&mut message)
        .map_err(CompileError::Start)?;
    let Ok(message) = serde_json::from_slice(&message) else {
        return Ok(None);
    };
    let structure = match message {
        StructureMessage::Structure(structure) => Ok(structure),
        StructureMessage::Malformed(problem) => Err(LoadError::Malformed(problem)),
        StructureMessage::TooComplex { what, limit } => Err(LoadError::TooComplex { what, limit }),
    };
    let mut code = Vec::new();
    stdout
        .take(limit as u64 + 1)
        .read_to_end(&mut code)
        .map_err(CompileError::Start)?;
    if code.len() > limit {
        return Err(CompileError::TooLarge { limit });
    }
    Ok(Some(ChildOutput { structure, code }))
}

/// The output, or the reason why the child failed.
fn interpret(
    status: ExitStatus,
    stderr: String,
    output: Option<ChildOutput>,
    limits: &Limits,
) -> Result<ChildOutput, CompileError> {
    // The messages of Rust and of the C library for a failed allocation. A test checks the wording.
    if stderr.contains("memory allocation of") || stderr.contains("Cannot allocate memory") {
        return Err(CompileError::OutOfMemory {
            limit: limits.compile_memory_bytes,
        });
    }
    match status.code() {
        Some(0) => output.ok_or(CompileError::NotACompiler),
        Some(1) => Err(CompileError::Rejected(stderr)),
        _ if exceeded_cpu_limit(status) => Err(CompileError::OutOfTime {
            limit: limits.compile_time,
        }),
        _ => Err(CompileError::Crashed {
            status: status.to_string(),
            stderr,
        }),
    }
}

fn exceeded_cpu_limit(status: ExitStatus) -> bool {
    status.signal() == Some(rustix::process::Signal::XCPU.as_raw())
}
