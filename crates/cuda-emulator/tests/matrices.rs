//! `mma.sync` in all shapes and types against a naive product, `ldmatrix` and `stmatrix` against the rows of shared memory.
//! Which element a thread holds is taken from the layouts of CuTe's `MMA_Traits` and copy traits (CUTLASS,
//! `mma_traits_sm80.hpp`, `copy_traits_sm75.hpp`), not from what the machine does.
mod rig;
use half::{bf16, f16};
use rig::{Arg, Random, Rig};

/// A layout of CuTe: a thread's and a value's modes, each with its stride.
struct Layout {
    threads: &'static [(usize, usize)],
    values: &'static [(usize, usize)],
}

impl Layout {
    /// Where the value of a thread lies: the first mode changes fastest.
    fn at(&self, thread: usize, value: usize) -> usize {
        let walk = |modes: &[(usize, usize)], mut index: usize| {
            modes.iter().fold(0, |sum, (size, stride)| {
                let part = index % size;
                index /= size;
                sum + part * stride
            })
        };
        walk(self.threads, thread) + walk(self.values, value)
    }
    fn count(&self) -> usize {
        self.values.iter().map(|(size, _)| size).product()
    }
}

const C: Layout = Layout { threads: &[(4, 32), (8, 1)], values: &[(2, 16), (2, 8)] };

struct Shape {
    bits: usize,
    a: Layout,
    b: Layout,
}

fn shape(k: usize, bits: usize) -> Shape {
    let (a, b) = match (bits, k) {
        (16, 8) => (Layout { threads: &[(4, 32), (8, 1)], values: &[(2, 16), (2, 8)] }, Layout { threads: &[(4, 16), (8, 1)], values: &[(2, 8)] }),
        (16, 16) => {
            (Layout { threads: &[(4, 32), (8, 1)], values: &[(2, 16), (2, 8), (2, 128)] }, Layout { threads: &[(4, 16), (8, 1)], values: &[(2, 8), (2, 64)] })
        }
        (32, 4) => (Layout { threads: &[(4, 16), (8, 1)], values: &[(2, 8)] }, Layout { threads: &[(4, 8), (8, 1)], values: &[(1, 0)] }),
        (32, 8) => (Layout { threads: &[(4, 16), (8, 1)], values: &[(2, 8), (2, 64)] }, Layout { threads: &[(4, 8), (8, 1)], values: &[(2, 32)] }),
        (8, 16) => (Layout { threads: &[(4, 64), (8, 1)], values: &[(4, 16), (2, 8)] }, Layout { threads: &[(4, 32), (8, 1)], values: &[(4, 8)] }),
        _ => {
            (Layout { threads: &[(4, 64), (8, 1)], values: &[(4, 16), (2, 8), (2, 256)] }, Layout { threads: &[(4, 32), (8, 1)], values: &[(4, 8), (2, 128)] })
        }
    };
    Shape { bits, a, b }
}

const HEAD: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

