//! Instructions one by one, written as PTX: integers against Rust's operators on drawn and on extreme values, conversions and
//! halves against exact arithmetic of wider types.
mod rig;
use half::{bf16, f16};
use rig::{Arg, Random, Rig};

const HEAD: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";
const THREADS: usize = 128;
const COUNT: usize = 8 * THREADS;

/// An instruction: its text, the widths of its result and its sources in bits, and what it gives.
type Case = (&'static str, u32, &'static [u32], fn(&[u64]) -> u64);

fn kernel(name: &str, op: &str, d: u32, sources: &[u32]) -> String {
    let register = |bits: u32, k: usize| {
        if bits == 64 {
            format!("%rd{}", 10 + k)
        } else if bits == 16 {
            format!("%rs{}", 10 + k)
        } else {
            format!("%r{}", 10 + k)
        }
    };
    let mut text = format!(
        ".visible .entry {name}(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{\n.reg .b32 %r<20>; .reg .b64 %rd<30>; .reg .b16 %rs<20>; .reg .pred %p<5>;\n"
    );
    text += "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r0, %r1, %r2;\n";
    for (k, bits) in sources.iter().enumerate() {
        text += &format!("ld.param.u64 %rd0, [p{}]; mad.wide.u32 %rd1, %r3, {}, %rd0; ld.global.b{bits} {}, [%rd1];\n", k + 1, bits / 8, register(*bits, k));
    }
    let operands: Vec<String> = sources.iter().enumerate().map(|(k, bits)| register(*bits, k)).collect();
    let op = if op.contains('$') {
        op.replace("$d", &register(d, 9))
            .replace("$a", &operands[0])
            .replace("$b", operands.get(1).map_or("", |o| o))
            .replace("$c", operands.get(2).map_or("", |o| o))
    } else {
        format!("{op} {}, {}", register(d, 9), operands.join(", "))
    };
    text += &format!("{op};\nld.param.u64 %rd0, [p0]; mad.wide.u32 %rd1, %r3, {}, %rd0; st.global.b{d} [%rd1], {}; ret;\n}}\n", d / 8, register(d, 9));
    text
}
fn bytes_of(values: &[u64], bits: u32) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()[..bits as usize / 8].to_vec()).collect()
}
/// Numbers of a width: drawn, few bits, near the ends, small.
fn draw(random: &mut Random, bits: u32) -> Vec<u64> {
    let low = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let ends = [0, 1, 2, low, low - 1, low >> 1, (low >> 1) + 1, 31, 32, 33, 63, 64, 15, 16];
    (0..COUNT)
        .map(|_| match random.below(4) {
            0 => ends[random.below(ends.len())],
            1 => random.next() >> random.below(64),
            2 => 0u64.wrapping_sub(random.next() >> random.below(64)),
            _ => random.next(),
        } & low)
        .collect()
}
fn check_with(cases: &[Case], draw: impl Fn(&mut Random, u32) -> Vec<u64>, same: impl Fn(&str, u64, u64) -> bool) {
    let text: String = HEAD.to_string() + &cases.iter().enumerate().map(|(k, (op, d, s, _))| kernel(&format!("k{k}"), op, *d, s)).collect::<String>();
    let rig = Rig::new(&text);
    let mut random = Random(11);
    for (k, (op, d, sources, reference)) in cases.iter().enumerate() {
        let values: Vec<Vec<u64>> = sources.iter().map(|bits| draw(&mut random, *bits)).collect();
        let out = rig.empty::<u8>(COUNT * *d as usize / 8);
        let mut args = vec![Arg::P(out)];
        args.extend(values.iter().zip(*sources).map(|(v, bits)| Arg::P(rig.upload(&bytes_of(v, *bits)))));
        args.resize(4, Arg::P(0));
        rig.go(&format!("k{k}"), (COUNT / THREADS) as u32, THREADS as u32, &args);
        let got = rig.download::<u8>(out, COUNT * *d as usize / 8);
        for (i, piece) in got.chunks(*d as usize / 8).enumerate() {
            let mut word = [0u8; 8];
            word[..piece.len()].copy_from_slice(piece);
            let (got, inputs) = (u64::from_le_bytes(word), values.iter().map(|v| v[i]).collect::<Vec<_>>());
            let wanted = reference(&inputs) & if *d == 64 { u64::MAX } else { (1 << d) - 1 };
            assert!(same(op, got, wanted), "{op} {inputs:x?}: {got:x} instead of {wanted:x}");
        }
    }
}
fn check(cases: &[Case]) {
    check_with(cases, draw, |_, a, b| a == b);
}

