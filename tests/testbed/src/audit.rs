//! Reads the requests of a user from the API server's audit log.
//!
//! The API server writes the line of a request before it completes the response. A client that has
//! the response therefore finds its request in the log. A watch event can arrive before the line.

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

/// A position in the log, taken at some moment.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The size of the log shortly before that moment.
    position: u64,
    at: Timestamp,
}

/// One request, as the API server logged it.
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
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The HTTP status of the response.
    pub code: u16,
}

impl AuditLog {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// The current position.
    pub fn mark(&self) -> Result<Mark> {
        let position = self.open()?.metadata()?.len();
        let at = Timestamp::now();
        Ok(Mark { position, at })
    }

    /// The requests that one user sent after a mark, in the order of their responses.
    ///
    /// A watch counts once, when it starts.
    pub fn requests(&self, user: &str, since: Mark) -> Result<Vec<AuditedRequest>> {
        let mut text = Vec::new();
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(since.position.saturating_sub(1)))?;
        file.read_to_end(&mut text)?;
        let is_start = since.position == 0;
        requests_of(user, complete_lines(&text, is_start)?, since.at)
    }

    fn open(&self) -> Result<File> {
        File::open(&self.file).with_context(|| format!("failed to read {}", self.file.display()))
    }
}

/// The complete lines of a part of the log. The API server may have been writing a line at its beginning and
/// may be writing one at its end. Unless it `is_start`, the part begins with the byte before its position.
fn complete_lines(part: &[u8], is_start: bool) -> Result<&str> {
    let newline = |byte: &u8| *byte == b'\n';
    let start = match is_start {
        true => Some(0),
        false => part.iter().position(newline).map(|end| end + 1),
    };
    let end = part.iter().rposition(newline);
    let lines = match (start, end) {
        (Some(start), Some(end)) if start < end => &part[start..end],
        _ => &[],
    };
    Ok(std::str::from_utf8(lines)?)
}

fn requests_of(user: &str, lines: &str, since: Timestamp) -> Result<Vec<AuditedRequest>> {
    let mut seen = BTreeSet::new();
    let mut requests = Vec::new();
    // Parsing is slow and most lines belong to other users, so filter by substring first.
    for line in lines.lines().filter(|line| line.contains(user)) {
        let event: Event = serde_json::from_str(line).context("invalid line in the audit log")?;
        if event.user.username != user || event.request_received_timestamp < since {
            continue;
        }
        let code = event.response_status.code;
        // A watch has a line when it starts and one when it ends, perhaps after a later mark. A
        // forbidden watch has only the second.
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

    /// The line of a request that was received at `second`.
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
    fn lines_that_are_cut_do_not_count() {
        let lines = |part: &str, is_start| {
            complete_lines(part.as_bytes(), is_start)
                .unwrap()
                .to_owned()
        };
        assert_eq!(lines("a\nb\nc", true), "a\nb");
        assert_eq!(lines("\nb\nc", false), "b");
        assert_eq!(lines("rest of a\nb\nc\n", false), "b\nc");
        assert_eq!(lines("rest of a", false), "");
        assert_eq!(lines("\n", false), "");
    }

    #[test]
    fn only_later_requests_of_the_user_count() {
        let lines = [
            line("0", 0, "operator", "patch", "ResponseComplete", 200),
            line("1", 1, "admin", "get", "ResponseComplete", 200),
            line("2", 1, "operator", "get", "ResponseComplete", 404),
        ];
        assert_eq!(verbs(&lines), ["get 404"]);
    }

    #[test]
    fn a_watch_counts_once_when_it_starts_or_is_forbidden() {
        let lines = [
            line("0", 1, "operator", "watch", "ResponseComplete", 200),
            line("1", 1, "operator", "watch", "ResponseStarted", 200),
            line("1", 1, "operator", "watch", "ResponseComplete", 200),
            line("2", 1, "operator", "watch", "ResponseComplete", 403),
        ];
        assert_eq!(verbs(&lines), ["watch 200", "watch 403"]);
    }
}
