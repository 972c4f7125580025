//! What the page answers, and that it ends.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::guests::Guest;
use crate::page::{Page, parts};

const MINIMAL: &str = include_str!("../../../../samples/minimal.yaml");

fn about(text: &str) -> Value {
    json!({ "text": text })
}

/// A plugin for the dialect `test/1.0` that runs `body` in every call.
fn plugin(folder: &Path, body: &str) -> String {
    let guest = Guest {
        body: body.into(),
        ..Guest::default()
    };
    let (file, new) = (folder.join("guest.wasm"), folder.join("guest.new"));
    // Replaced at once, so that nobody reads half of it.
    std::fs::write(&new, guest.build()).unwrap();
    std::fs::rename(&new, &file).unwrap();
    file.into_os_string().into_string().unwrap()
}

#[test]
fn an_answer_has_the_configuration_and_a_row_for_each_dialect() {
    let page = Page::start(&[]);
    let answer = page.ask(&about(MINIMAL));
    let view = parts(&answer, "view")[0];
    assert_eq!(view["verdict"], "warnings", "{view}");
    let config = view["config"].as_str().unwrap();
    // The same file as `llsd render`.
    let rendered = Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(["render", "-f", "samples/minimal.yaml"])
        .current_dir(crate::page::root())
        .output()
        .unwrap();
    assert_eq!(config, String::from_utf8(rendered.stdout).unwrap());
    assert_eq!(parts(&answer, "release").len(), 8);
    assert_eq!(answer.last().unwrap()["part"], "end");
}

#[test]
fn an_upgrade_plan_is_that_of_the_command() {
    let page = Page::start(&[]);
    let json = [("Content-Type", "application/json")];
    let ask = |question: Value| page.request("POST", "/api/plan", &json, &question.to_string());
    let plan = ask(json!({ "text": MINIMAL, "compare": ["llama-stack/0.3", "llama-stack/0.4"] }));
    assert_eq!(plan.status, 200, "{}", plan.body);
    let folder = tempfile::tempdir().unwrap();
    let (resource, html) = (
        folder.path().join("r.yaml"),
        folder.path().join("plan.html"),
    );
    std::fs::write(&resource, MINIMAL).unwrap();
    let command = Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(["upgrade", "plan", "--to", "llama-stack/0.4", "-f"])
        .args([&resource, Path::new("--html"), &html])
        .output()
        .unwrap();
    assert!(html.exists(), "{command:?}");
    let of_command = std::fs::read_to_string(&html).unwrap();
    let place = resource.display().to_string();
    assert_eq!(plan.body, of_command.replace(&place, "text of the page"));

    let newest = ask(about(MINIMAL));
    assert!(
        newest.body.contains("can move to ogx/1.0"),
        "{}",
        newest.body
    );
    let unknown = ask(json!({ "text": MINIMAL, "dialect": "none/1" }));
    assert_eq!(unknown.status, 422, "{}", unknown.body);
    assert_eq!(ask(about("kind: [")).status, 422);
}

#[test]
fn a_report_is_a_file_and_not_a_page() {
    let page = Page::start(&[]);
    let question = json!({
        "text": MINIMAL, "dialect": "ogx/1.0", "compare": ["llama-stack/0.3", "ogx/1.0"],
    });
    let json = [("Content-Type", "application/json")];
    let report = page.request("POST", "/api/report", &json, &question.to_string());
    assert_eq!(report.status, 200);
    assert!(
        report
            .head
            .contains("content-type: application/octet-stream")
    );
    assert!(report.body.starts_with("<!doctype html>"));
    for expected in [
        "Dialect ogx/1.0",
        "llama-stack/0.3 beside ogx/1.0",
        "base_url: http://vllm:8000/v1",
    ] {
        assert!(
            report.body.contains(expected),
            "{expected}: {}",
            report.body
        );
    }
}

#[test]
fn a_hostile_resource_is_a_problem_and_soon() {
    let page = Page::start(&[]);
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        laughs += &format!(
            "a{level}: &a{level} [{}]\n",
            [below.as_str(); 10].join(", ")
        );
    }
    let resource =
        "apiVersion: llamastack.io/v1alpha2\nkind: LlamaStackDistribution\nmetadata: {name: a}\n";
    let nested = |levels: usize| {
        format!(
            "{resource}spec: {{configPatch: {}1{}}}\n",
            "{a: ".repeat(levels),
            "}".repeat(levels)
        )
    };
    let many =
        (0..5_000).map(|n| format!("    - {{id: p{n}, provider: vllm, endpoint: \"{n}\"}}\n"));
    let many: String = many.collect();
    let many = format!(
        "{resource}spec:\n  distribution: {{name: starter}}\n  providers:\n    inference:\n{many}"
    );
    for (text, problem) in [
        (laughs, "this is not valid YAML"),
        (nested(135), "this is not valid YAML"),
        (nested(40), "is nested deeper than 32 levels"),
        ("[".repeat(1 << 20), "this is not valid YAML"),
        ("x".repeat(2 << 20), "more than the limit"),
        (many, ""),
    ] {
        let started = Instant::now();
        let answer = page.ask(&about(&text));
        let view = parts(&answer, "view")[0];
        let first = view["problems"][0]["problem"].as_str().unwrap_or_default();
        assert_eq!(view["verdict"], "refused", "{text:.60}: {view:.300}");
        assert!(first.contains(problem), "{text:.60}: {first}");
        assert!(started.elapsed() < Duration::from_mins(1), "{text:.60}");
    }
}

