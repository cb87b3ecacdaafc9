//! The native protocol, version 1.