fn s32(x: u64) -> i32 {
    x as i32
}
fn s64(x: u64) -> i64 {
    x as i64
}
fn word(x: i32) -> u64 {
    u64::from(x as u32)
}
fn u(x: u32) -> u64 {
    u64::from(x)
}

#[test]
fn arithmetic_of_integers() {
    check(&[
        ("add.s32", 32, &[32, 32], |v| word(s32(v[0]).wrapping_add(s32(v[1])))),
        ("sub.u64", 64, &[64, 64], |v| v[0].wrapping_sub(v[1])),
        ("add.s16", 16, &[16, 16], |v| v[0].wrapping_add(v[1])),
        ("add.sat.s32", 32, &[32, 32], |v| word(s32(v[0]).saturating_add(s32(v[1])))),
        ("sub.sat.s32", 32, &[32, 32], |v| word(s32(v[0]).saturating_sub(s32(v[1])))),
        ("mul.lo.s64", 64, &[64, 64], |v| v[0].wrapping_mul(v[1])),
        ("mul.hi.s32", 32, &[32, 32], |v| ((i64::from(s32(v[0])) * i64::from(s32(v[1]))) >> 32) as u64),
        ("mul.hi.u32", 32, &[32, 32], |v| (v[0] * v[1]) >> 32),
        ("mul.hi.u64", 64, &[64, 64], |v| ((u128::from(v[0]) * u128::from(v[1])) >> 64) as u64),
        ("mul.hi.s64", 64, &[64, 64], |v| ((i128::from(s64(v[0])) * i128::from(s64(v[1]))) >> 64) as u64),
        ("mul.wide.s32", 64, &[32, 32], |v| (i64::from(s32(v[0])) * i64::from(s32(v[1]))) as u64),
        ("mul.wide.u16", 32, &[16, 16], |v| v[0] * v[1]),
        ("mul.wide.s16", 32, &[16, 16], |v| word(i32::from(v[0] as i16) * i32::from(v[1] as i16))),
        ("mad.wide.u32", 64, &[32, 32, 64], |v| (v[0] * v[1]).wrapping_add(v[2])),
        ("mad.lo.s32", 32, &[32, 32, 32], |v| v[0].wrapping_mul(v[1]).wrapping_add(v[2])),
        ("mad.hi.u32", 32, &[32, 32, 32], |v| ((v[0] * v[1]) >> 32).wrapping_add(v[2])),
        ("mul24.lo.s32", 32, &[32, 32], |v| word((s32(v[0]) << 8 >> 8).wrapping_mul(s32(v[1]) << 8 >> 8))),
        ("mul24.lo.u32", 32, &[32, 32], |v| (v[0] & 0xff_ffff).wrapping_mul(v[1] & 0xff_ffff)),
        ("mul24.hi.u32", 32, &[32, 32], |v| ((v[0] & 0xff_ffff) * (v[1] & 0xff_ffff)) >> 16),
        ("mad24.lo.s32", 32, &[32, 32, 32], |v| word((s32(v[0]) << 8 >> 8).wrapping_mul(s32(v[1]) << 8 >> 8)).wrapping_add(v[2])),
        ("div.s32", 32, &[32, 32], |v| if v[1] == 0 { u64::MAX } else { word(s32(v[0]).wrapping_div(s32(v[1]))) }),
        ("rem.s32", 32, &[32, 32], |v| if v[1] == 0 { u64::MAX } else { word(s32(v[0]).wrapping_rem(s32(v[1]))) }),
        ("div.u64", 64, &[64, 64], |v| v[0].checked_div(v[1]).unwrap_or(u64::MAX)),
        ("rem.u64", 64, &[64, 64], |v| v[0].checked_rem(v[1]).unwrap_or(u64::MAX)),
        ("div.s16", 16, &[16, 16], |v| if v[1] == 0 { u64::MAX } else { (v[0] as i16).wrapping_div(v[1] as i16) as u64 }),
        ("min.s32", 32, &[32, 32], |v| word(s32(v[0]).min(s32(v[1])))),
        ("max.u64", 64, &[64, 64], |v| v[0].max(v[1])),
        ("min.s16", 16, &[16, 16], |v| (v[0] as i16).min(v[1] as i16) as u64),
        ("abs.s32", 32, &[32], |v| word(s32(v[0]).wrapping_abs())),
        ("neg.s64", 64, &[64], |v| v[0].wrapping_neg()),
        ("sad.s32", 32, &[32, 32, 32], |v| u(s32(v[0]).abs_diff(s32(v[1]))).wrapping_add(v[2])),
        ("sad.u32", 32, &[32, 32, 32], |v| v[0].abs_diff(v[1]).wrapping_add(v[2])),
        ("{ add.cc.u32 $d, $a, $b; addc.u32 $d, $c, 0; }", 32, &[32, 32, 32], |v| v[2] + u64::from(v[0] + v[1] > 0xffff_ffff)),
        ("{ sub.cc.u32 $d, $a, $b; subc.u32 $d, $c, 0; }", 32, &[32, 32, 32], |v| v[2].wrapping_sub(u64::from(v[0] < v[1]))),
        ("{ mad.lo.cc.u32 $d, $a, $b, $c; addc.u32 $d, 0, 0; }", 32, &[32, 32, 32], |v| ((v[0] * v[1]) & 0xffff_ffff) + v[2] >> 32),
        ("{ add.cc.u32 $d, $a, $b; madc.hi.u32 $d, $a, $b, $c; }", 32, &[32, 32, 32], |v| {
            ((v[0] * v[1]) >> 32).wrapping_add(v[2]).wrapping_add((v[0] + v[1]) >> 32)
        }),
        ("{ add.cc.u64 $d, $a, $b; addc.u64 $d, $c, 0; }", 64, &[64, 64, 64], |v| v[2].wrapping_add(u64::from(v[0].checked_add(v[1]).is_none()))),
        ("dp4a.s32.u32", 32, &[32, 32, 32], |v| {
            let dot: i32 = (0..4).map(|k| i32::from((v[0] >> (8 * k)) as i8) * i32::from((v[1] >> (8 * k)) as u8)).sum();
            v[2].wrapping_add(dot as u64)
        }),
        ("dp2a.hi.u32.s32", 32, &[32, 32, 32], |v| {
            let dot: i64 = (0..2).map(|k| i64::from((v[0] >> (16 * k)) as u16) * i64::from((v[1] >> (8 * (k + 2))) as i8)).sum();
            v[2].wrapping_add(dot as u64)
        }),
    ]);
}

