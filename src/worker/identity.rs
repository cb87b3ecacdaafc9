//! Who a session is, while it is open: tokens that are shown later, tokens that run out, and what is decided about users.

use std::collections::HashMap;
use std::sync::Arc;

use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::entry::Author;
use danmaku_wire::id::UserId;
use danmaku_wire::native::{AuthInfo, ErrorMessage, ServerMessage, You};

use super::Worker;
use super::session::{Flags, NOWHERE};
use crate::config::auth::Anonymous;
use crate::identity::guest;
use crate::identity::token::TokenError;
use crate::identity::user::{Identity, Presence};
use crate::ingress::addresses::Place;

/// Sessions looked at in one turn for the sake of users about whom something was decided.
const LOOKED_AT_PER_TURN: u32 = 512;

/// Users about whom something was decided, and how far their sessions were looked for.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// Whether their sessions are to leave.
    next: HashMap<UserId, bool>,
    walk: HashMap<UserId, bool>,
    at: u32,
}

/// What came of looking at a session's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tended {
    /// There was nothing to do.
    Nothing,
    /// It was told to refresh.
    Told,
    /// It is closed.
    Ended,
}

impl Worker {
    /// The `auth` command: a first identity, or the same user's next token.
    pub(super) fn authenticate(&mut self, slot: u32, token: &str) {
        // A signature costs more than most commands do: it has the pace of moves to other rooms.
        if !self.may_change(slot) {
            return;
        }
        if token.starts_with(guest::MARK) {
            return self.be_guest(slot, token);
        }
        let config = Arc::clone(&self.config);
        let known = self.shared.identities.known(token, &config, self.now.wall_ms / 1_000);
        let present = &self.slab.cold(slot).identity;
        let known = known.and_then(|known| match present {
            Some(present) if present.id != known.identity.id => Err(TokenError::OtherUser),
            _ => Ok(known),
        });
        match known {
            Ok(known) => {
                self.cells.tokens_taken.add(1);
                self.cells.tokens_taken_again.add(u64::from(known.again));
                self.be_user(slot, known.identity);
            }
            Err(error) => self.refuse_token(slot, error),
        }
    }

    fn refuse_token(&mut self, slot: u32, error: TokenError) {
        self.cells.tokens_refused.add(1);
        self.cells.refuse(error.code());
        let text = error.to_string();
        self.tell_error(slot, &ErrorMessage { message: &text, ..ErrorMessage::new(None, error.code()) });
    }

    fn be_user(&mut self, slot: u32, identity: Arc<Identity>) {
        let expires_in_ms = self.expires_in_ms(&identity);
        let before = self.slab.cold(slot).identity.is_some().then(|| self.author(slot));
        let (hot, cold) = self.slab.both(slot);
        (cold.identity, cold.presence) = (Some(identity), None);
        hot.flags.clear(Flags::REMINDED);
        hot.flags.set_mark(cold.mark());
        // Users with a token do not count against their address.
        let place = std::mem::replace(&mut cold.place, Place::NONE);
        drop(self.shared.addresses.resume(place));
        self.watch_token(slot);
        let author = self.author(slot);
        let changed = before.is_none_or(|before| *before != *author).then_some(author);
        self.note_staff(slot);
        self.tell_identity(slot, Some(expires_in_ms), changed);
        // Somebody else may be somebody who is not to be here.
        self.keep_out(slot);
    }

    fn be_guest(&mut self, slot: u32, token: &str) {
        let number = guest::verify(token, self.config.secret());
        let (hot, cold) = self.slab.both(slot);
        let (Some(number), None) = (number, &cold.identity) else {
            return self.refuse_token(slot, TokenError::Unknown);
        };
        cold.guest = number;
        let author = guest::author(number);
        cold.presence = Some(Box::new(Presence::of_guest(Arc::clone(&author))));
        hot.flags.set_mark(cold.mark());
        self.tell_identity(slot, None, Some(author));
    }

    fn tell_identity(&mut self, slot: u32, expires_in_ms: Option<u64>, changed: Option<Arc<Author>>) {
        let secret = *self.config.secret();
        let signed =
            changed.as_ref().filter(|a| guest::is_guest(a)).map(|a| guest::signed(a.id.as_str(), &secret));
        let you = changed.as_ref().map(|author| You {
            id: author.id.as_str(),
            name: &author.name,
            role: author.role,
            guest: signed.as_deref(),
        });
        self.tell(slot, &ServerMessage::Auth(AuthInfo { expires_in_ms, you }));
    }

    fn expires_in_ms(&self, identity: &Identity) -> u64 {
        (identity.ends_s.saturating_mul(1_000)).saturating_sub(self.now.wall_ms)
    }

    /// Whether a session's user may be in a room; a guest always may. Who it is there is found out when it is needed: most
    /// only watch.
    pub(super) fn may_enter(&mut self, slot: u32) -> bool {
        let cold = self.slab.cold(slot);
        let Some(identity) = &cold.identity else { return true };
        cold.presence = None;
        !self.shared.identities.is_revoked(identity)
    }