#[test]
fn a_plugin_that_never_ends_is_stopped_while_another_question_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = plugin(folder.path(), "(loop $again (br $again))");
    let page = Page::start(&["--plugin", &file]);
    std::thread::scope(|scope| {
        let endless = scope.spawn(|| {
            let started = Instant::now();
            let question = json!({ "text": MINIMAL, "dialect": "test/1.0" });
            (page.ask(&question), started.elapsed())
        });
        let response = page.request("GET", "/api/start", &[], "");
        assert_eq!(response.status, 200);
        // A text without a resource needs no plugin.
        let answer = page.ask(&about("kind: Pod"));
        assert_eq!(parts(&answer, "view")[0]["verdict"], "refused");
        assert!(
            !endless.is_finished(),
            "the other question was not answered meanwhile"
        );
        let (answer, duration) = endless.join().unwrap();
        let view = parts(&answer, "view")[0];
        assert_eq!(view["verdict"], "failed");
        let summary = view["summary"].as_str().unwrap();
        assert!(
            summary.contains("exceeded the fuel limit")
                || summary.contains("exceeded the time limit"),
            "{summary}"
        );
        assert!(duration < Duration::from_secs(30), "{duration:?}");
        // The other dialects are not affected.
        let rows = parts(&answer, "release");
        assert_eq!(rows.len(), 9, "{answer:?}");
        let of = |dialect: &str| rows.iter().find(|row| row["dialect"] == dialect).unwrap();
        assert_eq!(of("test/1.0")["verdict"], "failed");
        assert_eq!(of("test/1.0")["isPlugin"], true);
        assert_eq!(of("llama-stack/0.7")["verdict"], "warnings");
    });
}

#[test]
fn a_plugin_is_loaded_again_when_its_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = plugin(folder.path(), "unreachable");
    let page = Page::start(&["--plugin", &file]);
    let get = |known: u64| -> Value {
        let path = format!("/api/plugins?known={known}");
        serde_json::from_str(&page.request("GET", &path, &[], "").body).unwrap()
    };
    let first = get(0);
    assert_eq!(
        (&first["version"], &first["given"][0]),
        (&json!(1), &json!("guest 1.0.0"))
    );
    let question = json!({ "text": MINIMAL, "dialect": "test/1.0" });
    let summary = |answer: Vec<Value>| parts(&answer, "view")[0]["summary"].clone();
    let trapped = summary(page.ask(&question));
    assert!(trapped.as_str().unwrap().contains("trapped"), "{trapped}");

    plugin(folder.path(), "");
    let second = get(1);
    assert_eq!(
        (&second["version"], &second["problem"]),
        (&json!(2), &Value::Null)
    );
    let changed = summary(page.ask(&question));
    assert!(!changed.as_str().unwrap().contains("trapped"), "{changed}");

    std::fs::write(&file, "not a component").unwrap();
    let third = get(2);
    assert_eq!(third["version"], 3);
    assert!(
        third["problem"]
            .as_str()
            .unwrap()
            .contains("failed to load the plugin"),
        "{third}"
    );
    assert_eq!(third["given"][0], "guest 1.0.0");
}

#[test]
fn ctrl_c_ends_it_although_a_page_waits() {
    let folder = tempfile::tempdir().unwrap();
    let file = plugin(folder.path(), "");
    let mut page = Page::start(&["--plugin", &file]);
    let waiting = std::net::TcpStream::connect(("127.0.0.1", page.port)).unwrap();
    let request = format!(
        "GET /api/plugins?known=1 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
        page.port
    );
    std::io::Write::write_all(&mut &waiting, request.as_bytes()).unwrap();
    let interrupted = Command::new("kill")
        .args(["-INT", &page.process.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let started = Instant::now();
    let status = page.process.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        started.elapsed() < Duration::from_mins(1),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_port_in_use_is_an_error_with_a_fix() {
    let page = Page::start(&[]);
    let second = Command::new(env!("CARGO_BIN_EXE_llsd"))
        .args(["explore", "--port", &page.port.to_string()])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(
        message.contains("select another one with --port"),
        "{message}"
    );
}
