//! The projection of a pod: why it does not run, or what it waits for.
//!
//! The text of a crash is the same while the container waits for its restart, runs again and ends
//! again, so that a container that crashes repeatedly does not change the status each time.

use std::fmt;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, HTTPGetAction, Pod,
    PodStatus, Probe,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::DynamicObject;
use serde_json::json;

use super::projection;

/// Reasons of waiting containers that are part of every normal start.
const NORMAL_WAITING_REASONS: [&str; 2] = ["ContainerCreating", "PodInitializing"];
const CRASH_LOOP: &str = "CrashLoopBackOff";
const OUT_OF_MEMORY: &str = "OOMKilled";
/// Reasons of a termination that say no more than the exit code.
const PLAIN_REASONS: [&str; 3] = ["", "Error", "Completed"];
/// The end of a message is kept: the last lines of a stack trace name the error.
const MAX_LINES: usize = 3;
const MAX_MESSAGE_CHARS: usize = 512;
const PROBLEM: &str = "problem";
const WAITING: &str = "waiting";

/// A pod, reduced to the problem that keeps it from running, or else to what it waits for.
pub(super) fn pod(pod: Pod) -> DynamicObject {
    let mut projected = projection::metadata(pod.metadata.clone());
    projected.metadata.owner_references = None;
    let problem = find_problem(&pod);
    let waiting = match problem {
        Some(_) => None,
        None => find_failing_probe(&pod),
    };
    projected.data = json!({ PROBLEM: problem, WAITING: waiting });
    projected
}

/// The problem that keeps a cached pod from running.
pub(crate) fn pod_problem(pod: &DynamicObject) -> Option<&str> {
    pod.data[PROBLEM].as_str()
}

/// The probe that a cached pod has not passed.
pub(crate) fn failing_probe(pod: &DynamicObject) -> Option<&str> {
    pod.data[WAITING].as_str()
}

/// The status of a pod that is not being deleted.
fn live_status(pod: &Pod) -> Option<&PodStatus> {
    let status = pod.status.as_ref()?;
    pod.metadata.deletion_timestamp.is_none().then_some(status)
}

fn find_problem(pod: &Pod) -> Option<String> {
    let status = live_status(pod)?;
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unscheduled {
        return Some(with_message(
            condition.reason.as_deref().unwrap_or("Unscheduled"),
            condition.message.as_deref(),
        ));
    }
    let init = status.init_container_statuses.iter().flatten();
    let all = init.chain(status.container_statuses.iter().flatten());
    all.filter_map(|container| {
        let found = container_problem(container)?;
        Some(format!("container {:?}: {found}", container.name))
    })
    .next()
}

fn container_problem(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let last = || container.last_state.as_ref()?.terminated.as_ref();
    let is_failure = |end: &&ContainerStateTerminated| end.exit_code != 0;
    match state {
        ContainerState {
            waiting: Some(waiting),
            ..
        } => {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            if reason.is_empty() || NORMAL_WAITING_REASONS.contains(&reason) {
                return last().filter(is_failure).map(termination);
            }
            match last().filter(|_| reason == CRASH_LOOP) {
                Some(end) => Some(termination(end)),
                None => Some(with_message(reason, waiting.message.as_deref())),
            }
        }
        ContainerState {
            terminated: Some(end),
            ..
        } => is_failure(&end).then(|| termination(end)),
        // It runs again, and may fail again.
        _ if !has_started(container) => last().filter(is_failure).map(termination),
        _ => None,
    }
}

/// Whether a container passed its startup probe.
fn has_started(container: &ContainerStatus) -> bool {
    container.ready || container.started == Some(true)
}

