//! Waits for something to become true, with a deadline and an account of what was seen instead.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::watcher::{self, watch_object};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Watches one object until `condition` holds, and returns it as it was then.
///
/// The condition sees `None` while the object does not exist. `state` is what the object is
/// expected to be, for the message: `deployment "a" is not ready after 30s`.
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
    let mut trouble = None;
    let watch = async {
        let mut seen = watch_object(api.clone(), name).boxed();
        while let Some(event) = seen.next().await {
            match event {
                Ok(object) if condition(object.as_ref()) => return Some(object),
                Ok(object) => last = object,
                // The stream starts again by itself, with a growing delay; a refusal stays one.
                Err(error) => {
                    let is_refused = is_refused(&error);
                    trouble = Some(error);
                    if is_refused {
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
    if let Some(error) = trouble {
        return Err(error).with_context(|| format!("cannot watch {kind} \"{name}\""));
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

/// Asks again and again until `probe` answers, for what cannot be watched.
///
/// The error of the last attempt is part of the message when the deadline passes.
pub async fn until<T, F>(what: &str, deadline: Duration, mut probe: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut last = None;
    let ask = async {
        let mut pause = Duration::from_millis(10);
        loop {
            match probe().await {
                Ok(answer) => return answer,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    };
    match (tokio::time::timeout(deadline, ask).await, last) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), Some(error)) => {
            Err(error).with_context(|| format!("{what}: not within {deadline:?}"))
        }
        (Err(_), None) => bail!("{what}: no answer within {deadline:?}"),
    }
}

fn is_refused(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) =
        error
    else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.is_forbidden() || status.is_not_found())
}
