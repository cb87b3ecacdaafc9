//! Three lanes and a way to wake who empties them.

use crate::lane::{Bounds, Full, LaneReceiver, LaneSender, lane};
use crate::sync::{Arc, AtomicBool, CachePadded, Ordering, fence};

/// Ends the receiver's sleep: writes to an eventfd, unparks a thread.
pub trait Wake: Send + Sync {
    /// Called on a sender's thread after a push, at most once per sleep of the receiver; must not block.
    ///
    /// May come late, when the receiver is awake again by itself: it must then do no harm.
    fn wake(&self);
}

/// A lane of a mailbox, in the order in which they are emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// What keeps the server going: links, commits, moderation.
    Control,
    /// Requests that go ahead of the crowd.
    Vip,
    /// Everything else.
    Normal,
}

/// What the receiver takes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<C, R> {
    /// Of the control lane.
    Control(C),
    /// A request of the vip lane.
    Vip(R),
    /// A request of the normal lane.
    Normal(R),
}

/// Makes a mailbox. Neither kind of item may be larger than [`crate::ITEM_BYTES_MAX`], which does not
/// compile.
///
/// # Panics
/// When a number of slots is not a power of two or above [`crate::SLOTS_MAX`], or bytes are above
/// [`crate::BYTES_MAX`]: bounds are constants or were checked with the configuration.
pub fn mailbox<C: Send, R: Send, W: Wake>(
    control: Bounds,
    vip: Bounds,
    normal: Bounds,
    wake: W,
) -> (Sender<C, R, W>, Receiver<C, R, W>) {
    let sleep = Arc::new(Sleep { sleeping: CachePadded(AtomicBool::new(false)), wake });
    let (control_sender, control) = lane(control);
    let (vip_sender, vip) = lane(vip);
    let (normal_sender, normal) = lane(normal);
    let sender =
        Sender { control: control_sender, vip: vip_sender, normal: normal_sender, sleep: Arc::clone(&sleep) };
    (sender, Receiver { control, vip, normal, sleep })
}

struct Sleep<W> {
    sleeping: CachePadded<AtomicBool>,
    wake: W,
}

/// Pushes into a mailbox, from any thread. Cloning is cheap, but not free: once per worker, not per item.
pub struct Sender<C, R, W> {
    control: LaneSender<C>,
    vip: LaneSender<R>,
    normal: LaneSender<R>,
    sleep: Arc<Sleep<W>>,
}

impl<C, R, W> Clone for Sender<C, R, W> {
    fn clone(&self) -> Self {
        Self {
            control: self.control.clone(),
            vip: self.vip.clone(),
            normal: self.normal.clone(),
            sleep: Arc::clone(&self.sleep),
        }
    }
}

impl<C: Send, R: Send, W: Wake> Sender<C, R, W> {
    /// Pushes into the control lane; `bytes` is what the item keeps in memory, `now_us` the time.
    ///
    /// # Errors
    /// With the item, when a bound of the lane is met or the receiver is gone.
    pub fn control(&self, item: C, bytes: usize, now_us: u64) -> Result<(), Full<C>> {
        self.control.push(item, bytes, now_us)?;
        self.wake_sleeper();
        Ok(())
    }

    /// Pushes a request into the vip lane; see [`Sender::control`].
    ///
    /// # Errors
    /// With the item, when a bound of the lane is met or the receiver is gone.
    pub fn vip(&self, item: R, bytes: usize, now_us: u64) -> Result<(), Full<R>> {
        self.vip.push(item, bytes, now_us)?;
        self.wake_sleeper();
        Ok(())
    }

    /// Pushes a request into the normal lane; see [`Sender::control`].
    ///
    /// # Errors
    /// With the item, when a bound of the lane is met or the receiver is gone.
    pub fn normal(&self, item: R, bytes: usize, now_us: u64) -> Result<(), Full<R>> {
        self.normal.push(item, bytes, now_us)?;
        self.wake_sleeper();
        Ok(())
    }

