//! Reads the API server's audit log: which requests a user made.
//!
//! The API server writes a line before it completes an answer, so a test that has its answer finds
//! the request here. Who is told of a write by a watch may be told before its line is there.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// The audit log of one control plane.
#[derive(Debug, Clone)]
pub struct AuditLog {
    file: PathBuf,
}

/// A moment; what was asked before it is not of interest.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Where the log ended shortly before.
    position: u64,
    at: Timestamp,
}

/// One request, as the API server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The API group; empty for the core group and for requests that are not for a resource.
    pub group: String,
    /// The resource, such as `deployments`; empty when the request is not for one.
    pub resource: String,
    /// `status`, `scale` and the like; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty for requests across namespaces and cluster-scoped resources.
    pub namespace: String,
    /// The name; empty for lists and watches.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

impl AuditLog {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Now.
    pub fn mark(&self) -> Result<Mark> {
        let position = self.open()?.metadata()?.len();
        let at = Timestamp::now();
        Ok(Mark { position, at })
    }

    /// The requests of one user after a mark, in the order in which they were answered.
    ///
    /// A watch counts when it starts, not when it ends.
    pub fn requests(&self, user: &str, since: Mark) -> Result<Vec<AuditedRequest>> {
        let mut text = String::new();
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(since.position))?;
        file.read_to_string(&mut text)?;
        // The API server may be in the middle of a line.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        requests_of(user, complete, since.at)
    }

    fn open(&self) -> Result<File> {
        File::open(&self.file).with_context(|| format!("cannot read {}", self.file.display()))
    }
}

fn requests_of(user: &str, lines: &str, since: Timestamp) -> Result<Vec<AuditedRequest>> {
    let mut seen = BTreeSet::new();
    let mut requests = Vec::new();
    // Most lines are of others, and looking is quicker than reading.
    for line in lines.lines().filter(|line| line.contains(user)) {
        let event: Event = serde_json::from_str(line).context("an audit line is damaged")?;
        if event.user.username != user || event.request_received_timestamp < since {
            continue;
        }
        let code = event.response_status.code;
        // A watch has a line when it starts and one when it ends, which may be after another mark;
        // one that was refused has only the latter.
        let is_end_of_watch =
            event.verb == "watch" && event.stage == "ResponseComplete" && code == 200;
        if is_end_of_watch || !seen.insert(event.audit_id) {
            continue;
        }
        requests.push(AuditedRequest {
            verb: event.verb,
            group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            uri: event.request_uri,
            user_agent: event.user_agent,
            code,
        });
    }
    Ok(requests)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    request_received_timestamp: Timestamp,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a request that came in at a second.
    fn line(id: &str, second: i64, user: &str, verb: &str, stage: &str, code: u16) -> String {
        let received = Timestamp::from_second(second).unwrap();
        format!(
            r#"{{"auditID":"{id}","stage":"{stage}","verb":"{verb}","requestURI":"/x","requestReceivedTimestamp":"{received:.6}","user":{{"username":"{user}"}},"responseStatus":{{"code":{code}}}}}"#
        )
    }

    fn verbs(lines: &[String]) -> Vec<String> {
        let since = Timestamp::from_second(1).unwrap();
        let requests = requests_of("operator", &lines.join("\n"), since).unwrap();
        requests
            .into_iter()
            .map(|r| format!("{} {}", r.verb, r.code))
            .collect()
    }

    #[test]
    fn only_the_named_user_counts_and_only_what_was_asked_since() {
        let lines = [
            line("0", 0, "operator", "patch", "ResponseComplete", 200),
            line("1", 1, "admin", "get", "ResponseComplete", 200),
            line("2", 1, "operator", "get", "ResponseComplete", 404),
        ];
        assert_eq!(verbs(&lines), ["get 404"]);
    }

    #[test]
    fn a_watch_counts_once_when_it_starts_and_also_when_it_is_refused() {
        let lines = [
            line("0", 1, "operator", "watch", "ResponseComplete", 200),
            line("1", 1, "operator", "watch", "ResponseStarted", 200),
            line("1", 1, "operator", "watch", "ResponseComplete", 200),
            line("2", 1, "operator", "watch", "ResponseComplete", 403),
        ];
        assert_eq!(verbs(&lines), ["watch 200", "watch 403"]);
    }
}
