//! Decides whether the recorded resolution of a resource stays or a new one takes its place.
//!
//! It stays unless its author changed something, someone asked for an update or an undo, or it is the
//! resource's turn in a rollout. While it stays, no plugin is called and no registry is read.

use std::time::Instant;

use kube::api::DynamicObject;
use kube::{Resource as _, ResourceExt};
use llsd_api::Distribution;
use llsd_api::conditions::reason;
use llsd_render::ca_bundle::CaBundle;
use llsd_render::objects::{
    CA_BUNDLE_KEY, CA_BUNDLE_SUFFIX, Kind, Owner, ca_bundle_backup, denied_privileges,
};

use super::apply::{self, Target};
use super::context::Context;
use super::error::Error;
use super::gather;
use super::resolve::{Current, Resolved, Resolver};
use super::revisions::{Mark, MarkState, Notes, Resolution, Revision};
use super::rollouts::{DeploymentState, Resource};
use super::updates::{Now, Renewed, Update, available};
use crate::images::ImageReader;
use crate::process::Transition;

/// One reconciliation of one resource.
pub(super) struct Pass<'a, I> {
    pub(super) ctx: &'a Context,
    pub(super) cr: &'a Distribution,
    pub(super) owner: &'a Owner,
    pub(super) resolver: &'a Resolver<'a, I>,
    pub(super) current: &'a Current,
}

/// The resolution to apply.
pub(super) struct Decision {
    pub(super) resolved: Resolved,
    /// What a later resolution would change.
    pub(super) updates: Vec<Update>,
    /// Why a rollout set the resource back.
    pub(super) setback: Option<String>,
}

