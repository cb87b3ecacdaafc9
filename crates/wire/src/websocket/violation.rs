//! What a peer may do wrong on an open connection, and how the connection ends for it.

use super::frame::CONTROL_PAYLOAD_BYTES_MAX;
use crate::disconnect::DisconnectCode;

/// A fault of the peer. The connection is over: the decoder takes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// RSV2 or RSV3, which no extension here gives a meaning (RFC 6455 §5.2).
    #[error("a reserved bit is set")]
    ReservedBit,
    /// RSV1 where no deflate was agreed, on a control frame or on a continuation (RFC 7692 §6).
    #[error("RSV1 is set where no compressed message can begin")]
    UnexpectedRsv1,
    /// An opcode without a meaning (RFC 6455 §5.2).
    #[error("opcode {0:#x} is reserved")]
    ReservedOpcode(u8),
    /// A frame without a mask (RFC 6455 §5.1).
    #[error("a client must mask its frames")]
    Unmasked,
    /// A length in more bytes than it needs (RFC 6455 §5.2).
    #[error("the length is not in its shortest form")]
    LengthNotMinimal,
    /// A 64-bit length with its highest bit set (RFC 6455 §5.2).
    #[error("the length has its highest bit set")]
    LengthOutOfRange,
    /// A control frame without FIN (RFC 6455 §5.5).
    #[error("a control frame is fragmented")]
    ControlFragmented,
    /// A control frame with too long a payload (RFC 6455 §5.5).
    #[error("a control frame holds more than {CONTROL_PAYLOAD_BYTES_MAX} bytes")]
    ControlTooLong,
    /// A continuation while no message is under way (RFC 6455 §5.4).
    #[error("there is no message to continue")]
    NothingToContinue,
    /// A new message before the last frame of the one under way (RFC 6455 §5.4).
    #[error("a message began inside another")]
    MessageInterrupted,
    /// A close payload of one byte (RFC 6455 §5.5.1).
    #[error("a close code has two bytes")]
    CloseTooShort,
    /// A close code that may not stand in a frame (RFC 6455 §7.4).
    #[error("close code {0} may not be sent")]
    CloseCode(u16),
    /// A compressed message that is no DEFLATE data (RFC 7692 §7.2.2).
    #[error("a compressed message cannot be inflated")]
    Corrupt,
    /// Text that is not UTF-8 (RFC 6455 §8.1).
    #[error("a text message is not UTF-8")]
    TextNotUtf8,
    /// A close reason that is not UTF-8 (RFC 6455 §5.5.1).
    #[error("a close reason is not UTF-8")]
    ReasonNotUtf8,
    /// A frame announced more than the limit.
    #[error("a frame of {bytes} bytes is longer than {max}")]
    FrameTooBig {
        /// Payload bytes announced.
        bytes: u64,
        /// Payload bytes allowed.
        max: usize,
    },
    /// A message, on the wire or inflated, went over the limit.
    #[error("a message is longer than {max} bytes")]
    MessageTooBig {
        /// Bytes allowed.
        max: usize,
    },
    /// A message came in too many frames.
    #[error("a message has more than {max} frames")]
    TooManyFragments {
        /// Frames allowed.
        max: usize,
    },
}

impl Violation {
    /// The code that the close frame carries (RFC 6455 §7.4.1): 1002, 1007 or 1009.
    pub const fn disconnect(&self) -> DisconnectCode {
        match self {
            Self::TextNotUtf8 | Self::ReasonNotUtf8 => DisconnectCode::InvalidText,
            Self::FrameTooBig { .. } | Self::MessageTooBig { .. } | Self::TooManyFragments { .. } => {
                DisconnectCode::TooBig
            }
            Self::ReservedBit
            | Self::UnexpectedRsv1
            | Self::ReservedOpcode(_)
            | Self::Unmasked
            | Self::LengthNotMinimal
            | Self::LengthOutOfRange
            | Self::ControlFragmented
            | Self::ControlTooLong
            | Self::NothingToContinue
            | Self::MessageInterrupted
            | Self::CloseTooShort
            | Self::CloseCode(_)
            | Self::Corrupt => DisconnectCode::Protocol,
        }
    }
}
