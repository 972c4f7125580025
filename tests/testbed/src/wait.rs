//! Waits for a condition with a deadline, and reports the last state on failure.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::watcher::{self, watch_object};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Watches one object until `condition` holds, and returns that version of it.
///
/// The condition receives `None` while the object does not exist. `state` names the expected state
/// in the error message: `deployment "a" is not ready after 30s`.
pub async fn eventually<K>(
    api: &Api<K>,
    name: &str,
    deadline: Duration,
    state: &str,
    condition: impl Fn(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource<DynamicType: Default>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug
        + Send
        + 'static,
{
    let mut last = None;
    let mut last_error = None;
    let watch = async {
        let mut seen = watch_object(api.clone(), name).boxed();
        while let Some(event) = seen.next().await {
            match event {
                Ok(object) if condition(object.as_ref()) => return Some(object),
                Ok(object) => last = object,
                // The stream retries by itself, with backoff. Forbidden and not found are final.
                Err(error) => {
                    let is_final = is_final(&error);
                    last_error = Some(error);
                    if is_final {
                        return None;
                    }
                }
            }
        }
        None
    };
    let found = tokio::time::timeout(deadline, watch).await.ok().flatten();
    if let Some(object) = found {
        return Ok(object);
    }
    let kind = K::kind(&Default::default()).to_lowercase();
    if let Some(error) = last_error {
        return Err(error).with_context(|| format!("failed to watch {kind} \"{name}\""));
    }
    let seen = match last {
        None => "it does not exist".to_owned(),
        Some(mut object) => {
            object.managed_fields_mut().clear();
            format!("it is\n{}", serde_json::to_string_pretty(&object)?)
        }
    };
    bail!("{kind} \"{name}\" is not {state} after {deadline:?}; {seen}")
}

/// Calls `probe` until it succeeds, for conditions that cannot be watched.
///
/// When the deadline passes, the error includes that of the last attempt.
pub async fn until<T, F>(what: &str, deadline: Duration, mut probe: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut last = None;
    let attempts = async {
        let mut pause = Duration::from_millis(10);
        loop {
            match probe().await {
                Ok(value) => return value,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    };
    match (tokio::time::timeout(deadline, attempts).await, last) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(error)) => {
            Err(error).with_context(|| format!("{what}: did not succeed within {deadline:?}"))
        }
        (Err(_), None) => bail!("{what}: the first attempt did not return within {deadline:?}"),
    }
}

fn is_final(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) =
        error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.is_forbidden() || status.is_not_found())
}
