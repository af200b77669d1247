//! Weights of codes against a plain computation on the host: how codes are stored, what they stand for, and the layers that read
//! them, whose integer sums are exact and whose f32 steps are taken in the order that is promised.
use adamant_core::{
    DType, Device, Result, Tensor,
    composite::packed::{CodeLevels, NORMAL_FLOATS, Packing},
    functional::{ConvOptions, PackedWeight, Padding, QuantizedInput, conv1d, conv2d, conv3d, linear, quantized_conv, quantized_embedding, quantized_linear},
};

/// Drawn numbers, some rows of which are zeros.
struct Draw(u64);
impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 / (1u64 << 24) as f32) * 4.0 - 1.7
    }
    fn below(&mut self, n: usize) -> usize {
        self.next();
        (self.0 >> 33) as usize % n
    }
    fn tensor(&mut self, shape: &[usize]) -> Tensor {
        let (n, last) = (shape.iter().product(), shape[shape.len() - 1].max(1));
        let zeros = self.below(4);
        let values = (0..n).map(|k| if k / last % 5 == zeros { 0.0 } else { self.next() }).collect();
        Tensor::from_vec(values, shape.to_vec())
    }
}
fn packings() -> Vec<Packing> {
    let groups = [None, Some(16), Some(5)];
    let all = [8u32, 4, 3].into_iter().flat_map(|bits| groups.map(move |group| (bits, group)));
    all.flat_map(|(bits, group)| [true, false].map(move |symmetric| Packing { bits, group, symmetric })).collect()
}
/// The code of each number, as the bytes hold it.
fn codes_of(w: &PackedWeight, rows: usize, columns: usize) -> Result<Vec<i64>> {
    let Packing { bits, symmetric, .. } = w.packing();
    if bits == 8 {
        return Ok(if symmetric {
            w.codes().to_vec::<i8>()?.iter().map(|v| *v as i64).collect()
        } else {
            w.codes().to_vec::<u8>()?.iter().map(|v| *v as i64).collect()
        });
    }
    let bytes = w.codes().to_vec::<u8>()?;
    let row = bytes.len() / rows;
    let bit = |r: usize, at: usize| (bytes[r * row + at / 8] >> (at % 8) & 1) as i64;
    let offset = if symmetric { 1i64 << (bits - 1) } else { 0 };
    let code = |r: usize, c: usize| (0..bits as usize).map(|b| bit(r, c * bits as usize + b) << b).sum::<i64>() - offset;
    Ok((0..rows * columns).map(|at| code(at / columns, at % columns)).collect())
}

#[test]
fn codes_stand_for_the_numbers_within_half_a_step() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(7);
    for packing in packings() {
        for columns in [1usize, 15, 16, 33, 80] {
            if packing.group.is_some_and(|g| columns % g != 0) {
                let refused = PackedWeight::round(&draw.tensor(&[3, columns]), packing).err().map(|e| e.to_string()).unwrap_or_default();
                assert!(refused.contains("no multiple"), "{refused}");
                continue;
            }
            let rows = 7;
            let weight = draw.tensor(&[rows, columns]);
            let packed = PackedWeight::round(&weight, packing)?;
            let (codes, scale, groups) = (codes_of(&packed, rows, columns)?, packed.scale().to_vec::<f32>()?, packing.groups(columns));
            let zero = packed.zero_point().map(|z| z.to_vec::<u8>()).transpose()?;
            let (low, high) = packing.range();
            let (numbers, want) = (packed.dequantize(DType::F32).to_vec::<f32>()?, weight.to_vec::<f32>()?);
            for at in 0..rows * columns {
                let group = at / columns * groups + at % columns / (columns / groups);
                let base = zero.as_ref().map_or(0, |z| z[group] as i64);
                assert!((low as i64..=high as i64).contains(&codes[at]), "{packing:?}");
                assert_eq!(numbers[at], (codes[at] - base) as f32 * scale[group], "{packing:?} {columns} {at}");
                assert!((numbers[at] - want[at]).abs() <= scale[group] * 0.5 * 1.01 + 1e-6, "{packing:?}: {} for {}", numbers[at], want[at]);
            }
            assert_eq!(packed.bytes(), rows * (columns * packing.bits as usize).div_ceil(8) + rows * groups * (4 + usize::from(!packing.symmetric)));
            let whole = PackedWeight::new(packing, [rows, columns], packed.codes(), packed.scale(), packed.zero_point())?;
            assert_eq!(whole.dequantize(DType::F32).to_vec::<f32>()?, numbers);
        }
    }
    Ok(())
}

