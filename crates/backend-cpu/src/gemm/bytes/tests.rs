//! Products of bytes against sums in i64, modulo 2^32, on every set that this CPU has.

use super::super::apart::SumKind;
use super::*;

struct Bytes(u64);
impl Bytes {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
    fn some(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
    /// The least and the greatest byte of either sign, mostly.
    fn extreme(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| [0x80, 0x80, 0x80, 0x7f, 0xff, 0xff, 0, 1][self.next() as usize % 8]).collect()
    }
}
fn sets() -> impl Iterator<Item = ByteIsa> {
    ByteIsa::ALL.into_iter().filter(|isa| isa.is_available())
}
fn value(byte: u8, is_signed: bool) -> i64 {
    if is_signed { byte as i8 as i64 } else { byte as i64 }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Rows,
    Columns,
    Gaps,
    ColumnsWithGaps,
    Backwards,
    ColumnsBackwards,
    Spread,
    OneRow,
    OneColumn,
}
const LIES: [Lie; 9] =
    [Lie::Rows, Lie::Columns, Lie::Gaps, Lie::ColumnsWithGaps, Lie::Backwards, Lie::ColumnsBackwards, Lie::Spread, Lie::OneRow, Lie::OneColumn];
struct Laid {
    data: Vec<u8>,
    offset: usize,
    strides: [isize; 3],
    signed: bool,
}
impl Laid {
    fn new(data: Vec<u8>, [batch, rows, columns]: [usize; 3], lie: Lie, signed: bool) -> Laid {
        let (r, c) = (rows as isize, columns as isize);
        let (row, column) = match lie {
            Lie::Rows => (c, 1),
            Lie::Columns => (1, r),
            Lie::Gaps => (c + 3, 1),
            Lie::ColumnsWithGaps => (1, r + 5),
            Lie::Backwards => (-c, 1),
            Lie::ColumnsBackwards => (1, -r),
            Lie::Spread => (2 * c + 1, 2),
            Lie::OneRow => (0, 1),
            Lie::OneColumn => (1, 0),
        };
        let reach = (r - 1).max(0) * row.abs() + (c - 1).max(0) * column.abs();
        let offset = if row < 0 { (r - 1).max(0) * -row } else { 0 } + if column < 0 { (c - 1).max(0) * -column } else { 0 };
        let needed = (reach + 1) as usize * batch;
        let data = data.into_iter().cycle().take(needed).collect();
        Laid { data, offset: offset as usize, strides: [reach + 1, row, column], signed }
    }
    fn at(&self, batch: usize, row: usize, column: usize) -> i64 {
        let [b, r, c] = self.strides;
        let place = self.offset as isize + batch as isize * b + row as isize * r + column as isize * c;
        value(self.data[place as usize], self.signed)
    }
    fn matrices(&self) -> Matrices<'_> {
        let elements = if self.signed { WidenedElements::I8(bytemuck::cast_slice(&self.data)) } else { WidenedElements::U8(&self.data) };
        let [batch_stride, row_stride, col_stride] = self.strides;
        Matrices { elements, offset: self.offset, row_stride, col_stride, batch_stride }
    }
}
fn reference(batch: usize, [m, n, k]: [usize; 3], a: &Laid, b: &Laid) -> Vec<i32> {
    let mut all = Vec::new();
    for x in 0..batch {
        for i in 0..m {
            let row: Vec<i64> = (0..k).map(|p| a.at(x, i, p)).collect();
            all.extend((0..n).map(|j| row.iter().enumerate().map(|(p, v)| v * b.at(x, p, j)).sum::<i64>() as i32));
        }
    }
    all
}
/// The product on every set; each element is handed on once, with its place.
fn check(name: &str, threads: usize, batch: usize, size: [usize; 3], a: &Laid, b: &Laid) {
    let [m, n, k] = size;
    let want = reference(batch, size, a, b);
    let threads = Threads::new(threads);
    let add = |at: usize, sums: &mut [u8], out: &mut [u8]| {
        assert_eq!(sums.len(), out.len());
        for (place, (sum, out)) in sums.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
            let before = i32::from_ne_bytes(*out);
            *out = before.wrapping_add(i32::from_ne_bytes(*sum)).wrapping_add((at + place) as i32).to_ne_bytes();
        }
        Ok(())
    };
    for isa in sets() {
        let mut c = vec![0u8; batch * m * n * 4];
        let apart = Apart { batch, size, a: a.matrices(), b: b.matrices(), kept: SumKind::Integers, stored: 4, hand_on: &add };
        product(&apart, &threads, isa, &mut c).unwrap();
        for (at, (got, want)) in c.as_chunks::<4>().0.iter().zip(&want).enumerate() {
            let got = i32::from_ne_bytes(*got).wrapping_sub(at as i32);
            let place = [at / (m * n), at / n % m, at % n];
            assert_eq!(got, *want, "{name}: {batch} of {m}x{n}x{k}, signed {} {}, {isa:?}, at {place:?}", a.signed, b.signed);
        }
    }
}
const SIGNS: [[bool; 2]; 4] = [[false, true], [true, true], [false, false], [true, false]];

