//! `llsd explore`: a page to try out resources in, served on the loopback address.
//!
//! [`exploration`] answers what becomes of a resource; it is a function of the text, the plugins and the
//! options. [`server`] is the thin shell around it, and [`guard`] decides whom it answers. The page itself
//! is plain HTML, CSS and JavaScript in `explore/assets`.

mod assets;
mod bases;
mod cluster;
mod document;
mod exploration;
mod guard;
mod interruptible;
mod line_diff;
mod plugins;
mod reading;
mod report;
mod server;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::generation::BaseOptions;
use crate::network::ClusterOptions;
use crate::plugin_loader::LimitOptions;
use crate::{Exit, files, output};
use plugins::PluginSet;
use server::Page;

/// How long a plugin call may continue after Ctrl-C.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Arguments of `explore`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Port on the loopback address; 0 selects a free one
    #[arg(long, value_name = "PORT", default_value_t = 8322)]
    port: u16,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// File with a resource to open in the page, or `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Offer the resources of the cluster in the page; nothing is written to the cluster
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    connection: ClusterOptions,
    #[command(flatten)]
    options: BaseOptions,
    #[command(flatten)]
    limits: LimitOptions,
}

/// Serves the page until Ctrl-C.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Arguments {
        port,
        open,
        file,
        cluster,
        connection,
        options,
        limits,
    } = arguments;
    let opened = file.map(|file| files::text(&file)).transpose()?;
    let base = options.load_base()?;
    let host = limits.host()?;
    let set = PluginSet::load(&host, &options.plugins)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
        format!(
            "failed to listen on port {port}; select another one with --port, or any with --port 0"
        )
    })?;
    let port = listener.local_addr()?.port();
    let needs_token = opened.is_some() || cluster;
    let token = new_token()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(llsd_blocking::THREADS)
        .build()
        .context("failed to start the async runtime")?;
    let served = runtime.block_on(async {
        let cluster = match cluster {
            true => Some(connection.connect().await?),
            false => None,
        };
        let (sets, receiver) = watch::channel(Arc::new(set));
        let options = Arc::new(options);
        let page = Page {
            port,
            token: token.clone(),
            opened,
            cluster,
            plugins: receiver,
            base,
            options: options.clone(),
        };
        // Before the address is known: from then on Ctrl-C ends it cleanly.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        let mut address = format!("http://127.0.0.1:{port}/");
        if needs_token {
            // Browsers do not send the part after the hash, so it is in no log.
            address += &format!("#token={token}");
        }
        output::print(&address);
        output::print_note("open this address in a browser; Ctrl-C ends");
        if open {
            open_browser(&address);
        }
        let watching = plugins::reload(host, options, sets);
        tokio::select! {
            served = server::serve(listener, page) => served.context("the server failed"),
            () = async { watching.await; std::future::pending().await } => Ok(()),
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
        }
    });
    runtime.shutdown_timeout(SHUTDOWN);
    served.map(|()| Exit::Success)
}

/// 128 random bits as hexadecimal digits.
fn new_token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("failed to get random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens an address in the browser. The address is printed as well, so a failure is only a message.
fn open_browser(address: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let spawned = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = spawned {
        output::print_warning(&format!(
            "failed to start {program}: {error}; open the address yourself"
        ));
    }
}
