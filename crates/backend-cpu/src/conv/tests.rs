//! The three roles against their naive sums, and the promise on bits.

use super::*;

fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Calls `f(x index, w index, y index)` for every product in the sum.
fn for_each_product(shape: &ConvShape, mut f: impl FnMut(usize, usize, usize)) {
    let (ins, outs) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
    let positions = |size: [usize; 3]| (0..size[0]).flat_map(move |d| (0..size[1]).flat_map(move |h| (0..size[2]).map(move |w| [d, h, w])));
    let flat = |size: [usize; 3], at: [usize; 3]| (at[0] * size[1] + at[1]) * size[2] + at[2];
    let [input, taps, output] = shape.spatial();
    for image in 0..shape.batch {
        for out in 0..shape.out_channels {
            let group = out / outs;
            for o in positions(shape.output) {
                for channel in 0..ins {
                    'tap: for t in positions(shape.kernel) {
                        let mut at = [0; 3];
                        for axis in 0..3 {
                            let i = o[axis] * shape.stride[axis] + t[axis] * shape.dilation[axis];
                            let i = i as isize - shape.padding[axis].0 as isize;
                            if i < 0 || i >= shape.input[axis] as isize {
                                continue 'tap;
                            }
                            at[axis] = i as usize;
                        }
                        f(
                            (image * shape.in_channels + group * ins + channel) * input + flat(shape.input, at),
                            (out * ins + channel) * taps + flat(shape.kernel, t),
                            (image * shape.out_channels + out) * output + flat(shape.output, o),
                        );
                    }
                }
            }
        }
    }
}

fn shapes() -> Vec<ConvShape> {
    let two = |batch, ins, outs, groups, size: [usize; 2], kernel: [usize; 2], stride, pad, dilation| {
        ConvShape::new(batch, ins, outs, groups, &size, &kernel, &[stride; 2], &[(pad, pad); 2], &[dilation; 2]).unwrap()
    };
    vec![
        two(1, 1, 1, 1, [3, 3], [1, 1], 1, 0, 1),
        two(2, 3, 5, 1, [7, 9], [3, 3], 1, 1, 1),
        two(3, 1, 32, 1, [14, 14], [3, 3], 1, 0, 1),
        two(2, 8, 13, 1, [9, 8], [3, 3], 2, 1, 1),
        two(2, 4, 6, 2, [10, 11], [3, 2], 2, 1, 2),
        two(1, 3, 16, 1, [23, 23], [7, 7], 2, 3, 1),
        two(5, 16, 20, 1, [4, 4], [3, 3], 1, 1, 1),
        two(3, 16, 20, 1, [8, 8], [1, 1], 2, 0, 1),
        two(2, 40, 70, 1, [12, 12], [1, 1], 1, 0, 1),
        two(2, 6, 6, 6, [9, 9], [3, 3], 1, 1, 1),
        two(2, 5, 15, 5, [9, 70], [5, 3], 1, 2, 1),
        two(3, 4, 4, 4, [12, 45], [3, 3], 2, 1, 1),
        two(1, 3, 6, 3, [11, 40], [3, 4], 3, 2, 2),
        two(2, 3, 3, 3, [8, 8], [2, 2], 1, 3, 1),
        two(1, 70, 70, 70, [30, 31], [3, 3], 1, 1, 2),
        ConvShape::new(2, 3, 3, 3, &[50], &[7], &[2], &[(0, 5)], &[3]).unwrap(),
        ConvShape::new(2, 2, 2, 2, &[5, 6, 7], &[2, 3, 2], &[1, 2, 2], &[(1, 0), (2, 1), (0, 3)], &[2, 1, 1]).unwrap(),
        two(20, 3, 4, 1, [3, 3], [3, 3], 1, 0, 1),
        two(1, 30, 50, 1, [40, 33], [3, 3], 1, 1, 1),
        two(2, 5, 3, 1, [11, 11], [2, 2], 3, 2, 3),
        ConvShape::new(2, 3, 4, 1, &[17], &[4], &[3], &[(0, 5)], &[2]).unwrap(),
        ConvShape::new(2, 3, 4, 1, &[5, 1], &[2, 1], &[1, 2], &[(0, 0), (0, 0)], &[1, 2]).unwrap(),
        ConvShape::new(2, 2, 3, 1, &[5, 6, 7], &[2, 3, 2], &[1, 2, 2], &[(1, 0), (2, 1), (0, 3)], &[2, 1, 1]).unwrap(),
    ]
}

/// Shapes that nobody chose: two spatial axes, of which some have strides, gaps, groups and uneven zeros around them.
fn drawn_shapes(seed: u64, count: usize) -> Vec<ConvShape> {
    let all = random(seed, count * 40);
    let one = |drawn: &[f32]| {
        let mut drawn = drawn.iter();
        let mut size = |most: usize| drawn.next().map_or(1, |v| 1 + ((v + 1.0) / 2.0 * (most - 1) as f32).round() as usize);
        let groups = size(3);
        let (batch, ins, outs) = (size(4), groups * size(9), groups * size(40));
        let pair = |f: &mut dyn FnMut() -> usize| [f(), f()];
        let (input, kernel) = (pair(&mut || size(40)), pair(&mut || size(4)));
        let (stride, dilation) = (pair(&mut || size(3)), pair(&mut || size(2)));
        let padding = [(size(4) - 1, size(4) - 1), (size(4) - 1, size(4) - 1)];
        // A kernel wider than what it slides over is no convolution.
        ConvShape::new(batch, ins, outs, groups, &input, &kernel, &stride, &padding, &dilation).ok()
    };
    all.chunks_exact(40).filter_map(one).collect()
}

