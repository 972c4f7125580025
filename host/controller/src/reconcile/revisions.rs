//! The recorded resolutions of a resource: one `ControllerRevision` for each, the last two kept.
//!
//! A resolution is everything that the objects of a resource were built from, and the objects
//! themselves. It is written before the objects and reused until its author, or someone who asked for
//! an update, changes an input. The number of a revision increases; the highest one is in effect.
//!
//! The watch delivers the metadata only. The newest resolution of each resource stays in memory,
//! compressed and within a limit. Every replica reads all of them when it starts, so that it can take over
//! at once; another one is read when it is needed.

mod basis;
mod notes;
mod record;
mod resolution;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::{PartialObjectMeta, Request};
use kube::{Client, ResourceExt};
use llsd_api::labels;
use llsd_api::{API_VERSION_V1ALPHA2, KIND};
use llsd_render::Generated;
use llsd_render::objects::Owner;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::OnceCell;

use super::apply::is_ours;
use super::metadata_response;
use crate::cache::{ClusterCache, PAGE_SIZE, Packed, Packer, Scope};
pub(crate) use basis::Basis;
pub(crate) use notes::{Mark, MarkState, Notes};
pub(crate) use resolution::{AuthorInputs, Resolution};
use state::{PackedResolution, State, pod_digest};

/// Revisions of one resource that are kept: the one in effect, and the one to go back to.
const KEPT: usize = 2;
/// Between the name of the resource and the number of the revision.
const INFIX: &str = "-rev-";

/// Why a revision was not read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {verb} ControllerRevision {name:?}: {error}")]
pub(crate) struct Error {
    verb: &'static str,
    name: String,
    error: Box<kube::Error>,
}

/// A recorded resolution.
#[derive(Debug, Clone)]
pub(crate) struct Revision {
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) notes: Notes,
    pub(crate) resolution: Resolution,
}

/// The recorded resolutions of all resources.
pub(crate) struct Revisions {
    client: Client,
    cache: Arc<ClusterCache>,
    packer: Packer<Resolution>,
    state: Mutex<State>,
    is_loaded: OnceCell<()>,
}

impl Revisions {
    pub(crate) fn new(client: Client, cache: Arc<ClusterCache>) -> Self {
        Self {
            client,
            cache,
            packer: Packer::new(),
            state: Mutex::default(),
            is_loaded: OnceCell::new(),
        }
    }

    /// Reads the newest resolution of each resource. One that cannot be read now is read when it is needed.
    pub(crate) async fn load_all(&self, scope: &Scope) {
        let load = async {
            if let Err(error) = self.list_all(scope).await {
                tracing::warn!(%error, "failed to list the recorded resolutions");
            }
        };
        self.is_loaded.get_or_init(|| load).await;
    }