#[test]
fn bits_of_words() {
    check(&[
        ("and.b32", 32, &[32, 32], |v| v[0] & v[1]),
        ("xor.b64", 64, &[64, 64], |v| v[0] ^ v[1]),
        ("or.b16", 16, &[16, 16], |v| v[0] | v[1]),
        ("not.b64", 64, &[64], |v| !v[0]),
        ("cnot.b32", 32, &[32], |v| u64::from(v[0] == 0)),
        ("shl.b32", 32, &[32, 32], |v| if v[1] > 31 { 0 } else { v[0] << v[1] }),
        ("shl.b64", 64, &[64, 32], |v| if v[1] > 63 { 0 } else { v[0] << v[1] }),
        ("shl.b16", 16, &[16, 32], |v| if v[1] > 15 { 0 } else { v[0] << v[1] }),
        ("shr.u32", 32, &[32, 32], |v| if v[1] > 31 { 0 } else { v[0] >> v[1] }),
        ("shr.s32", 32, &[32, 32], |v| word(s32(v[0]) >> v[1].min(31))),
        ("shr.s64", 64, &[64, 32], |v| (s64(v[0]) >> v[1].min(63)) as u64),
        ("shr.s16", 16, &[16, 32], |v| ((v[0] as i16) >> v[1].min(15)) as u64),
        ("popc.b64", 32, &[64], |v| u64::from(v[0].count_ones())),
        ("clz.b32", 32, &[32], |v| u((v[0] as u32).leading_zeros())),
        ("brev.b64", 64, &[64], |v| v[0].reverse_bits()),
        ("bfind.u32", 32, &[32], |v| (v[0] as u32).checked_ilog2().map_or(u64::MAX, u64::from)),
        ("bfind.shiftamt.u32", 32, &[32], |v| (v[0] as u32).checked_ilog2().map_or(u64::MAX, |k| u(31 - k))),
        ("bfind.s32", 32, &[32], |v| (if s32(v[0]) < 0 { !v[0] as u32 } else { v[0] as u32 }).checked_ilog2().map_or(u64::MAX, u64::from)),
        ("bfe.u32", 32, &[32, 32, 32], |v| {
            let (position, length) = (v[1] & 0xff, v[2] & 0xff);
            (0..32).filter(|k| *k < length && position + k < 32).map(|k| (v[0] >> (position + k) & 1) << k).sum()
        }),
        ("bfe.s32", 32, &[32, 32, 32], |v| {
            let (position, length) = (v[1] & 0xff, v[2] & 0xff);
            let sign = if length == 0 { 0 } else { v[0] >> (position + length - 1).min(31) & 1 };
            (0..32).map(|k| (if k < length && position + k < 32 { v[0] >> (position + k) & 1 } else { sign }) << k).sum()
        }),
        ("bfi.b32 $d, $a, $b, $c, 7", 32, &[32, 32, 32], |v| {
            let position = v[2] & 0xff;
            (0..32).map(|k| (if k >= position && k < position + 7 { v[0] >> (k - position) & 1 } else { v[1] >> k & 1 }) << k).sum()
        }),
        ("bfi.b64 $d, $a, $b, $c, 40", 64, &[64, 64, 32], |v| {
            let position = v[2] & 0xff;
            (0..64).map(|k| (if k >= position && k < position + 40 { v[0] >> (k - position) & 1 } else { v[1] >> k & 1 }) << k).sum()
        }),
        ("lop3.b32 $d, $a, $b, $c, 0x6a", 32, &[32, 32, 32], |v| {
            (0..32).map(|k| (0x6a >> ((v[0] >> k & 1) * 4 + (v[1] >> k & 1) * 2 + (v[2] >> k & 1)) & 1) << k).sum()
        }),
        ("shf.l.wrap.b32", 32, &[32, 32, 32], |v| ((v[1] << 32 | v[0]) << (v[2] & 31)) >> 32),
        ("shf.r.clamp.b32", 32, &[32, 32, 32], |v| (v[1] << 32 | v[0]) >> v[2].min(32)),
        ("shf.l.clamp.b32", 32, &[32, 32, 32], |v| ((v[1] << 32 | v[0]) as u128 * (1u128 << v[2].min(32)) >> 32) as u64),
        ("prmt.b32", 32, &[32, 32, 32], |v| {
            let source = v[1] << 32 | v[0];
            (0..4u64)
                .map(|k| {
                    let choice = v[2] >> (4 * k) & 15;
                    let byte = source >> (8 * (choice & 7)) & 0xff;
                    (if choice > 7 { if byte > 127 { 255 } else { 0 } } else { byte }) << (8 * k)
                })
                .sum()
        }),
        ("bmsk.clamp.b32", 32, &[32, 32], |v| (0..32).filter(|k| *k >= v[0] && *k < v[0] + v[1]).map(|k| 1 << k).sum()),
        ("fns.b32", 32, &[32, 32, 32], |v| {
            let (base, offset) = (v[1], s32(v[2]));
            let set: Vec<u64> = (0..32).filter(|k| v[0] >> k & 1 == 1).collect();
            let found = match offset {
                _ if base > 31 => None,
                0 => set.iter().find(|k| **k == base).copied(),
                1.. => set.iter().filter(|k| **k >= base).nth(offset as usize - 1).copied(),
                _ => set.iter().rev().filter(|k| **k <= base).nth(offset.unsigned_abs() as usize - 1).copied(),
            };
            found.unwrap_or(u64::MAX)
        }),
        ("{ setp.lo.u32 %p1, $a, $b; setp.ge.or.s32 %p2|%p3, $a, $c, !%p1; selp.b32 $d, 5, 9, %p2; @%p3 add.s32 $d, $d, 100; }", 32, &[32, 32, 32], |v| {
            let chosen = if s32(v[0]) >= s32(v[2]) || v[0] >= v[1] { 5 } else { 9 };
            chosen + if s32(v[0]) < s32(v[2]) || v[0] >= v[1] { 100 } else { 0 }
        }),
        ("slct.u32.s32", 32, &[32, 32, 32], |v| if s32(v[2]) >= 0 { v[0] } else { v[1] }),
        ("set.lt.u32.s32", 32, &[32, 32], |v| if s32(v[0]) < s32(v[1]) { 0xffff_ffff } else { 0 }),
        ("{ mov.b64 $d, {$a, $b}; }", 64, &[32, 32], |v| v[1] << 32 | v[0]),
        ("{ mov.b32 {%rs1, %rs2}, $a; mov.b32 $d, {%rs2, %rs1}; }", 32, &[32], |v| v[0] << 16 & 0xffff_0000 | v[0] >> 16),
    ]);
}