#[test]
fn every_pair_of_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    for [sa, sb] in SIGNS {
        let b = Laid::new(all.clone(), [1, 1, 256], Lie::Rows, sb);
        check("a column by a row", 1, 1, [256, 256, 1], &Laid::new(all.clone(), [1, 256, 1], Lie::Rows, sa), &b);
        for byte in 0..=255 {
            check("a byte by a row", 1, 1, [1, 256, 1], &Laid::new(vec![byte], [1, 1, 1], Lie::Rows, sa), &b);
        }
    }
}

#[test]
fn extreme_rows_wrap_and_do_not_saturate() {
    let mut bytes = Bytes(5);
    for [sa, sb] in SIGNS {
        for k in [1, 2, 3, 4, 5, 63, 64, 65, 255, 1000, 4095, 4096, 4097, 8200, 20_000, 70_000] {
            for [m, n] in [[1, 17], [2, 70], [7, 35], [1, 64]] {
                if k > 5000 && m == 7 && n == 35 && sa != sb {
                    continue;
                }
                for lie in [Lie::Rows, Lie::Columns] {
                    let (x, y) = (if sa { 0x80 } else { 0xff }, if sb { 0x80 } else { 0xff });
                    check("all extreme", 1, 1, [m, n, k], &Laid::new(vec![x], [1, m, k], Lie::Rows, sa), &Laid::new(vec![y], [1, k, n], lie, sb));
                    let (a, b) = (bytes.extreme(m * k), bytes.extreme(k * n));
                    check("mostly extreme", 1, 1, [m, n, k], &Laid::new(a, [1, m, k], Lie::Rows, sa), &Laid::new(b, [1, k, n], lie, sb));
                }
            }
        }
    }
}

#[test]
fn every_edge_of_blocks_tiles_and_quads() {
    let mut bytes = Bytes(6);
    for m in [1, 2, 4, 5, 6, 7, 13] {
        for n in [1, 2, 8, 15, 16, 17, 32, 33, 63, 64, 65, 130] {
            for k in [1, 2, 3, 4, 5, 15, 16, 17, 31, 64, 67, 130] {
                let [sa, sb] = SIGNS[(m + n + k) % 4];
                let lie = LIES[(m * 7 + n * 5 + k) % 2];
                let (a, b) = (bytes.some(m * k), bytes.some(k * n));
                check("an edge", 1, 1, [m, n, k], &Laid::new(a, [1, m, k], Lie::Rows, sa), &Laid::new(b, [1, k, n], lie, sb));
            }
        }
    }
}

#[test]
fn every_way_to_lie() {
    let mut bytes = Bytes(7);
    for first in LIES {
        for second in LIES {
            for (batch, [m, n, k]) in [(1, [1, 70, 37]), (2, [3, 66, 40]), (3, [9, 33, 21]), (1, [50, 1, 19]), (2, [17, 64, 64]), (1, [52, 600, 9])] {
                let [sa, sb] = SIGNS[bytes.next() as usize % 4];
                let (a, b) = (bytes.some(997), bytes.some(991));
                let (a, b) = (Laid::new(a, [batch, m, k], first, sa), Laid::new(b, [batch, k, n], second, sb));
                check(&format!("{first:?} by {second:?}"), 1, batch, [m, n, k], &a, &b);
            }
        }
    }
}

#[test]
fn any_number_of_threads() {
    let mut bytes = Bytes(8);
    for threads in [1, 2, 3] {
        for (batch, [m, n, k]) in
            [(1, [1, 1100, 1001]), (1, [1100, 1, 1001]), (1, [130, 260, 130]), (7, [20, 90, 350]), (1, [1000, 70, 61]), (1, [4, 1500, 701])]
        {
            let [sa, sb] = SIGNS[bytes.next() as usize % 4];
            let (a, b) = (bytes.some(m * k * batch), bytes.some(k * n * batch));
            let (a, b) = (Laid::new(a, [batch, m, k], Lie::Rows, sa), Laid::new(b, [batch, k, n], LIES[threads % 2], sb));
            check("shared", threads, batch, [m, n, k], &a, &b);
        }
    }
}

