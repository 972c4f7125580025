//! Shows on a terminal what a command does at the moment, and how much of it is left.
//!
//! Nothing is shown if standard error is not a terminal.

use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use llsd_api::escape_lines;

/// How often the elapsed time is drawn.
const TICK: Duration = Duration::from_millis(200);

static DISPLAY: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// One piece of work on the display, until it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work of unknown size.
    pub(crate) fn new(work: &str) -> Self {
        Self::show(
            ProgressBar::new_spinner(),
            "{spinner} {msg} ({elapsed})",
            work,
        )
    }

    /// Work on a number of items.
    pub(crate) fn of_items(work: &str, items: usize) -> Self {
        let bar = ProgressBar::new(items as u64);
        Self::show(bar, "{msg} [{bar:20}] {pos} of {len}, {eta} left", work)
    }

    /// A transfer.
    #[cfg(feature = "network")]
    pub(crate) fn of_bytes(work: &str, bytes: u64) -> Self {
        let template = "{msg} [{bar:20}] {bytes} of {total_bytes}, {eta} left";
        Self::show(ProgressBar::new(bytes), template, work)
    }

    fn show(bar: ProgressBar, template: &str, work: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let bar = DISPLAY.add(bar.with_message(escape_lines(work).into_owned()));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// One more item is done.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// The items or bytes that are done.
    #[cfg(feature = "network")]
    pub(crate) fn set_done(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Prints without the display, which is drawn again below.
pub(crate) fn print_above<T>(print: impl FnOnce() -> T) -> T {
    DISPLAY.suspend(print)
}
