//! What a user does with the page.

use crate::{ANSWERED, assert_no_errors, open, replace};

/// The results of the releases: text by dialect.
const RESULTS: &str = "return [...document.querySelectorAll('#releases tbody tr')].map((row) => \
     [row.querySelector('input').value, row.querySelector('.verdict')?.textContent])";

#[test]
fn a_sample_becomes_a_configuration_objects_variables_and_a_receipt() {
    let (browser, _page) = open(&[]);
    assert_eq!(browser.text("#count").unwrap(), "1 warning");
    assert!(
        browser
            .text("#summary")
            .unwrap()
            .contains("llama-stack/0.7")
    );
    let config = browser.text("#panel-config").unwrap();
    assert!(config.contains("base_url: http://vllm:8000/v1"), "{config}");
    assert!(config.contains("lines are the same"), "{config}");
    let results = browser.run(RESULTS).unwrap();
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 9, "{results:?}");
    assert!(
        results.iter().all(|row| row[1] == "! warnings"),
        "{results:?}"
    );

    browser.click("#only-changes").unwrap();
    browser
        .wait("document.getElementById('panel-config').innerText.includes('version: 2')")
        .unwrap();
    for (tab, expected) in [
        ("objects", "Deployment minimal"),
        ("variables", "Models"),
        ("receipt", "digest of the file"),
    ] {
        browser.click(&format!("#tab-{tab}")).unwrap();
        let text = browser.text(&format!("#panel-{tab}")).unwrap();
        assert!(text.contains(expected), "{tab}: {text}");
    }
    browser
        .run(
            "document.getElementById('open').value = 'Samples: full'; \
         document.getElementById('open').dispatchEvent(new Event('change'))",
        )
        .unwrap();
    browser
        .wait("document.getElementById('text').value.includes('name: full')")
        .unwrap();
    browser.click("#tab-variables").unwrap();
    browser.wait("document.getElementById('panel-variables').innerText.includes('key token of Secret vllm-creds')").unwrap();
    assert_no_errors(&browser);
}

#[test]
fn a_problem_is_shown_at_its_field_while_typing() {
    let (browser, _page) = open(&[]);
    replace(&browser, "provider: vllm", "provider: vlm");
    browser
        .wait("document.querySelector('#paint mark.error')?.textContent === 'provider: vlm'")
        .unwrap();
    browser.wait(ANSWERED).unwrap();
    assert_eq!(browser.text("#count").unwrap(), "1 problem");
    assert_eq!(browser.text("#gutter .error").unwrap(), "12");
    let problem = browser.text("#problems li").unwrap();
    assert!(
        problem.contains("spec.providers.inference.provider"),
        "{problem}"
    );
    assert!(
        problem.contains("line 12") && problem.contains("Fix: "),
        "{problem}"
    );
    assert_eq!(
        browser
            .run("return document.getElementById('text').getAttribute('aria-invalid')")
            .unwrap(),
        "true"
    );
    // The mark is where the text area shows the text.
    let offset = browser
        .run(
            "const mark = document.querySelector('#paint mark').getBoundingClientRect(); \
         const field = document.getElementById('text').getBoundingClientRect(); \
         return Math.round((mark.top - field.top - 10) / 20)",
        )
        .unwrap();
    assert_eq!(offset, 11, "the mark is not in line 12");
    browser.screenshot("problem-light").unwrap();

    // The problem leads to its field.
    browser.click("#problems button").unwrap();
    let selected = "const text = document.getElementById('text'); \
         return text.value.slice(text.selectionStart, text.selectionEnd)";
    assert_eq!(browser.run(selected).unwrap(), "provider: vlm");
    assert_eq!(
        browser.run("return document.activeElement.id").unwrap(),
        "text"
    );

    // A mark moves with its text, before the next answer.
    browser
        .run("document.getElementById('text').setSelectionRange(0, 0)")
        .unwrap();
    browser.type_into("#text", "# é\n").unwrap();
    browser
        .wait("document.querySelector('#gutter .error')?.textContent === '13'")
        .unwrap();
    replace(&browser, "provider: vlm", "provider: vllm");
    browser
        .wait("document.getElementById('count').textContent === '1 warning'")
        .unwrap();
    assert_no_errors(&browser);
}

