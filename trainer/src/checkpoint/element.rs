//! What tensors in files are made of, and how that becomes floats.

/// The kind of a stored number, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
    /// Signed whole numbers of this many bytes.
    Int(u8),
    /// Unsigned whole numbers of this many bytes.
    Uint(u8),
    /// One byte, 0 or 1.
    Bool,
}

/// Whole numbers up to here are floats too, every one of them.
const EXACT: u64 = 1 << 24;

impl Element {
    /// The bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
            Self::F16 | Self::Bf16 => 2,
            Self::Int(bytes) | Self::Uint(bytes) => bytes.into(),
            Self::Bool => 1,
        }
    }

    /// By its name in safetensors files.
    pub(super) fn of_safetensors(name: &str) -> Option<Self> {
        Some(match name {
            "F32" => Self::F32,
            "F64" => Self::F64,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "I8" => Self::Int(1),
            "I16" => Self::Int(2),
            "I32" => Self::Int(4),
            "I64" => Self::Int(8),
            "U8" => Self::Uint(1),
            "U16" => Self::Uint(2),
            "U32" => Self::Uint(4),
            "U64" => Self::Uint(8),
            "BOOL" => Self::Bool,
            _ => return None,
        })
    }

    /// By numpy's name.
    pub(super) fn of_numpy(name: &str) -> Option<Self> {
        Some(match name {
            "float32" => Self::F32,
            "float64" => Self::F64,
            "float16" => Self::F16,
            "bfloat16" => Self::Bf16,
            "int8" => Self::Int(1),
            "int16" => Self::Int(2),
            "int32" => Self::Int(4),
            "int64" => Self::Int(8),
            "uint8" => Self::Uint(1),
            "uint16" => Self::Uint(2),
            "uint32" => Self::Uint(4),
            "uint64" => Self::Uint(8),
            "bool" => Self::Bool,
            _ => return None,
        })
    }

    /// By its code in the metadata of zarr arrays.
    pub(super) fn of_zarr(code: &str) -> Option<Self> {
        Some(match code {
            "<f4" => Self::F32,
            "<f8" => Self::F64,
            "<f2" => Self::F16,
            "bfloat16" => Self::Bf16,
            "|i1" => Self::Int(1),
            "<i2" => Self::Int(2),
            "<i4" => Self::Int(4),
            "<i8" => Self::Int(8),
            "|u1" => Self::Uint(1),
            "<u2" => Self::Uint(2),
            "<u4" => Self::Uint(4),
            "<u8" => Self::Uint(8),
            "|b1" => Self::Bool,
            _ => return None,
        })
    }

    /// Writes the numbers as floats, or says which is none. Doubles are rounded; whole numbers have to be exact.
    pub(super) fn to_f32(self, bytes: &[u8], out: &mut [f32]) -> Result<(), String> {
        debug_assert_eq!(bytes.len(), out.len() * self.bytes());
        match self {
            Self::F32 => convert::<4>(bytes, out, |b| Ok(f32::from_le_bytes(b))),
            Self::F64 => convert::<8>(bytes, out, |b| single(f64::from_le_bytes(b))),
            Self::F16 => convert::<2>(bytes, out, |b| Ok(half(u16::from_le_bytes(b)))),
            Self::Bf16 => {
                convert::<2>(bytes, out, |b| Ok(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)))
            }
            Self::Int(1) => convert::<1>(bytes, out, |b| Ok(i8::from_le_bytes(b).into())),
            Self::Int(2) => convert::<2>(bytes, out, |b| Ok(i16::from_le_bytes(b).into())),
            Self::Int(4) => convert::<4>(bytes, out, |b| whole(i32::from_le_bytes(b).into())),
            Self::Int(_) => convert::<8>(bytes, out, |b| whole(i64::from_le_bytes(b))),
            Self::Uint(1) | Self::Bool => convert::<1>(bytes, out, |b| Ok(b[0].into())),
            Self::Uint(2) => convert::<2>(bytes, out, |b| Ok(u16::from_le_bytes(b).into())),
            Self::Uint(4) => convert::<4>(bytes, out, |b| whole(u32::from_le_bytes(b).into())),
            Self::Uint(_) => convert::<8>(bytes, out, |b| {
                let number = u64::from_le_bytes(b);
                i64::try_from(number).map_err(|_| inexact(number)).and_then(whole)
            }),
        }
    }
}

