//! Admission of one room: every rule in its order, over one record per user.
//!
//! Asking and charging are two steps: what is refused by a later rule has cost its author nothing, so that the wait that
//! it is told is true. Between the two comes what looks at the text.

pub mod inspection;
mod screening;
#[cfg(test)]
mod tests;

use danmaku_wire::entry::{Author, Role, Tier};
use danmaku_wire::native::Send;

use super::breaker::{Breaker, Load, State};
use super::display::{self, Display, Hidden, Shown};
use super::policy::{self, keeps_order};
use super::priority::Class;
use super::recent::Recent;
use super::restraints::Kind;
use super::rule::{Mode, Rule, Tally};
use super::sliding_window::FairWindow;
use super::token_bucket::{Bucket, Rate};
use super::users::Users;
use super::words::WordTally;
use super::worker_gate::WorkerGate;
use super::{Limits, Refusal, Standing, keyed_hash};
use crate::Now;
use crate::house::sanction::{Measure, Sanctions};

/// Records of users that are looked at once a second: a full table in about a minute.
const SWEPT_PER_S: usize = 1_024;

/// Which texts count as said already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duplicates {
    /// Characters from which on a text is long.
    pub chars_min: usize,
    /// How long a user may not say it again, microseconds.
    pub window_us: u64,
    /// Texts remembered; where there are more, the oldest is forgotten.
    pub texts_max: usize,
}

impl Default for Duplicates {
    fn default() -> Self {
        Self { chars_min: 16, window_us: 30_000_000, texts_max: 16_384 }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Who.
    pub user: &'a Author,
    /// What is known of them beside.
    pub standing: Standing,
    /// The name of their program, empty where it is not known.
    pub client: &'a str,
    /// What was sent.
    pub send: &'a Send<'a>,
    /// The text as it is to be shown.
    pub text: &'a str,
}

/// What passed, and is to be charged.
#[derive(Debug, Clone, Copy)]
pub struct Permit {
    user: u64,
    guest: bool,
    priority: bool,
    /// A long text by this user.
    text: Option<u64>,
    shadowed: bool,
    spreads: bool,
}

impl Permit {
    /// Whether a moderator is to look at it: its author says the same in many rooms.
    pub const fn spreads(&self) -> bool {
        self.spreads
    }

    /// Whether nobody but its author is to see it.
    pub const fn shadowed(&self) -> bool {
        self.shadowed
    }

    /// Whether it goes ahead of the crowd.
    pub const fn priority(&self) -> bool {
        self.priority
    }
}

/// What a room remembers of a user.
#[derive(Debug, Clone, Copy, Default)]
struct User {
    bucket: Bucket,
    said_us: Option<u64>,
    guest: bool,
    shown: Shown,
}

/// The admission of one room.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    secret: [u8; 16],
    users: Users<User>,
    window: Option<FairWindow>,
    vip: Bucket,
    texts: Recent<()>,
    names: screening::Names,
    words_tally: WordTally,
    breaker: Breaker,
    sanctions: Sanctions,
    display: Display,
    tally: Tally,
}

/// What would be lost with a record, in thousandths of a comment: 0 if nothing.
fn worth(limits: &Limits, user: &User, now_us: u64) -> u64 {
    let rate = if user.guest { Some(limits.guest) } else { limits.user };
    let missing = rate.map_or(0.0, |rate| rate.missing(&user.bucket, now_us));
    let in_window =
        |said: &u64| limits.room.is_some_and(|window| now_us.saturating_sub(*said) < window.window_us);
    let taken = user.said_us.filter(in_window).map_or(0, |_| 1);
    let slow = match user.said_us {
        Some(said) if limits.modes.at(Rule::SlowMode) != Mode::Off => {
            let left = said.saturating_add(limits.policy.slow_interval_us).saturating_sub(now_us);
            // A slow mode that begins anew is one comment.
            left.saturating_mul(1_000).div_ceil(limits.policy.slow_interval_us.max(1))
        }
        _ => 0,
    };
    let shown = match limits.display {
        Some(_) => u64::from(now_us.saturating_sub(user.shown[0]) < display::INTERVAL_MAX_US),
        None => 0,
    };
    (missing * 1_000.0).ceil() as u64 + taken * 1_000 + slow + shown
}

