//! Why a question has no answer.

use crate::address::Denied;

/// Why a question has no answer. What that means for the comment is the room's setting
/// ([`FailMode`](crate::FailMode)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// As many questions wait as may.
    #[error("too many questions wait for the webhook")]
    QueueFull,
    /// The breaker is open: the receiver is not asked.
    #[error("the webhook's breaker is open")]
    BreakerOpen,
    /// The question is longer than any may be.
    #[error("the question has more than {} bytes", crate::question::QUESTION_BYTES_MAX)]
    QuestionTooLarge,
    /// The client has ended.
    #[error("the webhook client has ended")]
    Stopped,
    /// No answer in time.
    #[error("the webhook did not answer in time")]
    Deadline,
    /// The receiver's name could not be looked up.
    #[error("the webhook's host name has no address")]
    Resolve,
    /// The receiver's name leads where nobody may call.
    #[error("the webhook's host name leads to an address that is not allowed: {0}")]
    Denied(Denied),
    /// No connection.
    #[error("the webhook cannot be connected to")]
    Connect,
    /// No TLS, or a certificate that does not prove who answers.
    #[error("the webhook's TLS handshake failed")]
    Tls,
    /// The connection ended before the answer did, or what came was not HTTP.
    #[error("the webhook's connection broke, or it answered something that is not HTTP")]
    Broken,
    /// A redirect; none is followed.
    #[error("the webhook answered {0}, and no redirect is followed: configure the URL that answers")]
    Redirect(u16),
    /// Any other status than 200.
    #[error("the webhook answered {0}, not 200")]
    Status(u16),
    /// A longer answer than any may be.
    #[error("the webhook's answer is longer than {} bytes", crate::exchange::REPLY_BYTES_MAX)]
    ReplyTooLarge,
    /// Not one of the documented answers.
    #[error("the webhook's answer is none of the documented ones")]
    Malformed,
}

impl Failure {
    /// How many kinds there are.
    pub const KINDS: usize = Self::REASONS.len();
    /// The reasons, in the order of [`Failure::index`]; labels of a metric.
    pub const REASONS: [&'static str; 14] = [
        "queue_full",
        "breaker_open",
        "question_too_large",
        "stopped",
        "deadline",
        "resolve",
        "denied",
        "connect",
        "tls",
        "broken",
        "redirect",
        "status",
        "reply_too_large",
        "malformed",
    ];

    /// The place of this kind in [`Failure::REASONS`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::QueueFull => 0,
            Self::BreakerOpen => 1,
            Self::QuestionTooLarge => 2,
            Self::Stopped => 3,
            Self::Deadline => 4,
            Self::Resolve => 5,
            Self::Denied(_) => 6,
            Self::Connect => 7,
            Self::Tls => 8,
            Self::Broken => 9,
            Self::Redirect(_) => 10,
            Self::Status(_) => 11,
            Self::ReplyTooLarge => 12,
            Self::Malformed => 13,
        }
    }

    /// A word for it, as metrics and logs say it.
    #[must_use]
    pub fn reason(self) -> &'static str {
        Self::REASONS[self.index()]
    }
}
