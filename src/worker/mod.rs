//! A worker: one thread, one current-thread runtime, its own listener, sessions and rooms.
//!
//! The worker is the root future of its runtime; rooms and sessions are never tasks. tokio carries what
//! is rare (HTTP, handshakes, timers); an open session lives in the slab under the worker's own epoll
//! set. Each turn is made of time-boxed phases, so that a giant room's pass, a flood of input and a
//! full mailbox each get their share and no more. Nothing is shared with other workers but mailboxes,
//! the chains of batches, and the room directory at joins.

pub mod calls;
pub(crate) mod drain;
pub mod everywhere;
mod fanout;
pub mod handover;
mod identity;
mod input;
mod lenience;
mod load;
mod membership;
pub mod message;
pub mod orders;
mod output;
mod ownership;
mod pace;
pub mod poller;
pub mod reports;
pub mod review;
mod room_sweep;
pub mod rooms;
mod rulings;
pub mod session;
pub mod settings;
pub mod slab;
mod snapshots;
mod sweep;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bumpalo::Bump;
use danmaku_mailbox::{Message, Receiver};
use danmaku_room::Now;
use danmaku_room::admission::everywhere::Everywhere;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::form::Encoder;
use danmaku_wire::disconnect::DisconnectCode;
use danmaku_wire::websocket::deflate::Inflater;
use tokio::sync::Notify;

use crate::config::Config;
use crate::ingress::arrival::Arrival;
use crate::ingress::http::Front;
use crate::ingress::listener::{FailedAccept, Listener, failed_accept};
use crate::observe::cells::Cells;
use crate::wiring::{Bell, Post, Shared};
use calls::Call;
use message::{Control, Reply, Request};
use orders::{Order, OrderDesk};
use poller::{Poller, Ready};
use rooms::Rooms;
use slab::Slab;

/// Time for the mailbox in one turn, microseconds.
const MAILBOX_US: u64 = 500;
/// Time for passes in one turn, microseconds.
const PASSES_US: u64 = 2_000;
/// Connections accepted in one turn.
const ACCEPTS: usize = 16;
/// How often a listener that cannot accept is told of, seconds: it fails ten times in each.
const ACCEPT_TOLD_EVERY_S: u32 = 10;
/// How often slow readers, silent peers and aged rooms are looked for, microseconds.
const SWEEP_US: u64 = 100_000;
/// Bytes of the shared read buffer; also about what one session may send in one turn.
const READ_BUFFER: usize = 64 << 10;

/// What sessions share for reading: one of each per worker.
struct Codec {
    buffer: Box<[u8]>,
    inflater: Inflater,
    arena: Bump,
}

impl Codec {
    fn new() -> Box<Self> {
        Box::new(Self {
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            inflater: Inflater::new(),
            arena: Bump::with_capacity(8 << 10),
        })
    }
}

/// What is on its way from the HTTP tasks to the worker: connections that have finished their handshake, and comments.
pub struct Inbox {
    arrivals: RefCell<Vec<Arrival>>,
    calls: RefCell<Vec<Call>>,
    orders: std::sync::mpsc::Receiver<Order>,
    desk: OrderDesk,
    /// Requests that are being answered.
    requests: std::cell::Cell<usize>,
    notify: Arc<Notify>,
}

impl Default for Inbox {
    fn default() -> Self {
        let notify = Arc::<Notify>::default();
        let (desk, orders) = OrderDesk::new(Arc::clone(&notify));
        let (arrivals, calls) = Default::default();
        Self { arrivals, calls, orders, desk, requests: std::cell::Cell::default(), notify }
    }
}

impl Inbox {
    /// Hands a connection over.
    pub fn put(&self, arrival: Arrival) {
        self.arrivals.borrow_mut().push(arrival);
        self.notify.notify_one();
    }

    /// Hands a comment over.
    pub fn call(&self, call: Call) {
        self.calls.borrow_mut().push(call);
        self.notify.notify_one();
    }

