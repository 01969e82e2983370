//! Messages and stops between agents, and from people to agents (`subagent.md` 4.11, 4.12).

use orrery_agent::SessionHandle;
use orrery_agent::actor::{ActorGone, Prompt, PromptRefusal, Relay, Urgency};
use orrery_session::payload::AbortCause;
use orrery_session::{MessageId, SessionId};

use super::run::refused;
use super::table::Presence;
use super::{Delegation, DelegationError, notice};
use crate::descriptor::Mode;

/// How often a message follows a child that rests under its hands.
const ATTEMPTS: usize = 5;

/// Who stops a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// A person, by the id of the child's direct parent.
    Person {
        /// The parent.
        parent: SessionId,
    },
    /// An agent somewhere above the child.
    Agent {
        /// Its session.
        session: SessionId,
    },
}

impl Delegation {
    /// Takes a message of one agent to another: from a parent to its child, or from a child to its
    /// parent. A working agent reads it in its next step, an idle one in a turn of its own.
    ///
    /// # Errors
    /// `UNAUTHORIZED` between any others, and what keeps the other one from being reached.
    pub async fn send(
        &self,
        from: &SessionId,
        to: &SessionId,
        message: &str,
    ) -> Result<MessageId, DelegationError> {
        let sender = self.live_parent(from)?;
        let header = sender.live().header();
        let upwards = header.is_subagent() && header.parent_session.as_ref() == Some(to);
        let who = if upwards {
            "your subagent"
        } else {
            "your parent"
        };
        let (content, source) =
            notice::relayed(from, who, message).map_err(|error| DelegationError::Setup {
                why: error.to_string(),
            })?;
        let relay = Relay {
            content,
            source,
            urgency: Urgency::NextStep,
        };
        if upwards {
            let parent = self.live_parent(to)?;
            return match parent.relay(relay).await {
                Ok(accepted) => accepted.map_err(|refusal| refused(&refusal)),
                Err(_gone) => Err(DelegationError::ParentUnavailable { id: to.clone() }),
            };
        }
        if from == to {
            return Err(DelegationError::Unauthorized {
                caller: from.clone(),
                target: to.clone(),
                why: "an agent does not send messages to itself",
            });
        }
        let accepted = self
            .deliver(from, to, |child| {
                let relay = relay.clone();
                async move { child.relay(relay).await }
            })
            .await?;
        accepted.map_err(|refusal| refused(&refusal))
    }

    /// Takes a person's message to a child, which is resumed if need be. The parent must be live.
    ///
    /// # Errors
    /// What keeps the child from being reached; within it why the message itself is refused.
    pub async fn prompt(
        &self,
        parent: &SessionId,
        child: &SessionId,
        prompt: Prompt,
    ) -> Result<Result<MessageId, PromptRefusal>, DelegationError> {
        self.deliver(parent, child, |child| {
            let prompt = prompt.clone();
            async move { child.prompt(prompt).await }
        })
        .await
    }

    /// Brings a child back to life, or finds it so; it stays until the hold is dropped.
    ///
    /// # Errors
    /// What keeps the child from being reached.
    pub async fn wake(&self, parent: &SessionId, child: &SessionId) -> Result<(), DelegationError> {
        self.reach(parent, child).await.map(|_| ())
    }

    async fn deliver<T, F>(
        &self,
        parent: &SessionId,
        child: &SessionId,
        say: impl Fn(SessionHandle) -> F,
    ) -> Result<T, DelegationError>
    where
        F: Future<Output = Result<T, ActorGone>>,
    {
        self.live_parent(parent)?;
        let (_parent, _child) = (self.hold(parent), self.hold(child));
        for _ in 0..ATTEMPTS {
            let handle = self.reach(parent, child).await?;
            // Whoever comes to rest from here on owes its parent a word.
            self.table.update(child, |active| active.accepted = true);
            if let Ok(said) = say(handle).await {
                return Ok(said);
            }
        }
        let id = child.clone();
        Err(DelegationError::ActivationClosing { id })
    }

    /// The child, live; a cold one is resumed.
    async fn reach(
        &self,
        parent: &SessionId,
        child: &SessionId,
    ) -> Result<SessionHandle, DelegationError> {
        let mut changes = self.table.changes();
        loop {
            changes.mark_unchanged();
            match self.table.presence(child) {
                Presence::Live {
                    handle,
                    parent: owner,
                    continuable,
                } => {
                    if owner != *parent {
                        return Err(DelegationError::Unauthorized {
                            caller: parent.clone(),
                            target: child.clone(),
                            why: "only the direct parent speaks to a child",
                        });
                    }
                    if !continuable {
                        return Err(DelegationError::NotResumable {
                            id: child.clone(),
                            why: "it does one thing only".to_owned(),
                        });
                    }
                    if handle.is_live() {
                        return Ok(handle);
                    }
                }
                Presence::Passing => {}
                Presence::Absent => match self.revive(parent, child).await {
                    Err(DelegationError::DuplicateChild { .. }) => continue,
                    other => return other,
                },
            }
            if changes.changed().await.is_err() {
                return Err(DelegationError::Draining);
            }
        }
    }

    async fn revive(
        &self,
        parent: &SessionId,
        child: &SessionId,
    ) -> Result<SessionHandle, DelegationError> {
        let most = self.parts.limits.max_active;
        let slot = self.table.reserve(child, parent, "", true, most)?;
        let (handle, descriptor) = self.parts.sessions.resume(child, parent).await?;
        let label = match descriptor.mode {
            Mode::Continuable { label, .. } => label,
            Mode::OneShot { label } => label.unwrap_or_default(),
        };
        let live = handle.clone();
        self.table.update(child, |active| {
            active.label = label;
            active.handle = Some(live);
        });
        self.watch(handle.clone(), slot, &descriptor.provider);
        Ok(handle)
    }

    /// Stops a child's running turn; what waits for it stays. Says whether there was one to stop.
    ///
    /// # Errors
    /// `UNAUTHORIZED` when who asks is not above the child.
    pub async fn interrupt(
        &self,
        child: &SessionId,
        authority: &Authority,
    ) -> Result<bool, DelegationError> {
        let (caller, cause) = match authority {
            Authority::Person { parent } => (parent, AbortCause::User),
            Authority::Agent { session } => (session, AbortCause::Parent),
        };
        let refuse = |why| DelegationError::Unauthorized {
            caller: caller.clone(),
            target: child.clone(),
            why,
        };
        if caller == child {
            return Err(refuse("an agent does not stop itself"));
        }
        let Presence::Live {
            handle,
            parent,
            continuable,
        } = self.table.presence(child)
        else {
            return Ok(false);
        };
        let may = match authority {
            Authority::Person { .. } => parent == *caller,
            Authority::Agent { session } => self.table.is_above(session, child),
        };
        if !may {
            return Err(refuse("only agents above a child stop it"));
        }
        if !continuable {
            return Ok(false);
        }
        let receipt = handle.cancel(cause).await;
        Ok(receipt.is_ok_and(|receipt| receipt.turn.is_some()))
    }
}
