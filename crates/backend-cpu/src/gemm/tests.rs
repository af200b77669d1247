//! Products against a naive sum, and the promise on bits.

use half::{bf16, f16};

use super::*;

fn random(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

trait Number: GemmElement {
    const EPSILON: f64;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! number {
    ($ty:ty, $eps:expr, $of:expr, $wide:expr) => {
        impl Number for $ty {
            const EPSILON: f64 = $eps;
            fn of(value: f64) -> $ty {
                $of(value)
            }
            fn wide(self) -> f64 {
                $wide(self)
            }
        }
    };
}
number!(f32, f32::EPSILON as f64, |v| v as f32, |v: f32| v as f64);
number!(f64, f64::EPSILON, |v| v, |v| v);
number!(bf16, 1.0 / 128.0, bf16::from_f64, bf16::to_f64);
number!(f16, 1.0 / 1024.0, f16::from_f64, f16::to_f64);

const SHAPES: [(usize, usize, usize); 24] = [
    (1, 1, 1),
    (1, 17, 5),
    (17, 1, 300),
    (1, 100, 257),
    (1, 33, 600),
    (2, 3, 4),
    (5, 31, 7),
    (12, 32, 16),
    (13, 33, 17),
    (11, 16, 256),
    (24, 48, 257),
    (25, 65, 100),
    (49, 130, 70),
    (64, 64, 64),
    (60, 40, 513),
    (100, 10, 300),
    (7, 513, 30),
    (70, 600, 20),
    (128, 128, 128),
    (3, 1000, 2),
    (200, 2, 2),
    (31, 15, 1),
    (1, 2100, 12),
    (53, 1030, 270),
];

/// (name, transposed a, transposed b, gap between rows, reversed)
const LAYOUTS: [(&str, bool, bool, usize, bool); 6] = [
    ("nn", false, false, 0, false),
    ("nt", false, true, 0, false),
    ("tn", true, false, 0, false),
    ("tt with gaps", true, true, 3, false),
    ("nn with gaps", false, false, 5, false),
    ("nt reversed", false, true, 1, true),
];

/// A matrix of `rows` by `columns` in storage of the layout, as a view and its values.
fn lay<T: Number>(values: &[f64], rows: usize, columns: usize, transposed: bool, gap: usize) -> (Vec<T>, isize, isize) {
    let (outer, inner) = if transposed { (columns, rows) } else { (rows, columns) };
    let stride = inner + gap;
    let mut data = vec![T::of(9.0); outer * stride];
    for i in 0..rows {
        for j in 0..columns {
            let at = if transposed { j * stride + i } else { i * stride + j };
            data[at] = T::of(values[i * columns + j]);
        }
    }
    if transposed { (data, 1, stride as isize) } else { (data, stride as isize, 1) }
}

/// Checks the products of a set, and that they are those of the sets before it bit for bit.
fn check_type<T: Number>(isa: Isa, before: &mut Vec<Vec<T>>) {
    let threads = Threads::new(1);
    for (index, (m, n, k)) in SHAPES.into_iter().enumerate() {
        let av: Vec<f64> = random(1, m * k).iter().map(|&v| T::of(v).wide()).collect();
        let bv: Vec<f64> = random(2, k * n).iter().map(|&v| T::of(v).wide()).collect();
        let mut expected = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                expected[i * n + j] = (0..k).map(|p| av[i * k + p] * bv[p * n + j]).sum();
            }
        }
        let mut reference: Option<Vec<T>> = before.get(index).cloned();
        for (name, ta, tb, gap, reversed) in LAYOUTS {
            let (adata, ars, acs) = lay::<T>(&av, m, k, ta, gap);
            let (mut bdata, mut brs, bcs) = lay::<T>(&bv, k, n, tb, gap);
            let mut offset = 0;
            if reversed {
                // Store the rows of k backwards.
                let copy = bdata.clone();
                for p in 0..k {
                    for j in 0..n {
                        let at = |p: usize| (p as isize * brs + j as isize * bcs) as usize;
                        bdata[at(k - 1 - p)] = copy[at(p)];
                    }
                }
                offset = ((k - 1) as isize * brs) as usize;
                brs = -brs;
            }
            let a = MatRef { data: &adata, offset: 0, row_stride: ars, col_stride: acs, batch_stride: 0 };
            let b = MatRef { data: &bdata, offset, row_stride: brs, col_stride: bcs, batch_stride: 0 };
            let mut c = vec![T::of(7.0); m * n];
            gemm(&threads, isa, 1, m, n, k, a, b, &mut c, &NoEpilogue).unwrap();
            for (i, (got, want)) in c.iter().zip(&expected).enumerate() {
                let scale = (k as f64).sqrt() * 2.0;
                let bound = T::EPSILON * want.abs() + f64::from(f32::EPSILON).min(T::EPSILON) * scale * 4.0;
                assert!((got.wide() - want).abs() <= bound, "{isa:?} {name} {m}x{n}x{k} at {i}: {got:?} {want}");
            }
            match &reference {
                None => reference = Some(c),
                Some(first) => assert!(*first == c, "{isa:?} {name} {m}x{n}x{k}: bits depend on the layout or the set"),
            }
        }
        if before.len() == index {
            before.extend(reference);
        }
    }
}