fn convert<const N: usize>(
    bytes: &[u8],
    out: &mut [f32],
    one: impl Fn([u8; N]) -> Result<f32, String>,
) -> Result<(), String> {
    let (numbers, _) = bytes.as_chunks::<N>();
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = one(*number)?;
    }
    Ok(())
}

fn single(number: f64) -> Result<f32, String> {
    let rounded = number as f32;
    if rounded.is_infinite() && number.is_finite() {
        return Err(format!("{number:e} is too large for 32 bits"));
    }
    Ok(rounded)
}

fn whole(number: i64) -> Result<f32, String> {
    if number.unsigned_abs() > EXACT { Err(inexact(number)) } else { Ok(number as f32) }
}

fn inexact(number: impl std::fmt::Display) -> String {
    format!("the whole number {number} does not fit a 32-bit float exactly")
}

fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(element: Element, bytes: &[u8]) -> Result<Vec<f32>, String> {
        let mut out = vec![0.0; bytes.len() / element.bytes()];
        element.to_f32(bytes, &mut out).map(|()| out)
    }

    #[test]
    fn every_kind_becomes_floats() {
        let check = |element, bytes: Vec<u8>| {
            assert_eq!(floats(element, &bytes).unwrap(), [1.0, -2.0], "{element:?}");
        };
        check(Element::F32, [1f32.to_le_bytes(), (-2f32).to_le_bytes()].concat());
        check(Element::F64, [1f64.to_le_bytes(), (-2f64).to_le_bytes()].concat());
        check(Element::F16, vec![0x00, 0x3c, 0x00, 0xc0]);
        check(Element::Bf16, vec![0x80, 0x3f, 0x00, 0xc0]);
        check(Element::Int(1), vec![1, 254]);
        check(Element::Int(2), [1i16.to_le_bytes(), (-2i16).to_le_bytes()].concat());
        check(Element::Int(4), [1i32.to_le_bytes(), (-2i32).to_le_bytes()].concat());
        check(Element::Int(8), [1i64.to_le_bytes(), (-2i64).to_le_bytes()].concat());
        assert_eq!(floats(Element::Uint(2), &65535u16.to_le_bytes()).unwrap(), [65535.0]);
        assert_eq!(floats(Element::Bool, &[1, 0]).unwrap(), [1.0, 0.0]);
    }

    #[test]
    fn halves_of_all_sizes() {
        let cases = [
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x0400, 2f32.powi(-14)),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
            (0x3555, 0.333_251_95),
        ];
        for (bits, value) in cases {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x8000).is_sign_negative() && half(0x8000) == 0.0);
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn a_number_that_is_no_float_is_refused() {
        assert_eq!(floats(Element::Int(8), &(1i64 << 24).to_le_bytes()).unwrap(), [16_777_216.0]);
        insta::assert_snapshot!(
            floats(Element::Int(8), &((1i64 << 24) + 1).to_le_bytes()).unwrap_err(),
            @"the whole number 16777217 does not fit a 32-bit float exactly"
        );
        assert!(floats(Element::Uint(8), &u64::MAX.to_le_bytes()).is_err());
        assert!(floats(Element::Uint(4), &u32::MAX.to_le_bytes()).is_err());
        insta::assert_snapshot!(
            floats(Element::F64, &1e300f64.to_le_bytes()).unwrap_err(),
            @"1e300 is too large for 32 bits"
        );
    }
}
