//! Where ids go: runs of the unknown id become one, and are counted.

/// Appends ids to a list.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    ids: &'a mut Vec<i32>,
    unknown: Option<u32>,
    bytes: Option<&'a [u32; 256]>,
    after_unknown: bool,
    /// Unknown ids written.
    pub(super) unknowns: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(ids: &'a mut Vec<i32>, unknown: Option<u32>, bytes: Option<&'a [u32; 256]>) -> Self {
        Self { ids, unknown, bytes, after_unknown: false, unknowns: 0 }
    }

    /// Appends an id.
    #[inline]
    pub(super) fn push(&mut self, id: u32) {
        if Some(id) == self.unknown {
            if self.after_unknown {
                return;
            }
            self.after_unknown = true;
            self.unknowns += 1;
        } else {
            self.after_unknown = false;
        }
        self.ids.push(id as i32);
    }

    /// Appends what stands for text that no piece spells.
    pub(super) fn push_unknown(&mut self, text: &[u8]) {
        match (self.bytes, self.unknown) {
            (Some(bytes), _) => {
                self.after_unknown = false;
                self.ids.extend(text.iter().map(|byte| bytes[usize::from(*byte)] as i32));
            }
            (None, Some(unknown)) => self.push(unknown),
            (None, None) => {}
        }
    }
}
