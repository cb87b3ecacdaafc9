//! A file that ends in an error where it gets too large, as a whole or in one piece.

use std::io::{self, BufRead, Read};

/// Which bound was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// That of the whole file.
    File,
    /// That of the piece that is being read.
    Allowance,
}

/// Counts what is taken from a file.
#[derive(Debug)]
pub(super) struct Limited<R> {
    file: R,
    file_left: u64,
    allowance: u64,
    exceeded: Option<Exceeded>,
}

impl<R> Limited<R> {
    pub(super) fn new(file: R, bytes_max: u64) -> Self {
        Self { file, file_left: bytes_max, allowance: 0, exceeded: None }
    }

    /// Lets so many bytes be taken from here on.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.allowance = bytes;
    }

    /// The bound that was met, if one was.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.file.fill_buf()?;
        let left = self.file_left.min(self.allowance);
        if left == 0 && !bytes.is_empty() {
            let exceeded = if self.file_left == 0 { Exceeded::File } else { Exceeded::Allowance };
            self.exceeded = Some(exceeded);
            return Err(io::Error::other("larger than allowed"));
        }
        let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        Ok(&bytes[..length])
    }

    fn consume(&mut self, amount: usize) {
        self.file_left = self.file_left.saturating_sub(amount as u64);
        self.allowance = self.allowance.saturating_sub(amount as u64);
        self.file.consume(amount);
    }
}

impl<R: BufRead> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        self.consume(length);
        Ok(length)
    }
}
