//! MessagePack, as far as T5X's checkpoints use it: all of it but time stamps.
//!
//! ```text
//! 82 a1 61 01 a1 62 c0   ->   {"a": 1, "b": nil}
//! ```
//!
//! Any bytes at all give a value or an error, in time and memory proportional to their number.

use std::ops::Range;

/// A value; long ones are places in the bytes that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(&'a str),
    Bytes(Range<usize>),
    List(Vec<Value<'a>>),
    Map(Vec<(&'a str, Value<'a>)>),
    /// What a program gave a meaning of its own.
    Ext(i8, Range<usize>),
}

/// Deeper than any model's names, and far from the end of the stack.
const DEEPEST: usize = 100;

/// Reads the one value that lies at a place, all of it; places inside of it count from the first byte of all.
pub(super) fn parse(bytes: &[u8], place: Range<usize>) -> Result<Value<'_>, String> {
    let bytes = bytes.get(..place.end).ok_or("it ends too early")?;
    let mut reader = Reader { bytes, at: place.start };
    let value = reader.value(0)?;
    if reader.at < place.end {
        return Err(format!("after its end at byte {} come {} more", reader.at, place.end - reader.at));
    }
    Ok(value)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value<'a>, String> {
        if depth > DEEPEST {
            return Err(format!("at byte {} values lie deeper than {DEEPEST} in each other", self.at));
        }
        let [first] = self.array()?;
        Ok(match first {
            0x00..=0x7f => Value::Uint(first.into()),
            0x80..=0x8f => self.map(usize::from(first & 0x0f), depth)?,
            0x90..=0x9f => self.list(usize::from(first & 0x0f), depth)?,
            0xa0..=0xbf => Value::Text(self.text(usize::from(first & 0x1f))?),
            0xc0 => Value::Nil,
            0xc1 => return Err(format!("at byte {} there is 0xc1, which begins nothing", self.at - 1)),
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(first - 0xc4)?;
                Value::Bytes(self.range(length)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(first - 0xc7)?;
                self.ext(length)?
            }
            0xca => Value::Float(f32::from_be_bytes(self.array()?).into()),
            0xcb => Value::Float(f64::from_be_bytes(self.array()?)),
            0xcc => Value::Uint(u8::from_be_bytes(self.array()?).into()),
            0xcd => Value::Uint(u16::from_be_bytes(self.array()?).into()),
            0xce => Value::Uint(u32::from_be_bytes(self.array()?).into()),
            0xcf => Value::Uint(u64::from_be_bytes(self.array()?)),
            0xd0 => Value::Int(i8::from_be_bytes(self.array()?).into()),
            0xd1 => Value::Int(i16::from_be_bytes(self.array()?).into()),
            0xd2 => Value::Int(i32::from_be_bytes(self.array()?).into()),
            0xd3 => Value::Int(i64::from_be_bytes(self.array()?)),
            0xd4..=0xd8 => self.ext(1 << (first - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(first - 0xd9)?;
                Value::Text(self.text(length)?)
            }
            0xdc | 0xdd => {
                let length = self.length(first - 0xdc + 1)?;
                self.list(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(first - 0xde + 1)?;
                self.map(length, depth)?
            }
            0xe0..=0xff => Value::Int((first as i8).into()),
        })
    }

    /// A length of 1, 2 or 4 bytes.
    fn length(&mut self, size: u8) -> Result<usize, String> {
        Ok(match size {
            0 => u8::from_be_bytes(self.array()?).into(),
            1 => u16::from_be_bytes(self.array()?).into(),
            _ => u32::from_be_bytes(self.array()?) as usize,
        })
    }

    fn range(&mut self, length: usize) -> Result<Range<usize>, String> {
        if length > self.bytes.len() - self.at {
            return Err(format!("at byte {} it ends within a value", self.at));
        }
        let range = self.at..self.at + length;
        self.at = range.end;
        Ok(range)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let range = self.range(N)?;
        Ok(self.bytes[range].try_into().expect("a range of N bytes"))
    }

    fn text(&mut self, length: usize) -> Result<&'a str, String> {
        let range = self.range(length)?;
        let start = range.start;
        std::str::from_utf8(&self.bytes[range]).map_err(|_| format!("at byte {start} a text is not UTF-8"))
    }

    fn ext(&mut self, length: usize) -> Result<Value<'a>, String> {
        let kind = i8::from_be_bytes(self.array()?);
        Ok(Value::Ext(kind, self.range(length)?))
    }

    fn list(&mut self, length: usize, depth: usize) -> Result<Value<'a>, String> {
        // Room as it is needed: a length alone is no reason to trust it.
        let mut values = Vec::new();
        for _ in 0..length {
            values.push(self.value(depth + 1)?);
        }
        Ok(Value::List(values))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value<'a>, String> {
        let mut entries = Vec::new();
        for _ in 0..length {
            let at = self.at;
            let Value::Text(name) = self.value(depth + 1)? else {
                return Err(format!("at byte {at} a name is not a text"));
            };
            entries.push((name, self.value(depth + 1)?));
        }
        Ok(Value::Map(entries))
    }
}

