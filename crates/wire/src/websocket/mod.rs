//! RFC 6455 and RFC 7692, server side, without I/O.