#[test]
fn blocks_packed_before_give_the_same_sums() {
    let mut bytes = Bytes(9);
    for [m, n, k] in [[1, 16, 4], [1, 5, 7], [3, 100, 65], [6, 64, 64], [50, 130, 33], [13, 200, 4100], [49, 40, 9001], [2, 30, 0]] {
        let (a, b) = (bytes.some(m * k), bytes.some(k * n));
        let (starts, zeros): (Vec<i32>, Vec<i32>) = (0..m).map(|_| (bytes.next() as i32, bytes.next() as u8 as i32)).unzip();
        let second = &b;
        let column = |j: usize| (0..k).map(move |p| second[p * n + j] as i8 as i64);
        let column_sums: Vec<i32> = (0..n).map(|j| column(j).sum::<i64>() as i32).collect();
        let mut blocks = vec![1i8; n.next_multiple_of(BLOCK) * k.next_multiple_of(QUAD)];
        let view = MatrixView { data: second.as_slice(), base: 0, row_stride: n as isize, column_stride: 1 };
        pack::pack_blocks(&view, 0, n, k, 0, &mut blocks);
        // What fills a row of A is of no matter.
        let stride = k.next_multiple_of(QUAD) + 3;
        let mut rows = bytes.some(m * stride);
        (0..m).for_each(|i| rows[i * stride..][..k].copy_from_slice(&a[i * k..][..k]));
        let packed = ByteRows { bytes: &rows, stride, rows: m, starts: &starts, zeros: &zeros };
        let packed_b = ByteBlocks { blocks: &blocks, column_sums: &column_sums, k, n };
        for isa in sets() {
            let mut sums_of_columns = vec![1i32; n];
            sum_columns(context(isa), &blocks, k, &mut sums_of_columns, &mut BlockScratch::default()).unwrap();
            assert_eq!(sums_of_columns, column_sums, "{m}x{n}x{k}, {isa:?}");
            for part in [0..n, 0..n.min(16), n / 32 * 16..n] {
                let mut seen = vec![0; m * n];
                multiply_blocks(context(isa), packed, packed_b, part.clone(), &mut BlockScratch::default(), &mut |s| {
                    for i in 0..s.rows {
                        for j in 0..s.columns {
                            let (row, at) = (s.row + i, s.column + j);
                            let sum: i64 = a[row * k..][..k].iter().zip(column(at)).map(|(&x, y)| (x as i64 - zeros[row] as i64) * y).sum();
                            assert_eq!(s.sums[i * s.stride + j], starts[row].wrapping_add(sum as i32), "{m}x{n}x{k}, {isa:?}, at {row}, {at}");
                            seen[row * n + at] += 1;
                        }
                    }
                    Ok(())
                })
                .unwrap();
                assert!(seen.iter().enumerate().all(|(at, &times)| times == i32::from(part.contains(&(at % n)))), "{m}x{n}x{k}, {part:?}");
            }
        }
    }
}

/// Windows over planes on every set, of steps that have no order, against sums in i64.
#[test]
fn windows_read_their_steps_where_they_lie() {
    let mut bytes = Bytes(77);
    for isa in sets() {
        let context = context(isa);
        for round in 0..60usize {
            let (quads, rows) = (1 + bytes.next() as usize % 40, 1 + round % context.rows);
            let places = context.window_places() * (1 + bytes.next() as usize % (64 / context.window_places()));
            let offsets: Vec<usize> = (0..quads).map(|_| bytes.next() as usize % 100 * QUAD).collect();
            let steps = windows::WindowSteps::new(offsets.clone());
            let (a, b) = (bytes.extreme(rows * quads * QUAD), bytes.extreme(steps.reach() + places * QUAD));
            let mut widened = vec![0; a.len() * context.width];
            if context.width == 1 {
                widened.copy_from_slice(&a);
            } else {
                pack::widen(&a, true, &mut widened);
            }
            let read: Vec<u8> = b.iter().map(|byte| byte ^ context.window_flip()).collect();
            let mut sums = vec![7i32; rows * (places + 3)];
            let stride = quads * QUAD * context.width;
            context.windows(&steps, Strided { data: &widened, stride }, rows, &read, places, &mut sums, places + 3);
            for (r, place) in (0..rows).flat_map(|r| (0..places).map(move |p| (r, p))) {
                let x = |at: usize| i64::from(b[at]) - if context.width == 1 { 0 } else { 128 };
                let of_quad = |q: usize| (0..QUAD).map(|j| value(a[(r * quads + q) * QUAD + j], true) * x(offsets[q] + place * QUAD + j)).sum::<i64>();
                let want = (0..quads).map(of_quad).sum::<i64>() as i32;
                assert_eq!(sums[r * (places + 3) + place], want, "{isa:?}, round {round}, row {r}, place {place}");
            }
        }
    }
}