/// Each operator of predicates with each form of operand: a register, a register negated, a constant (the compiler writes all of them).
#[test]
fn logic_of_predicates() {
    const FORMS: [(&str, fn(bool) -> bool); 5] = [("$", |p| p), ("!$", |p| !p), ("0", |_| false), ("-1", |_| true), ("1", |_| true)];
    const OPERATORS: [(&str, usize, fn(bool, bool) -> bool); 5] =
        [("and", 2, |p, q| p & q), ("or", 2, |p, q| p | q), ("xor", 2, |p, q| p ^ q), ("not", 1, |p, _| !p), ("mov", 1, |p, _| p)];
    let mut cases = Vec::new();
    for (operator, count, means) in OPERATORS {
        for (first, of_first) in FORMS {
            for (second, of_second) in FORMS.into_iter().take(if count == 2 { FORMS.len() } else { 1 }) {
                let first = first.replace('$', "%p1");
                let operands = if count == 2 { format!("{first}, {}", second.replace('$', "%p2")) } else { first };
                let op = format!("setp.ne.s32 %p1, $a, 0; setp.ne.s32 %p2, $b, 0; {operator}.pred %p3, {operands}; selp.b32 $d, 1, 0, %p3");
                cases.push((op, move |p, q| means(of_first(p), of_second(q))));
            }
        }
    }
    let text: String = HEAD.to_string() + &cases.iter().enumerate().map(|(k, (op, _))| kernel(&format!("k{k}"), op, 32, &[32, 32])).collect::<String>();
    let rig = Rig::new(&text);
    let mut random = Random(12);
    let draws: [Vec<u32>; 2] = std::array::from_fn(|_| (0..COUNT).map(|_| random.below(2) as u32).collect());
    let given: Vec<Arg> = draws.iter().map(|v| Arg::P(rig.upload(v))).collect();
    for (k, (op, means)) in cases.iter().enumerate() {
        let out = rig.empty::<u32>(COUNT);
        rig.go(&format!("k{k}"), (COUNT / THREADS) as u32, THREADS as u32, &[Arg::P(out), given[0], given[1], Arg::P(0)]);
        for (i, got) in rig.download::<u32>(out, COUNT).into_iter().enumerate() {
            let (p, q) = (draws[0][i] != 0, draws[1][i] != 0);
            assert_eq!(got, u32::from(means(p, q)), "{op}: p {p}, q {q}");
        }
    }
}

