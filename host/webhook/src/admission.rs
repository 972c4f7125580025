//! `/validate`: an `AdmissionReview` in, a decision out.
//!
//! Asks what the layers before it cannot: what spans the whole resource, what the plugins say about
//! it, and whether the Secrets and ConfigMaps that it names are there. The last never refuse: in what
//! order a set of files is applied must not matter.

use std::sync::Arc;

use axum::body::Bytes;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};

use crate::base::{self, Images};
use crate::decision::{Decision, unreadable};
use crate::examination::{Candidate, Request, Review, examine};
use crate::preview::{Knowledge, Preview, preview};
use crate::references::{Objects, survey};
use crate::server::compute;

/// What a decision may use.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) images: Arc<dyn Images>,
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) knowledge: watch::Receiver<Arc<Knowledge>>,
}

/// Answers one review, in whatever state it comes.
pub(crate) async fn answer(context: &Context, body: Bytes) -> Result<Value, JoinError> {
    let read_and_examine = move |body: &[u8]| {
        let request = read(body)?;
        let examined = examine(&request);
        Ok::<_, String>((request, examined))
    };
    let (request, examined) = match compute(body, read_and_examine).await? {
        Ok(examined) => examined,
        Err(reason) => return Ok(unreadable(&reason)),
    };
    let decision = match examined {
        Ok(decision) => decision,
        Err(candidate) => settle(context, *candidate).await?,
    };
    Ok(decision.into_review(request.uid(), request.speaks_v1alpha1()))
}

fn read(body: &[u8]) -> Result<Request, String> {
    let review: Review = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(review.request.ok_or("it holds no request")?)
}

/// Asks the plugins, and then looks for what the resource names: what was made just before has had
/// time to be heard of.
async fn settle(context: &Context, candidate: Candidate) -> Result<Decision, JoinError> {
    let Context {
        client,
        images,
        objects,
        knowledge,
    } = context;
    let Candidate {
        checked,
        namespace,
        mut decision,
    } = candidate;
    let (checked, knowledge) = (Arc::new(checked), knowledge.borrow().clone());
    let base = base::find(client, images, &knowledge, &namespace, &checked).await;
    let (base, unread) = match base {
        Ok(base) => (base, None),
        Err(warning) => (None, Some(warning)),
    };
    let asked = checked.clone();
    let said = spawn_blocking(move || preview(&knowledge, &asked, base)).await?;
    let missing = survey(objects.as_ref(), &namespace, &checked);
    missing
        .into_iter()
        .chain(unread)
        .for_each(|one| decision.add(one));
    match said {
        Preview::Said(found) => found.into_iter().for_each(|one| decision.add(one)),
        Preview::Unknown(error) => decision.add(error),
        Preview::Silent => {}
    }
    Ok(decision)
}
