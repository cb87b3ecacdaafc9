//! Connections about which the platform is asked before they become sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use danmaku_room::traces;
use danmaku_webhook::{ConnectQuestion, ConnectVerdict, FailMode};
use danmaku_wire::native::ErrorCode;
use danmaku_wire::trace::TraceContext;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::ORIGIN;
use serde_json::Value;

use super::identity::Who;
use super::{Front, Refused, Stream, Visit};
use crate::config::webhook::Fail;
use crate::identity::claims::{self, Claims, LIFE_S_MAX};
use crate::identity::user::Identity;
use crate::ingress::authority::now_s;
use crate::ingress::caller::Asker;
use crate::ingress::problem::{problem, refusal};

/// Numbers of connections, for the receiver's log.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

impl Front {
    /// What the platform is asked about a connection, if it is.
    pub(super) fn question(
        &self,
        request: &Request<Incoming>,
        asker: &Asker,
        opened: &Stream,
    ) -> Option<ConnectQuestion> {
        let hook = self.shared.hook.as_ref().filter(|hook| hook.connect.is_some())?;
        let user = match &opened.who {
            Who::User(identity) => Some(identity.id.as_str().to_owned()),
            Who::Guest(author) => Some(author.id.as_str().to_owned()),
            Who::Nobody => None,
        };
        let origin = request.headers().get(ORIGIN).and_then(|origin| origin.to_str().ok());
        Some(ConnectQuestion {
            id: format!("c{}", CONNECTIONS.fetch_add(1, Ordering::Relaxed)),
            address: asker.address,
            room: Some(opened.room.as_str().to_owned()),
            user,
            origin: origin.map(str::to_owned),
            headers: hook.forwarding.select(request.headers()),
            traceparent: self.span_of(request),
        })
    }

    /// Our span in the trace that the connection's request belongs to.
    fn span_of(&self, request: &Request<Incoming>) -> Option<TraceContext> {
        let parent = request.headers().get("traceparent")?;
        let config = self.shared.config.load();
        traces::span(config.secret(), config.traces_sampled(), parent.as_bytes())
    }

    /// Asks, and lets the connection in or not.
    pub(super) async fn open_if_allowed(
        &self,
        question: ConnectQuestion,
        mut opened: Stream,
        visit: &Visit,
        asker: &Asker,
    ) -> Result<(), Refused> {
        let Some(hook) = &self.shared.hook else { return self.open(opened, visit, asker) };
        let fail = match hook.connect {
            Some(Fail::Closed) => FailMode::Closed,
            _ => FailMode::Open,
        };
        let answer = hook.client.ask_connect(question).await;
        if answer.is_err() && fail == FailMode::Closed {
            self.cells.handshakes_refused.add(1);
            return Err(refusal(ErrorCode::Unavailable, Some(1_000), &[]).into());
        }
        match fail.settle_connect(answer) {
            ConnectVerdict::Deny { .. } => {
                self.cells.webhook_denied.add(1);
                self.cells.handshakes_refused.add(1);
                Err(problem(403, ErrorCode::Rejected.as_str(), "the platform does not let you in here")
                    .into())
            }
            ConnectVerdict::Allow { claims } => {
                if let Some(claims) = claims {
                    opened.who = Who::User(Arc::new(self.vouched(&claims)?));
                }
                self.open(opened, visit, asker)
            }
        }
    }

    /// The user that the platform says a connection is, as if by a token issued now.
    fn vouched(&self, claims: &str) -> Result<Identity, Refused> {
        let now_s = now_s();
        let badges = self.shared.config.load().token_rules.badges.clone();
        let rules = claims::Rules { badges, ..claims::Rules::default() };
        let read = serde_json::from_str::<Value>(claims).and_then(|mut claims| {
            if let Some(claims) = claims.as_object_mut() {
                claims.entry("exp").or_insert((now_s + LIFE_S_MAX).into());
                claims.entry("iat").or_insert(now_s.into());
            }
            serde_json::from_value::<Claims>(claims)
        });
        let identity = read
            .map_err(|error| error.to_string())
            .and_then(|claims| claims::admit(claims, &rules, now_s).map_err(|error| error.to_string()));
        identity.map_err(|error| {
            self.cells.handshakes_refused.add(1);
            tracing::warn!(error, "the claims of a webhook's answer cannot be used");
            refusal(ErrorCode::Unavailable, Some(1_000), &[]).into()
        })
    }
}
