//! Which chunks of their messages the members of a group have put, summed and taken.
//!
//! Chunks are numbered on and on, over all messages, by every member alike. A member has memory for a few; one is free
//! again when all others have taken what was in it. So a fast member is already putting the next message while a slow
//! one takes the last.

/// Chunks of a member that are on their way at once.
pub(super) const SLOTS: usize = 8;

#[derive(Debug)]
pub(super) struct Chunks {
    members: usize,
    /// Of each member, the first chunk that it has not put.
    put: Vec<u64>,
    /// The first chunk that nobody sums or has summed.
    claimed: u64,
    /// Of each slot, one more than the chunk that was summed there.
    summed: [u64; SLOTS],
    /// Of each member, and there of each member from whom it takes: the first chunk that it has not taken.
    taken: Vec<u64>,
}

impl Chunks {
    pub(super) fn new(members: usize) -> Self {
        Self {
            members,
            put: vec![0; members],
            claimed: 0,
            summed: [0; SLOTS],
            taken: vec![0; members * members],
        }
    }

    /// The slot of a chunk.
    pub(super) fn slot(chunk: u64) -> usize {
        (chunk % SLOTS as u64) as usize
    }

    /// Whether a member has memory for one of its chunks.
    pub(super) fn has_room(&self, member: usize, chunk: u64) -> bool {
        let taken = |taker: usize| self.taken[taker * self.members + member];
        (0..self.members).all(|taker| chunk < taken(taker) + SLOTS as u64)
    }

    pub(super) fn put(&mut self, member: usize, chunk: u64) {
        self.put[member] = chunk + 1;
    }

    /// The first chunk that a member has not put.
    pub(super) fn put_by(&self, member: usize) -> u64 {
        self.put[member]
    }

    /// The first chunk that some member has not put.
    pub(super) fn put_by_all(&self) -> u64 {
        self.put.iter().copied().min().unwrap_or(0)
    }

    /// A chunk, of these, that can be summed and that nobody has begun to sum.
    pub(super) fn unclaimed(&self, first: u64, end: u64) -> Option<u64> {
        let chunk = self.claimed.max(first);
        (chunk < end.min(self.put_by_all())).then_some(chunk)
    }

    pub(super) fn claim(&mut self, chunk: u64) {
        self.claimed = chunk + 1;
    }

    pub(super) fn sum(&mut self, chunk: u64) {
        self.summed[Self::slot(chunk)] = chunk + 1;
    }

    /// The first chunk, of these, that is not summed.
    pub(super) fn summed(&self, first: u64, end: u64) -> u64 {
        (first..end).find(|chunk| self.summed[Self::slot(*chunk)] <= *chunk).unwrap_or(end)
    }

    /// From now on `taker` takes nothing before this chunk from `member`.
    pub(super) fn take(&mut self, taker: usize, member: usize, chunk: u64) {
        self.taken[taker * self.members + member] = chunk;
    }
}
