//! Component bytes to machine code.
//!
//! Compiling is where hostile bytes can cost the most: wasmtime promises nothing about the time and
//! memory that it takes. So bytes from outside are compiled by a child process of the same binary,
//! under limits on its address space and time. The child runs no guest, opens no file and gets no
//! environment: bytes in on standard input, machine code out on standard output.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::answer::escaped;
use crate::engine;
use crate::limits::Limits;
use crate::load::chain;

/// The hidden first argument that makes a binary the child.
const SUBCOMMAND: &str = "__compile-component";

/// What the child writes before the machine code, so that the output of another program is not
/// taken for it.
const GREETING: &[u8] = b"llsd compiled component\n";

/// Machine code is a few times larger than WebAssembly; beyond this factor something is wrong.
const GROWTH: usize = 16;

/// Bytes of the child's complaints that are kept.
const COMPLAINT: usize = 2 << 10;

/// Why a component could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler refused it.
    #[error("the compiler refuses the component: {0}; build it again")]
    Refused(String),
    /// Too much memory.
    #[error(
        "compiling took more than {granted} bytes of memory; make the component smaller or grant more"
    )]
    OutOfMemory {
        /// Address space granted.
        granted: u64,
    },
    /// Too much time.
    #[error("compiling took longer than {granted:?}; make the component smaller or grant more")]
    OutOfTime {
        /// Time granted.
        granted: Duration,
    },
    /// Too much machine code.
    #[error("compiling made more than {granted} bytes of machine code; make the component smaller")]
    TooLarge {
        /// Bytes granted.
        granted: usize,
    },
    /// The child ended otherwise.
    #[error(
        "the compiling process ended with {status}: {complaint}; report this with the component"
    )]
    Crashed {
        /// How it ended.
        status: String,
        /// What it said.
        complaint: String,
    },
    /// The program is not the child that it should be.
    #[error(
        "the program that should compile does not know how; its main must call `child_main` first"
    )]
    NotACompiler,
    /// The child could not be started or talked to.
    #[error("the compiling process could not be started")]
    Start(#[source] io::Error),
}

/// Compiles in this process: for bytes that came with the binary.
pub(crate) fn here(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, CompileError> {
    engine
        .precompile_component(bytes)
        .map_err(|error| CompileError::Refused(chain(&error)))
}

/// Compiles in a child process of `program` under limits.
pub(crate) fn in_child(
    program: &Path,
    bytes: &[u8],
    limits: &Limits,
) -> Result<Vec<u8>, CompileError> {
    let seconds = limits.compile_time.as_secs().max(1).saturating_add(1);
    let child = Command::new(program)
        .arg(SUBCOMMAND)
        .arg(limits.compile_memory_bytes.to_string())
        .arg(seconds.to_string())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(CompileError::Start)?;
    Running(child).finish(bytes, limits)
}

/// What a binary calls before anything else: does the child's work when it was started for that.
///
/// `None`: go on with `main`. `Some`: exit with this code.
pub fn child_main() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != SUBCOMMAND {
        return None;
    }
    Some(match compile_stdin(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The parent reads it; if nobody does, there is nobody to tell.
            let _ = io::stderr().write_all(message.as_bytes());
            ExitCode::FAILURE
        }
    })
}

/// The child. Limits come first, so that nothing of the input is read without them.
fn compile_stdin(mut arguments: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
    let (Some(memory_bytes), Some(seconds)) = (number(), number()) else {
        return Err("the limits are missing".into());
    };
    // One second between the two limits on time: the first ends the process by a signal that says
    // why.
    for (resource, limit, maximum) in [
        (Resource::As, memory_bytes, memory_bytes),
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
    ] {
        let limits = Rlimit {
            current: Some(limit),
            maximum: Some(maximum),
        };
        setrlimit(resource, limits)
            .map_err(|error| format!("could not limit {resource:?}: {error}"))?;
    }
    let mut bytes = Vec::new();
    io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    let engine = engine::compiler().map_err(|error| chain(&error))?;
    let code = engine
        .precompile_component(&bytes)
        .map_err(|error| chain(&error))?;
    let mut out = io::stdout().lock();
    out.write_all(GREETING)
        .and_then(|()| out.write_all(&code))
        .and_then(|()| out.flush())
        .map_err(|e| e.to_string())
}

/// A child that is killed and reaped whatever happens.
struct Running(Child);

impl Running {
    fn finish(mut self, bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, CompileError> {
        let granted = limits.component_bytes.saturating_mul(GROWTH);
        let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (
            self.0.stdin.take(),
            self.0.stdout.take(),
            self.0.stderr.take(),
        ) else {
            return Err(CompileError::Start(io::Error::other(
                "its streams are missing",
            )));
        };
        std::thread::scope(|scope| {
            // A child that died early closes its input: its end says more than our failed write.
            scope.spawn(move || stdin.write_all(bytes));
            let complaint = scope.spawn(move || {
                let mut text = Vec::new();
                let _ = stderr
                    .by_ref()
                    .take(COMPLAINT as u64)
                    .read_to_end(&mut text);
                let _ = io::copy(&mut stderr, &mut io::sink());
                escaped(String::from_utf8_lossy(&text).trim()).into_owned()
            });
            let (sender, output) = mpsc::channel();
            scope.spawn(move || {
                let mut code = Vec::new();
                let read = stdout.take(granted as u64 + 1).read_to_end(&mut code);
                // The receiver may have given up waiting.
                let _ = sender.send(read.map(|_| code));
            });
            let code = match output.recv_timeout(limits.compile_time) {
                Ok(Ok(code)) if code.len() <= granted => code,
                // The threads above end with the child.
                outcome => {
                    self.end();
                    return Err(match outcome {
                        Ok(Ok(_)) => CompileError::TooLarge { granted },
                        Ok(Err(error)) => CompileError::Start(error),
                        Err(_) => CompileError::OutOfTime {
                            granted: limits.compile_time,
                        },
                    });
                }
            };
            let status = self.0.wait().map_err(CompileError::Start)?;
            let complaint = complaint.join().unwrap_or_default();
            judge(status, complaint, code, limits)
        })
    }

    fn end(&mut self) {
        // It may have ended by itself meanwhile; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn judge(
    status: ExitStatus,
    complaint: String,
    code: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<u8>, CompileError> {
    // Rust's own words when an allocation fails; a test holds them.
    if complaint.contains("memory allocation of") || complaint.contains("Cannot allocate memory") {
        return Err(CompileError::OutOfMemory {
            granted: limits.compile_memory_bytes,
        });
    }
    match status.code() {
        Some(0) => match code.strip_prefix(GREETING) {
            Some(code) => Ok(code.to_vec()),
            None => Err(CompileError::NotACompiler),
        },
        Some(1) => Err(CompileError::Refused(complaint)),
        _ if ended_by_cpu_limit(status) => Err(CompileError::OutOfTime {
            granted: limits.compile_time,
        }),
        _ => Err(CompileError::Crashed {
            status: status.to_string(),
            complaint,
        }),
    }
}

fn ended_by_cpu_limit(status: ExitStatus) -> bool {
    status.signal() == Some(rustix::process::Signal::XCPU.as_raw())
}