/// The codes of a row of x, its scale and its zero point.
fn token(x: &[f32], symmetric: bool) -> (Vec<i64>, f32, i64) {
    let most = x.iter().fold(0.0f32, |m, v| m.max(if symmetric { v.abs() } else { *v }));
    let least = if symmetric { 0.0 } else { x.iter().fold(0.0f32, |m, v| m.min(*v)) };
    let (range, steps) = (most - least, if symmetric { 127.0f32 } else { 255.0 });
    let inverse = if range > 1e-30 { steps / range } else { 0.0 };
    let zero = (-least * inverse).round_ties_even();
    let code = |v: &f32| ((v * inverse).round_ties_even() + zero).clamp(if symmetric { -128.0 } else { 0.0 }, if symmetric { 127.0 } else { 255.0 }) as i64;
    (x.iter().map(code).collect(), range / steps, zero as i64)
}

#[test]
fn a_layer_is_its_integer_sums_scaled_in_the_promised_order() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(11);
    for packing in packings() {
        for (m, n, k) in [(1, 1, 16), (3, 17, 80), (5, 33, 240)] {
            if packing.group.is_some_and(|g| k % g != 0) {
                continue;
            }
            let (x, weight, bias) = (draw.tensor(&[m, k]), PackedWeight::round(&draw.tensor(&[n, k]), packing)?, draw.tensor(&[n]));
            let (codes, scale, groups) = (codes_of(&weight, n, k)?, weight.scale().to_vec::<f32>()?, packing.groups(k));
            let zero = weight.zero_point().map(|z| z.to_vec::<u8>()).transpose()?;
            let (x_host, bias_host) = (x.to_vec::<f32>()?, bias.to_vec::<f32>()?);
            for symmetric in [true, false] {
                let input = QuantizedInput::PerToken { symmetric };
                let got = quantized_linear(&x, &weight, Some(&bias), input).to_vec::<f32>()?;
                for i in 0..m {
                    let (tokens, step, base) = token(&x_host[i * k..][..k], symmetric);
                    for j in 0..n {
                        let sum = |g: usize| -> i64 {
                            let z = zero.as_ref().map_or(0, |z| z[j * groups + g] as i64);
                            (g * (k / groups)..(g + 1) * (k / groups)).map(|c| (tokens[c] - base) * (codes[j * k + c] - z)).sum()
                        };
                        let want = if groups == 1 {
                            sum(0) as f32 * (step * scale[j])
                        } else {
                            (0..groups).map(|g| sum(g) as f32 * scale[j * groups + g]).sum::<f32>() * step
                        } + bias_host[j];
                        let got = got[i * n + j];
                        let near = if groups == 1 { got == want } else { (got - want).abs() <= 1e-5 * (1.0 + want.abs()) };
                        assert!(near, "{packing:?}, {m} {n} {k}, symmetric {symmetric}, at {i} {j}: {got} for {want}");
                    }
                }
            }
            let float = quantized_linear(&x, &weight, Some(&bias), QuantizedInput::Float).to_vec::<f32>()?;
            let plain = linear(&x, &weight.dequantize(DType::F32), Some(&bias)).to_vec::<f32>()?;
            assert_eq!(float, plain, "{packing:?}");
            let (step, base) = (Tensor::from_vec(vec![0.02f32], [] as [usize; 0]), Tensor::from_vec(vec![100i32], [] as [usize; 0]));
            let given = quantized_linear(&x, &weight, None, QuantizedInput::Given { scale: &step, zero_point: &base });
            let codes: Vec<f32> = x_host.iter().map(|v| ((v * (1.0 / 0.02f32)).round_ties_even() + 100.0).clamp(0.0, 255.0) - 100.0).collect();
            let rounded = Tensor::from_vec(codes, [m, k]) * 0.02;
            let plain = linear(&rounded, &weight.dequantize(DType::F32), None);
            let differ = (given - plain).abs().max().item::<f32>()?;
            assert!(differ < 1e-3, "{packing:?}: {differ}");
        }
    }
    Ok(())
}

