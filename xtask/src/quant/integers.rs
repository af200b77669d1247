//! Integer products and layers of codes against plain arithmetic on the host: i64 for what is exact, f32 in the promised order for
//! what is scaled. Nothing of the library computes the reference.
use super::CaseOptions;
use crate::exit::Exit;
use adamant::{DType, Tensor};
use adamant_conformance::random::Random;
use adamant_core::{
    composite::packed::Packing,
    functional::{PackedWeight, QuantizedInput, quantized_linear},
};
use std::time::Instant;

type Told<T> = Result<T, String>;
fn told<T>(result: adamant::Result<T>) -> Told<T> {
    result.map_err(|e| e.to_string())
}

/// A fault that is planted into what the library gave.
#[derive(Clone, Copy, PartialEq, Debug)]
enum PlantedDifference {
    None,
    /// the last column of one sum is left out
    ShortSum,
    /// the result is one unit in the last place off
    LastPlace,
}

pub fn run(options: &CaseOptions) -> Told<Exit> {
    if options.plant {
        let short = products(PlantedDifference::ShortSum).is_err();
        let place = layers(options.n, options.seed, PlantedDifference::LastPlace).is_err();
        println!("a sum without its last column: {}\na result one unit in the last place off: {}", word(short), word(place));
        return Ok(if short && place { Exit::Passed } else { Exit::Failed });
    }
    let started = Instant::now();
    let pairs = products(PlantedDifference::None)?;
    let (cases, wide) = layers(options.n, options.seed, PlantedDifference::None)?;
    let isa = std::env::var("ADAMANT_ISA").unwrap_or_else(|_| "the widest".into());
    println!(
        "passed: {pairs} sums of products modulo 2^32, {cases} layers bit for bit, {wide} of 2^20 columns; instructions {isa}, {:.1} s",
        started.elapsed().as_secs_f64()
    );
    Ok(Exit::Passed)
}
fn word(found: bool) -> &'static str {
    if found { "found" } else { "not found" }
}

/// Codes with their sign.
#[derive(Clone)]
struct Codes {
    values: Vec<i64>,
    signed: bool,
}
impl Codes {
    fn tensor(&self, shape: [usize; 2]) -> Tensor {
        if self.signed {
            Tensor::from_vec(self.values.iter().map(|v| *v as i8).collect(), shape)
        } else {
            Tensor::from_vec(self.values.iter().map(|v| *v as u8).collect(), shape)
        }
    }
    fn all(signed: bool) -> Codes {
        let low = if signed { -128 } else { 0 };
        Codes { values: (low..low + 256).collect(), signed }
    }
    fn filled(value: i64, signed: bool, n: usize) -> Codes {
        Codes { values: vec![value; n], signed }
    }
    fn drawn(random: &mut Random, signed: bool, n: usize) -> Codes {
        let low = if signed { -128 } else { 0 };
        Codes { values: (0..n).map(|_| low + random.below(256) as i64).collect(), signed }
    }
}
/// Compares `a [m, k]` times `b [k, n]` with sums of i64, modulo 2^32, and `b` also as it is read from `[n, k]`.
fn product(a: &Codes, b: &Codes, [m, n, k]: [usize; 3], fault: PlantedDifference) -> Told<usize> {
    let wide = |t: Tensor| t.cast(DType::I32);
    let transposed = Codes { values: (0..n * k).map(|at| b.values[at % k * n + at / k]).collect(), signed: b.signed };
    for (layout, b_tensor) in [("rows", b.tensor([k, n])), ("columns", transposed.tensor([n, k]).mt())] {
        let got = told(wide(a.tensor([m, k])).matmul(wide(b_tensor)).to_vec::<i32>())?;
        let last = if fault == PlantedDifference::ShortSum { k - 1 } else { k };
        for i in 0..m {
            for j in 0..n {
                let want = (0..last).fold(0i64, |sum, p| sum.wrapping_add(a.values[i * k + p] * b.values[p * n + j]));
                if got[i * n + j] != want as i32 {
                    return Err(format!(
                        "failed: [{m}, {k}] x [{k}, {n}], second by {layout}, signs {} {}, at {i}, {j}: {} for {want}",
                        a.signed,
                        b.signed,
                        got[i * n + j]
                    ));
                }
            }
        }
    }
    Ok(2 * m * n)
}
fn products(fault: PlantedDifference) -> Told<usize> {
    let mut done = 0;
    let mut random = Random::new(77);
    for (x, y) in [(false, false), (false, true), (true, false), (true, true)] {
        done += product(&Codes::all(x), &Codes::all(y), [256, 256, 1], fault)?;
        let extreme = |signed: bool| if signed { [-128, 127] } else { [255, 0] };
        for k in [1usize, 2, 3, 4, 5, 63, 64, 65, 255, 256, 257, 1000, 4095, 8191, 20_000, 70_000] {
            for (p, q) in [(0, 0), (0, 1), (1, 0)] {
                done += product(&Codes::filled(extreme(x)[p], x, 2 * k), &Codes::filled(extreme(y)[q], y, 3 * k), [2, 3, k], fault)?;
            }
        }
        for _ in 0..60 {
            let size = [1 + random.below(40), 1 + random.below(70), 1 + random.below(300)];
            let [m, n, k] = size;
            done += product(&Codes::drawn(&mut random, x, m * k), &Codes::drawn(&mut random, y, k * n), size, fault)?;
        }
    }
    Ok(done)
}

