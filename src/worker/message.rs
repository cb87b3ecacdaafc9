//! What workers tell each other.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use danmaku_room::admission::{Refusal, Standing};
use danmaku_room::batch::Batch;
use danmaku_room::house::board::Board;
use danmaku_room::house::settings::State;
use danmaku_wire::entry::{Author, Mode};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::Send;
use danmaku_wire::position::Epoch;
use danmaku_wire::trace::TraceContext;

use crate::ingress::arrival::Arrival;
use crate::snapshots::Ask;
use crate::worker::calls::Call;
use crate::worker::everywhere::{Restraint, Seen};
use crate::worker::handover::Step;
use crate::worker::orders::Order;
use crate::worker::reports::ReportCall;
use crate::worker::review::{PendingNews, ReviewCall};
use crate::worker::slab::SessionRef;

/// Who hears of a publish's fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The worker.
    pub worker: u16,
    /// Who it is there.
    pub publisher: Publisher,
}

/// Who publishes, as its own worker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publisher {
    /// An open session.
    Session(SessionRef),
    /// An HTTP request that waits for its answer, by its number there.
    Call(u64),
}

/// What may be refused when the mailbox is full: the sender is told `overloaded`.
#[derive(Debug)]
pub enum Request {
    /// A comment for a room owned here.
    Publish(Box<Publish>),
    /// A replica wants to follow a room owned here.
    Attach(Box<Attach>),
    /// Somebody makes a snapshot of a room owned here.
    Newest(Box<Ask>),
    /// A question about the held comments of a room owned here.
    Review(Box<ReviewCall>),
    /// An event of the platform for a room owned here.
    Push(Box<Order>),
    /// A report of a comment in a room owned here.
    Report(Box<ReportCall>),
}

/// A comment on its way to the room's owner.
#[derive(Debug)]
pub struct Publish {
    /// The room.
    pub room: RoomId,
    /// Who hears of its fate.
    pub reply: ReplyTo,
    /// Who wrote it.
    pub user: Arc<Author>,
    /// What is known of them beside.
    pub standing: Standing,
    /// What was written.
    pub send: OwnedSend,
}

/// A [`Send`] that outlives its frame.
#[derive(Debug)]
pub struct OwnedSend {
    id: Box<str>,
    text: Box<str>,
    mode: Mode,
    color: u32,
    size: u8,
    stream_ms: Option<u64>,
    /// Empty where the client's is none.
    traceparent: Box<str>,
}

impl From<&Send<'_>> for OwnedSend {
    fn from(send: &Send<'_>) -> Self {
        Self {
            id: send.id.into(),
            text: send.text.into(),
            mode: send.mode,
            color: send.color,
            size: send.size,
            stream_ms: send.stream_ms,
            traceparent: TraceContext::parse(send.traceparent.as_bytes())
                .map_or_else(Box::default, |_| send.traceparent.into()),
        }
    }
}

impl OwnedSend {
    /// The borrowed form that an owner takes.
    pub fn as_send(&self) -> Send<'_> {
        Send {
            id: &self.id,
            text: &self.text,
            mode: self.mode,
            color: self.color,
            size: self.size,
            stream_ms: self.stream_ms,
            traceparent: &self.traceparent,
        }
    }
}

/// A link to be: from the room's owner to a worker with members.
#[derive(Debug)]
pub struct Attach {
    /// The room.
    pub room: RoomId,
    /// The follower's end.
    pub link: Link,
}

/// The owner's end of a link: where to say that there is news. Where the follower stands is the
/// follower's own cursor into the owner's chain.
#[derive(Debug, Clone)]
pub struct Link {
    /// The follower.
    pub worker: u16,
    /// The room's index there.
    pub room: u32,
    /// Counts the follower's attachments, so that a late word is known as such.
    pub generation: u32,
    /// Whether a token for this link lies in the follower's mailbox: at most one does.
    pub dirty: Arc<AtomicBool>,
}

/// What must arrive: never refused, retried where a ring is full.
#[derive(Debug)]
pub enum Control {
    /// A link's chain has grown.
    Dirty {
        /// The room's index at the follower.
        room: u32,
        /// The attachment meant.
        generation: u32,
    },
    /// The answer to [`Request::Attach`].
    Attached(Box<Attached>),
    /// A follower is gone.
    Detach {
        /// The room.
        room: RoomId,
        /// The follower.
        worker: u16,
        /// The attachment meant.
        generation: u32,
    },
    /// Fates of publishes, one message a turn and worker.
    Replies(Box<[Reply]>),
    /// Comments were held in a room that is followed here: for its staff.
    Pending(Box<PendingNews>),
    /// A step of a hand-over between processes.
    Step(Box<Step>),
    /// A comment that came over HTTP to the process before.
    Call(Box<Call>),
    /// An order for a room owned here.
    Order(Box<Order>),
    /// Somebody may have to leave a room: who may be in it is in [`crate::wiring::Shared`].
    Door(RoomId),
    /// A connection whose room is owned here, or spread to here.
    Adopt(Box<Arrival>),
    /// What users did whom the receiver looks after, in all rooms together.
    Seen(Box<[Seen]>),
    /// What users may not do for a time.
    Restrain(Arc<[Restraint]>),
    /// There is another configuration in [`crate::wiring::Shared`].
    Reconfigure,
    /// Something was decided about a user: it is in [`crate::wiring::Shared`].
    User {
        /// Who.
        user: UserId,
        /// Whether the user's sessions are to go.
        leave: bool,
    },
    /// How a follower's passes go, once a second.
    Tick {
        /// The room.
        room: RoomId,
        /// The follower.
        worker: u16,
        /// Its tick, microseconds; 0: passes run at once.
        tick_us: u32,
    },
}

/// What a new follower starts from.
#[derive(Debug)]
pub struct Attached {
    /// The room's index at the follower.
    pub room: u32,
    /// The attachment meant.
    pub generation: u32,
    /// What the owner's log holds.
    pub backlog: Vec<Arc<Batch>>,
    /// The chain's live end.
    pub tail: Arc<Batch>,
    /// What stands in the room, however old.
    pub board: Board,
    /// What its members are told of its state.
    pub state: Arc<State>,
}

/// The fate of one publish.
#[derive(Debug)]
pub struct Reply {
    /// Who hears of it.
    pub publisher: Publisher,
    /// The client's id.
    pub id: Box<str>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Taken.
    Accepted {
        /// Its number.
        seq: u64,
        /// The number's epoch, where it is not the current one: a retry may come after a change of owner.
        epoch: Option<Epoch>,
    },
    /// Taken, and waits for its delay or a moderator.
    Held,
    /// A report, which was taken.
    Noted,
    /// Not taken.
    Refused(Refusal),
    /// Shown, but the store failed for good.
    NotStored {
        /// Its number.
        seq: u64,
    },
}

// A slot of a ring is 64 bytes with its stamp.
const _: () = assert!(size_of::<Control>() <= 40 && size_of::<Request>() <= 40);