#[test]
fn the_input_has_the_gradient_of_the_numbers_and_bad_rows_stay_bad() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(3);
    let weight = PackedWeight::round(&draw.tensor(&[4, 6]), Packing { bits: 4, group: Some(3), symmetric: false })?;
    let (x, bias) = (draw.tensor(&[2, 3, 6]).tracked(), draw.tensor(&[4]).tracked());
    let pull = draw.tensor(&[2, 3, 4]);
    for input in [QuantizedInput::Float, QuantizedInput::PerToken { symmetric: true }, QuantizedInput::PerToken { symmetric: false }] {
        let grads = (quantized_linear(&x, &weight, Some(&bias), input) * &pull).sum(..).backward()?;
        let plain = (linear(&x, &weight.dequantize(DType::F32), Some(&bias)) * &pull).sum(..).backward()?;
        for leaf in [&x, &bias] {
            let of = |g: &adamant_core::Grads| g.get(leaf).map(|g| g.to_vec::<f32>()).transpose();
            assert_eq!(of(&grads)?, of(&plain)?);
        }
    }
    let given = |zero: i32| {
        let (scale, zero_point) = (Tensor::full((), 0.02, DType::F32), Tensor::full((), zero, DType::I32));
        quantized_linear(&x, &weight, Some(&bias), QuantizedInput::Given { scale: &scale, zero_point: &zero_point }).to_vec::<f32>()
    };
    assert_eq!(given(300)?, given(255)?);
    assert_eq!(given(-5)?, given(0)?);
    let bad = Tensor::from_vec(vec![1.0f32, f32::NAN, 0.0, 2.0, 1.0, 1.0, 1.0, 0.5, 0.0, 2.0, 1.0, f32::INFINITY, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [3, 6]);
    let y = quantized_linear(&bad, &weight, None, QuantizedInput::PerToken { symmetric: true }).to_vec::<f32>()?;
    assert!(y[..8].iter().all(|v| v.is_nan()) && y[8..].iter().all(|v| v.is_finite()), "{y:?}");
    Ok(())
}

/// A drawn convolution over one to three axes.
#[derive(Debug)]
struct ConvCase {
    batch: usize,
    /// `[channels, ..sizes]`
    x: Vec<usize>,
    /// `[out, in / groups, ..kernel]`
    weight: Vec<usize>,
    groups: usize,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
}
impl ConvCase {
    fn drawn(draw: &mut Draw, packing: Packing) -> ConvCase {
        let n = 1 + draw.below(3);
        let (groups, inner) = (1 + draw.below(3), 1 + draw.below(3));
        let mut each = |least: usize, many: usize| (0..n).map(|_| least + draw.below(many)).collect::<Vec<_>>();
        let (mut kernel, stride, padding, dilation) = (each(1, 3), each(1, 2), each(0, 3), each(1, 2));
        // Groups of columns must divide a window.
        let inner = match packing.group {
            Some(group) if inner * kernel.iter().product::<usize>() % group != 0 => {
                kernel.fill(1);
                group
            }
            _ => inner,
        };
        let reach = |k: usize| dilation[k] * (kernel[k] - 1) + 1;
        let sizes: Vec<usize> = (0..n).map(|k| reach(k).saturating_sub(2 * padding[k]).max(1) + draw.below(4)).collect();
        let x = [vec![groups * inner], sizes].concat();
        let weight = [vec![groups * (1 + draw.below(3)), inner], kernel].concat();
        ConvCase { batch: 1 + draw.below(3), x, weight, groups, stride, padding, dilation }
    }
    fn options(&self) -> ConvOptions {
        ConvOptions {
            stride: self.stride.clone().into(),
            padding: Padding::Zeros(self.padding.clone().into()),
            dilation: self.dilation.clone().into(),
            groups: self.groups,
        }
    }
    fn made(&self) -> Vec<usize> {
        let size = |k: usize| (self.x[1 + k] + 2 * self.padding[k] - self.dilation[k] * (self.weight[2 + k] - 1) - 1) / self.stride[k] + 1;
        (0..self.stride.len()).map(size).collect()
    }
    /// The elements of a sample that a place's window of an output channel meets, in the order of the weight's columns; `None`:
    /// padded.
    fn window(&self, channel: usize, place: usize) -> Vec<Option<usize>> {
        let (made, kernel) = (self.made(), &self.weight[2..]);
        let unravel = |mut flat: usize, sizes: &[usize]| {
            let mut at = vec![0; sizes.len()];
            for k in (0..sizes.len()).rev() {
                (at[k], flat) = (flat % sizes[k], flat / sizes[k]);
            }
            at
        };
        let (place, taps, inner) = (unravel(place, &made), kernel.iter().product::<usize>(), self.weight[1]);
        let first = channel / (self.weight[0] / self.groups) * inner;
        let element = |column: usize| {
            let tap = unravel(column % taps, kernel);
            let mut flat = first + column / taps;
            for k in 0..made.len() {
                let at = (place[k] * self.stride[k] + tap[k] * self.dilation[k]).checked_sub(self.padding[k]).filter(|at| *at < self.x[1 + k])?;
                flat = flat * self.x[1 + k] + at;
            }
            Some(flat)
        };
        (0..inner * taps).map(element).collect()
    }
}

