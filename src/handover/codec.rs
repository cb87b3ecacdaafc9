//! Bytes of the hand-over: fixed little-endian numbers and counted runs. What is read comes from another process
//! of another build, so that every count is held against what is there.

/// The bytes are not what they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message of the other process cannot be read: {0}")]
pub struct Malformed(
    /// What is wrong.
    pub &'static str,
);

/// Writes values behind each other.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// The bytes so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// One byte.
    pub fn u8(&mut self, n: u8) {
        self.0.push(n);
    }

    /// Four bytes.
    pub fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// Sixteen bytes.
    pub fn u128(&mut self, n: u128) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// Bytes with their count.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Text with its count of bytes.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// How many follow. A message is far smaller than what does not fit.
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).unwrap_or(u32::MAX));
    }

    /// Whether something follows, then that.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// All of `bytes`, still to be read.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    /// One byte.
    ///
    /// # Errors
    /// At the end.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.take().map(u8::from_le_bytes)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// At the end.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// At the end.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    ///
    /// # Errors
    /// At the end.
    pub fn u128(&mut self) -> Result<u128, Malformed> {
        self.take().map(u128::from_le_bytes)
    }

    /// Yes or no.
    ///
    /// # Errors
    /// Where it is neither.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither yes nor no")),
        }
    }

    /// Counted bytes.
    ///
    /// # Errors
    /// Where more are announced than there are.
    pub fn bytes(&mut self) -> Result<&'b [u8], Malformed> {
        let count = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Counted text.
    ///
    /// # Errors
    /// Where it is not UTF-8, or more is announced than there is.
    pub fn text(&mut self) -> Result<&'b str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("text that is not UTF-8"))
    }

    /// A counted list; memory follows what is there, not the count.
    ///
    /// # Errors
    /// Where an element cannot be read.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        let mut list = Vec::new();
        for _ in 0..count {
            if self.0.is_empty() {
                return Err(Malformed("it ends too early"));
            }
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// What follows, if anything does.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// The end is where it should be.
    ///
    /// # Errors
    /// Where more follows.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("more follows than belongs to it")) }
    }
}
