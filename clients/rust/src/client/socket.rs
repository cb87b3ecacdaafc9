//! The WebSocket: connecting, and the server's words as they come.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::{RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::session::ConnectFailure;

/// The largest message taken; a snapshot of the largest room is far below.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// What is read at once. The default of the library costs an idle connection 128 KiB.
const READ_BYTES: usize = 16 << 10;
/// How long a socket may refuse to take a message before it counts as broken.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// How long the last word may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Attempt = Pin<Box<dyn Future<Output = Result<Stream, ConnectFailure>> + Send>>;

/// What a socket has to say.
#[derive(Debug)]
pub(super) enum News {
    Connected,
    Failed(ConnectFailure),
    Text(Utf8Bytes),
    /// A ping, or a message of a kind that is not for us.
    Activity,
    Closed {
        code: Option<u16>,
        reason: String,
    },
}

/// The connection, or the attempt at one.
pub(super) enum Socket {
    None,
    Connecting(Attempt),
    // It is large beside the others.
    Open(Box<Stream>),
}

impl Socket {
    pub(super) fn connect(url: String, subprotocols: Vec<String>) -> Self {
        Self::Connecting(Box::pin(attempt(url, subprotocols)))
    }

    /// Waits for something to happen; for ever where there is no socket. Nothing is lost if it is dropped.
    pub(super) async fn next(&mut self) -> News {
        match self {
            Self::None => pending().await,
            Self::Connecting(attempt) => match attempt.await {
                Ok(stream) => {
                    *self = Self::Open(Box::new(stream));
                    News::Connected
                }
                Err(failure) => {
                    *self = Self::None;
                    News::Failed(failure)
                }
            },
            Self::Open(stream) => {
                let news = match stream.next().await {
                    Some(Ok(Message::Text(text))) => News::Text(text),
                    Some(Ok(Message::Close(frame))) => News::Closed {
                        code: frame.as_ref().map(|frame| frame.code.into()),
                        reason: frame.map(|frame| frame.reason.to_string()).unwrap_or_default(),
                    },
                    Some(Ok(_)) => News::Activity,
                    Some(Err(error)) => News::Closed { code: None, reason: error.to_string() },
                    None => News::Closed { code: None, reason: "the connection ended".to_owned() },
                };
                if matches!(news, News::Closed { .. })
                    && let Self::Open(mut stream) = std::mem::replace(self, Self::None)
                {
                    // Lets the answer to the server's close go out, and keeps nobody waiting for it.
                    tokio::spawn(async move { timeout(CLOSE_WITHIN, stream.as_mut().close(None)).await });
                }
                news
            }
        }
    }

    /// Sends a text message; what went wrong is the end of the connection.
    pub(super) async fn send(&mut self, text: String) -> Result<(), String> {
        let Self::Open(stream) = self else { return Ok(()) };
        let failed = match timeout(WRITE_WITHIN, stream.send(Message::text(text))).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the socket takes nothing".to_owned(),
        };
        *self = Self::None;
        Err(failed)
    }

    /// Says the last word and drops the connection.
    pub(super) async fn close(&mut self, code: u16) {
        if let Self::Open(stream) = self {
            let frame = CloseFrame { code: CloseCode::from(code), reason: Utf8Bytes::default() };
            let _ = timeout(CLOSE_WITHIN, stream.as_mut().close(Some(frame))).await;
        }
        *self = Self::None;
    }
}

async fn attempt(url: String, subprotocols: Vec<String>) -> Result<Stream, ConnectFailure> {
    let unusable = |reason: String| ConnectFailure { reason, ..ConnectFailure::default() };
    let mut request = url.into_client_request().map_err(|error| unusable(error.to_string()))?;
    let offered = HeaderValue::from_str(&subprotocols.join(", "));
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, offered.map_err(|e| unusable(e.to_string()))?);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    // Comments are small and wait for nothing.
    let no_delay = true;
    match connect_async_with_config(request, Some(config), no_delay).await {
        Ok((stream, _)) => Ok(stream),
        Err(error) => Err(failure(&error)),
    }
}

fn failure(error: &Error) -> ConnectFailure {
    let reason = error.to_string();
    let Error::Http(response) = error else { return ConnectFailure { reason, ..ConnectFailure::default() } };
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = seconds.map(Duration::from_secs);
    ConnectFailure { status: Some(response.status().as_u16()), retry_after, reason }
}
