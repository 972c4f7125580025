//! The layout of the configuration file of a range of releases.

use llsd_adapter_sdk::Release;

use crate::catalog::slice::Slice;
use crate::dialects::DIALECTS;
use crate::env::Syntax;

/// One dialect of the server's configuration, as data.
#[derive(Debug)]
pub struct Dialect {
    /// `<product>/<first release>`.
    pub(crate) id: &'static str,
    /// The server's package.
    pub(crate) product: &'static str,
    /// First release.
    pub(crate) from: Release,
    /// How variables are written.
    pub(crate) env: Syntax,
    /// Whether `version` must be the string `"2"` instead of the integer.
    pub(crate) text_version: bool,
    /// Where state storage is configured.
    pub(crate) state: State,
    /// The object that holds models, shields and so on; `None` for the top level.
    pub(crate) resources: Option<&'static str>,
    /// Whether tool groups are registered in the file. If not, the server derives them from providers.
    pub(crate) tool_groups: bool,
    /// Whether the file lists connectors to MCP servers.
    pub(crate) connectors: bool,
    /// How telemetry is configured.
    pub(crate) telemetry: Telemetry,
    /// Folders below which the server and its bases store files. The first is the server's default.
    pub(crate) homes: &'static [&'static str],
    /// Variable that overrides the server's default folder.
    pub(crate) home_variable: &'static str,
    /// Variable from which the server's app factory reads the path of the file.
    pub(crate) config_variable: &'static str,
    /// Variable from which the server's start command reads the port.
    pub(crate) port_variable: &'static str,
    /// Command that replaces the image's entry point if published images ignore the variables. The
    /// path of the file and `--port` are appended.
    pub(crate) command: &'static [&'static str],
    /// First release that reads `server.workers`.
    pub(crate) workers_from: Option<Release>,
    /// First release that requires TLS unless `server.insecure` is set.
    pub(crate) insecure_from: Option<Release>,
    /// First release that serves metrics for Prometheus.
    pub(crate) metrics_from: Option<Release>,
    /// First release whose SQL store accepts a connection string.
    pub(crate) connection_string_from: Option<Release>,
    /// Whether the server inserts the SQL password into a URL unencoded, so that it must be encoded.
    pub(crate) pastes_password: bool,
    /// Types of models that can be registered.
    pub(crate) model_types: &'static [&'static str],
    /// The keys that its releases read in each section: lines `<release> <section> <key>,<key>…`.
    pub(crate) layout: &'static str,
    /// The catalogue, oldest slice first.
    pub(crate) slices: &'static [Slice],
}

impl Dialect {
    /// Its id, for example `llama-stack/0.7`.
    pub const fn id(&self) -> &'static str {
        self.id
    }

    /// First release of the next dialect; none for the newest.
    pub(crate) fn before(&self) -> Option<Release> {
        let place = DIALECTS.iter().position(|entry| entry.id == self.id)?;
        DIALECTS.get(place + 1).map(|next| next.first)
    }

    /// The keys that its releases read in a section; empty if it has no such section.
    pub(crate) fn keys(&self, section: &str) -> Vec<&'static str> {
        let mut known = Vec::new();
        for line in self.layout.lines() {
            let mut words = line.split(' ').skip(1);
            if words.next() != Some(section) {
                continue;
            }
            for key in words.next().unwrap_or_default().split(',') {
                // Some releases accept these in the file, and ignore them.
                let is_read = match key {
                    "tool_groups" => self.tool_groups,
                    "vector_stores" => {
                        self.resources != Some(section) || self.from >= Release::first(0, 4, 0)
                    }
                    _ => true,
                };
                if is_read && !known.contains(&key) {
                    known.push(key);
                }
            }
        }
        known
    }

    /// The server's own default folder.
    pub(crate) fn home(&self) -> &'static str {
        self.homes.first().copied().unwrap_or_default()
    }
}

/// Where a dialect configures state storage.
#[derive(Debug)]
pub(crate) enum State {
    /// `metadata_store`, `inference_store`, and a whole store block inside each provider.
    Blocks,
    /// `storage.backends` and these `storage.stores`; providers hold references.
    Backends(&'static [Store]),
}

/// One of the server's stores.
#[derive(Debug)]
pub(crate) struct Store {
    /// Key under `storage.stores`.
    pub(crate) name: &'static str,
    /// Kind of storage that it needs.
    pub(crate) kind: Kind,
    /// Its namespace or table.
    pub(crate) place: &'static str,
}

/// Kind of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Key-value storage.
    Kv,
    /// SQL tables.
    Sql,
}

impl Kind {
    /// The prefix in the names of backends and their types.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Kv => "kv_",
            Self::Sql => "sql_",
        }
    }

    /// The name of the backend in the server's defaults.
    pub(crate) const fn default_backend(self) -> &'static str {
        match self {
            Self::Kv => "kv_default",
            Self::Sql => "sql_default",
        }
    }

    /// The key of a store reference that holds its namespace or table.
    pub(crate) const fn place_key(self) -> &'static str {
        match self {
            Self::Kv => "namespace",
            Self::Sql => "table_name",
        }
    }
}

/// How telemetry is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telemetry {
    /// An API with a provider.
    Provider,
    /// `telemetry.enabled` at the top level.
    Switch,
    /// Only by the environment variables of OpenTelemetry.
    Variables,
}