    async fn list_all(&self, scope: &Scope) -> Result<(), kube::Error> {
        let api = scope.api::<ControllerRevision>(&self.client);
        let selector = format!("{}={}", labels::MANAGED_BY, labels::MANAGER);
        let mut parameters = ListParams::default().labels(&selector).limit(PAGE_SIZE);
        loop {
            let page = api.list(&parameters).await?;
            self.store_newest(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    /// Stores those of some revisions that are newer than what is stored of their resource.
    fn store_newest(&self, revisions: Vec<ControllerRevision>) {
        let mut newest: HashMap<String, ControllerRevision> = HashMap::new();
        for revision in revisions {
            let Some(uid) = owner_uid(revision.owner_references()) else {
                continue;
            };
            let stored = self.state.lock().stored_number(&uid);
            let known = newest.get(&uid).map(|known| known.revision).max(stored);
            if known < Some(revision.revision) {
                newest.insert(uid, revision);
            }
        }
        for (uid, revision) in newest {
            let encoded = record::encoded(&revision);
            if let Some(Ok(resolution)) = encoded.map(|encoded| record::decode(&encoded)) {
                let namespace = revision.namespace().unwrap_or_default();
                let packed = self.packer.pack(&resolution);
                self.store(namespace, &uid, revision.name_any(), &resolution, packed);
            }
        }
    }

    /// Notes a resource of the first list of a watch.
    pub(crate) fn list_resource(&self, uid: String) {
        self.state.lock().listed.insert(uid);
    }

    /// Whether a resource without a recorded resolution may be older than this process.
    pub(crate) fn is_listed(&self, uid: &str) -> bool {
        self.state.lock().listed.contains(uid)
    }

    /// The resolution in effect; `None` if none is recorded, or if it cannot be read any more.
    pub(crate) async fn current(&self, owner: &Owner) -> Result<Option<Revision>, Error> {
        match self.heads(owner).into_iter().next() {
            Some((number, head)) => {
                self.state.lock().listed.remove(&owner.uid);
                self.load(owner, number, &head).await
            }
            None => Ok(None),
        }
    }

    /// The basis of the resolution in effect, if that is in memory.
    pub(crate) fn basis(&self, owner: &Owner) -> Option<Basis> {
        let (_, head) = self.heads(owner).into_iter().next()?;
        let state = self.state.lock();
        state.resolution(owner, &head.name_any())?.basis.clone()
    }

    /// The resolution before the one in effect.
    pub(crate) async fn previous(&self, owner: &Owner) -> Result<Option<Revision>, Error> {
        match self.heads(owner).into_iter().nth(1) {
            Some((number, head)) => self.load(owner, number, &head).await,
            None => Ok(None),
        }
    }

    /// Lists the revisions of one resource, for a process without watches.
    pub(crate) async fn list(&self, owner: &Owner) -> Result<(), Error> {
        let selector = format!(
            "{}={},{}={}",
            labels::MANAGED_BY,
            labels::MANAGER,
            labels::INSTANCE,
            owner.name
        );
        let listed = self
            .api(owner)
            .list_metadata(&ListParams::default().labels(&selector))
            .await
            .map_err(|error| failure("list", &owner.name, error))?;
        for head in listed {
            self.cache.record_revision(head.metadata);
        }
        Ok(())
    }

    /// Whether the resolution in effect is known to have the same configuration as `generated`.
    pub(crate) fn has_configuration(&self, owner: &Owner, generated: &Generated) -> bool {
        let digest = pod_digest(generated);
        self.state.lock().has_configuration(owner, &digest)
    }

    /// The part of each resource in rollouts, by namespace and name.
    pub(crate) fn marks(&self) -> BTreeMap<(String, String), Mark> {
        let mut state = self.state.lock();
        let numbers = state.numbers(&self.cache);
        let marked = self.cache.revisions.select_grouped(|head| {
            let revision = head.name_any();
            let (name, number) = revision.rsplit_once(INFIX)?;
            let newest = numbers.get(&owner_uid(head.owner_references())?)?.last()?;
            if number.parse() != Ok(*newest) {
                return None;
            }
            Some((
                (head.namespace()?, name.to_owned()),
                Notes::of(&head).rollout?,
            ))
        });
        marked.into_iter().collect()
    }

    /// Records a resolution, which is in effect from now on, and deletes those that are not kept.
    pub(crate) async fn record(
        &self,
        owner: &Owner,
        resolution: &Resolution,
        notes: &Notes,
    ) -> Result<(), Error> {
        let newest = self.heads(owner).first().map_or(0, |(number, _)| *number);
        let number = newest + 1;
        let name = format!("{}{INFIX}{number}", owner.name);
        let json = record::json(resolution);
        let encoded = record::encode(&json);
        let revision = ControllerRevision {
            metadata: metadata(owner, &name, notes),
            revision: number,
            data: Some(record::data(resolution, &encoded)),
        };
        let created = match self.create(owner, &revision).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.delete_left_behind(owner, &name).await?;
                self.create(owner, &revision).await
            }
            created => created,
        };
        let created = created.map_err(|error| {
            // Another process may have written it; list them again.
            self.state.lock().numbers = None;
            failure("create", &name, error)
        })?;
        self.cache.record_revision(created);
        {
            let packed = self.packer.pack_json(&json);
            let namespace = owner.namespace.clone();
            self.store(namespace, &owner.uid, name, resolution, packed);
            let mut state = self.state.lock();
            state.listed.remove(&owner.uid);
            let numbers = state.numbers.get_or_insert_default();
            numbers.entry(owner.uid.clone()).or_default().insert(number);
        }
        self.prune(owner).await
    }

    async fn create(
        &self,
        owner: &Owner,
        revision: &ControllerRevision,
    ) -> Result<ObjectMeta, kube::Error> {
        let body = serde_json::to_vec(revision).map_err(kube::Error::SerdeError)?;
        let request = Request::new(self.api(owner).resource_url());
        let request = request.create(&PostParams::default(), body);
        metadata_response::send(&self.client, request).await
    }

    /// Changes the annotations of a revision.
    pub(crate) async fn annotate(
        &self,
        owner: &Owner,
        name: &str,
        notes: &Notes,
    ) -> Result<(), Error> {
        let change = json!({"metadata": {"annotations": notes.annotations()}});
        let patched = self
            .api(owner)
            .patch_metadata(name, &PatchParams::default(), &Patch::Merge(change))
            .await;
        match patched {
            Ok(written) => {
                self.cache.record_revision(written.metadata);
                Ok(())
            }
            Err(error) => Err(failure("patch", name, error)),
        }
    }

    /// The bytes of the resolutions in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes()
    }

    /// Drops what is stored for a deleted resource that has this name.
    pub(crate) fn forget_deleted(&self, namespace: &str, name: &str) {
        let mut state = self.state.lock();
        let resource = (namespace.to_owned(), name.to_owned());
        if let Some(uid) = state.uids.remove(&resource) {
            state.forget_resource(&uid);
        }
    }

    /// Drops what is stored for a deleted resource, also if this replica was never the leader.
    pub(crate) fn forget_uid(&self, uid: &str) {
        self.state.lock().forget_resource(uid);
    }