#[test]
fn a_convolution_is_its_integer_sums_scaled_in_the_promised_order() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(29);
    for packing in packings().into_iter().cycle().take(90) {
        let case = ConvCase::drawn(&mut draw, packing);
        let x = draw.tensor(&[vec![case.batch], case.x.clone()].concat());
        let (rows, columns) = (case.weight[0], case.weight[1..].iter().product::<usize>());
        let (weight, bias) = (PackedWeight::round(&draw.tensor(&case.weight), packing)?, draw.tensor(&[rows]));
        let (codes, scale, groups) = (codes_of(&weight, rows, columns)?, weight.scale().to_vec::<f32>()?, packing.groups(columns));
        let zero = weight.zero_point().map(|z| z.to_vec::<u8>()).transpose()?;
        let (x_host, bias_host) = (x.to_vec::<f32>()?, bias.to_vec::<f32>()?);
        let (sample, places) = (x_host.len() / case.batch, case.made().iter().product::<usize>());
        for symmetric in [true, false] {
            let y = quantized_conv(&x, &weight, Some(&bias), &case.options(), QuantizedInput::PerToken { symmetric });
            assert_eq!(y.shape()?.to_vec(), [vec![case.batch, rows], case.made()].concat(), "{packing:?}, {case:?}");
            let y = y.to_vec::<f32>()?;
            for at in 0..y.len() {
                let (of_batch, channel, place) = (at / places / rows, at / places % rows, at % places);
                let (tokens, step, base) = token(&x_host[of_batch * sample..][..sample], symmetric);
                let window = case.window(channel, place);
                let sum = |g: usize| -> i64 {
                    let z = zero.as_ref().map_or(0, |z| z[channel * groups + g] as i64);
                    let of_group = g * (columns / groups)..(g + 1) * (columns / groups);
                    of_group.filter_map(|c| Some((tokens[window[c]?] - base) * (codes[channel * columns + c] - z))).sum()
                };
                let want = if groups == 1 {
                    sum(0) as f32 * (step * scale[channel])
                } else {
                    (0..groups).map(|g| sum(g) as f32 * scale[channel * groups + g]).sum::<f32>() * step
                } + bias_host[channel];
                let near = if groups == 1 { y[at] == want } else { (y[at] - want).abs() <= 1e-5 * (1.0 + want.abs()) };
                assert!(near, "{packing:?}, {case:?}, symmetric {symmetric}, at {at}: {} for {want}", y[at]);
            }
        }
    }
    Ok(())
}