#[test]
fn conversions_of_integers() {
    check(&[
        ("cvt.s64.s32", 64, &[32], |v| i64::from(s32(v[0])) as u64),
        ("cvt.u64.u32", 64, &[32], |v| v[0]),
        ("cvt.s32.s8", 32, &[32], |v| word(i32::from(v[0] as i8))),
        ("cvt.u16.u64", 16, &[64], |v| v[0]),
        ("cvt.sat.u8.s32", 32, &[32], |v| s32(v[0]).clamp(0, 255) as u64),
        ("cvt.sat.s16.s64", 32, &[64], |v| word(s64(v[0]).clamp(-32768, 32767) as i32)),
        ("cvt.sat.s32.u64", 32, &[64], |v| v[0].min(0x7fff_ffff)),
        ("cvt.rn.f32.s32", 32, &[32], |v| u((s32(v[0]) as f32).to_bits())),
        ("cvt.rn.f32.u64", 32, &[64], |v| u((v[0] as f32).to_bits())),
        ("cvt.rn.f64.s64", 64, &[64], |v| (s64(v[0]) as f64).to_bits()),
        ("cvt.rz.f32.u32", 32, &[32], |v| {
            let near = v[0] as f32;
            u(if f64::from(near) > v[0] as f64 { near.next_down() } else { near }.to_bits())
        }),
        ("cvt.rp.f32.s32", 32, &[32], |v| {
            let near = s32(v[0]) as f32;
            u(if f64::from(near) < f64::from(s32(v[0])) { near.next_up() } else { near }.to_bits())
        }),
        ("cvt.rn.f16.s32", 16, &[32], |v| u64::from(f16::from_f64(f64::from(s32(v[0]))).to_bits())),
    ]);
}