#[test]
fn another_release_is_shown_and_two_are_compared() {
    let (browser, _page) = open(&["-f", "samples/full.yaml"]);
    assert!(
        browser
            .run("return document.getElementById('text').value")
            .unwrap()
            .as_str()
            .unwrap()
            .contains("name: full")
    );
    let results = browser.run(RESULTS).unwrap();
    let of = |dialect: &str| {
        let rows = results.as_array().unwrap().iter();
        rows.clone().find(|row| row[0] == dialect).unwrap()[1].clone()
    };
    assert_eq!(of("ogx/1.0"), "✕ refused");
    assert_eq!(
        browser
            .run("return document.querySelectorAll('mark.error').length")
            .unwrap(),
        0
    );

    browser.click("input[name=shown][value='ogx/1.0']").unwrap();
    browser
        .wait("document.getElementById('summary').textContent.includes('ogx/1.0')")
        .unwrap();
    browser
        .wait("document.querySelectorAll('mark.error').length > 0")
        .unwrap();
    browser.wait(ANSWERED).unwrap();
    browser.screenshot("release-light").unwrap();

    for dialect in ["llama-stack/0.3", "llama-stack/0.7"] {
        browser
            .click(&format!("input[type=checkbox][value='{dialect}']"))
            .unwrap();
    }
    browser
        .wait("document.querySelector('.sides .plus')")
        .unwrap();
    browser.wait(ANSWERED).unwrap();
    let compared = browser.text("#panel-compare").unwrap();
    for expected in [
        "llama-stack/0.3",
        "llama-stack/0.7",
        "image_name: starter",
        "distro_name: starter",
    ] {
        assert!(compared.contains(expected), "{expected}: {compared}");
    }
    browser.screenshot("compare-light").unwrap();
    browser.set_theme("dark").unwrap();
    browser.screenshot("compare-dark").unwrap();
    // A third one replaces the first.
    browser
        .click("input[type=checkbox][value='llama-stack/0.5']")
        .unwrap();
    let checked = "return [...document.querySelectorAll('#releases input[type=checkbox]:checked')].map((one) => one.value)";
    assert_eq!(
        browser.run(checked).unwrap(),
        serde_json::json!(["llama-stack/0.7", "llama-stack/0.5"])
    );
    assert_no_errors(&browser);
}

#[test]
fn the_resource_and_a_report_can_be_saved() {
    let (browser, _page) = open(&[]);
    replace(&browser, "http://vllm:8000", "http://other:9000");
    browser
        .wait("document.getElementById('panel-config').innerText.includes('http://other:9000/v1')")
        .unwrap();
    browser.click("#save-resource").unwrap();
    let resource = browser.saved("minimal.yaml").unwrap();
    assert_eq!(
        browser
            .run("return document.getElementById('text').value")
            .unwrap(),
        resource
    );
    browser.click("#save-report").unwrap();
    let report = browser.saved("minimal-report.html").unwrap();
    assert!(report.contains("http://other:9000/v1"), "{report}");
    assert!(report.contains("Which releases accept it"));
    browser.click("#save-plan").unwrap();
    let plan = browser.saved("minimal-plan.html").unwrap();
    assert!(
        plan.contains("1 of 1 resources can move to ogx/1.0"),
        "{plan}"
    );
    // The report needs nothing but itself.
    let file = tempfile::Builder::new().suffix(".html").tempfile().unwrap();
    std::fs::write(file.path(), &report).unwrap();
    browser
        .open(&format!("file://{}", file.path().display()))
        .unwrap();
    assert!(
        browser
            .text("body")
            .unwrap()
            .contains("http://other:9000/v1")
    );
    browser.screenshot("report-light").unwrap();
    assert_no_errors(&browser);
}

