//! Sessions in chunks of 1,024: addresses stay, memory grows and shrinks by a chunk, and what every
//! pass touches lies apart from what only a session's own input touches.

use crate::worker::session::{Cold, Hot};

/// Slots in a chunk.
const CHUNK: usize = 1_024;

/// A session's place, valid only as long as the generation matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionRef {
    /// Index in the slab.
    pub slot: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
}

struct Chunk {
    hot: Box<[Hot]>,
    cold: Box<[Cold]>,
    used: u32,
}

/// The slab.
#[derive(Default)]
pub struct Slab {
    chunks: Vec<Option<Chunk>>,
    /// Free slots; those of freed chunks are skipped when popped.
    free: Vec<u32>,
    /// The generation that a chunk's slots start with: beyond any that the chunk before it used.
    next_generation: u32,
    len: usize,
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slab")
            .field("len", &self.len)
            .field("chunks", &self.chunks.len())
            .finish_non_exhaustive()
    }
}

fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}

impl Slab {
    /// Puts a session into a free slot.
    pub fn insert(&mut self, mut hot: Hot, cold: Cold) -> SessionRef {
        let slot = self.free_slot();
        let (c, i) = split(slot);
        self.next_generation = self.next_generation.wrapping_add(1).max(1);
        hot.generation = self.next_generation;
        let generation = hot.generation;
        let chunk = self.chunks[c].as_mut().expect("free slots lie in live chunks");
        chunk.hot[i] = hot;
        chunk.cold[i] = cold;
        chunk.used += 1;
        self.len += 1;
        SessionRef { slot, generation }
    }

    fn free_slot(&mut self) -> u32 {
        while let Some(slot) = self.free.pop() {
            if self.chunks[split(slot).0].is_some() {
                return slot;
            }
        }
        let c = self.chunks.iter().position(Option::is_none).unwrap_or(self.chunks.len());
        if c == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[c] = Some(Chunk {
            hot: (0..CHUNK).map(|_| Hot::vacant()).collect(),
            cold: (0..CHUNK).map(|_| Cold::default()).collect(),
            used: 0,
        });
        let first = (c * CHUNK) as u32;
        // Popped from the end: lower slots are used first, so that a shrinking crowd empties the top.
        self.free.extend((first + 1..first + CHUNK as u32).rev());
        first
    }

    /// Takes a session out; its socket closes when the returned value is dropped.
    pub fn remove(&mut self, slot: u32) -> (Hot, Cold) {
        let (c, i) = split(slot);
        let chunk = self.chunks[c].as_mut().expect("only live slots are removed");
        let hot = std::mem::replace(&mut chunk.hot[i], Hot::vacant());
        let cold = std::mem::take(&mut chunk.cold[i]);
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 {
            self.chunks[c] = None;
            self.free.retain(|s| split(*s).0 != c);
        } else {
            self.free.push(slot);
        }
        (hot, cold)
    }

    /// What a pass touches.
    #[inline]
    pub fn hot(&mut self, slot: u32) -> &mut Hot {
        let (c, i) = split(slot);
        &mut self.chunks[c].as_mut().expect("only live slots are used").hot[i]
    }

    /// What the session's own input touches.
    pub fn cold(&mut self, slot: u32) -> &mut Cold {
        let (c, i) = split(slot);
        &mut self.chunks[c].as_mut().expect("only live slots are used").cold[i]
    }

    /// Both at once.
    pub fn both(&mut self, slot: u32) -> (&mut Hot, &mut Cold) {
        let (c, i) = split(slot);
        let chunk = self.chunks[c].as_mut().expect("only live slots are used");
        (&mut chunk.hot[i], &mut chunk.cold[i])
    }

    /// The slot of a reference that is still valid.
    pub fn live(&mut self, session: SessionRef) -> Option<u32> {
        let (c, i) = split(session.slot);
        let chunk = self.chunks.get(c)?.as_ref()?;
        let hot = &chunk.hot[i];
        (hot.generation == session.generation && hot.fd.is_some()).then_some(session.slot)
    }

    /// The reference of a slot.
    pub fn reference(&mut self, slot: u32) -> SessionRef {
        SessionRef { slot, generation: self.hot(slot).generation }
    }

    /// Sessions in the slab.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One past the highest slot that may be in use.
    pub fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Whether a session is in this slot.
    pub fn occupied(&self, slot: u32) -> bool {
        let (c, i) = split(slot);
        self.chunks.get(c).and_then(Option::as_ref).is_some_and(|chunk| chunk.hot[i].fd.is_some())
    }
}