impl<I: ImageReader> Pass<'_, I> {
    /// Decides which resolution to apply, and records it if it is a new one.
    pub(super) async fn decide(&self) -> Result<Decision, Error> {
        let revisions = &self.ctx.revisions;
        let Some(mut revision) = revisions.current(self.owner).await? else {
            let live = self.live_deployment().await?;
            let resolved = self.resolver.first(self.current, live.as_ref()).await?;
            self.record(None, &resolved, None).await?;
            // What was resolved just now is current, unless the pods that run stay as they are.
            return Ok(match live {
                Some(_) => self.decided(resolved, None),
                None => Decision {
                    resolved,
                    updates: Vec::new(),
                    setback: None,
                },
            });
        };
        if is_request(
            self.cr,
            llsd_api::labels::UNDO,
            revision.notes.undo.as_ref(),
        ) {
            return self.undo(&revision).await;
        }
        match self.follow_rollout(&mut revision).await? {
            Some(decision) => Ok(decision),
            None => self.advance(&revision).await,
        }
    }

    /// Keeps the recorded resolution, or resolves the parts that changed.
    async fn advance(&self, revision: &Revision) -> Result<Decision, Error> {
        let recorded = &revision.resolution;
        let Current {
            checked,
            stated,
            author,
            ..
        } = self.current;
        let updates = self.updates(recorded);
        let asked = is_request(
            self.cr,
            llsd_api::labels::UPDATE,
            revision.notes.update.as_ref(),
        );
        let turn = self.turn(revision, &updates);
        let taken = match asked {
            true => updates.iter().collect(),
            false => turn,
        };
        let mut renewed = Renewed::by(taken.iter().copied());
        // Who asks for an update also wants to know where the tag points now.
        renewed.image |= asked && recorded.gathered.digest().is_some();
        let has_changed = *author != recorded.author
            || stated.network_policy != recorded.gathered.network_policy
            || stated.allows_any_uid != recorded.gathered.allows_any_uid
            || stated.allows_privileged_pods != recorded.gathered.allows_privileged_pods;
        if !has_changed && renewed.is_empty() {
            let assumed = recorded.secrets.as_deref();
            let secrets = self
                .resolver
                .secrets(checked, &recorded.plan, assumed)
                .await?;
            if secrets.digest == recorded.secrets {
                if asked {
                    self.answer(revision, revision.notes.rollout.clone())
                        .await?;
                }
                let mut resolution = recorded.clone();
                resolution.gathered.warnings.clone_from(&stated.warnings);
                let resolved = Resolved {
                    resolution,
                    secrets,
                };
                let setback = setback(revision.notes.rollout.as_ref());
                return Ok(Decision {
                    resolved,
                    updates,
                    setback,
                });
            }
        }
        let resolved = self.resolver.next(self.current, recorded, renewed).await;
        let mark = (!asked && !taken.is_empty()).then(|| mark(&taken));
        let resolved = match (resolved, mark.clone()) {
            (Err(error), Some(mark)) if error.waits_for_change() => {
                return self.refuse(revision, mark, error).await;
            }
            (resolved, _) => resolved?,
        };
        if asked && resolved.resolution.is_same(recorded) {
            self.answer(revision, revision.notes.rollout.clone())
                .await?;
            return Ok(self.decided(resolved, None));
        }
        let is_unchanged = resolved.resolution.objects.template() == recorded.objects.template();
        let mark = mark.map(|mark| match is_unchanged {
            true => Mark {
                state: MarkState::Unchanged,
                ..mark
            },
            false => mark,
        });
        self.record(Some(recorded), &resolved, mark).await?;
        Ok(self.decided(resolved, None))
    }

    /// Goes back to the previous resolution, because someone asked for it.
    async fn undo(&self, revision: &Revision) -> Result<Decision, Error> {
        let Some(previous) = self.ctx.revisions.previous(self.owner).await? else {
            self.answer(revision, revision.notes.rollout.clone())
                .await?;
            let note = "there is no previous revision to go back to";
            let regarding = self.cr.object_ref(&());
            let events = &self.ctx.events;
            events.warn(reason::NOTHING_TO_UNDO, note, &regarding).await;
            return self.advance(revision).await;
        };
        self.check_privileges(&previous.resolution)?;
        let resolved = self.set_back(previous.resolution).await?;
        self.record(None, &resolved, None).await?;
        let note = format!("went back to revision {}", previous.number);
        self.publish(false, reason::UNDONE, note).await;
        Ok(self.decided(resolved, None))
    }

    /// Rejects a resolution with privileges that the installer allowed then, but does not allow now.
    fn check_privileges(&self, resolution: &Resolution) -> Result<(), Error> {
        let Current {
            checked, stated, ..
        } = self.current;
        if stated.allows_privileged_pods {
            return Ok(());
        }
        let kept = &resolution.gathered.kept_privileges;
        let denied = resolution
            .checked(self.cr, checked)
            .and_then(|checked| denied_privileges(&checked, self.owner, kept));
        Ok(denied.map_or(Ok(()), Err)?)
    }

    /// If a rollout changed the resource: notes that its pods are available, or sets it back.
    async fn follow_rollout(&self, revision: &mut Revision) -> Result<Option<Decision>, Error> {
        let Some(mark) = revision.notes.rollout.clone() else {
            return Ok(None);
        };
        if mark.state != MarkState::Progressing {
            return Ok(None);
        }
        let Owner {
            namespace, name, ..
        } = self.owner;
        let live = self.ctx.cache.child(Kind::Deployment, namespace, name);
        let state = match DeploymentState::of(live.as_ref(), &revision.resolution.objects) {
            DeploymentState::Refused { message, deadline }
                if (self.ctx.rollouts).is_overdue(&self.resource(), deadline, Instant::now()) =>
            {
                DeploymentState::Failed(message)
            }
            state => state,
        };
        match state {
            DeploymentState::Progressing | DeploymentState::Refused { .. } => Ok(None),
            DeploymentState::Available => {
                let mark = Mark {
                    state: MarkState::Updated,
                    ..mark
                };
                self.answer(revision, Some(mark.clone())).await?;
                revision.notes.rollout = Some(mark);
                self.ctx.rollouts.notify();
                Ok(None)
            }
            DeploymentState::Failed(message) => {
                let previous = self.ctx.revisions.previous(self.owner).await?;
                let mark = Mark {
                    state: MarkState::RolledBack,
                    message: message.clone(),
                    ..mark
                };
                let note = format!("set back to the previous revision: {message}");
                self.publish(true, reason::ROLLOUT_HALTED, note).await;
                let Some(previous) = previous else {
                    self.answer(revision, Some(mark.clone())).await?;
                    revision.notes.rollout = Some(mark);
                    self.ctx.rollouts.notify();
                    return Ok(None);
                };
                let resolved = self.set_back(previous.resolution).await?;
                self.record(None, &resolved, Some(mark)).await?;
                Ok(Some(self.decided(resolved, Some(message))))
            }
        }
    }

    /// A recorded resolution, as an answer to the current inputs of the author.
    async fn set_back(&self, previous: Resolution) -> Result<Resolved, Error> {
        let resolution = Resolution {
            author: self.current.author.clone(),
            is_held: true,
            ..previous
        };
        let assumed = resolution.secrets.as_deref();
        let checked = &self.current.checked;
        let secrets = self.resolver.secrets(checked, &resolution.plan, assumed);
        Ok(Resolved {
            secrets: secrets.await?,
            resolution,
        })
    }

    /// Halts a rollout at a resource for which no new resolution could be made.
    async fn refuse(
        &self,
        revision: &Revision,
        mark: Mark,
        error: Error,
    ) -> Result<Decision, Error> {
        let message = llsd_registry::chain(&error);
        let mark = Mark {
            state: MarkState::RolledBack,
            message: message.clone(),
            ..mark
        };
        self.answer(revision, Some(mark)).await?;
        self.ctx.rollouts.finish(&self.resource());
        self.publish(true, reason::ROLLOUT_HALTED, message.clone())
            .await;
        let recorded = revision.resolution.clone();
        let assumed = recorded.secrets.as_deref();
        let checked = &self.current.checked;
        let secrets = self.resolver.secrets(checked, &recorded.plan, assumed);
        let resolved = Resolved {
            secrets: secrets.await?,
            resolution: recorded,
        };
        Ok(self.decided(resolved, Some(message)))
    }

    /// The updates whose turn it is for the resource.
    fn turn<'b>(&self, revision: &Revision, updates: &'b [Update]) -> Vec<&'b Update> {
        let rollouts = &self.ctx.rollouts;
        if revision.resolution.is_held {
            rollouts.offer(&self.resource(), &[], false);
            return Vec::new();
        }
        let Owner {
            namespace, name, ..
        } = self.owner;
        let live = self.ctx.cache.child(Kind::Deployment, namespace, name);
        let state = DeploymentState::of(live.as_ref(), &revision.resolution.objects);
        let is_available = state == DeploymentState::Available;
        rollouts.offer(&self.resource(), updates, is_available)
    }

    fn updates(&self, recorded: &Resolution) -> Vec<Update> {
        let Current {
            checked,
            stated,
            author,
            ca,
        } = self.current;
        // With another spec, the objects differ for another reason.
        let is_same_spec = author.generation == recorded.author.generation;
        let objects = is_same_spec
            .then(|| recorded.checked(self.cr, checked))
            .flatten()
            .and_then(|checked| self.resolver.rebuilt(&checked, recorded));
        let tag = self.ctx.tags.newest(&recorded.gathered.image);
        let rollouts = self.resolver.settings.rollouts();
        let mut updates = available(
            recorded,
            &Now {
                checked,
                stated,
                ca,
                plugins: &self.ctx.plugins,
                tag: tag.as_deref(),
                objects: objects.as_ref(),
                settings: rollouts,
            },
        );
        for update in &mut updates {
            update.is_followed &= !recorded.is_held;
        }
        updates
    }

    fn decided(&self, resolved: Resolved, setback: Option<String>) -> Decision {
        Decision {
            updates: self.updates(&resolved.resolution),
            resolved,
            setback,
        }
    }

    /// Records a new resolution, which is in effect from now on.
    async fn record(
        &self,
        recorded: Option<&Resolution>,
        resolved: &Resolved,
        mark: Option<Mark>,
    ) -> Result<(), Error> {
        let resolution = &resolved.resolution;
        if let Some(recorded) = recorded.filter(|recorded| recorded.ca != resolution.ca) {
            self.back_up_ca(recorded).await?;
        }
        let notes = Notes {
            rollout: mark,
            ..Notes::answering(self.cr)
        };
        let revisions = &self.ctx.revisions;
        revisions.record(self.owner, resolution, &notes).await?;
        self.ctx.rollouts.finish(&self.resource());
        Ok(())
    }

    /// Keeps the certificates of a resolution for the way back.
    async fn back_up_ca(&self, recorded: &Resolution) -> Result<(), Error> {
        let Some(digest) = &recorded.ca else {
            return Ok(());
        };
        let name = format!("{}{CA_BUNDLE_SUFFIX}", self.owner.name);
        let found = self.ctx.contents.config_map(&self.owner.namespace, &name);
        let found = found
            .await
            .map_err(|error| gather::Error::api(&name, error))?;
        let bundle = found.and_then(|data| CaBundle::validated(data.get(CA_BUNDLE_KEY)?, digest));
        if let Some(bundle) = bundle {
            let child = ca_bundle_backup(&bundle, self.owner);
            apply::write_one(self.target(), child).await?;
        }
        Ok(())
    }

    /// Notes on the revision that the requests of the resource are answered.
    async fn answer(&self, revision: &Revision, rollout: Option<Mark>) -> Result<(), Error> {
        let notes = Notes {
            rollout,
            ..Notes::answering(self.cr)
        };
        let revisions = &self.ctx.revisions;
        Ok(revisions
            .annotate(self.owner, &revision.name, &notes)
            .await?)
    }

    /// The Deployment of a resource without a recorded resolution. If an operator has handled the resource
    /// before this process started, a Deployment that is not in the cache may exist all the same: it lacks
    /// the label of the watch.
    async fn live_deployment(&self) -> Result<Option<DynamicObject>, Error> {
        let Owner {
            namespace, name, ..
        } = self.owner;
        if let Some(live) = self.ctx.cache.child(Kind::Deployment, namespace, name) {
            return Ok(Some(live));
        }
        // Every operator reports a phase.
        let was_handled = (self.cr.status.as_ref()).is_some_and(|status| status.phase.is_some());
        if !was_handled || !self.ctx.revisions.is_listed(&self.owner.uid) {
            return Ok(None);
        }
        Ok(apply::get(self.target(), Kind::Deployment, name).await?)
    }

    async fn publish(&self, is_warning: bool, reason: &str, note: String) {
        let transition = Transition {
            is_warning,
            reason: reason.to_owned(),
            note,
        };
        let regarding = self.cr.object_ref(&());
        self.ctx.events.publish(vec![transition], &regarding).await;
    }

    fn resource(&self) -> Resource {
        (self.owner.namespace.clone(), self.owner.name.clone())
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target {
            client: &self.ctx.client,
            cache: &self.ctx.cache,
            owner: self.owner,
        }
    }
}

/// Whether an annotation of a resource asks for something that is not answered yet.
fn is_request(cr: &Distribution, annotation: &str, answered: Option<&String>) -> bool {
    let request = cr.annotations().get(annotation);
    request.is_some() && request != answered
}

fn mark(taken: &[&Update]) -> Mark {
    let targets = taken.iter();
    Mark {
        targets: targets
            .map(|update| (update.part.rollout(), update.target.clone()))
            .collect(),
        state: MarkState::Progressing,
        message: String::new(),
    }
}

/// Why a rollout set a resource back.
fn setback(mark: Option<&Mark>) -> Option<String> {
    let failed = mark.filter(|mark| mark.state == MarkState::RolledBack)?;
    Some(failed.message.clone())
}
