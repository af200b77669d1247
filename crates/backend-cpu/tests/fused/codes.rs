//! Layers of codes.
use super::*;

/// Codes, scales, zero points and bias of a layer.
fn coded_layer(layer: &QuantizedLinear, n: usize, k: usize) -> Vec<Tensor> {
    let codes = (numbers(&[n, k], 5, DType::F64) * 32.0).round();
    let codes = if layer.packing.symmetric { codes.cast(DType::I8) } else { (codes + 128.0).cast(DType::U8) };
    let mut all = vec![codes, positive(&[n, 1], 6, DType::F32) * 0.01];
    if !layer.packing.symmetric {
        all.push((numbers(&[n, 1], 7, DType::F64) * 32.0 + 128.0).round().cast(DType::U8));
    }
    all.extend(layer.bias.then(|| numbers(&[n], 8, DType::F32)));
    all
}
fn coded_layers() -> impl Iterator<Item = QuantizedLinear> {
    [(true, true, true), (true, true, false), (false, true, true), (true, false, true), (false, false, false)].into_iter().map(|(x, w, bias)| QuantizedLinear {
        packing: Packing { bits: 8, group: None, symmetric: w },
        levels: CodeLevels::Even,
        activations: Activations::PerToken { symmetric: x },
        wide: false,
        bias,
    })
}
#[test]
fn layers_of_codes() {
    let shapes: [(&[usize], usize); 10] = [
        (&[1, 64], 16),
        (&[1, 5], 3),
        (&[3, 2, 67], 33),
        (&[32, 130], 70),
        (&[33, 130], 70),
        (&[100, 300], 65),
        (&[1, 1100], 1030),
        (&[70, 1030], 500),
        (&[2, 5000], 7),
        (&[0, 8], 4),
    ];
    for layer in coded_layers() {
        for (shape, n) in shapes {
            check(&layer, || [vec![numbers(shape, 4, DType::F32)], coded_layer(&layer, n, shape[shape.len() - 1])].concat());
        }
    }
}
/// Layers of every packing, activation, dtype and size, drawn.
#[test]
fn layers_of_drawn_codes() {
    let columns = [1usize, 2, 3, 7, 8, 16, 24, 31, 32, 33, 64, 65, 96, 100, 128, 200, 256, 257, 320, 512, 700, 1024];
    for seed in 0..160u32 {
        let mut drawn = 0u64;
        let mut below = |n: usize| {
            drawn += 1;
            (rng::element_bits([seed, 77, 0, 0], drawn) as usize >> 4) % n
        };
        let k = columns[below(columns.len())];
        let groups: Vec<usize> = (1..=k).filter(|group| k.is_multiple_of(*group)).collect();
        let group = (below(3) > 0).then(|| groups[below(groups.len())]);
        let packing = Packing { bits: [8, 4, 3][below(3)], group, symmetric: below(2) == 0 };
        let known = [Activations::Float, Activations::PerToken { symmetric: false }, Activations::PerToken { symmetric: true }, Activations::Given];
        let activations = known[below(4)];
        let normal = packing.bits == 4 && packing.symmetric && activations == Activations::Float;
        let levels = if normal && below(3) > 0 { CodeLevels::NormalFloat } else { CodeLevels::Even };
        let layer = QuantizedLinear { packing, levels, activations, wide: false, bias: below(2) == 0 };
        let x = [DType::F32, DType::F32, DType::F16, DType::BF16][below(4)];
        let bias = [DType::F32, x][below(2)];
        let scale = [DType::F32, DType::F16][below(2)];
        let (rows, n) = ([1, 1, 2, 3, 5, 8, 20, 33, 40][below(9)], 1 + below(90));
        check(&layer, || {
            let bytes = (numbers(&[n, packing.row_bytes(k)], 5, DType::F64) * 32.0).floor();
            let codes = if packing.bits == 8 && packing.symmetric { bytes.cast(DType::I8) } else { (bytes + 128.0).cast(DType::U8) };
            let scales = [n, packing.groups(k)];
            let mut all = vec![numbers(&[rows, k], 4 + seed, x), codes, (positive(&scales, 6, DType::F32) * 0.01).cast(scale)];
            if !packing.symmetric {
                let most = packing.range().1 as f64;
                all.push(((numbers(&scales, 7, DType::F64) + 4.0) * (most / 8.0)).round().cast(DType::U8));
            }
            if layer.activations == Activations::Given {
                all.push(Tensor::full((), 0.03f32, DType::F32));
                all.push(Tensor::full((), (seed % 256) as i32, DType::I32));
            }
            all.extend(layer.bias.then(|| numbers(&[n], 8, bias)));
            all
        });
    }
}
/// Layers whose groups fill vectors and parts of them, more of them than a block of a reduction has, and rows that are not whole fours.
#[test]
fn groups_that_fill_vectors() {
    for seed in 0..72u32 {
        let mut drawn = 0u64;
        let mut below = |n: usize| {
            drawn += 1;
            (rng::element_bits([seed, 79, 0, 0], drawn) as usize >> 4) % n
        };
        let bits = [4, 8][below(2)];
        let size = [16, 32, 64, 128, 256, 384, 512][below(7)];
        let groups = [2, 3, 4, 5, 7, 16, 17, 40, 257, 300][below(10)].min(9600 / size).max(2);
        let packing = Packing { bits, group: Some(size), symmetric: below(2) == 0 };
        let known = [Activations::PerToken { symmetric: false }, Activations::PerToken { symmetric: true }, Activations::Given];
        let layer = QuantizedLinear { packing, levels: CodeLevels::Even, activations: known[below(3)], wide: false, bias: below(2) == 0 };
        let (rows, n, k) = ([1, 1, 2, 3, 9, 33][below(6)], 1 + below(23), groups * size);
        let scale = [DType::F32, DType::F16][below(2)];
        check(&layer, || {
            let bytes = (numbers(&[n, packing.row_bytes(k)], 5 + seed, DType::F64) * 32.0).floor();
            let codes = if bits == 8 && packing.symmetric { bytes.cast(DType::I8) } else { (bytes + 128.0).cast(DType::U8) };
            let scales = [n, groups];
            let mut all = vec![numbers(&[rows, k], 4 + seed, DType::F32), codes, (positive(&scales, 6, DType::F32) * 0.01).cast(scale)];
            if !packing.symmetric {
                let most = packing.range().1 as f64;
                all.push(((numbers(&scales, 7, DType::F64) + 4.0) * (most / 8.0)).round().cast(DType::U8));
            }
            if layer.activations == Activations::Given {
                all.push(Tensor::full((), 0.03f32, DType::F32));
                all.push(Tensor::full((), (seed * 3 % 256) as i32, DType::I32));
            }
            all.extend(layer.bias.then(|| numbers(&[n], 8, DType::F32)));
            all
        });
    }
}
/// Convolutions of every number of axes, groups, steps and paddings, drawn.
#[test]
fn convolutions_of_drawn_codes() {
    for seed in 0..120u32 {
        let mut drawn = 0u64;
        let mut below = |n: usize| {
            drawn += 1;
            (rng::element_bits([seed, 78, 0, 0], drawn) as usize >> 4) % n
        };
        let axes = 1 + below(3);
        let groups = [1, 1, 2, 3][below(4)];
        let (inner, made) = ([1, 2, 3, 8, 17][below(5)], [1, 2, 5, 8, 19, 33][below(6)]);
        let (mut x, mut weight) = (vec![1 + below(3), groups * inner], vec![groups * made, inner]);
        let (mut stride, mut padding, mut dilation) = (vec![], vec![], vec![]);
        for _ in 0..axes {
            let (kernel, spread) = (1 + below(3), 1 + below(2));
            x.push(spread * (kernel - 1) + 1 + below([40, 9, 4][axes - 1]));
            weight.push(kernel);
            stride.push(1 + below(3));
            dilation.push(spread);
            padding.push((below(3), below(3)));
        }
        let packing = Packing { bits: [8, 8, 8, 4][below(4)], group: None, symmetric: below(2) == 0 };
        let known = [Activations::Given, Activations::PerToken { symmetric: false }, Activations::PerToken { symmetric: true }, Activations::Float];
        let codes = CodedInputs { packing, activations: known[below(4)], bias: below(2) == 0 };
        let conv =
            ConvSpec { role: ConvRole::Forward, stride: stride.into(), padding: padding.into(), dilation: dilation.into(), groups, open: Default::default() };
        let layer = QuantizedConv { conv: Arc::new(conv), weight: Shape::new(&weight).unwrap(), codes };
        check(&layer, || {
            let stored = packing.codes(&layer.weight);
            let bytes = (numbers(&stored, 5, DType::F64) * 32.0).floor();
            let stored = if packing.bits == 8 && packing.symmetric { bytes.cast(DType::I8) } else { (bytes + 128.0).cast(DType::U8) };
            let scales = [weight[0], 1];
            let mut all = vec![numbers(&x, 4 + seed, DType::F32), stored, positive(&scales, 6, DType::F32) * 0.01];
            if !packing.symmetric {
                let most = packing.range().1 as f64;
                all.push(((numbers(&scales, 7, DType::F64) + 4.0) * (most / 8.0)).round().cast(DType::U8));
            }
            if codes.activations == Activations::Given {
                all.push(Tensor::full((), 0.03f32, DType::F32));
                all.push(Tensor::full((), (seed % 256) as i32, DType::I32));
            }
            all.extend(codes.bias.then(|| numbers(&[weight[0]], 8, DType::F32)));
            all
        });
    }
}
#[test]
fn layers_of_codes_of_rows_that_are_not_like_others() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows: [[f32; 4]; 16] = [
        [0.0, 0.0, 0.0, 0.0],
        [-0.0, 0.0, -0.0, -0.0],
        [1e-31, 1e-32, 0.0, -1e-31],
        [1e-30, 0.0, 0.0, 0.0],
        [-2e-30, 1e-30, 0.0, 0.0],
        [1e-40, -1e-40, 1e-45, 0.0],
        [inf, 1.0, 2.0, 3.0],
        [-inf, 1.0, 2.0, 3.0],
        [inf, -inf, 0.0, 1.0],
        [nan, 1.0, 2.0, 3.0],
        [-nan, 1.0, inf, 3.0],
        [f32::MAX, f32::MIN, 1.0, 0.0],
        [f32::MAX, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0],
        [-1.0, -2.0, -3.0, -0.5],
        [0.5, 1.5, 2.5, 127.0],
    ];
    for layer in coded_layers() {
        for many in [false, true] {
            let x = || {
                let x = Tensor::from_vec(rows.concat(), [16, 4]);
                if many { Tensor::cat(&[&x, &x, &x], 0) } else { x }
            };
            check(&layer, || [vec![x()], coded_layer(&layer, 9, 4)].concat());
            let given = QuantizedLinear { activations: Activations::Given, ..layer };
            for scale in [0.5f32, 1e-30, 1e30] {
                check(&given, || {
                    let mut all = [vec![x()], coded_layer(&given, 9, 4)].concat();
                    let at = all.len() - usize::from(given.bias);
                    all.splice(at..at, [Tensor::full((), scale, DType::F32), Tensor::full((), 7, DType::I32)]);
                    all
                });
            }
        }
    }
}
