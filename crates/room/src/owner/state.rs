//! The state of a room: what its configuration says with what staff has set over it, in force at once and told to members by
//! an entry of the log.

use std::sync::Arc;

use danmaku_wire::entry::{Body, Tier, Visibility};

use super::{Config, Owner};
use crate::Now;
use crate::admission::Refusal;
use crate::house::settings::{Patch, Settings, State};

impl Config {
    /// What members are told where this holds.
    pub(super) fn state(&self) -> State {
        State::of(&self.limits, &self.held)
    }
}

impl<R> Owner<R> {
    /// Sets the room otherwise from now on. Members are told where that changes what they are told.
    ///
    /// # Errors
    /// Where nothing may be released at the moment; then nothing is set.
    pub fn set(&mut self, now: Now, patch: &Patch) -> Result<(), Refusal> {
        self.may_release(now)?;
        self.settings = self.settings.with(patch);
        self.active_us = now.us;
        let class = self.class.take().map_or_else(|| self.config.clone(), |class| *class);
        self.take_config(class);
        self.tell_state(now);
        Ok(())
    }

    /// Takes the configuration of the room's class, and what is set over it.
    pub(super) fn take_config(&mut self, class: Config) {
        let mut config = class.clone();
        self.settings.lay_over(&mut config.limits, &mut config.held);
        self.class = (!self.settings.is_empty()).then(|| Box::new(class));
        self.gate.set_limits(config.limits.clone());
        self.config = config;
    }

    /// Tells members the state where it is not what they were told: after another configuration, or by another owner.
    /// Whether it did; at a time when nothing may be released it does not, and is to be asked again.
    pub fn tell_state(&mut self, now: Now) -> bool {
        let state = self.config.state();
        if state == *self.told || self.may_release(now).is_err() {
            return false;
        }
        let data = state.entry_data();
        self.told = Arc::new(state);
        self.release(now, Visibility::Tier(Tier::Lite), Body::State { data });
        true
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
