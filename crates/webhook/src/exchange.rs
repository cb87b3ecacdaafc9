//! One question over the wire: a POST and its reply.
//!
//! In comes a body, out comes the reply's body or a failure, and the connection if it can be used again.
//! A question on a waiting connection that the receiver closed meanwhile goes out a second time, on a new
//! one; nothing else is ever tried again.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;
use crate::idle::keep_alive_timeout;
use crate::line::{Connection, Line};
use crate::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use danmaku_wire::trace::TraceContext;

/// Longest reply, bytes.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;

const AGENT: &str = concat!("danmaku/", env!("CARGO_PKG_VERSION"));

/// What is sent.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) body: Bytes,
    pub(crate) unix_seconds: u64,
    pub(crate) traceparent: Option<TraceContext>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) reply: Result<Bytes, Failure>,
    /// The connection, and for how long the receiver said that it keeps it.
    pub(crate) keep: Option<(Connection, Option<Duration>)>,
    /// Whether a new connection was made.
    pub(crate) opened: bool,
}

/// Sends a post and reads the reply, all before `deadline`.
pub(crate) async fn exchange(
    line: Arc<Line>,
    kept: Option<Connection>,
    post: Post,
    deadline: Instant,
) -> Finished {
    let mut opened = false;
    let mut keep = None;
    let attempt = attempt(&line, kept, &post, deadline, &mut opened, &mut keep);
    let reply = timeout_at(deadline, attempt).await.unwrap_or(Err(Failure::Deadline));
    Finished { reply, keep, opened }
}

async fn attempt(
    line: &Line,
    kept: Option<Connection>,
    post: &Post,
    deadline: Instant,
    opened: &mut bool,
    keep: &mut Option<(Connection, Option<Duration>)>,
) -> Result<Bytes, Failure> {
    if let Some(connection) = kept {
        match ask(line, connection, post, keep).await {
            Err(Ended::Unanswered) => {}
            Err(Ended::Failed(failure)) => return Err(failure),
            Ok(reply) => return Ok(reply),
        }
    }
    let connection = line.connect(deadline).await?;
    *opened = true;
    ask(line, connection, post, keep).await.map_err(|ended| match ended {
        Ended::Unanswered => Failure::Broken,
        Ended::Failed(failure) => failure,
    })
}

/// How a connection ended a question.
enum Ended {
    /// It was closed, and nothing of an answer had come.
    Unanswered,
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

async fn ask(
    line: &Line,
    mut connection: Connection,
    post: &Post,
    keep: &mut Option<(Connection, Option<Duration>)>,
) -> Result<Bytes, Ended> {
    connection.sender.ready().await.map_err(|_| Ended::Unanswered)?;
    let sent = connection.sender.send_request(request(line, post)?).await;
    let response =
        sent.map_err(|error| if is_close(&error) { Ended::Unanswered } else { Failure::Broken.into() })?;
    let status = response.status();
    let receiver_keeps = keep_alive_hint(&response);
    let reply = read(response.into_body()).await?;
    if status != StatusCode::SWITCHING_PROTOCOLS {
        *keep = Some((connection, receiver_keeps));
    }
    match status {
        StatusCode::OK => Ok(reply),
        status if status.is_redirection() => Err(Failure::Redirect(status.as_u16()).into()),
        status => Err(Failure::Status(status.as_u16()).into()),
    }
}

fn request(line: &Line, post: &Post) -> Result<Request<Full<Bytes>>, Failure> {
    let path = line.endpoint.path.as_str();
    let signature = line.secret.sign(Method::POST.as_str(), path, post.unix_seconds, &post.body);
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, line.endpoint.authority.clone())
        .header(USER_AGENT, HeaderValue::from_static(AGENT))
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(TIMESTAMP_HEADER, post.unix_seconds)
        .header(SIGNATURE_HEADER, signature);
    if let Some(traceparent) = &post.traceparent {
        request = request.header("traceparent", traceparent.to_string());
    }
    // Every part was checked when it was made: nothing of it can be wrong here.
    request.body(Full::new(post.body.clone())).map_err(|_| Failure::Broken)
}

/// Whether a connection ended before an answer began, rather than with something wrong in it.
fn is_close(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let reset = source.is_some_and(|source| {
        matches!(
            source.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
    });
    error.is_canceled() || error.is_closed() || error.is_incomplete_message() || reset
}

fn keep_alive_hint(response: &Response<Incoming>) -> Option<Duration> {
    let value = response.headers().get("keep-alive")?.to_str().ok()?;
    keep_alive_timeout(value)
}

async fn read(mut body: Incoming) -> Result<Bytes, Failure> {
    // What is announced as too long is not begun.
    if body.size_hint().lower() > REPLY_BYTES_MAX as u64 {
        return Err(Failure::ReplyTooLarge);
    }
    let mut reply = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::Broken)?;
        let Some(data) = frame.data_ref() else { continue };
        if reply.len() + data.len() > REPLY_BYTES_MAX {
            return Err(Failure::ReplyTooLarge);
        }
        reply.extend_from_slice(data);
    }
    Ok(reply.into())
}
