//! Whom the page answers.

use crate::page::Page;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn the_page_and_its_files_are_served_with_a_strict_policy() {
    let page = Page::start(&[]);
    for path in ["/", "/main.js", "/page.css", "/icon.svg", "/api/start"] {
        let response = page.request("GET", path, &[], "");
        assert_eq!(response.status, 200, "{path}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(response.head.contains(header), "{path}: {}", response.head);
        }
        assert!(!response.head.contains("access-control-allow"), "{path}");
    }
}

#[test]
fn another_origin_gets_nothing() {
    let page = Page::start(&[]);
    let own = format!("http://127.0.0.1:{}", page.port);
    let question = r#"{"text": "a"}"#;
    let ask =
        |origin: &str| page.request("POST", "/api/answer", &[JSON, ("Origin", origin)], question);
    assert_eq!(ask(&own).status, 200);
    for origin in ["https://attacker.example", "http://localhost:1", "null"] {
        let response = ask(origin);
        assert_eq!(response.status, 403, "{origin}");
        assert_eq!(
            response.body,
            "another page may not use `llsd explore`; open the address that it printed\n"
        );
        assert!(!response.head.contains("access-control-allow"));
        // Neither the question before a request that is not simple.
        let asked_first = page.request("OPTIONS", "/api/answer", &[("Origin", origin)], "");
        assert_eq!(asked_first.status, 403);
        for path in ["/", "/api/start", "/main.js"] {
            assert_eq!(
                page.request("GET", path, &[("Origin", origin)], "").status,
                403
            );
        }
    }
    let image = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Dest", "image"),
    ];
    assert_eq!(page.request("GET", "/icon.svg", &image, "").status, 403);
}

#[test]
fn another_host_name_gets_nothing() {
    let page = Page::start(&[]);
    let rebound = format!("attacker.example:{}", page.port);
    for host in [rebound.as_str(), "127.0.0.1", "127.0.0.1:1", ""] {
        for path in ["/", "/api/start", "/nothing"] {
            let response = page.send("GET", path, &[("Host", host)], "");
            assert_eq!(response.status, 403, "{host} {path}");
            assert!(
                response
                    .body
                    .starts_with("the Host header is not the address")
            );
        }
    }
    assert_eq!(page.send("GET", "/", &[], "").status, 403);
    let local = format!("localhost:{}", page.port);
    assert_eq!(page.send("GET", "/", &[("Host", &local)], "").status, 200);
}

#[test]
fn requests_that_are_not_questions_are_refused_with_a_message() {
    let page = Page::start(&[]);
    let large = format!(r#"{{"text": "{}"}}"#, "x".repeat(9 << 20));
    let response = page.request("POST", "/api/answer", &[JSON], &large);
    assert_eq!(response.status, 413);
    assert_eq!(
        response.body,
        "the request body is larger than 8388608 bytes; make the resource smaller\n"
    );
    let response = page.request("POST", "/api/answer", &[JSON], "{");
    assert_eq!(
        (response.status, &response.body[..18]),
        (400, "invalid question: ")
    );
    let form = [("Content-Type", "text/plain")];
    assert_eq!(page.request("POST", "/api/answer", &form, "{}").status, 415);
    let response = page.request("GET", "/etc/passwd", &[], "");
    assert_eq!(
        (response.status, response.body.as_str()),
        (404, "not found; the page is at /\n")
    );
    assert_eq!(page.request("GET", "/api/answer", &[], "").status, 405);
}

#[test]
fn the_file_of_the_user_needs_the_token() {
    let page = Page::start(&["-f", "samples/minimal.yaml"]);
    let text = include_str!("../../../../samples/minimal.yaml");
    assert_eq!(page.token.len(), 32);
    let opened = |token: &str| page.request("GET", "/api/opened", &[("X-Llsd-Token", token)], "");
    let response = opened(&page.token);
    assert_eq!(response.status, 200);
    let body: serde_json::Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(body["text"], text);
    assert_eq!(opened("").status, 403);
    assert_eq!(
        opened(&page.token.replace(['a', '1'], "b")[..31]).status,
        403
    );
    assert_eq!(page.request("GET", "/api/opened", &[], "").status, 403);
    // There is no cluster.
    let token = [("X-Llsd-Token", page.token.as_str())];
    assert_eq!(page.request("GET", "/api/cluster", &token, "").status, 404);
    assert_eq!(Page::start(&[]).token, "");
}