impl<'a> Value<'a> {
    /// The entry of a map.
    pub(super) fn get(&self, name: &str) -> Option<&Value<'a>> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|entry| entry.0 == name).map(|entry| &entry.1)
    }

    /// A whole number that is no less than zero.
    pub(super) fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Uint(number) => Some(*number),
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// A list of lengths.
    pub(super) fn as_dims(&self) -> Option<Vec<usize>> {
        let Self::List(values) = self else { return None };
        values.iter().map(|value| usize::try_from(value.as_u64()?).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Value<'_>, String> {
        super::parse(bytes, 0..bytes.len())
    }

    #[test]
    fn values_of_every_form() {
        let check = |bytes: &[u8], value: Value<'_>| assert_eq!(parse(bytes), Ok(value), "{bytes:x?}");
        check(&[0x7f], Value::Uint(127));
        check(&[0xff], Value::Int(-1));
        check(&[0xc0], Value::Nil);
        check(&[0xc2], Value::Bool(false));
        check(&[0xc3], Value::Bool(true));
        check(&[0xca, 0x3f, 0x80, 0, 0], Value::Float(1.0));
        check(&[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0], Value::Float(1.0));
        check(&[0xcc, 200], Value::Uint(200));
        check(&[0xcd, 1, 0], Value::Uint(256));
        check(&[0xce, 1, 0, 0, 0], Value::Uint(1 << 24));
        check(&[0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0], Value::Uint(0xff << 56));
        check(&[0xd0, 0x80], Value::Int(-128));
        check(&[0xd1, 0xff, 0], Value::Int(-256));
        check(&[0xd2, 0xff, 0, 0, 0], Value::Int(-(1 << 24)));
        check(&[0xd3, 0xff, 0, 0, 0, 0, 0, 0, 0], Value::Int(-(1 << 56)));
        check(&[0xa2, b'a', b'b'], Value::Text("ab"));
        for head in [&[0xd9, 2][..], &[0xda, 0, 2], &[0xdb, 0, 0, 0, 2]] {
            check(&[head, b"ab"].concat(), Value::Text("ab"));
        }
        for head in [&[0xc4, 2][..], &[0xc5, 0, 2], &[0xc6, 0, 0, 0, 2]] {
            check(&[head, &[7, 8]].concat(), Value::Bytes(head.len()..head.len() + 2));
        }
        for (head, length) in
            [(&[0xd4, 3][..], 1), (&[0xd8, 3], 16), (&[0xc7, 2, 3], 2), (&[0xc8, 0, 2, 3], 2)]
        {
            check(&[head, &vec![0; length]].concat(), Value::Ext(3, head.len()..head.len() + length));
        }
        let list = Value::List(vec![Value::Uint(1), Value::Nil]);
        for head in [&[0x92][..], &[0xdc, 0, 2], &[0xdd, 0, 0, 0, 2]] {
            check(&[head, &[1, 0xc0]].concat(), list.clone());
        }
        for head in [&[0x81][..], &[0xde, 0, 1], &[0xdf, 0, 0, 0, 1]] {
            check(&[head, &[0xa1, b'a', 1]].concat(), Value::Map(vec![("a", Value::Uint(1))]));
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let tell = |bytes: &[u8]| parse(bytes).unwrap_err();
        let told = [
            tell(&[]),
            tell(&[0xa3, b'a']),
            tell(&[0xc1]),
            tell(&[1, 2, 3]),
            tell(&[0xa1, 0xff]),
            tell(&[0x81, 1, 2]),
            tell(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]),
            tell(&[0x91; 1000]),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        at byte 0 it ends within a value
        at byte 1 it ends within a value
        at byte 0 there is 0xc1, which begins nothing
        after its end at byte 1 come 2 more
        at byte 1 a text is not UTF-8
        at byte 1 a name is not a text
        at byte 6 it ends within a value
        at byte 101 values lie deeper than 100 in each other
        ");
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
