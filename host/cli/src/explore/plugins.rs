//! The plugins of the page. Those of `--plugin` are loaded again when their files change, so that an
//! author can watch what a new build does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use llsd_api::escape_lines;
use llsd_plugin::{Host, Plugin};
use tokio::sync::watch;

use crate::generation::BaseOptions;
use crate::plugin_loader::{self, PluginOptions};

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_millis(400);

/// The plugins in use.
pub(super) struct PluginSet {
    /// Grows with each change.
    pub(super) version: u64,
    /// The plugins by priority.
    pub(super) plugins: Vec<Plugin>,
    /// How many of them are from `--plugin`; they come first.
    pub(super) given: usize,
    /// Why the newest files could not be loaded. The plugins are then those of before.
    pub(super) problem: Option<String>,
}

impl PluginSet {
    /// Loads the plugins.
    pub(super) fn load(host: &Host, options: &PluginOptions) -> anyhow::Result<Self> {
        Ok(Self {
            version: 1,
            plugins: plugin_loader::load(host, options)?,
            given: options.files().len(),
            problem: None,
        })
    }

    /// The set after an attempt to load the files again.
    fn after(&self, loaded: anyhow::Result<Vec<Plugin>>) -> Self {
        let (plugins, problem) = match loaded {
            Ok(plugins) => (plugins, None),
            Err(error) => {
                let problem = escape_lines(&format!("{error:#}")).into_owned();
                (self.plugins.clone(), Some(problem))
            }
        };
        Self {
            version: self.version + 1,
            plugins,
            given: self.given,
            problem,
        }
    }
}

/// Loads the plugins again whenever a file changes. Never ends if there is a file.
pub(super) async fn reload(
    host: Host,
    options: Arc<BaseOptions>,
    sets: watch::Sender<Arc<PluginSet>>,
) {
    let files: Vec<PathBuf> = options.plugins.files().to_vec();
    if files.is_empty() {
        return;
    }
    let mut seen = stamps(&files);
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = stamps(&files);
        // A file that is missing is being replaced.
        if now == seen || now.contains(&None) {
            continue;
        }
        seen = now;
        let (host, options) = (host.clone(), options.clone());
        let loading =
            llsd_blocking::LOADING.run(move || plugin_loader::load(&host, &options.plugins));
        let loaded = loading
            .await
            .map_err(anyhow::Error::from)
            .and_then(|loaded| loaded);
        sets.send_modify(|set| *set = Arc::new(set.after(loaded)));
    }
}

/// When each file was changed, and its size. `None` if it cannot be read.
fn stamps(files: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(stamp).collect()
}