fn text(k: usize, types: [&str; 4], registers: [usize; 4]) -> String {
    let [d, a, b, c] = registers;
    let list = |name: &str, count: usize| (0..count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ");
    let loads = |name: &str, parameter: usize, count: usize| {
        (0..count)
            .map(|i| format!("ld.param.u64 %rd0, [p{parameter}]; mad.wide.u32 %rd1, %r0, 4, %rd0; ld.global.b32 %{name}{i}, [%rd1+{}];\n", 128 * i))
            .collect::<String>()
    };
    let stores: String =
        (0..d).map(|i| format!("ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.b32 [%rd1+{}], %d{i};\n", 128 * i)).collect();
    format!(
        "{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{\n.reg .b32 %r<2>, %a<9>, %b<9>, %c<9>, %d<9>; .reg .b64 %rd<2>;\nmov.u32 %r0, %tid.x;\n{}{}{}mma.sync.aligned.m16n8k{k}.row.col.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n{stores}ret;\n}}\n",
        loads("a", 1, a),
        loads("b", 2, b),
        loads("c", 3, c),
        types.join("."),
        list("d", d),
        list("a", a),
        list("b", b),
        list("c", c),
    )
}

/// The bits of a number in a type that holds it exactly.
fn encode(t: &str, x: f64) -> u32 {
    match t {
        "f16" => u32::from(f16::from_f64(x).to_bits()),
        "bf16" => u32::from(bf16::from_f64(x).to_bits()),
        "s8" | "u8" => u32::from(x as i32 as u8),
        "s32" => x as i32 as u32,
        // Small integers and halves: a sign, an exponent, a fraction.
        "e4m3" | "e5m2" => {
            if x == 0.0 {
                return 0;
            }
            let (fraction, bias) = if t == "e4m3" { (3, 7) } else { (2, 15) };
            let exponent = x.abs().log2().floor();
            let significand = (x.abs() / 2f64.powf(exponent) - 1.0) * f64::from(1 << fraction);
            assert_eq!(significand, significand.trunc(), "{x} is no {t}");
            u32::from(x < 0.0) << 7 | ((exponent as i32 + bias) as u32) << fraction | significand as u32
        }
        _ => (x as f32).to_bits(),
    }
}
fn decode(t: &str, bits: u32) -> f64 {
    match t {
        "f16" => f16::from_bits(bits as u16).to_f64(),
        "s32" => f64::from(bits as i32),
        _ => f64::from(f32::from_bits(bits)),
    }
}
/// Words of the registers of all lanes: register by register, lane by lane.
fn words(layout: &Layout, bits: usize, element: impl Fn(usize) -> u32) -> Vec<u32> {
    let per_word = 32 / bits;
    let mut words = vec![0; layout.count() / per_word * 32];
    for lane in 0..32 {
        for value in 0..layout.count() {
            words[value / per_word * 32 + lane] |= element(layout.at(lane, value)) << (bits * (value % per_word));
        }
    }
    words
}

fn check(k: usize, types: [&str; 4], draw: &mut dyn FnMut(&str) -> f64) {
    let [d_type, a_type, b_type, c_type] = types;
    let bits = |t: &str| match t {
        "f16" | "bf16" => 16,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        _ => 32,
    };
    let shape = shape(k, bits(a_type));
    let a: Vec<f64> = (0..16 * k).map(|_| draw(a_type)).collect();
    let b: Vec<f64> = (0..8 * k).map(|_| draw(b_type)).collect();
    let c: Vec<f64> = (0..16 * 8).map(|_| draw(c_type)).collect();
    let a_words = words(&shape.a, shape.bits, |at| encode(a_type, a[at]));
    let b_words = words(&shape.b, shape.bits, |at| encode(b_type, b[at]));
    let c_words = words(&C, bits(c_type), |at| encode(c_type, c[at]));
    let d_count = 4 * bits(d_type) / 32;
    let rig = Rig::new(&text(k, types, [d_count, a_words.len() / 32, b_words.len() / 32, c_words.len() / 32]));
    let out = rig.empty::<u32>(32 * d_count);
    rig.go("k", 1, 32, &[Arg::P(out), Arg::P(rig.upload(&a_words)), Arg::P(rig.upload(&b_words)), Arg::P(rig.upload(&c_words))]);
    let got = rig.download::<u32>(out, 32 * d_count);
    let per_word = 32 / bits(d_type);
    for lane in 0..32 {
        for value in 0..4 {
            let at = C.at(lane, value);
            let (m, n) = (at % 16, at / 16);
            let wanted: f64 = c[at] + (0..k).map(|k| a[m + 16 * k] * b[n + 8 * k]).sum::<f64>();
            let word = got[value / per_word * 32 + lane] >> (bits(d_type) * (value % per_word));
            let got = decode(d_type, if bits(d_type) == 16 { word & 0xffff } else { word });
            assert_eq!(got, wanted, "k {k} {types:?} lane {lane} value {value}: row {m}, column {n}");
        }
    }
}

#[test]
fn products_of_all_shapes_are_what_their_matrices_give() {
    let mut random = Random(3);
    // Integers whose sums all types hold exactly.
    let mut draw = move |t: &str| match t {
        "u8" => random.below(256) as f64,
        "s8" => random.below(256) as f64 - 128.0,
        "s32" => random.below(1 << 20) as f64 - 5e5,
        _ => random.below(15) as f64 - 7.0,
    };
    for _ in 0..5 {
        for k in [8, 16] {
            check(k, ["f32", "f16", "f16", "f32"], &mut draw);
            check(k, ["f16", "f16", "f16", "f16"], &mut draw);
            check(k, ["f32", "bf16", "bf16", "f32"], &mut draw);
        }
        for k in [4, 8] {
            check(k, ["f32", "tf32", "tf32", "f32"], &mut draw);
        }
        for k in [16, 32] {
            for (a, b) in [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8")] {
                check(k, ["s32", a, b, "s32"], &mut draw);
            }
        }
        for (a, b) in [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e5m2")] {
            let mut few = |t: &str| if t == "e5m2" { [0.0, 1.0, -2.0, 3.0, 5.0, 0.5][random_of(t, &mut draw) % 6] } else { draw(t) };
            check(32, ["f32", a, b, "f32"], &mut few);
            check(32, ["f16", a, b, "f16"], &mut few);
        }
    }
}
fn random_of(t: &str, draw: &mut impl FnMut(&str) -> f64) -> usize {
    (draw(t) + 7.0) as usize
}

#[test]
fn rows_of_shared_memory_come_to_their_lanes_and_back() {
    for count in [1usize, 2, 4] {
        for transposed in [false, true] {
            let trans = if transposed { ".trans" } else { "" };
            let list = (0..count).map(|i| format!("%r{}", 10 + i)).collect::<Vec<_>>().join(", ");
            let stores: String = (0..count).map(|i| format!("st.global.b32 [%rd1+{}], %r{};\n", 128 * i, 10 + i)).collect();
            // Shared memory is filled from p1; rows are 48 bytes apart, so that a wrong stride shows.
            let text = format!(
                "{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {{
.reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<2>;
.shared .align 16 .b8 s[1536]; .shared .align 16 .b8 back[1536];
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p1]; mad.wide.u32 %rd1, %r0, 48, %rd0; mov.u32 %r1, s; mad.lo.s32 %r2, %r0, 48, %r1;
ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd1]; st.shared.v4.b32 [%r2], {{%r4, %r5, %r6, %r7}};
bar.warp.sync -1;
ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{list}}}, [%r2];
ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd1, %r0, 4, %rd0;
{stores}
mov.u32 %r1, back; mad.lo.s32 %r2, %r0, 48, %r1;
stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r2], {{{list}}};
bar.warp.sync -1;
setp.ge.u32 %p1, %r0, {};
@%p1 ret;
ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r2]; ld.param.u64 %rd0, [p2]; mad.wide.u32 %rd1, %r0, 16, %rd0; st.global.v4.b32 [%rd1], {{%r4, %r5, %r6, %r7}};
ret;
}}
",
                8 * count
            );
            let rig = Rig::new(&text);
            let halves: Vec<u16> = (0..32 * 24).map(|k| k as u16).collect();
            let (out, back) = (rig.empty::<u16>(64 * count), rig.empty::<u16>(64 * count));
            rig.go("k", 1, 32, &[Arg::P(out), Arg::P(rig.upload(&halves)), Arg::P(back)]);
            let got = rig.download::<u16>(out, 64 * count);
            // In units of halves: a thread's modes and a half's stride, over the matrix row by row.
            let plain = Layout { threads: &[(32, 2)], values: &[(2, 1)] };
            let crossed = Layout { threads: &[(4, 16), (8, 1)], values: &[(2, 8)] };
            for matrix in 0..count {
                for lane in 0..32 {
                    for half in 0..2 {
                        let at = if transposed { crossed.at(lane, half) } else { plain.at(lane, half) };
                        let wanted = halves[(8 * matrix + at / 8) * 24 + at % 8];
                        assert_eq!(got[(32 * matrix + lane) * 2 + half], wanted, "x{count}{trans} matrix {matrix} lane {lane} half {half}");
                    }
                }
            }
            let wanted: Vec<u16> = (0..8 * count).flat_map(|row| halves[row * 24..row * 24 + 8].to_vec()).collect();
            assert_eq!(rig.download::<u16>(back, 64 * count), wanted, "x{count}{trans}, stored again");
        }
    }
}