/// Floats of a width: drawn bits, halves between representable ones, special ones.
fn floats(random: &mut Random, bits: u32) -> Vec<u64> {
    let special =
        [0.0, -0.0, 1.0, -1.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, 65504.0, 65520.0, -70000.0, 448.0, 464.0, 0.5, 2.5, 1e30, -3e9, 5e9];
    (0..COUNT)
        .map(|_| {
            let x = match random.below(4) {
                0 => special[random.below(special.len())],
                1 => (random.unit() * 2f64.powi(random.below(40) as i32 - 20)) as f32,
                // Just at a tie of f16 and bf16.
                2 => f32::from_bits(random.next() as u32 & 0xffff_f000 | 0x1000 * (random.below(2) as u32)),
                _ => f32::from_bits(random.next() as u32),
            };
            match bits {
                16 => random.next() & 0xffff,
                32 => u64::from(x.to_bits()),
                _ if random.below(2) == 0 => f64::from(x).to_bits() | random.next() & 3,
                _ => f64::from(x).to_bits(),
            }
        })
        .collect()
}
fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}
fn d(x: u64) -> f64 {
    f64::from_bits(x)
}
fn h(x: u64) -> f32 {
    f16::from_bits(x as u16).to_f32()
}
fn b(x: u64) -> f32 {
    bf16::from_bits(x as u16).to_f32()
}
fn bits(x: f32) -> u64 {
    u(if x.is_nan() { 0x7fff_ffff } else { x.to_bits() })
}
fn half_bits(x: f32) -> u64 {
    u64::from(if x.is_nan() { 0x7fff } else { f16::from_f32(x).to_bits() })
}
fn brain_bits(x: f32) -> u64 {
    u64::from(if x.is_nan() { 0x7fff } else { bf16::from_f32(x).to_bits() })
}
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