    /// Hands an order over.
    pub fn order(&self, order: Order) {
        self.desk.place(order);
    }

    /// Where orders are handed over, from any thread.
    pub fn desk(&self) -> OrderDesk {
        self.desk.clone()
    }

    /// A request is being answered from now on: the worker does not end before it is.
    pub fn request_begins(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// A request has its answer.
    pub fn request_ends(&self) {
        self.requests.set(self.requests.get() - 1);
        self.notify.notify_one();
    }

    fn take(&self) -> (Vec<Arrival>, Vec<Call>, Vec<Order>) {
        let (arrivals, calls) = (&mut self.arrivals.borrow_mut(), &mut self.calls.borrow_mut());
        (std::mem::take(arrivals), std::mem::take(calls), self.orders.try_iter().collect())
    }
}

/// The worker's state.
pub struct Worker {
    index: u16,
    config: Arc<Config>,
    shared: Arc<Shared>,
    cells: Arc<Cells>,
    poller: Poller,
    bell: Arc<OwnedFd>,
    listeners: Vec<Listener>,
    mailbox: Receiver<Control, Request, Bell>,
    inbox: Rc<Inbox>,
    front: Rc<Front>,
    slab: Slab,
    rooms: Rooms,
    encoder: Encoder,
    codec: Option<Box<Codec>>,
    started: Instant,
    now: Now,
    events: Vec<Ready>,
    /// Listeners with connections to accept.
    accepting: Vec<u16>,
    /// Sessions with more input than their turn took.
    ready: Vec<slab::SessionRef>,
    /// Sessions with an outbox to flush.
    queued: Vec<slab::SessionRef>,
    /// Sessions whose close frame is out, with the time at which they go anyway.
    closing: Vec<(slab::SessionRef, u64)>,
    /// Rooms whose owner has something to seal, append or tell.
    touched: Vec<u32>,
    /// Rooms with something for a pass.
    dirty: Vec<u32>,
    /// Fates for sessions of other workers, by worker.
    replies: Vec<Vec<Reply>>,
    /// Must-arrive messages that found a ring full, by worker.
    waiting: Vec<std::collections::VecDeque<Control>>,
    /// What the platform says of comments of rooms that are owned here.
    rulings: rulings::Rulings,
    /// What users do in all rooms together.
    watch: everywhere::Watch,
    /// What all rooms that are owned here are held to together.
    gate: WorkerGate,
    /// Requests that wait for the fate of their comments.
    calls: calls::Calls,
    /// Sessions with errors that they were not told one by one.
    muffled: Vec<slab::SessionRef>,
    tail_bytes: usize,
    swept_us: u64,
    /// Sweeps so far: each looks at a tenth of the slab.
    sweeps: u32,
    /// A look at all rooms that is under way.
    room_sweep: Option<room_sweep::RoomSweep>,
    second: u32,
    /// Listeners that are not watched until the next sweep: their last accept failed.
    accept_paused: Vec<u16>,
    /// From when on a failing listener is told of again, seconds.
    accept_told_s: u32,
    stopping: bool,
    /// Users about whom something was decided, whose sessions are to be looked for.
    decided: identity::Decided,
    /// Rooms whose members may have to leave.
    doors: orders::Doors,
    /// Sessions are being sent away.
    drain: Option<drain::Drain>,
    /// Sessions that were told to leave.
    farewells: drain::Farewells,
    accept_rate: drain::AcceptRate,
    /// Counted as a worker without sessions, on the way out.
    empty: bool,
    /// Where it is in a hand-over.
    handing: handover::Handing,
}

/// What a worker is made from.
pub struct Parts {
    /// Its number.
    pub index: u16,
    /// What workers share.
    pub shared: Arc<Shared>,
    /// Its cells.
    pub cells: Arc<Cells>,
    /// Its mailbox.
    pub mailbox: Receiver<Control, Request, Bell>,
    /// The bell that others ring.
    pub bell: Bell,
}

/// Runs a worker on the present thread until it is told to stop.
///
/// # Errors
/// When the system refuses what a worker cannot do without.
pub fn run(parts: Parts) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(8).build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let mut worker = Worker::new(parts)?;
        worker.work().await
    })
}

