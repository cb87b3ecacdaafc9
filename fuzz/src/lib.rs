//! What several fuzz targets are made of: connections fed in pieces, plain models, and inputs that are read
//! as lists of operations.

pub mod connection;
pub mod deflated;
pub mod draw;
pub mod frames;
pub mod masked;
