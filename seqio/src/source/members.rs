//! The members of a compressed file, one after the other. Zero bytes after a member are padding.
//!
//! ```text
//! member, member, 0 0 0, member -> the content of all three
//! ```

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;

use crate::source::compression::Packed;

/// Reads one member, to its end and no further.
pub(super) trait Member: Read {
    /// A decoder of the member that `packed` stands at.
    fn open(packed: Packed) -> Self;
    /// What it reads from.
    fn packed(&mut self) -> &mut Packed;
    /// The same, standing after the member once its end was read.
    fn into_packed(self) -> Packed;
}

impl Member for GzDecoder<Packed> {
    fn open(packed: Packed) -> Self {
        Self::new(packed)
    }

    fn packed(&mut self) -> &mut Packed {
        self.get_mut()
    }

    fn into_packed(self) -> Packed {
        self.into_inner()
    }
}

impl Member for BzDecoder<Packed> {
    fn open(packed: Packed) -> Self {
        Self::new(packed)
    }

    fn packed(&mut self) -> &mut Packed {
        self.get_mut()
    }

    fn into_packed(self) -> Packed {
        self.into_inner()
    }
}

/// The content of all members.
pub(super) struct Members<D> {
    place: Place<D>,
}

enum Place<D> {
    /// In a member.
    In(Box<D>),
    /// After one.
    After(Packed),
    /// After the last one.
    End,
}

impl<D: Member> Members<D> {
    pub(super) fn new(packed: Packed) -> Self {
        Self { place: Place::In(Box::new(D::open(packed))) }
    }

    /// What the members are read from, until the last was.
    pub(super) fn packed(&mut self) -> Option<&mut Packed> {
        match &mut self.place {
            Place::In(member) => Some(member.packed()),
            Place::After(packed) => Some(packed),
            Place::End => None,
        }
    }
}

impl<D: Member> Read for Members<D> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.place, Place::End) {
                Place::In(mut member) => {
                    let read = member.read(out);
                    let ended = matches!(read, Ok(0)) && !out.is_empty();
                    if ended {
                        self.place = Place::After(member.into_packed());
                    } else {
                        self.place = Place::In(member);
                        return read;
                    }
                }
                Place::After(mut packed) => {
                    let (zeros, len) = match packed.fill_buf() {
                        Ok(bytes) => (bytes.iter().take_while(|&&byte| byte == 0).count(), bytes.len()),
                        Err(error) => {
                            self.place = Place::After(packed);
                            return Err(error);
                        }
                    };
                    packed.consume(zeros);
                    self.place = match len {
                        0 => Place::End,
                        _ if zeros == len => Place::After(packed),
                        _ => Place::In(Box::new(D::open(packed))),
                    };
                }
                Place::End => return Ok(0),
            }
        }
    }
}