impl Worker {
    fn new(parts: Parts) -> io::Result<Self> {
        let Parts { index, shared, cells, mailbox, bell } = parts;
        let config = shared.config.load_full();
        let poller = Poller::new()?;
        let fd = Arc::new(poller.add_bell()?);
        bell.hang(Arc::clone(&fd));
        let inbox = Rc::new(Inbox::default());
        let front = Rc::new(Front::new(Arc::clone(&shared), Arc::clone(&cells), Rc::clone(&inbox)));
        let (workers, shared_started) = (shared.post.len(), shared.started);
        Ok(Self {
            index,
            encoder: Encoder::new(config.deflate_level),
            gate: WorkerGate::new(config.worker_gate),
            watch: everywhere::Watch::new(Everywhere::new(config.everywhere), workers),
            config,
            shared,
            cells,
            poller,
            bell: fd,
            listeners: Vec::new(),
            mailbox,
            inbox,
            front,
            slab: Slab::default(),
            rooms: Rooms::default(),
            codec: Some(Codec::new()),
            started: shared_started,
            now: Now::default(),
            events: Vec::with_capacity(256),
            accepting: Vec::new(),
            ready: Vec::new(),
            queued: Vec::new(),
            closing: Vec::new(),
            touched: Vec::new(),
            dirty: Vec::new(),
            replies: (0..workers).map(|_| Vec::new()).collect(),
            waiting: (0..workers).map(|_| std::collections::VecDeque::new()).collect(),
            rulings: rulings::Rulings::default(),
            calls: calls::Calls::default(),
            muffled: Vec::new(),
            tail_bytes: 0,
            swept_us: 0,
            sweeps: 0,
            room_sweep: None,
            second: 0,
            accept_paused: Vec::new(),
            accept_told_s: 0,
            stopping: false,
            decided: identity::Decided::default(),
            doors: orders::Doors::default(),
            drain: None,
            farewells: drain::Farewells::default(),
            accept_rate: drain::AcceptRate::default(),
            empty: false,
            handing: handover::Handing::default(),
        })
    }

    fn tick_clock(&mut self) {
        self.now.us = self.elapsed_us();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.now.wall_ms = u64::try_from(wall.as_millis()).unwrap_or(0);
    }