/// How a container ended, for example `crashed (exit code 1): ValueError: no such model`.
fn termination(end: &ContainerStateTerminated) -> String {
    let reason = end.reason.as_deref().unwrap_or_default();
    let code = end.exit_code;
    let how = match (reason, code) {
        (OUT_OF_MEMORY, _) => format!(
            "{OUT_OF_MEMORY} (exit code {code}): the container used more memory than its limit"
        ),
        (reason, 0) if PLAIN_REASONS.contains(&reason) => {
            "ended (exit code 0) although it should keep running".to_owned()
        }
        (reason, _) if PLAIN_REASONS.contains(&reason) => format!("crashed (exit code {code})"),
        (reason, _) => format!("{reason} (exit code {code})"),
    };
    with_message(&how, end.message.as_deref())
}

fn find_failing_probe(pod: &Pod) -> Option<String> {
    let status = live_status(pod)?;
    let containers = &pod.spec.as_ref()?.containers;
    let mut statuses = status.container_statuses.iter().flatten();
    statuses.find_map(|status| {
        let container = containers.iter().find(|one| one.name == status.name)?;
        let waiting = container_probe(container, status)?;
        Some(format!("container {:?}: {waiting}", container.name))
    })
}

/// The probe that keeps a running container from being ready.
fn container_probe(container: &Container, status: &ContainerStatus) -> Option<String> {
    let running = status.state.as_ref()?.running.as_ref()?;
    if status.ready {
        return None;
    }
    if status.started == Some(true) {
        let request = probe_request(container.readiness_probe.as_ref()?)?;
        return Some(format!("the readiness probe {request} does not succeed"));
    }
    let request = probe_request(container.startup_probe.as_ref()?)?;
    let since = running.started_at.as_ref();
    let since = since.map_or(String::new(), |since| format!(" since {}", since.0));
    Some(format!(
        "the startup probe {request} has not succeeded{since}; the server may still be starting, or serve another port or scheme"
    ))
}

/// For example `GET https://:8443/v1/health`.
fn probe_request(probe: &Probe) -> Option<String> {
    let HTTPGetAction {
        path, port, scheme, ..
    } = probe.http_get.as_ref()?;
    let scheme = scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let port: &dyn fmt::Display = match port {
        IntOrString::Int(port) => port,
        IntOrString::String(name) => name,
    };
    let path = path.as_deref().unwrap_or("/");
    Some(format!("GET {scheme}://:{port}{path}"))
}