#[test]
fn conversions_of_floats() {
    check_with(
        &[
            ("cvt.rn.f16.f32", 16, &[32], |v| half_bits(f(v[0]))),
            ("cvt.rn.bf16.f32", 16, &[32], |v| brain_bits(f(v[0]))),
            ("cvt.rz.bf16.f32", 16, &[32], |v| if f(v[0]).is_nan() { 0x7fff } else { v[0] >> 16 }),
            ("cvt.f32.f16", 32, &[16], |v| bits(h(v[0]))),
            ("cvt.f32.bf16", 32, &[16], |v| bits(b(v[0]))),
            ("cvt.rn.f16x2.f32", 32, &[32, 32], |v| half_bits(f(v[0])) << 16 | half_bits(f(v[1]))),
            ("cvt.rn.bf16x2.f32", 32, &[32, 32], |v| brain_bits(f(v[0])) << 16 | brain_bits(f(v[1]))),
            ("cvt.rn.relu.bf16x2.f32", 32, &[32, 32], |v| {
                let relu = |x: f32| brain_bits(if x <= 0.0 { 0.0 } else { x });
                relu(f(v[0])) << 16 | relu(f(v[1]))
            }),
            ("cvt.rzi.s32.f32", 32, &[32], |v| word(f(v[0]) as i32)),
            ("cvt.rni.s64.f32", 64, &[32], |v| if f(v[0]).is_nan() { 1 << 63 } else { f(v[0]).round_ties_even() as i64 as u64 }),
            ("cvt.rmi.u32.f32", 32, &[32], |v| u(f(v[0]).floor() as u32)),
            ("cvt.rpi.s32.f64", 32, &[64], |v| if d(v[0]).is_nan() { 1 << 31 } else { word(d(v[0]).ceil() as i32) }),
            ("cvt.rzi.u8.f32", 32, &[32], |v| u64::from(f(v[0]) as u8)),
            ("cvt.rzi.s32.f16", 32, &[16], |v| word(h(v[0]) as i32)),
            ("cvt.rni.f32.f32", 32, &[32], |v| bits(f(v[0]).round_ties_even())),
            ("cvt.rmi.f32.f32", 32, &[32], |v| bits(f(v[0]).floor())),
            ("cvt.rpi.f64.f64", 64, &[64], |v| d(v[0]).ceil().to_bits()),
            ("cvt.sat.f32.f32", 32, &[32], |v| bits(if f(v[0]).is_nan() { 0.0 } else { f(v[0]).clamp(0.0, 1.0) + 0.0 })),
            ("cvt.ftz.f64.f32", 64, &[32], |v| f64::from(flush(f(v[0]))).to_bits()),
            ("cvt.rn.f32.f64", 32, &[64], |v| bits(d(v[0]) as f32)),
            ("cvt.rm.f32.f64", 32, &[64], |v| {
                let near = d(v[0]) as f32;
                bits(if f64::from(near) > d(v[0]) { near.next_down() } else { near })
            }),
            ("{ cvt.rn.satfinite.e5m2x2.f32 %rs1, $a, $b; cvt.rn.f16x2.e5m2x2 $d, %rs1; }", 32, &[32, 32], |v| {
                let near = |x: f32| {
                    // All numbers of the type, and the nearest of them.
                    let all = (0..=0x7bu16).map(|k| f16::from_bits(k << 8).to_f64());
                    let x64 = f64::from(x.abs()).min(60000.0);
                    let best = all.enumerate().min_by(|p, q| ((p.1 - x64).abs(), p.0 & 1).partial_cmp(&((q.1 - x64).abs(), q.0 & 1)).unwrap()).unwrap().0;
                    if x.is_nan() { 0x7fff } else { (best as u64) << 8 | u64::from(x.is_sign_negative()) << 15 }
                };
                near(f(v[0])) << 16 | near(f(v[1]))
            }),
        ],
        floats,
        |_, got, wanted| got == wanted || d(got).is_nan() && d(wanted).is_nan(),
    );
}

