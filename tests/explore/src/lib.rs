//! Runs the page of `llsd explore` in a real browser.
//!
//! [`Browser`] is a headless Chromium that is controlled with WebDriver, which is a handful of JSON
//! requests. [`Page`] is a running `llsd explore`. Both end when they are dropped.

mod browser;
mod http;
mod page;

pub use browser::Browser;
pub use page::Page;