impl Gate {
    /// The gate of a room that nobody has written in. `secret` keys the hashes of what strangers choose.
    pub fn new(limits: Limits, secret: [u8; 16]) -> Self {
        Self {
            users: Users::new(limits.users_max),
            window: limits.room.map(FairWindow::new),
            vip: Bucket::default(),
            texts: Recent::default(),
            names: screening::Names::default(),
            words_tally: WordTally::default(),
            breaker: Breaker::default(),
            sanctions: Sanctions::default(),
            display: Display::default(),
            tally: Tally::default(),
            limits,
            secret,
        }
    }

    /// Other limits from now on. What users have spent of their buckets stays spent; a window whose size changes is
    /// counted anew.
    pub fn set_limits(&mut self, limits: Limits) {
        if limits.room != self.limits.room {
            self.window = limits.room.map(FairWindow::new);
        }
        if limits.words != self.limits.words {
            self.names = screening::Names::default();
        }
        self.users.set_max(limits.users_max);
        self.limits = limits;
    }

    /// Whether every rule lets a comment pass. Counts what they refuse, and charges nobody.
    ///
    /// # Errors
    /// The first rule that does not.
    pub fn examine(&mut self, worker: &mut WorkerGate, now: Now, ask: &Ask<'_>) -> Result<Permit, Refusal> {
        let user = self.hash(&[ask.user.id.as_str()]);
        let record = self.users.find(user).copied().unwrap_or_default();
        for rule in policy::RULES {
            if self.acts(rule) {
                let policy = &self.limits.policy;
                let answer = policy.check(rule, now, ask.user, &ask.standing, record.said_us, ask.send);
                answer.or_else(|wait| self.meet(rule, wait))?;
            }
        }
        let shadowed = self.examine_sanctions(now.wall_ms, ask)?;
        let classes = &self.limits.classes;
        let mut class = classes.of(ask.user, ask.client, &ask.standing);
        if class == Class::Filtered {
            class = classes.of_heard(ask.user, ask.client, &ask.standing);
            self.meet(Rule::Filtered, None)?;
        }
        let priority = class == Class::Vip && self.has_priority(now.us);
        let guest = ask.standing.guest;
        if !priority {
            self.examine_everywhere(worker, now.us, user)?;
            self.examine_crowd(worker, now.us, &record, guest, ask.user.role)?;
        }
        let spreads = !priority && self.examine_spread(worker, now.us, ask);
        let text = self.examine_text(now.us, ask)?;
        Ok(Permit { user, guest, priority, text, shadowed, spreads })
    }

    /// What its author does in all rooms together.
    fn examine_everywhere(&mut self, worker: &mut WorkerGate, now_us: u64, user: u64) -> Result<(), Refusal> {
        // A room that does not limit its users does not heed what they do elsewhere.
        if self.acts(Rule::Everywhere)
            && self.acts(Rule::UserRate)
            && let Some(wait) = worker.restraints().wait_us(Kind::Comments, user, now_us)
        {
            self.meet(Rule::Everywhere, Some(wait))?;
        }
        Ok(())
    }

    /// Whether its author has said the same in many rooms, and somebody is to look at it.
    fn examine_spread(&mut self, worker: &mut WorkerGate, now_us: u64, ask: &Ask<'_>) -> bool {
        let mode = self.limits.modes.at(Rule::Spread);
        if mode == Mode::Off || !self.acts(Rule::UserRate) || !worker.restraints().has(Kind::Text) {
            return false;
        }
        let text = self.hash(&[ask.user.id.as_str(), ask.text]);
        let spreads = worker.restraints().wait_us(Kind::Text, text, now_us).is_some();
        spreads && self.tally.meets(Rule::Spread, mode)
    }