#[test]
fn products_of_every_type_and_set_agree_with_the_naive_sum() {
    fn on_all_sets<T: Number>() {
        let mut before = Vec::new();
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).for_each(|isa| check_type::<T>(isa, &mut before));
        assert_eq!(before.len(), SHAPES.len());
    }
    on_all_sets::<f32>();
    on_all_sets::<f64>();
    on_all_sets::<bf16>();
    on_all_sets::<f16>();
}

fn product(threads: &Threads, isa: Isa, size: (usize, usize, usize, usize), a: &[f32], b: &[f32]) -> Vec<f32> {
    let (batch, m, n, k) = size;
    let mut c = vec![0.0; batch * m * n];
    let (a, b) = (MatRef::row_major(a, m, k), MatRef::row_major(b, k, n));
    gemm(threads, isa, batch, m, n, k, a, b, &mut c, &NoEpilogue).unwrap();
    c
}

#[test]
fn bits_depend_neither_on_threads_nor_on_the_instruction_set() {
    for size in [(1, 200, 300, 600), (5, 64, 100, 300), (1, 1, 3000, 700), (40, 30, 33, 65), (1, 3000, 1, 700)] {
        let (batch, m, n, k) = size;
        let a: Vec<f32> = random(3, batch * m * k).iter().map(|&v| v as f32).collect();
        let b: Vec<f32> = random(4, batch * k * n).iter().map(|&v| v as f32).collect();
        let expected = product(&Threads::new(1), Isa::Scalar, size, &a, &b);
        for isa in Isa::ALL {
            for count in [1, 2, 3, 8] {
                if isa.is_available() {
                    let got = product(&Threads::new(count), isa, size, &a, &b);
                    assert!(expected == got, "{isa:?} {count} threads {size:?}");
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_a_batch() {
    let (n, k) = (300, 600);
    let a: Vec<f32> = random(5, 64 * k).iter().map(|&v| v as f32).collect();
    let b: Vec<f32> = random(6, k * n).iter().map(|&v| v as f32).collect();
    let threads = Threads::new(1);
    for isa in Isa::ALL {
        if !isa.is_available() {
            continue;
        }
        let alone = product(&threads, isa, (1, 1, n, k), &a[..k], &b);
        for m in [2, 8, 13, 64] {
            let many = product(&threads, isa, (1, m, n, k), &a[..m * k], &b);
            assert!(many[..n] == alone[..], "{isa:?} {m} rows");
        }
    }
}

#[test]
fn broadcast_batches_and_empty_sizes() {
    let threads = Threads::new(2);
    let a: Vec<f32> = (0..6).map(|v| v as f32).collect();
    let b: Vec<f32> = (0..24).map(|v| v as f32).collect();
    let mut a_ref = MatRef::row_major(&a, 2, 3);
    a_ref.batch_stride = 0;
    let mut c = vec![0.0; 16];
    let program = NoEpilogue;
    gemm(&threads, Isa::detect(), 2, 2, 4, 3, a_ref, MatRef::row_major(&b, 3, 4), &mut c, &program).unwrap();
    assert_eq!(c[..4], [20.0, 23.0, 26.0, 29.0]);
    assert_eq!(c[8..12], [56.0, 59.0, 62.0, 65.0]);
    gemm(&threads, Isa::detect(), 2, 2, 4, 0, a_ref, MatRef::row_major(&b, 0, 4), &mut c, &program).unwrap();
    assert_eq!(c, [0.0; 16]);
    gemm(&threads, Isa::detect(), 1, 0, 4, 3, a_ref, MatRef::row_major(&b, 3, 4), &mut [], &program).unwrap();
    let short = MatRef::row_major(&b, 3, 9);
    let mut c = vec![0.0; 18];
    assert!(gemm(&threads, Isa::detect(), 1, 2, 9, 3, a_ref, short, &mut c, &program).is_err());
}

/// Adds one number a column; no less than zero.
struct BiasAndRelu<'a>(&'a [f32]);
impl Epilogue<f32> for BiasAndRelu<'_> {
    fn apply(&self, _: usize, _: usize, column: usize, values: &mut [f32]) -> Result<(), ErrorKind> {
        let n = self.0.len();
        values.iter_mut().enumerate().for_each(|(k, v)| *v = (*v + self.0[(column + k) % n]).max(0.0));
        Ok(())
    }
}

#[test]
fn an_epilogue_gives_the_bits_of_separate_steps() {
    let (m, n, k) = (50, 70, 300);
    let a: Vec<f32> = random(7, m * k).iter().map(|&v| v as f32).collect();
    let b: Vec<f32> = random(8, k * n).iter().map(|&v| v as f32).collect();
    let bias: Vec<f32> = random(9, n).iter().map(|&v| v as f32).collect();
    let threads = Threads::new(1);
    for m in [1, m] {
        let plain = product(&threads, Isa::detect(), (1, m, n, k), &a[..m * k], &b);
        let mut fused = vec![0.0; m * n];
        let program = BiasAndRelu(&bias);
        let (a, b) = (MatRef::row_major(&a, m, k), MatRef::row_major(&b, k, n));
        gemm(&threads, Isa::detect(), 1, m, n, k, a, b, &mut fused, &program).unwrap();
        for (i, (fused, plain)) in fused.iter().zip(&plain).enumerate() {
            assert_eq!(*fused, (plain + bias[i % n]).max(0.0));
        }
    }
}

/// A size from 1 to `most`, of a number from -1 to 1.
fn size(drawn: f64, most: usize) -> usize {
    1 + ((drawn + 1.0) / 2.0 * (most - 1) as f64) as usize
}
/// Numbers of bf16 whose exponents lie far apart.
fn bf16s(seed: u64, count: usize) -> Vec<bf16> {
    random(seed, count).iter().enumerate().map(|(k, &v)| bf16::from_f64(v * f64::powi(2.0, (k * 7 % 41) as i32 - 20))).collect()
}

#[test]
fn pairs_of_bf16_give_the_sums_of_widened_numbers() {
    use super::context::AlignedBuffer;
    let isa = Isa::Avx512;
    if pairs::context(isa).is_none() {
        println!("skipped: no AVX-512 BF16 here");
        return;
    }
    let context = f32::context(isa);
    let (mut a_buffer, mut b_buffer) = (AlignedBuffer::default(), AlignedBuffer::default());
    let drawn = random(13, 60);
    let drawn = drawn.chunks_exact(3).map(|v| (size(v[0], 90), size(v[1], 700), size(v[2], 900)));
    for (m, n, k) in SHAPES.into_iter().chain(drawn) {
        for (name, ta, tb, gap, reversed) in LAYOUTS {
            let values = |seed, count| bf16s(seed, count).iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
            let (adata, ars, acs) = lay::<bf16>(&values(11, m * k), m, k, ta, gap);
            let (bdata, brs, bcs) = lay::<bf16>(&values(12, k * n), k, n, tb, gap);
            let mut a = MatrixView { data: &adata[..], base: 0, row_stride: ars, column_stride: acs };
            let b = MatrixView { data: &bdata[..], base: 0, row_stride: brs, column_stride: bcs };
            if reversed {
                a.base = (m as isize - 1) * ars;
                a.row_stride = -ars;
            }
            let size = Size { m, n, k };
            let run = |f: &mut dyn FnMut(&mut PlainOutput<'_, f32, fn(usize, usize, &mut [f32]) -> Result<(), ErrorKind>>)| {
                let mut c = vec![7f32; m * n];
                f(&mut PlainOutput { block: Block::new(&mut c, m, n, n), finish: |_, _, _| Ok(()) });
                c.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            let widened = run(&mut |out| multiply(context, size, &a, &b, out, false, &mut a_buffer, &mut b_buffer).unwrap());
            let paired = run(&mut |out| assert!(pairs::multiply_pairs(isa, size, a, b, out, [&mut a_buffer, &mut b_buffer]).unwrap()));
            let joined = run(&mut |out| assert!(f32::multiply_joined(isa, size, &a, &b, out, false, [&mut a_buffer, &mut b_buffer]).unwrap()));
            assert!(widened == paired, "{name} {m}x{n}x{k}: pairs");
            assert!(widened == joined, "{name} {m}x{n}x{k}: joined");
        }
    }
}

/// Every number of 16 bits where a few rows meet lines of them: infinities, subnormals and NaN too, wherever the lines begin.
#[test]
fn all_numbers_of_16_bits_are_read_from_lines() {
    fn on_all_sets<H: GemmElement<Acc = f32>>(from_bits: impl Fn(u16) -> H, to_f32: impl Fn(H) -> f32, one: H) {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (offset, length) in [(0, 1), (1, 1), (3, 2), (0, 6)] {
                let zero = from_bits(0);
                let mut lines = vec![zero; offset + length * (1 << 16)];
                let mut expected = Vec::new();
                for (line, bits) in lines[offset..].chunks_exact_mut(length).zip(0..=u16::MAX) {
                    let number = from_bits(bits);
                    // A zero times an infinity would hide the number.
                    line[bits as usize % length] = number;
                    expected.push(1f32.mul_add(to_f32(number), 0.0));
                }
                let x = |at: usize| (0..length).map(|p| if p == at { one } else { zero }).collect::<Vec<H>>();
                let rows: Vec<H> = (0..length).flat_map(x).collect();
                let b = MatRef { data: &lines, offset, row_stride: 1, col_stride: length as isize, batch_stride: 0 };
                let mut sums = vec![zero; length << 16];
                gemm(&Threads::new(1), isa, 1, length, 1 << 16, length, MatRef::row_major(&rows, length, length), b, &mut sums, &NoEpilogue).unwrap();
                for (bits, expected) in expected.into_iter().enumerate() {
                    let got = to_f32(sums[bits % length << 16 | bits]);
                    assert!(got == expected || got.is_nan() && expected.is_nan(), "{isa:?}, {length} from {offset}: {bits:#x} gives {got}, not {expected}");
                }
            }
        }
    }
    on_all_sets(bf16::from_bits, bf16::to_f32, bf16::ONE);
    on_all_sets(f16::from_bits, f16::to_f32, f16::ONE);
}