#[test]
fn arithmetic_of_floats() {
    check_with(
        &[
            ("add.f32", 32, &[32, 32], |v| bits(f(v[0]) + f(v[1]))),
            ("add.ftz.f32", 32, &[32, 32], |v| bits(flush(flush(f(v[0])) + flush(f(v[1]))))),
            ("mul.ftz.sat.f32", 32, &[32, 32], |v| {
                let x = flush(f(v[0])) * flush(f(v[1]));
                bits(if x > 0.0 { flush(x).min(1.0) } else { 0.0 })
            }),
            ("fma.rn.f32", 32, &[32, 32, 32], |v| bits(f(v[0]).mul_add(f(v[1]), f(v[2])))),
            ("fma.rn.f64", 64, &[64, 64, 64], |v| d(v[0]).mul_add(d(v[1]), d(v[2])).to_bits()),
            ("div.rn.f32", 32, &[32, 32], |v| bits(f(v[0]) / f(v[1]))),
            ("sqrt.rn.f32", 32, &[32], |v| bits(f(v[0]).sqrt())),
            ("rcp.rn.f64", 64, &[64], |v| (1.0 / d(v[0])).to_bits()),
            ("neg.f32", 32, &[32], |v| v[0] ^ 0x8000_0000),
            ("abs.ftz.f32", 32, &[32], |v| u(flush(f(v[0])).abs().to_bits())),
            ("copysign.f32", 32, &[32, 32], |v| v[0] & 0x8000_0000 | v[1] & 0x7fff_ffff),
            ("max.f32", 32, &[32, 32], |v| {
                bits(if f(v[0]) == 0.0 && f(v[1]) == 0.0 { f32::from_bits(v[0] as u32 & v[1] as u32) } else { f(v[0]).max(f(v[1])) })
            }),
            ("min.NaN.f32", 32, &[32, 32], |v| {
                let (x, y) = (f(v[0]), f(v[1]));
                bits(if x.is_nan() || y.is_nan() {
                    f32::NAN
                } else if x == 0.0 && y == 0.0 {
                    f32::from_bits((v[0] | v[1]) as u32)
                } else {
                    x.min(y)
                })
            }),
            ("add.f16", 16, &[16, 16], |v| half_bits(h(v[0]) + h(v[1]))),
            ("mul.bf16x2", 32, &[32, 32], |v| brain_bits(b(v[0] >> 16) * b(v[1] >> 16)) << 16 | brain_bits(b(v[0]) * b(v[1]))),
            ("fma.rn.f16x2", 32, &[32, 32, 32], |v| {
                // Products and sums of f16 fit into i128 in units of 2^-48.
                let part = |s: u32| {
                    let [x, y, z] = [0, 1, 2].map(|k| f64::from(h(v[k] >> s)));
                    if ![x, y, z].iter().all(|x| x.is_finite()) {
                        return half_bits((x * y + z) as f32);
                    }
                    let fixed = |x: f64| (x * 2f64.powi(24)) as i128;
                    let sum = fixed(x) * fixed(y) + (fixed(z) << 24);
                    if sum == 0 {
                        return half_bits((x * y + z) as f32);
                    }
                    // Rounded to odd at 40 bits, then once to f16.
                    let (negative, mut m, mut e) = (sum < 0, sum.unsigned_abs(), -48);
                    while m >> 40 != 0 {
                        m = m >> 1 | m & 1;
                        e += 1;
                    }
                    let wide = m as f64 * 2f64.powi(e);
                    u64::from(f16::from_f64(if negative { -wide } else { wide }).to_bits())
                };
                part(16) << 16 | part(0)
            }),
            ("{ setp.gtu.f32 %p1, $a, $b; selp.b32 $d, 1, 0, %p1; }", 32, &[32, 32], |v| u64::from(f(v[0]) > f(v[1]) || f(v[0]).is_nan() || f(v[1]).is_nan())),
            ("{ setp.lt.ftz.f32 %p1, $a, $b; selp.b32 $d, 1, 0, %p1; }", 32, &[32, 32], |v| u64::from(flush(f(v[0])) < flush(f(v[1])))),
            ("{ setp.ne.f64 %p1, $a, $b; selp.b32 $d, 1, 0, %p1; }", 32, &[64, 64], |v| u64::from(d(v[0]) < d(v[1]) || d(v[0]) > d(v[1]))),
            ("{ testp.subnormal.f32 %p1, $a; selp.b32 $d, 1, 0, %p1; }", 32, &[32], |v| u64::from(f(v[0]).is_subnormal())),
            ("rcp.approx.ftz.f64", 64, &[64], |v| {
                let a = f64::from_bits(v[0] & 0xffff_ffff_0000_0000);
                let flushed = |x: f64| if x.is_subnormal() { 0f64.copysign(x) } else { x };
                if d(v[0]).is_nan() { f64::NAN.to_bits() } else { flushed(1.0 / flushed(a)).to_bits() & 0xffff_ffff_0000_0000 }
            }),
        ],
        floats,
        |op, got, wanted| got == wanted || op.ends_with("f64") && d(got).is_nan() && d(wanted).is_nan(),
    );
}
