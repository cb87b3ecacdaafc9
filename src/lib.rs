//! The server: every socket, thread, file and clock of `danmaku` lives here.
//!
//! Protocol cores are elsewhere (`danmaku-wire`, `danmaku-room`, `danmaku-placement`); what is here is
//! the thin I/O around them and the wiring. ARCHITECTURE.md has the map.

pub mod api;
pub mod cli;
pub mod config;
pub mod directory;
pub mod egress;
pub mod handover;
pub mod hook;
pub mod identity;
pub mod ingress;
pub mod observe;
pub mod outbound;
pub mod private_file;
pub mod serve;
pub mod snapshots;
pub mod store;
pub mod watched;
pub mod wiring;
pub mod word_files;
pub mod worker;
pub mod written_words;