    /// Microseconds since the server started, the same on all workers, plus one second: 0 means "never" in several places.
    fn elapsed_us(&self) -> u64 {
        1_000_000 + u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX >> 1)
    }

    async fn work(&mut self) -> io::Result<()> {
        loop {
            self.tick_clock();
            let busy = self.turn()?;
            if self.may_end() || self.is_over() {
                return Ok(());
            }
            if busy {
                tokio::task::yield_now().await;
            } else if self.mailbox.prepare_sleep() {
                if !self.store_has_news() {
                    self.sleep().await?;
                }
                self.mailbox.awake();
            }
        }
    }

    /// One turn of all phases. Whether there is more to do at once.
    fn turn(&mut self) -> io::Result<bool> {
        self.stir();
        let mut busy = self.take_mail();
        self.take_rulings();
        busy |= self.take_events()?;
        self.take_arrivals();
        self.turn_owners();
        busy |= self.turn_passes();
        self.flush_queued();
        self.post_seen();
        self.post_replies();
        self.sweep();
        busy |= self.turn_room_sweep();
        busy |= self.turn_decided();
        busy |= self.turn_doors();
        self.accept();
        busy |= self.turn_departure();
        self.stand();
        Ok(busy || !self.ready.is_empty() || !self.accepting.is_empty())
    }

    fn take_mail(&mut self) -> bool {
        let until = self.now.us + MAILBOX_US;
        let mut taken = 0u64;
        let more = loop {
            let Some(message) = self.mailbox.pop() else { break false };
            taken += 1;
            match message {
                Message::Control(control) => self.take_control(control),
                Message::Vip(request) | Message::Normal(request) => self.take_request(request),
            }
            if taken.is_multiple_of(32) && self.elapsed_us() > until {
                break true;
            }
        };
        if taken > 0 {
            self.cells.mailbox_taken.add(taken);
        }
        self.mailbox.drained(self.now.us);
        more
    }

    fn take_control(&mut self, control: Control) {
        match control {
            Control::Dirty { room, generation } => self.follow_chain(room, Some(generation)),
            Control::Attached(attached) => self.attached(*attached),
            Control::Detach { room, worker, generation } => self.detach_link(&room, worker, generation),
            Control::Replies(replies) => {
                for reply in replies {
                    self.tell_fate(&reply);
                }
            }
            Control::Adopt(arrival) => self.adopt(*arrival),
            Control::Call(call) => self.publish_call(*call),
            Control::Order(order) => self.take_order(*order),
            Control::Door(room) => self.note_door(room),
            Control::Step(step) => self.step(*step),
            Control::Pending(news) => self.tell_staff(&news),
            Control::Reconfigure => self.reconfigure(),
            Control::Seen(seen) => self.judge_seen(&seen),
            Control::Restrain(restraints) => self.restrain(&restraints),
            Control::User { user, leave } => self.note_decided(user, leave),
            Control::Tick { room, worker, tick_us } => self.note_tick(&room, worker, tick_us),
        }
    }

    fn take_request(&mut self, request: Request) {
        match request {
            Request::Publish(publish) => self.publish_from_afar(*publish),
            Request::Review(call) => self.answer_review(*call),
            Request::Push(order) => self.take_order(*order),
            Request::Report(call) => self.take_report(*call),
            Request::Attach(attach) => self.attach_link(&attach.room, attach.link),
            Request::Newest(ask) => self.lend_newest(*ask),
        }
    }

    fn take_events(&mut self) -> io::Result<bool> {
        let mut events = std::mem::take(&mut self.events);
        self.poller.poll(&mut events)?;
        let any = !events.is_empty();
        let ready = std::mem::take(&mut self.ready);
        for event in events.drain(..) {
            match event {
                Ready::Listener(number) => self.want_accept(number),
                Ready::Bell => poller::hush(&self.bell),
                Ready::Session { session, readable, writable, hup } => {
                    if writable && let Some(slot) = self.slab.live(session) {
                        self.writable(slot);
                    }
                    if readable && let Some(slot) = self.slab.live(session) {
                        self.guarded_read(slot, hup);
                    }
                }
            }
        }
        self.events = events;
        for session in ready {
            if let Some(slot) = self.slab.live(session) {
                self.slab.hot(slot).flags.clear(session::Flags::READY);
                self.guarded_read(slot, false);
            }
        }
        Ok(any)
    }

    fn take_arrivals(&mut self) {
        if self.is_frozen() {
            return;
        }
        let (arrivals, calls, orders) = self.inbox.take();
        if let handover::Handing::Replaced { late, .. } = &self.handing {
            let late = late.clone();
            return self.send_late(&late, arrivals, calls);
        }
        for arrival in arrivals {
            self.place(arrival);
        }
        for call in calls {
            self.publish_call(call);
        }
        for order in orders {
            self.send_order(order);
        }
    }

    fn want_accept(&mut self, number: u16) {
        if !self.accepting.contains(&number) {
            self.accepting.push(number);
        }
    }

    fn accept(&mut self) {
        if self.is_frozen() {
            return;
        }
        for number in std::mem::take(&mut self.accepting) {
            self.accept_from(number);
        }
    }

    fn accept_from(&mut self, number: u16) {
        let Some(listener) = self.listeners.get(usize::from(number)) else { return };
        for _ in 0..ACCEPTS {
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    self.cells.connections_accepted.add(1);
                    self.front.greet(socket, peer, listener.entrance);
                }
                Err(error) => match failed_accept(&error) {
                    FailedAccept::Nobody => return,
                    FailedAccept::Next => {}
                    FailedAccept::Pause => {
                        // The listener stays ready, so watching it would spin: it is tried again at the next sweep.
                        self.cells.accept_errors.add(1);
                        if self.second >= self.accept_told_s {
                            self.accept_told_s = self.second + ACCEPT_TOLD_EVERY_S;
                            tracing::warn!(%error, "cannot accept connections; trying again ten times a second");
                        }
                        self.poller.remove_listener(&listener.socket);
                        self.accept_paused.push(number);
                        return;
                    }
                },
            }
        }
        self.want_accept(number);
    }

    fn unwatch_listeners(&mut self) {
        for listener in &self.listeners {
            self.poller.remove_listener(&listener.socket);
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.close_listeners();
        for slot in 0..self.slab.slots() {
            if self.slab.occupied(slot) {
                self.end(slot, DisconnectCode::Restart);
            }
        }
    }

    /// Takes what the kernel has accepted already, then closes: what waits in the queue would be reset.
    fn close_listeners(&mut self) {
        for listener in std::mem::take(&mut self.listeners) {
            self.poller.remove_listener(&listener.socket);
            self.accept_rest(&listener);
        }
    }

    fn accept_rest(&mut self, listener: &Listener) {
        while let Ok((socket, peer)) = listener.socket.accept() {
            self.cells.connections_accepted.add(1);
            self.front.greet(socket, peer, listener.entrance);
        }
    }

    /// Sleeps until there is an event, an arrival, a word from another worker or a deadline.
    async fn sleep(&mut self) -> io::Result<()> {
        let due = self.next_due_us();
        let wait = Duration::from_micros(due.saturating_sub(self.elapsed_us()));
        if wait.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        tokio::select! {
            biased;
            ready = self.poller.wait() => ready,
            () = self.inbox.notify.notified() => Ok(()),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// When the next phase has something to do though nothing comes in, microseconds.
    fn next_due_us(&mut self) -> u64 {
        let sweep = if self.slab.is_empty() && self.rooms.is_empty() { 10 * SWEEP_US } else { SWEEP_US };
        let mut due = (self.swept_us + sweep).min(self.drain_due_us().unwrap_or(u64::MAX));
        for i in 0..self.touched.len() {
            due = due.min(self.owner_due_us(self.touched[i]));
        }
        for i in 0..self.dirty.len() {
            let room = self.dirty[i];
            if let Some(pass_due) = self.rooms.get(room).view.pass_due_us() {
                due = due.min(pass_due);
            }
        }
        due
    }

    /// Sends a message that must arrive, in order with those before it.
    fn post_control(&mut self, worker: u16, control: Control) {
        let queue = &mut self.waiting[usize::from(worker)];
        let control = if queue.is_empty() {
            match self.shared.post[usize::from(worker)].control(control, 64, self.now.us) {
                Ok(()) => return,
                Err(full) => full.item,
            }
        } else {
            control
        };
        queue.push_back(control);
    }

    fn post_waiting(&mut self) {
        let mut left = 0;
        for (worker, queue) in self.waiting.iter_mut().enumerate() {
            while let Some(control) = queue.pop_front() {
                if let Err(full) = self.shared.post[worker].control(control, 64, self.now.us) {
                    queue.push_front(full.item);
                    break;
                }
            }
            left += queue.len() as u64;
        }
        self.cells.control_waiting.set(left);
    }

    fn post(&self, worker: u16) -> &Post {
        &self.shared.post[usize::from(worker)]
    }
}