fn close(what: &str, shape: &ConvShape, got: &[f32], want: &[f64], scale: f64) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() <= 1e-6 * scale, "{what} {shape:?} at {i}: {got} {want}");
    }
}

#[test]
fn the_three_roles_agree_with_their_naive_sums() {
    for shape in shapes() {
        let [x_len, w_len, y_len] = shape.lengths();
        let (x, w, g) = (random(1, x_len), random(2, w_len), random(3, y_len));
        let (mut y_want, mut dx_want, mut dw_want) = (vec![0.0; y_len], vec![0.0; x_len], vec![0.0; w_len]);
        for_each_product(&shape, |xi, wi, yi| {
            y_want[yi] += f64::from(x[xi]) * f64::from(w[wi]);
            dx_want[xi] += f64::from(g[yi]) * f64::from(w[wi]);
            dw_want[wi] += f64::from(g[yi]) * f64::from(x[xi]);
        });
        let mut first: Option<[Vec<f32>; 3]> = None;
        for isa in Isa::ALL {
            for count in [1, 3] {
                if !isa.is_available() {
                    continue;
                }
                let threads = Threads::new(count);
                let (mut y, mut dx, mut dw) = (vec![7.0; y_len], vec![7.0; x_len], vec![7.0; w_len]);
                forward(&threads, isa, &shape, &x, &w, &mut y).unwrap();
                input_grad(&threads, isa, &shape, &g, &w, &mut dx).unwrap();
                weight_grad(&threads, isa, &shape, &x, &g, &mut dw).unwrap();
                close("forward", &shape, &y, &y_want, 40.0);
                close("input_grad", &shape, &dx, &dx_want, 40.0);
                close("weight_grad", &shape, &dw, &dw_want, 100.0);
                let all = [y, dx, dw];
                match &first {
                    None => first = Some(all),
                    Some(first) => assert!(*first == all, "{isa:?}, {count} threads: other bits, {shape:?}"),
                }
            }
        }
    }
}

#[test]
fn an_image_has_the_same_bits_alone_and_in_a_batch() {
    let make = |batch| ConvShape::new(batch, 40, 30, 1, &[6, 6], &[3, 3], &[2, 2], &[(1, 1); 2], &[1, 1]).unwrap();
    let (one, many) = (make(1), make(9));
    let threads = Threads::new(2);
    let [x_len, w_len, y_len] = many.lengths();
    let (x, w, g) = (random(1, x_len), random(2, w_len), random(3, y_len));
    let (mut y, mut dx) = (vec![0.0; y_len], vec![0.0; x_len]);
    forward(&threads, Isa::detect(), &many, &x, &w, &mut y).unwrap();
    input_grad(&threads, Isa::detect(), &many, &g, &w, &mut dx).unwrap();
    let [x_one, _, y_one] = one.lengths();
    let (mut y_alone, mut dx_alone) = (vec![0.0; y_one], vec![0.0; x_one]);
    forward(&threads, Isa::detect(), &one, &x[..x_one], &w, &mut y_alone).unwrap();
    input_grad(&threads, Isa::detect(), &one, &g[..y_one], &w, &mut dx_alone).unwrap();
    assert!(y[..y_one] == y_alone && dx[..x_one] == dx_alone);
}

#[test]
fn bf16_by_pairs_give_the_sums_of_widened_numbers() {
    if crate::gemm::pairs::context(Isa::Avx512).is_none() {
        println!("skipped: no AVX-512 BF16 here");
        return;
    }
    let narrow = |values: Vec<f32>| values.into_iter().map(|v| half::bf16::from_f32(v).to_f32()).collect::<Vec<f32>>();
    let drawn = drawn_shapes(24, 60);
    assert!(drawn.len() > 40);
    for shape in shapes().into_iter().chain(drawn) {
        let [x_len, w_len, y_len] = shape.lengths();
        let (x, w, g) = (narrow(random(21, x_len)), narrow(random(22, w_len)), narrow(random(23, y_len)));
        for threads in [Threads::new(1), Threads::new(3)] {
            let roles = |shape: &ConvShape| {
                let (mut y, mut dx, mut dw) = (vec![7.0; y_len], vec![7.0; x_len], vec![7.0; w_len]);
                forward(&threads, Isa::Avx512, shape, &x, &w, &mut y).unwrap();
                input_grad(&threads, Isa::Avx512, shape, &g, &w, &mut dx).unwrap();
                weight_grad(&threads, Isa::Avx512, shape, &x, &g, &mut dw).unwrap();
                [y, dx, dw].map(|values| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            };
            assert!(roles(&shape) == roles(&shape.clone().of_bf16()), "{shape:?}");
        }
    }
}

#[test]
fn wrong_lengths_and_shapes_are_errors() {
    let shape = ConvShape::new(1, 1, 1, 1, &[3], &[3], &[1], &[(0, 0)], &[1]).unwrap();
    assert!(forward(&Threads::new(1), Isa::Scalar, &shape, &[0f32; 3], &[0.0; 3], &mut [0.0; 2]).is_err());
    let empty = ConvShape::new(1, 0, 1, 1, &[3], &[3], &[1], &[(0, 0)], &[1]).unwrap();
    let mut y = [7f32; 1];
    forward(&Threads::new(1), Isa::Scalar, &empty, &[], &[], &mut y).unwrap();
    assert_eq!(y, [0.0]);
    assert!(ConvShape::new(1, 3, 4, 2, &[3], &[3], &[1], &[(0, 0)], &[1]).is_err());
    assert!(ConvShape::new(1, 1, 1, 1, &[3], &[5], &[1], &[(0, 1)], &[1]).is_err());
    assert!(ConvShape::new(1, 1, 1, 1, &[3, 3], &[3], &[1], &[(0, 1)], &[1]).is_err());
}