/// A layer as the host knows it.
struct HostLayer {
    packing: Packing,
    codes: Vec<i64>,
    scale: Vec<f32>,
    zero_point: Vec<i64>,
    bias: Option<Vec<f32>>,
    rows: usize,
    columns: usize,
}
impl HostLayer {
    fn drawn(random: &mut Random, packing: Packing, rows: usize, columns: usize) -> HostLayer {
        let (low, high) = packing.range();
        let mut code = |_| i64::from(low) + random.below((high - low + 1) as usize) as i64;
        let codes: Vec<i64> = (0..rows * columns).map(&mut code).collect();
        let groups = packing.groups(columns);
        let zero_point = if packing.symmetric { vec![0; rows * groups] } else { (0..rows * groups).map(&mut code).collect() };
        let scale = (0..rows * groups).map(|_| (random.unit() * 0.1 + 1e-4) as f32).collect();
        let bias = (random.below(2) == 0).then(|| (0..rows).map(|_| (random.unit() * 4.0 - 2.0) as f32).collect());
        HostLayer { packing, codes, scale, zero_point, bias, rows, columns }
    }
    fn weight(&self) -> Told<PackedWeight> {
        let groups = self.packing.groups(self.columns);
        let codes = Tensor::from_vec(self.codes.iter().map(|c| *c as i32).collect(), [self.rows, self.columns]);
        let scale = Tensor::from_vec(self.scale.clone(), [self.rows, groups]);
        let zero_point = (!self.packing.symmetric).then(|| Tensor::from_vec(self.zero_point.iter().map(|z| *z as u8).collect(), [self.rows, groups]));
        told(PackedWeight::of_codes(self.packing, [self.rows, self.columns], &codes, &scale, zero_point.as_ref()))
    }
    /// Of one row of x: exact sums, then f32 in the promised order, and how far off a result may be: where groups are added, in an
    /// order of the reduction's own, by what that rounds.
    fn row(&self, x: &[f32], symmetric: bool) -> Vec<(f32, f32)> {
        let (tokens, step, base) = token(x, symmetric);
        let groups = self.packing.groups(self.columns);
        let size = self.columns / groups;
        let of = |j: usize| {
            let sum = |g: usize| -> i64 {
                let zero = self.zero_point[j * groups + g];
                (g * size..(g + 1) * size).map(|c| (tokens[c] - base) * (self.codes[j * self.columns + c] - zero)).sum()
            };
            let bias = self.bias.as_ref().map_or(0.0, |b| b[j]);
            if groups == 1 {
                return (sum(0) as f32 * (step * self.scale[j]) + bias, 0.0);
            }
            let terms = (0..groups).map(|g| sum(g) as f64 * f64::from(self.scale[j * groups + g]) * f64::from(step));
            let (product, size) = terms.fold((0.0, f64::from(bias.abs())), |(all, size), term| (all + term, size + term.abs()));
            ((product + f64::from(bias)) as f32, (size * 8.0 * f64::from(f32::EPSILON)) as f32)
        };
        (0..self.rows).map(of).collect()
    }
}
/// The codes of a row of x, their step, and the code of 0.
pub fn token(x: &[f32], symmetric: bool) -> (Vec<i64>, f32, i64) {
    let most = x.iter().fold(0.0f32, |m, v| m.max(if symmetric { v.abs() } else { *v }));
    let least = if symmetric { 0.0 } else { x.iter().fold(0.0f32, |m, v| m.min(*v)) };
    let (range, steps) = (most - least, if symmetric { 127.0f32 } else { 255.0 });
    let inverse = if range > 1e-30 { steps / range } else { 0.0 };
    let zero = (-least * inverse).round_ties_even();
    let bounds = if symmetric { (-128.0, 127.0) } else { (0.0, 255.0) };
    (x.iter().map(|v| ((v * inverse).round_ties_even() + zero).clamp(bounds.0, bounds.1) as i64).collect(), range / steps, zero as i64)
}
/// Compares a layer on a batch with the host, and each row of the batch alone with the row in the batch.
fn layer(layer: &HostLayer, x: &[f32], symmetric: bool, fault: PlantedDifference) -> Told<()> {
    let (rows, columns) = (x.len() / layer.columns, layer.columns);
    let weight = layer.weight()?;
    let bias = layer.bias.clone().map(|b| Tensor::from_vec(b, [layer.rows]));
    let input = QuantizedInput::PerToken { symmetric };
    let run = |x: &[f32]| told(quantized_linear(&Tensor::from_vec(x.to_vec(), [x.len() / columns, columns]), &weight, bias.as_ref(), input).to_vec::<f32>());
    let mut got = run(x)?;
    if fault == PlantedDifference::LastPlace
        && let Some(v) = got.last_mut()
    {
        *v = f32::from_bits(v.to_bits() ^ 1);
    }
    for (i, row) in x.chunks(columns).enumerate() {
        let want = layer.row(row, symmetric);
        let of_row = &got[i * layer.rows..][..layer.rows];
        let same = |(got, (want, off)): (&f32, &(f32, f32))| got == want || (got - want).abs() <= *off;
        if let Some(j) = of_row.iter().zip(&want).position(|pair| !same(pair)) {
            return Err(format!(
                "failed: {:?}, {rows} rows, [{}, {columns}], inputs {} at {i}, {j}: {} for {}",
                layer.packing,
                layer.rows,
                if symmetric { "symmetric" } else { "affine" },
                of_row[j],
                want[j].0
            ));
        }
        if i < 2 && rows > 1 && run(row)? != of_row {
            return Err(format!("failed: {:?}, [{}, {columns}]: row {i} of {rows} has other bits alone", layer.packing, layer.rows));
        }
    }
    Ok(())
}
fn layers(n: usize, seed: u64, fault: PlantedDifference) -> Told<(usize, usize)> {
    let mut random = Random::new(seed);
    let columns = [1usize, 3, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 192, 255, 256, 512, 1000];
    for _ in 0..n {
        let bits = [8, 8, 8, 4, 3][random.below(5)];
        let columns = columns[random.below(columns.len())];
        let groups: Vec<usize> = (1..=columns).filter(|g| columns % g == 0 && columns / g <= 32).collect();
        let group = (random.below(3) == 0).then(|| groups[random.below(groups.len())]);
        let packing = Packing { bits, group, symmetric: random.below(2) == 0 };
        let outputs = 1 + random.below(70);
        let host = HostLayer::drawn(&mut random, packing, outputs, columns);
        let rows = [1, 2, 3, 5, 8, 17, 64][random.below(7)];
        let zeros = random.below(rows + 1);
        let x: Vec<f32> = (0..rows * columns).map(|k| if k / columns == zeros { 0.0 } else { (random.unit() * 6.0 - 2.0) as f32 }).collect();
        layer(&host, &x, random.below(2) == 0, fault)?;
    }
    let mut wide = 0;
    for (symmetric, packing) in [(true, true), (false, true), (true, false), (false, false)] {
        let packing = Packing { bits: 8, group: None, symmetric: packing };
        let columns = 1 << 20;
        let mut host = HostLayer::drawn(&mut random, packing, 2, columns);
        // All of the largest code: the sum leaves 32 bits.
        let (low, high) = packing.range();
        host.codes[..columns].fill(i64::from(if packing.symmetric { low } else { high }));
        host.zero_point.fill(0);
        let x: Vec<f32> = (0..columns).map(|k| if k == 0 { 0.0 } else { 1.5 }).collect();
        layer(&host, &x, symmetric, fault)?;
        wide += 1;
    }
    Ok((n, wide))
}