#[test]
fn a_convolution_of_codes_has_the_gradient_and_the_shape_of_one_of_numbers() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(31);
    for packing in packings() {
        let case = ConvCase::drawn(&mut draw, packing);
        let weight = PackedWeight::round(&draw.tensor(&case.weight), packing)?;
        let (x, bias) = (draw.tensor(&[vec![case.batch], case.x.clone()].concat()).tracked(), draw.tensor(&[case.weight[0]]).tracked());
        let (numbers, options) = (weight.dequantize(DType::F32), case.options());
        let conv = |x: &Tensor| match case.stride.len() {
            1 => conv1d(x, &numbers, Some(&bias), &options),
            2 => conv2d(x, &numbers, Some(&bias), &options),
            _ => conv3d(x, &numbers, Some(&bias), &options),
        };
        let plain = conv(&x);
        let pull = draw.tensor(&plain.shape()?);
        let plain_grads = (&plain * &pull).sum(..).backward()?;
        let (step, base) = (Tensor::from_vec(vec![0.02f32], [] as [usize; 0]), Tensor::from_vec(vec![100i32], [] as [usize; 0]));
        for input in [QuantizedInput::Float, QuantizedInput::PerToken { symmetric: false }, QuantizedInput::Given { scale: &step, zero_point: &base }] {
            let y = quantized_conv(&x, &weight, Some(&bias), &options, input);
            let grads = (&y * &pull).sum(..).backward()?;
            for leaf in [&x, &bias] {
                let of = |g: &adamant_core::Grads| g.get(leaf).map(|g| g.to_vec::<f32>()).transpose();
                assert_eq!(of(&grads)?, of(&plain_grads)?, "{packing:?}, {case:?}");
            }
            // One sample without a batch axis.
            let one = quantized_conv(&x.detach().select(0, 0), &weight, Some(&bias), &options, input);
            assert_eq!(one.to_vec::<f32>()?, y.detach().select(0, 0).to_vec::<f32>()?, "{packing:?}, {case:?}");
        }
        let codes = x.detach().clamp(-2.0, 3.1);
        let rounded = ((&codes * (1.0 / 0.02)).round() * 0.02).detach();
        let given = quantized_conv(&x, &weight, Some(&bias), &options, QuantizedInput::Given { scale: &step, zero_point: &base });
        let differ = (given - conv(&rounded)).abs().max().item::<f32>()?;
        assert!(differ < 1e-3, "{packing:?}, {case:?}: {differ}");
    }
    Ok(())
}

#[test]
fn a_table_gives_rows_and_wrong_calls_say_why() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(5);
    let table = PackedWeight::round(&draw.tensor(&[9, 8]), Packing { bits: 3, group: Some(4), symmetric: true })?;
    let ids = Tensor::from_vec(vec![3i64, 0, 8, 3], [2, 2]);
    let rows = quantized_embedding(&ids, &table);
    let whole = table.dequantize(DType::F32).index_select(0, &ids.reshape([4])).reshape([2, 2, 8]);
    assert_eq!(rows.to_vec::<f32>()?, whole.to_vec::<f32>()?);
    assert!(quantized_embedding(&Tensor::from_vec(vec![9i64], [1]), &table).to_vec::<f32>().is_err());
    let text = |t: Tensor| t.to_vec_as::<f64>().err().map(|e| e.to_string()).unwrap_or_default();
    let wide = text(quantized_linear(&Tensor::ones([2, 8]).cast(DType::F64), &table, None, QuantizedInput::Float));
    assert!(wide.contains("f32"), "{wide}");
    let narrow = text(quantized_linear(&Tensor::ones([2, 5]), &table, None, QuantizedInput::Float));
    assert!(narrow.contains("columns of the codes"), "{narrow}");
    let twice = PackedWeight::round(table.codes(), table.packing()).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(twice.contains("floats"), "{twice}");
    let bits = PackedWeight::round(&Tensor::ones([2, 8]), Packing { bits: 5, group: None, symmetric: true });
    assert!(bits.is_err_and(|e| e.to_string().contains("8, 4 or 3")));
    assert!(PackedWeight::new(table.packing(), [9, 9], table.codes(), table.scale(), None).is_err());
    Ok(())
}

