//! Moves that change a value's form: conversions lane by lane, several registers to one and back.
use super::{
    registers::{Registers, lanes},
    step::{ConvertStep, RegisterParts},
};

/// The unusual conversions.
pub fn convert(r: &mut Registers, c: &ConvertStep, mask: u32) {
    let source = |r: &Registers, row: u32, lane: usize| if c.source_wide { r.wide(row)[lane] } else { u64::from(r.words(row)[lane]) };
    for lane in lanes(mask) {
        let value = match (c.halves, c.sources.as_slice()) {
            (true, [a]) => {
                let (word, width) = (source(r, *a, lane), c.conversion.from.bits() as u32);
                c.conversion.run(word & ((1 << width) - 1)) | c.conversion.run(word >> width) << c.packed.max(1)
            }
            // The first of two sources makes the upper half.
            (false, [a, b]) => c.conversion.run(source(r, *a, lane)) << c.packed | c.conversion.run(source(r, *b, lane)),
            (_, [a, ..]) => c.conversion.run(source(r, *a, lane)),
            _ => 0,
        };
        if c.d_wide {
            r.set_lane(c.d, lane, value);
        } else {
            r.set_lane(c.d, lane, value as u32);
        }
    }
}

/// `mov.b64 d, {a, b}`: the first part is the lowest.
pub fn pack(r: &mut Registers, p: &RegisterParts, mask: u32) {
    let mut whole = [0u64; 32];
    for (k, (row, wide)) in p.parts.iter().enumerate() {
        let low = (1u64 << p.bits) - 1;
        for lane in 0..32 {
            let part = if *wide { r.wide(*row)[lane] } else { u64::from(r.words(*row)[lane]) };
            whole[lane] |= (part & low) << (k as u32 * p.bits);
        }
    }
    if p.whole_wide {
        r.put(p.whole, mask, &whole);
    } else {
        r.put(p.whole, mask, &whole.map(|w| w as u32));
    }
}

/// `mov.b64 {a, b}, d`.
pub fn unpack(r: &mut Registers, p: &RegisterParts, mask: u32) {
    let whole: [u64; 32] = if p.whole_wide { *r.wide(p.whole) } else { r.words(p.whole).map(u64::from) };
    for (k, (row, wide)) in p.parts.iter().enumerate() {
        let part = whole.map(|w| w >> (k as u32 * p.bits) & ((1u64 << p.bits) - 1));
        if *wide {
            r.put(*row, mask, &part);
        } else {
            r.put(*row, mask, &part.map(|w| w as u32));
        }
    }
}