    /// What was decided against the author: whether the comment is to be seen by nobody else.
    fn examine_sanctions(&mut self, now_ms: u64, ask: &Ask<'_>) -> Result<bool, Refusal> {
        if self.sanctions.is_empty() {
            return Ok(false);
        }
        let (user, address, role) = (&ask.user.id, ask.standing.address, ask.user.role);
        let found = Measure::ALL.map(|measure| {
            let sanction = self.sanctions.find(measure, now_ms, user, address, role);
            sanction.map(|sanction| sanction.left_ms(now_ms).map(|ms| ms.saturating_mul(1_000)))
        });
        let [banned, muted, shadowed] = found;
        for (rule, found) in [(Rule::Banned, banned), (Rule::MutedUser, muted)] {
            if let Some(wait) = found {
                self.meet(rule, wait)?;
            }
        }
        let mode = self.limits.modes.at(Rule::ShadowBanned);
        Ok(shadowed.is_some() && self.tally.meets(Rule::ShadowBanned, mode))
    }

    /// What was decided against publishers.
    pub const fn sanctions(&self) -> &Sanctions {
        &self.sanctions
    }

    /// The same, to be changed.
    pub const fn sanctions_mut(&mut self) -> &mut Sanctions {
        &mut self.sanctions
    }

    /// Whether VIPs are below their ceiling.
    fn has_priority(&mut self, now_us: u64) -> bool {
        if !self.acts(Rule::VipCeiling) || self.limits.vip.check(&self.vip, now_us).is_ok() {
            return true;
        }
        !self.tally.meets(Rule::VipCeiling, self.limits.modes.at(Rule::VipCeiling))
    }

    /// What VIPs below their ceiling need not ask: the user's bucket, the windows of room and node, the breakers.
    fn examine_crowd(
        &mut self,
        worker: &mut WorkerGate,
        now_us: u64,
        record: &User,
        guest: bool,
        role: Role,
    ) -> Result<(), Refusal> {
        if self.acts(Rule::UserRate)
            && let Some(rate) = self.rate(guest)
            && let Err(wait) = rate.check(&record.bucket, now_us)
        {
            self.meet(Rule::UserRate, Some(wait))?;
        }
        if self.acts(Rule::RoomRate)
            && let Some(window) = &mut self.window
            && let Err(wait) = window.check(record.said_us, now_us)
        {
            self.meet(Rule::RoomRate, Some(wait))?;
        }
        if self.acts(Rule::NodeRate)
            && let Err(wait) = worker.check_window(record.said_us, now_us)
        {
            self.meet(Rule::NodeRate, Some(wait))?;
        }
        if keeps_order(role) {
            return Ok(());
        }
        if self.acts(Rule::Breaker)
            && let Err(wait) = self.breaker.check(&self.limits.breaker, now_us)
        {
            self.meet(Rule::Breaker, Some(wait))?;
        }
        if self.acts(Rule::WorkerBreaker)
            && let Err(wait) = worker.check_breaker(now_us)
        {
            self.meet(Rule::WorkerBreaker, Some(wait))?;
        }
        Ok(())
    }

