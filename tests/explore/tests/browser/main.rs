//! The page of `llsd explore` in a real browser.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../host/plugin/tests/guests.rs"]
mod guests;
mod hostile;
mod page;

use llsd_explore::{Browser, Page};

/// A browser that shows the page, with the answer about its text complete.
pub(crate) fn open(arguments: &[&str]) -> (Browser, Page) {
    let page = Page::start(arguments).unwrap();
    let browser = Browser::start().unwrap();
    browser.open(&page.address).unwrap();
    browser.wait(ANSWERED).unwrap();
    (browser, page)
}

/// Whether the newest answer is complete.
pub(crate) const ANSWERED: &str = "/^\\d+ ms$/.test(document.getElementById('working').textContent) \
     && !document.querySelector('#releases .stale')";

/// Replaces a part of the text as a user does: selects it and types.
pub(crate) fn replace(browser: &Browser, old: &str, new: &str) {
    let select = format!(
        "const text = document.getElementById('text'); \
         const at = text.value.indexOf({old:?}); \
         text.focus(); text.setSelectionRange(at, at + {}); return at",
        old.len()
    );
    assert_ne!(browser.run(&select).unwrap(), -1, "the text has no {old:?}");
    browser.type_into("#text", new).unwrap();
}

/// Replaces the whole text at once, as pasting does.
pub(crate) fn paste(browser: &Browser, text: &str) {
    let script = format!(
        "const field = document.getElementById('text'); field.value = {}; \
         field.dispatchEvent(new Event('input', {{bubbles: true}}))",
        serde_json::json!(text)
    );
    browser.run(&script).unwrap();
}

/// The console has no errors, such as violations of the content security policy.
pub(crate) fn assert_no_errors(browser: &Browser) {
    assert_eq!(browser.console_errors().unwrap(), Vec::<String>::new());
}