fn with_message(reason: &str, message: Option<&str>) -> String {
    match message.map(excerpt).filter(|text| !text.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}

/// The last lines of a message in one line, without colours and control characters, and bounded: the
/// message is the end of a log, which the operator's users do not control.
fn excerpt(message: &str) -> String {
    let lines: Vec<String> = message
        .lines()
        .map(printable)
        .filter(|line| !line.is_empty())
        .collect();
    let text = lines[lines.len().saturating_sub(MAX_LINES)..].join(" | ");
    let length = text.chars().count();
    if length <= MAX_MESSAGE_CHARS {
        return text;
    }
    let end: String = text.chars().skip(length - MAX_MESSAGE_CHARS).collect();
    format!("…{end}")
}

/// A line without terminal escape sequences, control characters and surrounding space.
fn printable(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' && characters.next_if_eq(&'[').is_some() {
            // A control sequence ends with a letter or another byte of this range.
            let _ = characters.find(|one| ('\u{40}'..='\u{7e}').contains(one));
        } else if character == '\t' {
            plain.push(' ');
        } else if !character.is_control() {
            plain.push(character);
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn projected(status: Value) -> DynamicObject {
        let get = |port: Value, scheme: Value| json!({"httpGet": {"path": "/v1/health", "port": port, "scheme": scheme}});
        let container = json!({
            "name": "llama-stack",
            "startupProbe": get(json!(8443), json!("HTTPS")),
            "readinessProbe": get(json!("http"), json!(null)),
        });
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}, "status": status});
        super::pod(serde_json::from_value(pod).expect("a pod"))
    }

    fn container(state: Value, last: Value, started: bool, ready: bool) -> Value {
        json!({"containerStatuses": [{
            "name": "llama-stack", "image": "i", "imageID": "", "restartCount": 1,
            "ready": ready, "started": started, "state": state, "lastState": last,
        }]})
    }

    fn problem(state: Value, last: Value) -> Option<String> {
        pod_problem(&projected(container(state, last, false, false))).map(str::to_owned)
    }

    fn crash() -> Value {
        let message = "Traceback (most recent call last):\n  File \"a\"\n\n\u{1b}[31mValueError\u{1b}[0m: no such\tmodel\r\n";
        json!({"terminated": {"exitCode": 1, "reason": "Error", "message": message}})
    }

    #[test]
    fn a_starting_pod_has_no_problem() {
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        assert_eq!(problem(waiting, json!({})), None);
    }

    #[test]
    fn a_crash_has_the_same_text_until_the_container_has_started() {
        let expected = "container \"llama-stack\": crashed (exit code 1): Traceback (most recent call last): | File \"a\" | ValueError: no such model";
        let back_off = |delay| json!({"waiting": {"reason": "CrashLoopBackOff", "message": format!("back-off {delay}s")}});
        let running = json!({"running": {"startedAt": "2026-11-16T02:00:00Z"}});
        for (state, last) in [
            (crash(), json!({})),
            (back_off(10), crash()),
            (running.clone(), crash()),
            (crash(), crash()),
            (back_off(20), crash()),
        ] {
            assert_eq!(
                problem(state.clone(), last).as_deref(),
                Some(expected),
                "{state}"
            );
        }
        let started = projected(container(running, crash(), true, true));
        assert_eq!(pod_problem(&started), None);
    }

    #[test]
    fn a_container_that_is_out_of_memory_is_reported_with_that_reason() {
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let back_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        assert_eq!(
            problem(back_off, killed).as_deref(),
            Some(
                "container \"llama-stack\": OOMKilled (exit code 137): the container used more memory than its limit"
            )
        );
    }

    #[test]
    fn another_reason_of_the_kubelet_wins_over_an_earlier_crash() {
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
        assert_eq!(
            problem(waiting, crash()).as_deref(),
            Some("container \"llama-stack\": ImagePullBackOff: not found")
        );
        let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let back_off = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let text = problem(back_off, ended.clone()).expect("a problem");
        assert!(text.contains("ended (exit code 0)"), "{text}");
        assert_eq!(problem(ended, json!({})), None, "a done init container");
    }

    #[test]
    fn a_long_message_is_cut_to_its_end() {
        let message = format!("{}ValueError: ü", "x".repeat(5000));
        let end = json!({"terminated": {"exitCode": 1, "message": message}});
        let text = problem(end, json!({})).expect("a problem");
        assert!(text.ends_with("xValueError: ü") && text.contains(": …x"));
        assert!(text.chars().count() < 600, "{text}");
    }

    #[test]
    fn an_unschedulable_pod_is_reported_with_the_reason() {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"});
        assert_eq!(
            pod_problem(&projected(json!({"conditions": [condition]}))),
            Some("Unschedulable: 0/1 nodes are available")
        );
    }

    #[test]
    fn a_running_pod_names_the_probe_that_it_has_not_passed() {
        let running = json!({"running": {"startedAt": "2026-11-16T02:00:00Z"}});
        let probe = |started, ready| {
            let pod = projected(container(running.clone(), json!({}), started, ready));
            assert_eq!(pod_problem(&pod), None);
            failing_probe(&pod).map(str::to_owned)
        };
        let startup = probe(false, false).expect("a probe");
        assert!(
            startup.starts_with("container \"llama-stack\": the startup probe GET https://:8443/v1/health has not succeeded since 2026-11-16T02:00:00Z"),
            "{startup}"
        );
        let readiness = "container \"llama-stack\": the readiness probe GET http://:http/v1/health does not succeed";
        assert_eq!(probe(true, false).as_deref(), Some(readiness));
        assert_eq!(probe(true, true), None);
    }
}