    /// The key of a long text, which its author has not said lately.
    fn examine_text(&mut self, now_us: u64, ask: &Ask<'_>) -> Result<Option<u64>, Refusal> {
        let Duplicates { chars_min, window_us, .. } = self.limits.duplicates;
        if !self.acts(Rule::Duplicate) || ask.text.chars().nth(chars_min.saturating_sub(1)).is_none() {
            return Ok(None);
        }
        self.texts.forget(window_us, now_us);
        let text = self.hash(&[ask.user.id.as_str(), ask.text]);
        if self.texts.find(text).is_some() {
            self.meet(Rule::Duplicate, None)?;
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// Charges for what has passed, at the time at which it did.
    pub fn charge(&mut self, worker: &mut WorkerGate, now: Now, permit: &Permit) {
        let Permit { user, guest, priority, text, shadowed: _, spreads: _ } = *permit;
        let rate = self.rate(guest);
        let limits = &self.limits;
        let record = self.users.record(user, |user| worth(limits, user, now.us));
        (record.said_us, record.guest) = (Some(now.us), guest);
        if priority {
            limits.vip.charge(&mut self.vip, now.us);
        } else {
            if let Some(rate) = rate {
                rate.charge(&mut record.bucket, now.us);
            }
            if let Some(window) = &mut self.window {
                window.take(now.us);
            }
            self.breaker.take();
            worker.take(now.us);
        }
        // It may have been said twice while somebody else was asked about it.
        if let Some(text) = text
            && self.texts.find(text).is_none()
        {
            self.texts.remember(text, (), limits.duplicates.texts_max, now.us);
        }
    }

    /// Whether what can be spared may pass at the moment: not where the breaker is open.
    ///
    /// # Errors
    /// Where it is.
    pub fn spare(&mut self, now: Now) -> Result<(), Refusal> {
        if self.acts(Rule::Breaker)
            && let Err(wait) = self.breaker.check(&self.limits.breaker, now.us)
        {
            self.meet(Rule::Breaker, Some(wait))?;
        }
        Ok(())
    }

    /// The least tier that shows a comment which is about to be released.
    pub fn display(&mut self, now: Now, user: &Author) -> Tier {
        let Some(bounds) = self.limits.display else { return Tier::Lite };
        let ahead = self.limits.classes.of_heard(user, "", &Standing::default()) == Class::Vip;
        let (key, limits) = (self.hash_of(user), &self.limits);
        let record = self.users.record(key, |user| worth(limits, user, now.us));
        self.display.show(&bounds, &mut record.shown, ahead, now.us)
    }

    /// An event is about to be released, which everybody is shown.
    pub fn display_event(&mut self, now: Now) {
        if let Some(bounds) = &self.limits.display {
            self.display.take(bounds, now.us);
        }
    }

    /// What tiers hid since this was last asked.
    pub fn take_hidden(&mut self) -> Hidden {
        self.display.take_hidden()
    }

    /// Takes notice of the load behind the room.
    pub fn observe(&mut self, now: Now, load: &Load) {
        self.breaker.observe(&self.limits.breaker, load, now.us);
    }

    /// Forgets what is over, and gives memory back; called about once a second.
    pub fn age(&mut self, now: Now) {
        let limits = &self.limits;
        self.users.sweep(SWEPT_PER_S, &|user| worth(limits, user, now.us));
        self.users.shrink();
        self.texts.forget(limits.duplicates.window_us, now.us);
        self.texts.shrink();
        self.names.age(now.us);
    }

    /// How a rule acts.
    pub fn mode(&self, rule: Rule) -> Mode {
        self.limits.modes.at(rule)
    }

    /// What a rule refuses that is asked elsewhere, counted; where it only observes, it is counted alone.
    pub fn refuse(&mut self, rule: Rule, wait_us: Option<u64>) -> Refusal {
        let _ = self.meet(rule, wait_us);
        Refusal::by(rule, wait_us)
    }

    /// A keyed hash of a user.
    pub fn hash_of(&self, user: &Author) -> u64 {
        self.hash(&[user.id.as_str()])
    }

    fn acts(&self, rule: Rule) -> bool {
        self.limits.modes.at(rule) != Mode::Off
    }

    fn meet(&mut self, rule: Rule, wait_us: Option<u64>) -> Result<(), Refusal> {
        match self.tally.meets(rule, self.limits.modes.at(rule)) {
            true => Err(Refusal::by(rule, wait_us)),
            false => Ok(()),
        }
    }

    fn rate(&self, guest: bool) -> Option<Rate> {
        self.limits.user.map(|rate| if guest { self.limits.guest } else { rate })
    }

    fn hash(&self, parts: &[&str]) -> u64 {
        keyed_hash(&self.secret, parts)
    }

    /// What rules have refused and observed since this was last asked.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Users who were forgotten for want of room since this was last asked.
    pub fn take_forgotten_users(&mut self) -> u64 {
        self.users.take_forgotten()
    }

    /// What the breaker does, and how often it has opened since this was last asked.
    pub fn breaker(&mut self) -> (State, u64) {
        (self.breaker.state(), self.breaker.take_opened())
    }

    /// Whether nothing would be lost with it.
    pub fn is_idle(&self) -> bool {
        self.users.is_empty() && self.texts.is_empty()
    }
}