    /// Who a session's user is in its room; `None` for a guest.
    pub(super) fn user(&mut self, slot: u32) -> Option<Presence> {
        let room = self.slab.hot(slot).room;
        let identity = self.slab.cold(slot).identity.as_ref()?;
        Some(match room {
            NOWHERE => identity.presence_anywhere(),
            room => self.shared.identities.presence(identity, &self.rooms.get(room).id),
        })
    }

    /// Whether a session may comment at all.
    pub(super) fn may_write(&mut self, slot: u32) -> bool {
        self.config.anonymous == Anonymous::ReadWrite || self.slab.cold(slot).identity.is_some()
    }

    /// Sees to it that the sweep looks at a session when there is something to do about its token.
    pub(super) fn watch_token(&mut self, slot: u32) {
        let due_s = self.token_due_s(slot);
        let hot = self.slab.hot(slot);
        hot.due_s = hot.due_s.min(due_s);
    }

    /// The second in which a session has to hear of its token's end, or to go.
    pub(super) fn token_due_s(&mut self, slot: u32) -> u32 {
        let reminded = self.slab.hot(slot).flags.any(Flags::REMINDED);
        let Some(identity) = &self.slab.cold(slot).identity else { return u32::MAX };
        let ends_ms = identity.ends_s.saturating_mul(1_000);
        let at_ms = match reminded {
            false => ends_ms.saturating_sub(self.config.remind_before_ms),
            true => ends_ms.saturating_add(self.config.token_rules.leeway_s * 1_000),
        };
        let wait_s = at_ms.saturating_sub(self.now.wall_ms).div_ceil(1_000);
        self.second.saturating_add(u32::try_from(wait_s).unwrap_or(u32::MAX))
    }

    /// Looks at the token of a session whose turn it is.
    pub(super) fn tend_token(&mut self, slot: u32) -> Tended {
        let now_ms = self.now.wall_ms;
        let reminded = self.slab.hot(slot).flags.any(Flags::REMINDED);
        let Some(identity) = &self.slab.cold(slot).identity else { return Tended::Nothing };
        let ends_ms = identity.ends_s.saturating_mul(1_000);
        if ends_ms.saturating_add(self.config.token_rules.leeway_s * 1_000) <= now_ms {
            self.end(slot, DisconnectCode::TokenExpired);
            return Tended::Ended;
        }
        if reminded || ends_ms.saturating_sub(self.config.remind_before_ms) > now_ms {
            return Tended::Nothing;
        }
        self.slab.hot(slot).flags.set(Flags::REMINDED);
        self.tell_identity(slot, Some(ends_ms.saturating_sub(now_ms)), None);
        Tended::Told
    }

    /// Something was decided about a user, or all its sessions are to `leave`.
    pub(super) fn note_decided(&mut self, user: UserId, leave: bool) {
        *self.decided.next.entry(user).or_default() |= leave;
    }

    /// Looks for the sessions of users about whom something was decided, a few in each turn. Whether there are more.
    pub(super) fn turn_decided(&mut self) -> bool {
        let decided = &mut self.decided;
        if decided.walk.is_empty() {
            if decided.next.is_empty() {
                return false;
            }
            (decided.walk, decided.at) = (std::mem::take(&mut decided.next), 0);
        }
        let slots = self.slab.slots();
        let (from, to) = (decided.at.min(slots), decided.at.saturating_add(LOOKED_AT_PER_TURN).min(slots));
        decided.at = to;
        let walk = std::mem::take(&mut decided.walk);
        for slot in from..to {
            if !self.slab.occupied(slot) {
                continue;
            }
            let identity = self.slab.cold(slot).identity.as_ref();
            if let Some(leave) = identity.and_then(|identity| walk.get(&identity.id)).copied() {
                self.apply_decided(slot, leave);
            }
        }
        if to < self.slab.slots() {
            self.decided.walk = walk;
        }
        to < slots || !self.decided.next.is_empty()
    }

    fn apply_decided(&mut self, slot: u32, leave: bool) {
        if self.slab.hot(slot).flags.any(Flags::CLOSING) {
            return;
        }
        let Some(identity) = self.slab.cold(slot).identity.clone() else { return };
        if self.shared.identities.is_revoked(&identity) {
            return self.end(slot, DisconnectCode::TokenExpired);
        }
        if leave {
            return self.end(slot, DisconnectCode::Policy);
        }
        if self.shared.identities.is_changed(&identity) {
            self.slab.cold(slot).presence = None;
            self.note_staff(slot);
            let (expires_in_ms, author) = (self.expires_in_ms(&identity), self.author(slot));
            self.tell_identity(slot, Some(expires_in_ms), Some(author));
        }
    }
}
