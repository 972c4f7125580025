//! Hostile resources, plugins and pages.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::guests::Guest;
use crate::{ANSWERED, assert_no_errors, open, paste};

const MINIMAL: &str = include_str!("../../../../samples/minimal.yaml");

/// The page reacts: a timer of it runs within a short time.
fn assert_alive(browser: &llsd_explore::Browser) {
    let started = Instant::now();
    browser
        .run("return new Promise((resolve) => setTimeout(resolve, 0))")
        .unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "the page is frozen"
    );
}

#[test]
fn a_hostile_resource_does_not_freeze_the_page() {
    let (browser, _page) = open(&[]);
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        laughs += &format!(
            "a{level}: &a{level} [{}]\n",
            [below.as_str(); 10].join(", ")
        );
    }
    let many =
        (0..4_000).map(|n| format!("    - {{id: p{n}, provider: vllm, endpoint: http://h{n}}}\n"));
    let many: String = many.collect();
    let many = MINIMAL.replace(
        "      provider: vllm\n      endpoint: http://vllm:8000\n",
        &many,
    );
    let script = MINIMAL.replace(
        "provider: vllm",
        "provider: \"<img src=x onerror=alert(1)>\"",
    );
    for (text, message) in [
        (laughs, "not valid YAML"),
        ("[".repeat(1 << 20), "not valid YAML"),
        (many, ""),
        (script, "<img src=x onerror=alert(1)>"),
    ] {
        paste(&browser, &text);
        assert_alive(&browser);
        browser.wait("document.getElementById('count').textContent.includes('problem') && document.getElementById('problems').children.length").unwrap();
        let wait = format!("document.getElementById('problems').innerText.includes({message:?})");
        browser.wait(&wait).unwrap();
        assert_alive(&browser);
    }
    paste(&browser, MINIMAL);
    browser
        .wait("document.getElementById('count').textContent === '1 warning'")
        .unwrap();
    assert_no_errors(&browser);
}

#[test]
fn a_plugin_that_never_ends_does_not_freeze_the_page() {
    let guest = Guest {
        body: "(loop $again (br $again))".into(),
        ..Guest::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("guest.wasm");
    std::fs::write(&file, guest.build()).unwrap();
    let (browser, _page) = open(&["--plugin", file.to_str().unwrap()]);
    assert_eq!(browser.text("#plugin").unwrap(), "plugin guest 1.0.0");
    let result = "document.querySelector(\"input[value='test/1.0']\").closest('tr').innerText";
    assert!(
        browser
            .run(&format!("return {result}"))
            .unwrap()
            .as_str()
            .unwrap()
            .contains("✕ failed")
    );
    browser
        .click("input[name=shown][value='test/1.0']")
        .unwrap();
    assert_alive(&browser);
    browser
        .wait("document.getElementById('failure').innerText.includes('exceeded the ')")
        .unwrap();
    browser.screenshot("plugin-light").unwrap();
    // The plugin is fixed while the page is open.
    let new = folder.path().join("guest.new");
    std::fs::write(&new, Guest::default().build()).unwrap();
    std::fs::rename(&new, &file).unwrap();
    browser
        .wait(&format!("!{result}.includes('exceeded the ')"))
        .unwrap();
    browser.click("input[name=shown][value='']").unwrap();
    browser
        .wait("document.getElementById('failure').hidden")
        .unwrap();
    browser.wait(ANSWERED).unwrap();
    assert_no_errors(&browser);
}

#[test]
fn a_page_of_another_origin_gets_nothing() {
    let page = llsd_explore::Page::start(&[]).unwrap();
    let browser = llsd_explore::Browser::start().unwrap();
    // A web server of someone else.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let other = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = "<!doctype html><title>other</title>";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    browser.open(&format!("http://127.0.0.1:{other}/")).unwrap();
    let own = page.address.trim_end_matches('/');
    for attempt in [
        format!("fetch('{own}/api/start').then((r) => r.text())"),
        format!(
            "fetch('{own}/api/answer', {{method: 'POST', headers: {{'content-type': 'application/json'}}, body: '{{}}'}}).then((r) => r.text())"
        ),
        // The browser hides the response of this one, so it only shows that nothing is readable.
        format!(
            "fetch('{own}/api/start', {{mode: 'no-cors'}}).then((r) => r.text().then((text) => {{ if (!text) throw 0; return text }}))"
        ),
        format!("import('{own}/link.js').then(() => 'loaded')"),
    ] {
        let script = format!("return {attempt}.catch(() => 'nothing')");
        assert_eq!(browser.run(&script).unwrap(), "nothing", "{attempt}");
    }
    let framed = format!(
        "return new Promise((resolve) => {{ const frame = document.createElement('iframe'); frame.src = '{own}/'; \
         frame.onload = () => {{ try {{ resolve(frame.contentDocument ? 'blank' : 'hidden') }} catch {{ resolve('hidden') }} }}; \
         document.body.append(frame) }})"
    );
    assert_ne!(browser.run(&framed).unwrap(), "shown");
    // A link opens the page.
    let link = format!(
        "const a = document.createElement('a'); a.href = '{own}/'; document.body.append(a); a.click()"
    );
    browser.run(&link).unwrap();
    browser.wait(ANSWERED).unwrap();
    // A name that was made to resolve to the loopback address.
    browser
        .open(&format!("http://rebound.example:{}/", page.port()))
        .unwrap();
    let body = browser.text("body").unwrap();
    assert!(
        body.contains("the Host header is not the address"),
        "{body}"
    );
}
