//! Self-contained HTML pages: one file, no scripts, light and dark.
//!
//! In: strings of any origin. Out: a page in which each of them is escaped. Tags and attributes are
//! constants of the program, so that no input can become markup.

use similar::{ChangeTag, TextDiff};

/// The style of every page. Colours follow the reader's system.
const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1f2328;--bg:#fff;--soft:#f6f8fa;--line:#d0d7de;--muted:#59636e;\
--good:#1a7f37;--warn:#9a6700;--bad:#cf222e;--add:#dafbe1;--del:#ffebe9;--hunk:#ddf4ff}\
@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--soft:#161b22;--line:#30363d;--muted:#9198a1;\
--good:#3fb950;--warn:#d29922;--bad:#f85149;--add:#12261e;--del:#2d1619;--hunk:#121d2f}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:72rem;padding:1.5rem;font:16px/1.5 system-ui,sans-serif;\
color:var(--fg);background:var(--bg)}h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.2rem;margin:2rem 0 .5rem;\
border-bottom:1px solid var(--line)}h3{font-size:1rem;margin:1rem 0 .25rem}p,ul,ol{margin:.4rem 0}\
.lead{font-size:1.1rem}.muted{color:var(--muted)}code,pre{font:13px/1.45 ui-monospace,monospace}\
code{background:var(--soft);padding:.1em .3em;border-radius:4px;overflow-wrap:anywhere}\
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.6rem;overflow-x:auto;margin:.5rem 0}\
pre span{display:block;min-height:1.45em}.add{background:var(--add)}.del{background:var(--del)}\
pre .hunk{background:var(--hunk);color:var(--muted)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{border:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}th{background:var(--soft)}\
.code{font:13px/1.45 ui-monospace,monospace}.code td{white-space:pre-wrap;border-width:0 1px;padding:0 .4rem}\
.good{color:var(--good);font-weight:600}.warn{color:var(--warn);font-weight:600}.bad{color:var(--bad);font-weight:600}\
details{margin:.5rem 0}summary{cursor:pointer}a{color:inherit}\
@media print{details{display:block}body{max-width:none}}";

/// The lines of context around a change in a diff.
const CONTEXT: usize = 3;

/// The body of a page while it is written.
#[derive(Default)]
pub(crate) struct Html(String);

impl Html {
    /// Escaped text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // A page is text: terminals and browsers give other control characters a meaning.
                c if c.is_control() && c != '\n' && c != '\t' => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    /// Markup of the program.
    pub(crate) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// An element without attributes around escaped text.
    pub(crate) fn element(&mut self, tag: &'static str, text: &str) -> &mut Self {
        self.open(tag, "").text(text).close(tag)
    }

    /// An element with a class around escaped text.
    pub(crate) fn classed(
        &mut self,
        tag: &'static str,
        class: &'static str,
        text: &str,
    ) -> &mut Self {
        self.open(tag, class).text(text).close(tag)
    }

    /// Opens an element; an empty class is left out.
    pub(crate) fn open(&mut self, tag: &'static str, class: &'static str) -> &mut Self {
        self.0.push('<');
        self.0.push_str(tag);
        if !class.is_empty() {
            self.0.push_str(" class=\"");
            self.0.push_str(class);
            self.0.push('"');
        }
        self.0.push('>');
        self
    }

    /// Closes an element.
    pub(crate) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// A unified diff, with a class for each kind of line.
    pub(crate) fn diff(&mut self, before: &str, after: &str) -> &mut Self {
        self.open("pre", "");
        for hunk in TextDiff::from_lines(before, after)
            .unified_diff()
            .context_radius(CONTEXT)
            .iter_hunks()
        {
            self.classed("span", "hunk", &hunk.header().to_string());
            for change in hunk.iter_changes() {
                let (class, sign) = match change.tag() {
                    ChangeTag::Delete => ("del", '-'),
                    ChangeTag::Insert => ("add", '+'),
                    ChangeTag::Equal => ("", ' '),
                };
                let line = change.value().trim_end_matches('\n');
                self.classed("span", class, &format!("{sign}{line}"));
            }
        }
        self.close("pre")
    }

    /// The complete page.
    pub(crate) fn into_page(self, title: &str) -> String {
        let mut head = Self::default();
        head.markup("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
            // No page of ours loads or runs anything.
            .markup("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">")
            .markup("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")
            .element("title", title)
            .markup("<style>")
            .markup(STYLE)
            .markup("</style></head><body><main>\n");
        head.0 + &self.0 + "\n</main></body></html>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_origin_is_escaped() {
        let hostile = "<script>alert('1')</script> & \"x\" \u{1b}[31m\u{0}";
        let mut html = Html::default();
        html.element("p", hostile)
            .classed("td", "bad", hostile)
            .diff("a: 1\n", &format!("a: {hostile}\n"));
        let page = html.into_page(hostile);
        assert!(!page.contains("<script"), "{page}");
        assert!(
            !page.contains('\u{1b}') && !page.contains('\u{0}'),
            "{page}"
        );
        assert!(
            page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot;")
        );
    }

    #[test]
    fn a_page_loads_nothing() {
        let page = Html::default().into_page("t");
        for word in ["http://", "https://", "<script", "<link", "src="] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn the_lines_of_a_diff_have_classes() {
        let mut html = Html::default();
        html.diff("a\nb\n", "a\nc\n");
        assert!(
            html.0
                .contains("<span class=\"del\">-b</span><span class=\"add\">+c</span>")
        );
        assert!(html.0.contains("<span> a</span>"));
    }
}