/// The probability that a standard normal number is below x: the integral by Simpson's rule.
fn normal_below(x: f64) -> f64 {
    let (n, density) = (2000, |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt());
    let h = x / n as f64;
    let inner: f64 = (1..n).map(|k| density(k as f64 * h) * if k % 2 == 1 { 4.0 } else { 2.0 }).sum();
    0.5 + h / 3.0 * (density(0.0) + inner + density(x))
}
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_below(middle) < p { low = middle } else { high = middle }
    }
    low
}
#[test]
fn levels_of_nf4_are_quantiles_of_a_normal_distribution() {
    let from = 1.0 - (1.0 / 32.0 + 1.0 / 30.0) / 2.0;
    let part = |steps: usize| (0..steps).map(move |k| normal_quantile(from + (0.5 - from) * k as f64 / steps as f64));
    let mut all: Vec<f64> = part(8).chain(part(7).map(|q| -q)).chain([0.0]).collect();
    all.sort_by(f64::total_cmp);
    let largest = all[15];
    for (k, (level, quantile)) in NORMAL_FLOATS.iter().zip(&all).enumerate() {
        assert!((f64::from(*level) - quantile / largest).abs() < 5e-7, "level {k} is {level}, and the quantile is {}", quantile / largest);
    }
}
#[test]
fn codes_of_nf4_are_those_of_the_nearest_levels() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(17);
    for (columns, group, scales) in [(64usize, Some(16usize), DType::F32), (33, None, DType::F32), (64, Some(64), DType::F16)] {
        let (rows, weight) = (5, draw.tensor(&[5, columns]));
        let packed = PackedWeight::round_normal_float(&weight, group, scales)?;
        let (bytes, scale) = (packed.codes().to_vec::<u8>()?, packed.scale().to_vec_as::<f32>()?);
        let (numbers, want) = (packed.dequantize(DType::F32).to_vec::<f32>()?, weight.to_vec::<f32>()?);
        let size = group.unwrap_or(columns);
        for at in 0..rows * columns {
            let (row, column) = (at / columns, at % columns);
            let of_group = &want[row * columns + column / size * size..][..size];
            let largest = of_group.iter().fold(0f32, |m, v| m.max(v.abs()));
            let stored = scale[row * (columns / size) + column / size];
            assert!((stored - if largest == 0.0 { 1.0 } else { largest }).abs() <= largest * 1e-3, "{stored} {largest}");
            let code = bytes[row * columns.div_ceil(2) + column / 2] >> (column % 2 * 4) & 15;
            assert_eq!(numbers[at], NORMAL_FLOATS[code as usize] * stored);
            let nearest = NORMAL_FLOATS.iter().map(|level| (level * stored - want[at]).abs()).fold(f32::MAX, f32::min);
            assert!((numbers[at] - want[at]).abs() <= nearest + 1e-6 * largest, "{} for {}", numbers[at], want[at]);
        }
        let (x, bias) = (draw.tensor(&[2, 3, columns]), draw.tensor(&[rows]));
        let y = quantized_linear(&x, &packed, Some(&bias), QuantizedInput::Float).to_vec::<f32>()?;
        let plain = linear(&x, &Tensor::from_vec(numbers, [rows, columns]), Some(&bias)).to_vec::<f32>()?;
        assert!(y.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-4));
        let error = quantized_linear(&x, &packed, None, QuantizedInput::PerToken { symmetric: true }).to_vec::<f32>().err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("NF4 are multiplied as numbers")));
    }
    let eight = PackedWeight::round(&Tensor::ones([2, 8]), Packing { bits: 8, group: None, symmetric: true })?;
    assert!(eight.with_levels(CodeLevels::NormalFloat).is_err_and(|e| e.to_string().contains("4 bits without zero points")));
    // A kernel of a convolution.
    let kernel = draw.tensor(&[4, 2, 3, 3]);
    let packed = PackedWeight::round_normal_float(&kernel, None, DType::F32)?;
    let x = draw.tensor(&[2, 2, 6, 5]);
    let options = ConvOptions::default();
    let plain = conv2d(&x, &packed.dequantize(DType::F32), None, &options);
    assert_eq!(quantized_conv(&x, &packed, None, &options, QuantizedInput::Float).to_vec::<f32>()?, plain.to_vec::<f32>()?);
    Ok(())
}
#[test]
fn minima_and_columns_in_another_order() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(19);
    let (rows, columns) = (5, 48);
    let inputs = [QuantizedInput::Float, QuantizedInput::PerToken { symmetric: true }, QuantizedInput::PerToken { symmetric: false }];
    for packing in packings().into_iter().filter(|p| p.group != Some(5)) {
        for (has_minimum, has_order) in [(true, false), (false, true), (true, true)] {
            let plain = PackedWeight::round(&draw.tensor(&[rows, columns]), packing)?;
            let groups = packing.groups(columns);
            let minimum = draw.tensor(&[rows, groups]);
            let mut order: Vec<i32> = (0..columns as i32).collect();
            (1..columns).rev().for_each(|k| order.swap(k, draw.below(k + 1)));
            let mut weight = plain.clone();
            if has_minimum {
                weight = weight.with_minimum(&minimum)?;
            }
            if has_order {
                weight = weight.with_order(&Tensor::from_vec(order.clone(), [columns]))?;
            }
            let (codes, minima) = (plain.dequantize(DType::F32).to_vec::<f32>()?, minimum.to_vec::<f32>()?);
            let mut want = vec![0f32; rows * columns];
            for at in 0..rows * columns {
                let (row, column) = (at / columns, at % columns);
                let place = if has_order { order[column] as usize } else { column };
                let added = if has_minimum { minima[row * groups + column * groups / columns] } else { 0.0 };
                want[row * columns + place] = codes[at] + added;
            }
            assert_eq!(weight.dequantize(DType::F32).to_vec::<f32>()?, want, "{packing:?}");
            let want = Tensor::from_vec(want, [rows, columns]);
            let (x, bias) = (draw.tensor(&[2, 3, columns]), draw.tensor(&[rows]));
            for input in inputs {
                let y = quantized_linear(&x, &weight, Some(&bias), input);
                // What codes of x lose is at most half a step of each.
                let loss = if matches!(input, QuantizedInput::Float) { 1e-4 } else { 3.0 };
                let off = (&y - linear(&x, &want, Some(&bias))).abs().max().item::<f32>()?;
                assert!(off < loss, "{packing:?} {input:?}: {off}");
                let part = quantized_linear(&x, &weight.narrow(1, 2)?, Some(&bias.narrow(0, 1, 2)), input);
                assert_eq!(part.to_vec::<f32>()?, y.narrow(2, 1, 2).to_vec::<f32>()?);
            }
            let row = quantized_embedding(&Tensor::from_vec(vec![3i64, 0], [2]), &weight);
            assert_eq!(row.to_vec::<f32>()?, want.index_select(0, &Tensor::from_vec(vec![3i64, 0], [2])).to_vec::<f32>()?);
            let cell = adamant_core::Cell::new(&x, true)?;
            let of = |y: Tensor| -> Result<Vec<f32>> { y.square().sum(..).backward()?.of(&cell).map_or(Ok(vec![]), |g| g.to_vec::<f32>()) };
            let (got, plain) = (of(quantized_linear(&cell.get(), &weight, None, QuantizedInput::Float))?, of(linear(&cell.get(), &want, None))?);
            assert!(got.len() == plain.len() && !got.is_empty() && got.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 2e-3 * b.abs().max(1.0)), "{packing:?}");
        }
    }
    let weight = PackedWeight::round(&draw.tensor(&[4, 6]), Packing { bits: 4, group: Some(3), symmetric: true })?;
    let text = |r: Result<PackedWeight>| r.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(text(weight.clone().with_minimum(&Tensor::ones([4, 3]))).contains("minima of [4, 2]"));
    assert!(text(weight.clone().with_minimum(&Tensor::ones([4, 2]).cast(DType::F64))).contains("f32 or f16"));
    assert!(text(weight.clone().with_order(&Tensor::ones([6]))).contains("i32"));
    let wide = weight.with_order(&Tensor::from_vec(vec![0i32, 1, 2, 3, 5, 4], [6]))?;
    let error = quantized_linear(&Tensor::ones([2, 5]), &wide, None, QuantizedInput::Float).to_vec::<f32>().err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("[.., 6]"), "{error}");
    Ok(())
}