#[test]
fn a_link_restores_text_release_comparison_and_tab() {
    let (browser, page) = open(&[]);
    replace(&browser, "name: minimal", "name: from-a-link # é");
    browser
        .click("input[name=shown][value='llama-stack/0.5']")
        .unwrap();
    for dialect in ["ogx/1.0", "llama-stack/0.4"] {
        browser
            .click(&format!("input[type=checkbox][value='{dialect}']"))
            .unwrap();
    }
    browser.click("#tab-receipt").unwrap();
    browser.click("#copy-link").unwrap();
    browser
        .wait("document.getElementById('toast').textContent.includes('link')")
        .unwrap();
    let link = browser.run("return location.href").unwrap();
    let link = link.as_str().unwrap();
    assert!(
        link.len() < 1_000 && link.starts_with(&format!("http://127.0.0.1:{}/#z", page.port())),
        "{link}"
    );

    browser.open("about:blank").unwrap();
    browser.open(link).unwrap();
    browser.wait(ANSWERED).unwrap();
    let text = browser
        .run("return document.getElementById('text').value")
        .unwrap();
    assert!(text.as_str().unwrap().contains("name: from-a-link # é"));
    browser
        .wait("document.querySelector('#summary').textContent.includes('llama-stack/0.5')")
        .unwrap();
    let checked = "return [...document.querySelectorAll('#releases input[type=checkbox]:checked')].map((one) => one.value)";
    assert_eq!(
        browser.run(checked).unwrap(),
        serde_json::json!(["ogx/1.0", "llama-stack/0.4"])
    );
    assert_eq!(
        browser
            .run("return document.querySelector('[role=tab][aria-selected=true]').id")
            .unwrap(),
        "tab-receipt"
    );

    // A link that is broken, or that would become gigabytes, shows the first sample.
    browser.open("about:blank").unwrap();
    browser.open(&format!("{}#zAAAA", page.address)).unwrap();
    browser.wait(ANSWERED).unwrap();
    assert!(
        browser
            .run("return document.getElementById('text').value")
            .unwrap()
            .as_str()
            .unwrap()
            .contains("name: minimal")
    );
    assert_no_errors(&browser);
}

#[test]
fn everything_has_a_name_and_is_reached_with_the_keyboard() {
    let (browser, _page) = open(&[]);
    let nameless = "return [...document.querySelectorAll('button, input, select, textarea')] \
         .filter((one) => !one.hidden && !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)) \
         .map((one) => one.outerHTML)";
    assert_eq!(browser.run(nameless).unwrap(), serde_json::json!([]));
    let mut order = Vec::new();
    for _ in 0..12 {
        browser.press(&["\u{e004}"]).unwrap();
        let at = browser
            .run("const at = document.activeElement; return at.id || at.className || at.name")
            .unwrap();
        order.push(at.as_str().unwrap().to_owned());
    }
    assert_eq!(
        &order[..10],
        [
            "skip",
            "open",
            "copy-link",
            "save-resource",
            "save-report",
            "save-plan",
            "theme",
            "text",
            "warning",
            "shown"
        ]
    );
    // From the tabs, arrow keys move between them.
    browser
        .run("document.getElementById('tab-config').focus()")
        .unwrap();
    browser.press(&["\u{e014}", "\u{e014}"]).unwrap();
    assert_eq!(
        browser.run("return document.activeElement.id").unwrap(),
        "tab-variables"
    );
    assert_eq!(
        browser
            .run("return document.getElementById('panel-variables').hidden")
            .unwrap(),
        false
    );
    // F8 moves from problem to problem.
    replace(&browser, "provider: vllm", "provider: vlm");
    browser
        .wait("document.querySelector('mark.error')")
        .unwrap();
    browser
        .run("document.getElementById('text').setSelectionRange(0, 0)")
        .unwrap();
    browser.press(&["\u{e038}"]).unwrap();
    let selected = "const text = document.getElementById('text'); \
         return text.value.slice(text.selectionStart, text.selectionEnd)";
    assert_eq!(browser.run(selected).unwrap(), "provider: vlm");
    let role = "return document.getElementById('count').getAttribute('role')";
    assert_eq!(browser.run(role).unwrap(), "status");
    assert_no_errors(&browser);
}

#[test]
fn the_page_follows_the_theme_of_the_system_and_its_own_switch() {
    let (browser, _page) = open(&["-f", "samples/full.yaml"]);
    let brightness = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)";
    let is_dark = || browser.run(brightness).unwrap().as_u64().unwrap() < 200;
    browser.set_theme("light").unwrap();
    assert!(!is_dark());
    browser.screenshot("full-light").unwrap();
    browser.set_theme("dark").unwrap();
    assert!(is_dark());
    browser.screenshot("full-dark").unwrap();
    browser.click("#theme").unwrap();
    assert!(!is_dark());
    browser.set_size(520, 900).unwrap();
    let too_wide =
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert_eq!(browser.run(too_wide).unwrap(), false);
    browser.screenshot("narrow-light").unwrap();
    assert_no_errors(&browser);
}
