//! Who is calling, by the connection and by each request on it, and whether its address may have one more.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use danmaku_wire::entry::Author;
use danmaku_wire::id::RoomId;
use danmaku_wire::native::ErrorCode;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, RETRY_AFTER};
use tokio::net::TcpStream;

use super::identity::Who;
use super::{Caller, Front, Refused, Visit};
use crate::identity::guest;
use crate::ingress::addresses::{Bound, Hold, Place};
use crate::ingress::caller::announced::{self, AnnounceError, Announced};
use crate::ingress::caller::{Asker, ProxyProtocol, canonical, is_trusted};
use crate::ingress::listener::Kind;
use crate::ingress::problem::{problem, refusal};
use crate::observe::limits::Limit;

impl Front {
    /// Takes the PROXY header off a fresh connection where one is required.
    ///
    /// # Errors
    /// When it is not there, and nobody but a trusted proxy may write one: the connection is closed.
    pub(super) async fn announced(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
        kind: Kind,
    ) -> Result<Announced, AnnounceError> {
        let (within, trusted) = {
            let config = self.shared.config.load();
            if config.proxy_protocol == ProxyProtocol::Off || kind == Kind::Api {
                return Ok(Announced::Unspoken);
            }
            (Duration::from_millis(config.proxy_header_ms), is_trusted(peer.ip(), &config.trusted_proxies))
        };
        let announced = if trusted {
            let read = tokio::time::timeout(within, announced::read(socket)).await;
            read.unwrap_or(Err(AnnounceError::Late))
        } else {
            Err(AnnounceError::Untrusted(peer.ip()))
        };
        if matches!(announced, Err(AnnounceError::Late)) {
            self.cells.met(Limit::ProxyHeader);
        }
        if announced.is_err() {
            self.cells.proxy_headers_refused.add(1);
        }
        announced
    }

    /// Who sent a request.
    pub(super) fn asker(&self, request: &Request<Incoming>, caller: Caller) -> Asker {
        let config = self.shared.config.load();
        Asker::of(caller.peer.ip(), caller.announced, request.headers(), &config.trusted_proxies)
    }

    /// Counts a connection from the moment it is accepted. Nobody is counted where a PROXY header is still to come, a
    /// trusted proxy's requests come from others, and this machine is under no limit.
    pub(super) fn hold_accepted(&self, peer: SocketAddr, kind: Kind) -> Result<Option<Hold>, Bound> {
        let config = self.shared.config.load();
        let address = peer.ip().to_canonical();
        let exempt = config.proxy_protocol == ProxyProtocol::Required && kind != Kind::Api
            || address.is_loopback()
            || is_trusted(address, &config.trusted_proxies);
        if exempt { Ok(None) } else { self.hold(address).map(Some) }
    }

    /// Counts a connection by what its PROXY header says.
    pub(super) fn hold_announced(&self, announced: Announced) -> Result<Option<Hold>, Bound> {
        match announced {
            Announced::Source(address)
                if !is_trusted(address, &self.shared.config.load().trusted_proxies) =>
            {
                self.hold(address).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn hold(&self, address: IpAddr) -> Result<Hold, Bound> {
        let limits = self.shared.config.load().addresses;
        let hold = self.shared.addresses.hold(canonical(address), &limits);
        match &hold {
            Ok(hold) if hold.place().is_shared() => self.cells.met(Limit::Addresses),
            Ok(_) => {}
            Err(bound) => self.cells.met(bound.limit()),
        }
        hold
    }

    /// Whether a connection's address has no more connections than it may.
    pub(super) fn within(&self, visit: &Visit) -> Result<(), Refused> {
        let limits = self.shared.config.load().addresses;
        match visit.hold.borrow_mut().as_mut().and_then(|hold| hold.beyond(&limits)) {
            Some(bound) => Err(self.too_many(bound)),
            None => Ok(()),
        }
    }

    /// The place of a stream among the connections of its caller's address: the connection's own, or one of its own
    /// where a proxy brings it. None for users with a token: many of them may share an address.
    pub(super) fn claim(&self, visit: &Visit, asker: &Asker, who: &Who) -> Result<Option<Hold>, Refused> {
        if asker.exempt || matches!(who, Who::User(_)) {
            return Ok(None);
        }
        self.within(visit)?;
        match visit.hold.take() {
            Some(hold) => Ok(Some(hold)),
            None => self.hold_brought(asker).map(Some),
        }
    }

    /// Where a request counts that opens no stream: with its connection, or for as long as it takes.
    pub(super) fn count(&self, visit: &Visit, asker: &Asker, author: &Author) -> Result<Counted, Refused> {
        if asker.exempt || has_token(author) {
            return Ok(Counted::Nowhere);
        }
        self.within(visit)?;
        match visit.hold.borrow().as_ref().map(Hold::place) {
            Some(place) => Ok(Counted::WithConnection(place)),
            None => self.hold_brought(asker).map(Counted::Alone),
        }
    }

    /// Counts a caller whom a proxy brings. It is known by its address alone, so that there is no grace.
    fn hold_brought(&self, asker: &Asker) -> Result<Hold, Refused> {
        let limits = self.shared.config.load().addresses;
        match self.hold(asker.address) {
            Ok(mut hold) => match hold.beyond(&limits) {
                None => Ok(hold),
                Some(bound) => Err(self.too_many(bound)),
            },
            // Counted as met already.
            Err(_) => Err(too_many_connections()),
        }
    }

    fn too_many(&self, bound: Bound) -> Refused {
        self.cells.met(bound.limit());
        too_many_connections()
    }

    /// What an address is told by in sanctions.
    pub(super) fn mark(&self, asker: &Asker) -> u64 {
        guest::number_of(asker.address, self.shared.config.load().secret())
    }

    /// Whether a comment may create its room.
    pub(super) fn may_create(&self, place: Place, room: &RoomId) -> Result<(), Refused> {
        if self.shared.directory.contains(room) {
            return Ok(());
        }
        let limits = self.shared.config.load().addresses;
        self.shared.addresses.create_room(place, &limits).map_err(|wait_us| {
            self.cells.met(Limit::RoomsCreated);
            self.cells.refuse(ErrorCode::TooManyRooms);
            refusal(ErrorCode::TooManyRooms, Some(wait_us.div_ceil(1_000)), &[]).into()
        })
    }
}

/// Where a request is counted.
pub(super) enum Counted {
    /// No limit applies.
    Nowhere,
    /// Its connection is.
    WithConnection(Place),
    /// It is, for as long as it takes.
    Alone(Hold),
}

impl Counted {
    pub(super) fn place(&self) -> Place {
        match self {
            Self::Nowhere => Place::NONE,
            Self::WithConnection(place) => *place,
            Self::Alone(hold) => hold.place(),
        }
    }
}

/// Whether this is a user by a token, and no guest.
fn has_token(author: &Author) -> bool {
    !author.id.as_str().starts_with(guest::MARK)
}

/// After how many seconds somebody may look again whether there is a place.
const TRY_AGAIN_S: u16 = 5;

fn too_many_connections() -> Refused {
    let detail = "there are too many connections from this address: close some, or show a token";
    let mut refusal = problem(429, "too_many_connections", detail);
    let headers = refusal.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(TRY_AGAIN_S));
    // A connection that is one too many is not to be kept.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    refusal.into()
}