    /// Wakes the receiver for news that lies outside the mailbox: an answer of the store, an order to stop.
    ///
    /// To be called after the news is there; the receiver has to look for it between
    /// [`Receiver::prepare_sleep`] and its sleep, as that method itself does for what lies inside.
    pub fn wake(&self) {
        self.wake_sleeper();
    }

    /// Items waiting in a lane, those that are just being written included.
    pub fn depth(&self, lane: Lane) -> usize {
        match lane {
            Lane::Control => self.control.depth(),
            Lane::Vip => self.vip.depth(),
            Lane::Normal => self.normal.depth(),
        }
    }

    /// Bytes waiting in a lane, as the senders stated them.
    pub fn bytes(&self, lane: Lane) -> usize {
        match lane {
            Lane::Control => self.control.bytes(),
            Lane::Vip => self.vip.bytes(),
            Lane::Normal => self.normal.bytes(),
        }
    }

    /// How long the oldest item of a lane may have waited, microseconds: no item is older. Exact to a turn of a receiver
    /// that calls [`Receiver::drained`] in each; 0 where nothing waits.
    pub fn age_us(&self, lane: Lane, now_us: u64) -> u64 {
        match lane {
            Lane::Control => self.control.age_us(now_us),
            Lane::Vip => self.vip.age_us(now_us),
            Lane::Normal => self.normal.age_us(now_us),
        }
    }

    /// The sender's half of the wake-up: item, fence, flag; the receiver's is flag, fence, items. Of two
    /// threads that do so one at least sees what the other wrote: either the receiver finds the item, or
    /// the sender finds it asleep.
    fn wake_sleeper(&self) {
        fence(Ordering::SeqCst);
        // Looked at before it is swapped, so that the pushes of a busy time share the line unwritten.
        let sleeping = &self.sleep.sleeping;
        if sleeping.load(Ordering::Relaxed) && sleeping.swap(false, Ordering::AcqRel) {
            self.sleep.wake.wake();
        }
    }
}

/// Empties a mailbox, on one thread. Dropping it drops what is left and refuses what comes.
pub struct Receiver<C: Send, R: Send, W> {
    control: LaneReceiver<C>,
    vip: LaneReceiver<R>,
    normal: LaneReceiver<R>,
    sleep: Arc<Sleep<W>>,
}

impl<C: Send, R: Send, W: Wake> Receiver<C, R, W> {
    /// Takes the next item: control before vip before normal, looked at anew each time.
    ///
    /// An endless stream of control items would starve the rest: their senders are the server itself,
    /// which sends at most one token per link and one message per commit.
    #[must_use]
    pub fn pop(&mut self) -> Option<Message<C, R>> {
        if let Some(item) = self.control.pop() {
            return Some(Message::Control(item));
        }
        if let Some(item) = self.vip.pop() {
            return Some(Message::Vip(item));
        }
        self.normal.pop().map(Message::Normal)
    }

    /// Tells senders how far the receiver has come, for the bound on age. Call it once a turn, after
    /// taking, with the turn's time; it may be called when something is left.
    pub fn drained(&mut self, now_us: u64) {
        self.control.drained(now_us);
        self.vip.drained(now_us);
        self.normal.drained(now_us);
    }

    /// Declares the sleep and looks once more: true when there is nothing to take and the next push will
    /// wake; false when there is, and the receiver is awake again.
    #[must_use]
    pub fn prepare_sleep(&mut self) -> bool {
        // Swapped, not stored: a sender's late swap for the sleep before is then seen to come before this
        // one. With a store only the atomicity of that swap would say so, which loom does not reckon with.
        self.sleep.sleeping.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let nothing = !self.control.is_ready() && !self.vip.is_ready() && !self.normal.is_ready();
        if !nothing {
            self.awake();
        }
        nothing
    }

    /// Ends the sleep, whoever ended it: pushes no longer wake.
    pub fn awake(&mut self) {
        self.sleep.sleeping.swap(false, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