    /// The revisions of a resource that exist, the newest first.
    fn heads(&self, owner: &Owner) -> Vec<(i64, DynamicObject)> {
        let mut state = self.state.lock();
        let resource = (owner.namespace.clone(), owner.name.clone());
        state.uids.insert(resource, owner.uid.clone());
        let numbers = state.numbers(&self.cache);
        let numbers = numbers.get(&owner.uid).into_iter().flatten().rev();
        let find = |number: &i64| {
            let name = format!("{}{INFIX}{number}", owner.name);
            let head = self.cache.revisions.get(&owner.namespace, &name)?;
            is_ours(&head, owner).then_some((*number, head))
        };
        numbers.filter_map(find).collect()
    }

    async fn load(
        &self,
        owner: &Owner,
        number: i64,
        head: &DynamicObject,
    ) -> Result<Option<Revision>, Error> {
        let name = head.name_any();
        let known = {
            let state = self.state.lock();
            state.resolution(owner, &name).map(|one| one.packed.clone())
        };
        let resolution = match known.and_then(|packed| self.packer.unpack(&packed)) {
            Some(resolution) => resolution,
            None => {
                let Some(resolution) = self.read(owner, &name).await? else {
                    return Ok(None);
                };
                let is_newest =
                    self.heads(owner).first().map(|(newest, _)| *newest) == Some(number);
                if is_newest {
                    let namespace = owner.namespace.clone();
                    let packed = self.packer.pack(&resolution);
                    self.store(namespace, &owner.uid, name.clone(), &resolution, packed);
                }
                resolution
            }
        };
        Ok(Some(Revision {
            notes: Notes::of(head),
            name,
            number,
            resolution,
        }))
    }

    /// Reads a resolution from the API server; `None` if this operator cannot read it.
    async fn read(&self, owner: &Owner, name: &str) -> Result<Option<Resolution>, Error> {
        let found = self.api(owner).get_opt(name).await;
        let found = found.map_err(|error| failure("get", name, error))?;
        let Some(encoded) = found.and_then(|found| record::encoded(&found)) else {
            return Ok(None);
        };
        let decoded = record::decode(&encoded);
        if let Err(error) = &decoded {
            tracing::warn!(
                revision = name,
                error,
                "failed to read a recorded resolution"
            );
        }
        Ok(decoded.ok())
    }

    fn store(
        &self,
        namespace: String,
        uid: &str,
        name: String,
        resolution: &Resolution,
        packed: Packed,
    ) {
        let resolution = PackedResolution::new(namespace, name, resolution, packed);
        self.state.lock().store(uid, resolution);
    }

    /// Deletes a revision of an earlier resource of the same name, which was deleted without it.
    async fn delete_left_behind(&self, owner: &Owner, name: &str) -> Result<(), Error> {
        let found = self.api(owner).get_metadata_opt(name).await;
        let found = found.map_err(|error| failure("get", name, error))?;
        let is_left_behind = |one: &PartialObjectMeta<ControllerRevision>| {
            one.labels().get(labels::MANAGED_BY).map(String::as_str) == Some(labels::MANAGER)
                && one
                    .owner_references()
                    .iter()
                    .all(|one| one.uid != owner.uid)
        };
        let Some(found) = found.filter(is_left_behind) else {
            return Ok(());
        };
        let this_one = DeleteParams::default().preconditions(Preconditions {
            uid: found.uid(),
            resource_version: None,
        });
        match self.api(owner).delete(name, &this_one).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(failure("delete", name, error)),
        }
    }

    /// Deletes the revisions that are not kept.
    async fn prune(&self, owner: &Owner) -> Result<(), Error> {
        for (number, head) in self.heads(owner).into_iter().skip(KEPT) {
            let name = head.name_any();
            match self
                .api(owner)
                .delete(&name, &DeleteParams::default())
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(failure("delete", &name, error)),
            }
            self.cache.revisions.forget(&owner.namespace, &name);
            let mut state = self.state.lock();
            if let Some(numbers) = state
                .numbers
                .as_mut()
                .and_then(|all| all.get_mut(&owner.uid))
            {
                numbers.remove(&number);
            }
        }
        Ok(())
    }

    fn api(&self, owner: &Owner) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), &owner.namespace)
    }
}

fn metadata(owner: &Owner, name: &str, notes: &Notes) -> ObjectMeta {
    let labels = [
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::PART_OF, labels::PRODUCT),
        (labels::INSTANCE, owner.name.as_str()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let annotations = notes.annotations().into_iter();
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(owner.namespace.clone()),
        labels: Some(labels.into()),
        annotations: Some(
            annotations
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        ),
        owner_references: Some(vec![OwnerReference {
            api_version: API_VERSION_V1ALPHA2.to_owned(),
            kind: KIND.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

/// The uid of the resource among the owners of a revision.
fn owner_uid(owners: &[OwnerReference]) -> Option<String> {
    let mut owners = owners.iter();
    Some(owners.find(|owner| owner.kind == KIND)?.uid.clone())
}

/// The number in the name of a revision.
fn number(name: &str) -> Option<i64> {
    name.rsplit_once(INFIX)?.1.parse().ok()
}

fn failure(verb: &'static str, name: &str, error: kube::Error) -> Error {
    Error {
        verb,
        name: name.to_owned(),
        error: Box::new(error),
    }
}
