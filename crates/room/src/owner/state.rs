//! The state of a room: what its configuration says with what staff has set over it, in force at once and told to members by
//! an entry of the log.

use std::sync::Arc;

use danmaku_wire::entry::{Body, Tier, Visibility};

use super::{Config, Owner};
use crate::Now;
use crate::admission::Refusal;
use crate::admission::rule::{Mode, Rule};
use crate::house::settings::{Patch, Settings, State};
use crate::house::stage::Stage;

impl<R> Owner<R> {
    /// Sets the room otherwise from now on. Members are told where that changes what they are told.
    ///
    /// # Errors
    /// Where nothing may be released at the moment; then nothing is set.
    pub fn set(&mut self, now: Now, patch: &Patch) -> Result<(), Refusal> {
        self.may_release(now)?;
        self.settings = self.settings.with(patch);
        self.active_us = now.us;
        self.lay_anew();
        self.tell_state(now);
        Ok(())
    }

    /// Brings the room to a stage of its life, any from any. Members are told; nothing happens where it is there already.
    ///
    /// # Errors
    /// Where nothing may be released at the moment; then it stays where it is.
    pub fn set_stage(&mut self, now: Now, stage: Stage) -> Result<(), Refusal> {
        self.may_release(now)?;
        self.stage = stage;
        self.active_us = now.us;
        self.lay_anew();
        self.tell_state(now);
        Ok(())
    }

    fn lay_anew(&mut self) {
        let class = self.class.take().map_or_else(|| self.config.clone(), |class| *class);
        self.take_config(class);
    }

    /// Takes the configuration of the room's class, and what is set over it.
    pub(super) fn take_config(&mut self, class: Config) {
        let mut config = class.clone();
        self.settings.lay_over(&mut config.limits, &mut config.held);
        let policy = &mut config.limits.policy;
        (policy.closed, policy.ended) = (self.stage == Stage::Closed, self.stage == Stage::Ended);
        let own = !self.settings.is_empty() || !self.stage.is_open();
        self.class = own.then(|| Box::new(class));
        self.gate.set_limits(config.limits.clone());
        self.config = config;
    }

    /// Tells members the state where it is not what they were told: after another configuration, or by another owner.
    /// Whether it did; at a time when nothing may be released it does not, and is to be asked again.
    pub fn tell_state(&mut self, now: Now) -> bool {
        let state = self.state_in_force();
        if state == *self.told || self.may_release(now).is_err() {
            return false;
        }
        let data = state.entry_data();
        self.told = Arc::new(state);
        self.release(now, Visibility::Tier(Tier::Lite), Body::State { data });
        true
    }

    /// What members are to be told.
    pub(super) fn state_in_force(&self) -> State {
        State::of(&self.config.limits, &self.config.held, &self.stage)
    }

    /// Where the room is in its life.
    pub const fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Whether nobody may be in the room.
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed && self.gate.mode(Rule::Closed) == Mode::Enforce
    }

    /// What is set over the configuration.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What members are told of the room's state.
    pub const fn state(&self) -> &Arc<State> {
        &self.told
    }
}
