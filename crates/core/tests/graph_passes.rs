//! The passes on written examples: what each does, by the number of nodes before and after, and what it must leave.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
use adamant_core::{
    Cell, DType, Device, HostArray, Meta, Result, Rng, Shape, Tensor,
    functional::{self as f, ConvOptions, ConvTransposeOptions},
    graph::{Graph, GraphError},
    no_grad, tensor,
};

fn meta(dims: &[usize], dtype: DType) -> Meta {
    Meta { shape: Shape::new(dims).unwrap(), dtype, device: Device::reference() }
}
fn numbers(dims: &[usize], seed: u64) -> Tensor {
    let n: usize = dims.iter().product();
    let word = |k: u64| (k + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xD1B5_4A32_D192_ED03);
    let data: Vec<f32> = (0..n as u64).map(|k| (word(k) >> 40) as f32 / 8_388_608.0 - 1.0).collect();
    Tensor::from_vec_on(data, Shape::new(dims).unwrap(), Device::reference())
}
fn bits(t: &Tensor) -> Vec<u8> {
    t.to_bytes().unwrap()
}
/// Captures a function, runs passes, and compares bits before and behind: names of the ops that are left, and the counts.
fn check(dims: &[&[usize]], passes: &[&str], call: impl Fn(&[Tensor]) -> Vec<Tensor>) -> (Vec<String>, Vec<(usize, usize)>) {
    Device::reference().scoped(|| {
        let x: Vec<Tensor> = dims.iter().zip(1..).map(|(d, seed)| numbers(d, seed)).collect();
        let metas: Vec<Meta> = dims.iter().map(|d| meta(d, DType::F32)).collect();
        let mut graph = Graph::capture(Device::reference(), &metas, |x| Ok(call(x))).unwrap();
        let ran = graph.run(passes).unwrap();
        graph.verify().unwrap();
        let got = graph.execute(&x.iter().collect::<Vec<_>>()).unwrap();
        for (got, want) in got.iter().zip(call(&x)) {
            assert_eq!(bits(got), bits(&want), "{}", graph.text().unwrap().text);
        }
        (graph.nodes.iter().map(|n| n.op.name().to_string()).collect(), ran.iter().map(|r| (r.before, r.after)).collect())
    })
}

#[test]
fn constants_that_are_computed_again_or_folded_wrongly() {
    // All of it is known: what is left is one constant, and one function whose last bit is the device's.
    let (ops, counts) = check(&[&[3]], &["constant_folding", "dead_code"], |x| {
        let scale = (tensor![1.0f32, 2.0, 4.0] * 0.5 + 1.0).sqrt();
        let table = Tensor::arange(0, 3, 1, DType::F32) / 2.0;
        vec![&x[0] * scale + table.exp()]
    });
    assert_eq!((ops, counts), (vec!["mul".into(), "exp".into(), "add".into()], vec![(8, 3), (3, 3)]));
    // A number in all places is a full.
    let (ops, counts) = check(&[&[64, 64]], &["constant_folding", "dead_code"], |x| vec![&x[0] + (x[0].zeros_like() + 2.0) * 3.0]);
    assert_eq!((ops, counts), (vec!["full".to_string(), "add".into()], vec![(4, 2), (2, 2)]));
    // Bad data is not hidden: a division by zero is found where it is read.
    Device::reference().scoped(|| {
        let mut graph = Graph::capture(Device::reference(), &[], |_| Ok(vec![tensor![1i64, 2].floor_divide(tensor![1i64, 0])])).unwrap();
        assert_eq!(graph.run(&["constant_folding"]).unwrap()[0].after, 1);
        assert_eq!(graph.execute(&[]).unwrap()[0].to_vec::<i64>().unwrap_err().kind().word(), "domain");
    });
}
#[test]
fn dead_code_that_drops_an_effect_or_keeps_what_nobody_reads() {
    let device = Device::reference();
    device.scoped(|| {
        let (read, written, unread) =
            (Cell::new(&tensor![1.0], true).unwrap(), Cell::new(&tensor![0.0], false).unwrap(), Cell::new(&tensor![5.0], true).unwrap());
        let rng = Rng::new(3).unwrap();
        let mut graph = Graph::capture(device, &[meta(&[1], DType::F32)], |x| {
            let _unread = unread.get().exp() + tensor![7.0].sin();
            let _drawn = rng.uniform([4], DType::F32);
            written.set(&(&x[0] + read.detached()))?;
            Ok(vec![x[0].exp()])
        })
        .unwrap();
        let before = graph.nodes.len();
        let ran = graph.run(&["dead_code"]).unwrap();
        // The numbers that nobody reads are not drawn, and the generator moves on all the same.
        let ops: Vec<&str> = graph.nodes.iter().map(|n| n.op.name()).collect();
        assert_eq!((ran[0].before, ops), (before, vec!["iota", "eq", "cast", "add", "add", "stop_grad", "exp"]));
        assert_eq!((graph.cells.len(), graph.writes.len(), graph.constants.len()), (3, 2, 0));
        let key = rng.cell().detached().to_vec::<u32>().unwrap();
        graph.execute(&[&tensor![2.0]]).unwrap();
        assert_eq!(written.detached().item::<f32>().unwrap(), 3.0);
        assert_eq!(rng.cell().detached().to_vec::<u32>().unwrap()[3], key[3] + 1);
    });
}
#[test]
fn a_subexpression_that_is_computed_twice_or_two_that_are_taken_for_one() {
    let (ops, counts) = check(&[&[4]], &["common_subexpressions", "dead_code"], |x| {
        let a = (&x[0] * 2.0).exp() + (&x[0] * 2.0).exp();
        vec![a, (&x[0] * 0.0) / (&x[0] * -0.0), tensor![1.0f32, 2.0, 3.0, 4.0] * &x[0], tensor![1.0f32, 2.0, 3.0, 4.0] - &x[0]]
    });
    let left = ["mul", "exp", "add", "mul", "mul", "div", "mul", "sub"];
    assert_eq!((ops, counts), (left.map(String::from).to_vec(), vec![(10, 8), (8, 8)]));
    // Two draws are two: their keys differ. What is drawn twice with one key is one.
    Device::reference().scoped(|| {
        let rng = Rng::new(7).unwrap();
        let mut graph = Graph::capture(Device::reference(), &[], |_| Ok(vec![rng.bits([4]), rng.bits([4])])).unwrap();
        graph.run(&["common_subexpressions"]).unwrap();
        assert_eq!(graph.nodes.iter().filter(|n| n.op.name() == "random_bits").count(), 2);
        let drawn = graph.execute(&[]).unwrap();
        assert_ne!(drawn[0].to_vec::<u32>().unwrap(), drawn[1].to_vec::<u32>().unwrap());
        let again = Rng::new(7).unwrap();
        assert_eq!(
            drawn[1].to_vec::<u32>().unwrap(),
            {
                again.bits([4]);
                again.bits([4])
            }
            .to_vec::<u32>()
            .unwrap()
        );
    });
}
#[test]
fn a_transpose_that_does_not_cancel_or_a_graph_that_grows() {
    type Function = fn(&[Tensor]) -> Vec<Tensor>;
    let cases: [(&[&[usize]], Function, usize, &[&str]); 8] = [
        (&[&[2, 3, 4]], |x| vec![x[0].permute([1, 2, 0]).permute([2, 0, 1])], 2, &[]),
        (&[&[2, 3, 4]], |x| vec![x[0].permute([1, 2, 0]).permute([1, 2, 0])], 2, &["permute"]),
        (&[&[2, 3]], |x| vec![x[0].mt().exp().neg().mt() * 2.0], 5, &["exp", "neg", "mul"]),
        (&[&[2, 3], &[2, 3]], |x| vec![(x[0].mt() + x[1].mt()).mt()], 4, &["add"]),
        (&[&[2, 3], &[2, 3]], |x| vec![x[0].mt() + x[1].mt()], 3, &["add", "permute"]),
        (&[&[2, 3], &[]], |x| vec![(x[0].mt() * &x[1]).mt()], 3, &["mul"]),
        // Somebody else reads what the transpose would pass: nothing is gained.
        (
            &[&[2, 3]],
            |x| {
                let t = x[0].mt();
                vec![t.exp(), t.sin(), t]
            },
            3,
            &["permute", "exp", "sin"],
        ),
        // A product, a sum and a broadcast along another axis want the elements in their order.
        (&[&[3, 3], &[3]], |x| vec![x[0].mt().matmul(&x[0]), x[0].mt() + &x[1]], 4, &["permute", "matmul", "permute", "add"]),
    ];
    for (k, (dims, call, before, left)) in cases.into_iter().enumerate() {
        let (ops, counts) = check(dims, &["transpose_elimination"], call);
        assert_eq!((ops, counts), (left.iter().map(|s| s.to_string()).collect::<Vec<_>>(), vec![(before, left.len())]), "case {k}");
    }
}
#[test]
fn a_composite_that_is_left_or_lost() {
    let (ops, counts) = check(&[&[2, 3]], &["expand"], |x| vec![x[0].softmax(1)]);
    assert!(counts[0].0 == 1 && counts[0].1 > 3 && !ops.iter().any(|op| op.starts_with("adamant.")), "{ops:?} {counts:?}");
    // What is defined on the host has no body.
    let (ops, counts) = check(&[&[3, 3]], &["expand"], |x| vec![x[0].det()]);
    assert_eq!((ops, counts), (vec!["adamant.det".to_string()], vec![(1, 1)]));
}
#[test]
fn a_pass_that_does_not_exist() {
    let mut graph = Graph::new(Device::reference());
    match graph.run(&["dead_code", "dead_cod"]) {
        Err(GraphError::Pass { name, known }) => assert!(name == "dead_cod" && known.contains(&"conv_norm_folding") && known.len() == 6),
        other => panic!("{other:?}"),
    }
}

/// A convolution, its parameters and those of the norm behind it.
struct Layer {
    weight: Tensor,
    bias: Option<Tensor>,
    norm: [Tensor; 4],
    transposed: bool,
    groups: usize,
}
impl Layer {
    fn new(seed: u64, transposed: bool, groups: usize, biased: bool) -> Layer {
        let weight = if transposed { numbers(&[4, 6, 3, 3], seed) } else { numbers(&[6, 4 / groups, 3, 3], seed) };
        let [gamma, beta, mean] = [1, 2, 3].map(|k| numbers(&[6], seed + k * 100));
        let var = numbers(&[6], seed + 400).square() + 0.1;
        Layer { weight, bias: biased.then(|| numbers(&[6], seed + 500)), norm: [mean, var, gamma, beta], transposed, groups }
    }
    fn convolved(&self, x: &Tensor) -> Tensor {
        if self.transposed {
            f::conv_transpose2d(x, &self.weight, self.bias.as_ref(), &ConvTransposeOptions { stride: 2.into(), ..Default::default() })
        } else {
            f::conv2d(x, &self.weight, self.bias.as_ref(), &ConvOptions { groups: self.groups, ..Default::default() })
        }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let [mean, var, gamma, beta] = &self.norm;
        f::batch_norm_inference(&self.convolved(x), mean, var, Some(gamma), Some(beta), 1e-5)
    }
    fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> Layer {
        Layer { weight: f(&self.weight), bias: self.bias.as_ref().map(&f), norm: [0, 1, 2, 3].map(|k| f(&self.norm[k])), ..*self }
    }
}
fn host(t: &Tensor) -> HostArray {
    HostArray::from_bytes(t.shape().unwrap(), t.dtype().unwrap(), &t.to_bytes().unwrap())
}
/// The bound that the pass promises, in f64: `(n + 8) u (|s| sum |w x| + |s| (|b| + |mean|) + |beta|)`.
#[test]
fn bound_holds() {
    Device::reference().scoped(|| {
        let mut worst = 0.0f64;
        for (seed, (transposed, groups, biased)) in
            [(false, 1, true), (false, 1, false), (false, 2, true), (true, 1, true), (true, 1, false)].into_iter().enumerate()
        {
            let layer = Layer::new(seed as u64 * 1000, transposed, groups, biased);
            let layer = layer.map(|t| {
                t.materialize().unwrap();
                t.clone()
            });
            let x = numbers(&[2, 4, 7, 7], 17);
            let mut graph = Graph::capture(Device::reference(), &[x.try_meta().unwrap()], |x| Ok(vec![layer.forward(&x[0])])).unwrap();
            let ran = graph.run(&["conv_norm_folding"]).unwrap();
            assert_eq!((ran[0].before, ran[0].after), (2, 1), "{}", graph.text().unwrap().text);
            let folded = host(&graph.execute(&[&x]).unwrap()[0]);
            let plain = host(&layer.forward(&x));
            // Magnitudes in f64: everything positive, so that sums are sums of magnitudes.
            let wide = layer.map(|t| t.cast(DType::F64).abs());
            let [mean, _, _, beta] = &wide.norm;
            let scale = host(&(layer.norm[2].cast(DType::F64).abs() / (layer.norm[1].cast(DType::F64) + 1e-5).sqrt()));
            let sums = host(&Layer { bias: None, ..wide.map(Tensor::clone) }.convolved(&x.cast(DType::F64).abs()));
            let (bias, mean, beta) = (wide.bias.as_ref().map(host), host(mean), host(beta));
            let n = if transposed { 4 * 9 } else { 4 / groups * 9 };
            let plane = plain.shape[2] * plain.shape[3];
            for k in 0..plain.len() {
                let c = k / plane % 6;
                let s = scale.float(c);
                let sum = s * sums.float(k) + s * (bias.as_ref().map_or(0.0, |b| b.float(c)) + mean.float(c)) + beta.float(c);
                let bound = (n as f64 + 8.0) * (f32::EPSILON as f64 / 2.0) * sum;
                let off = (folded.float(k) - plain.float(k)).abs();
                worst = worst.max(off / bound);
                assert!(off <= bound, "case {seed}, element {k}: {off:e} > {bound:e}");
            }
        }
        println!("the largest difference is {worst:.3} of the bound");
        assert!(worst > 0.0);
    });
}
#[test]
fn a_norm_that_is_folded_though_somebody_looks_or_not_from_cells() {
    Device::reference().scoped(|| {
        let layer = Layer::new(5, false, 1, true);
        let x = numbers(&[1, 4, 5, 5], 3);
        let metas = [x.try_meta().unwrap()];
        // The convolution itself is asked for.
        let mut graph = Graph::capture(Device::reference(), &metas, |x| Ok(vec![layer.forward(&x[0]), layer.convolved(&x[0])])).unwrap();
        graph.run(&["common_subexpressions"]).unwrap();
        assert_eq!(graph.run(&["conv_norm_folding"]).unwrap()[0].after, graph.nodes.len());
        assert!(graph.nodes.iter().any(|n| n.op.name() == "adamant.batch_norm_inference"));
        // Parameters in cells: a few ops on the weight, and no norm. The gradient goes through them.
        let cells: Vec<Cell> =
            [&layer.weight, layer.bias.as_ref().unwrap(), &layer.norm[2], &layer.norm[3]].iter().map(|t| Cell::new(t, true).unwrap()).collect();
        let forward = |x: &Tensor| -> Tensor {
            let y = f::conv2d(x, &cells[0].get(), Some(&cells[1].get()), &ConvOptions::default());
            f::batch_norm_inference(&y, &layer.norm[0], &layer.norm[1], Some(&cells[2].get()), Some(&cells[3].get()), 1e-5)
        };
        let mut graph = Graph::capture(Device::reference(), &metas, |x| Ok(vec![forward(&x[0])])).unwrap();
        let ran = graph.run(&["conv_norm_folding"]).unwrap();
        assert_eq!((ran[0].before, ran[0].after), (2, 9), "{}", graph.text().unwrap().text);
        let (folded, plain) = (graph.execute(&[&x]).unwrap().remove(0), forward(&x));
        let far = |a: &Tensor, b: &Tensor| (a - b).abs().max_of_all();
        assert!(far(&folded, &plain) < 1e-4);
        let (g, h) = (folded.square().sum(..).backward().unwrap(), plain.square().sum(..).backward().unwrap());
        for cell in &cells {
            assert!(far(g.of(cell).unwrap(), h.of(cell).unwrap()) < 2e-3 * (1.0 + h.of(cell).unwrap().abs().max_of_all()));
        }
        // 16 bits would be rounded twice.
        let mut graph = Graph::capture(Device::reference(), &[meta(&[1, 4, 5, 5], DType::BF16)], |x| {
            Ok(vec![no_grad(|| layer.map(|t| t.cast(DType::BF16))).forward(&x[0])])
        })
        .unwrap();
        let before = graph.nodes.len();
        assert_eq!(graph.run(&["conv_norm_folding"]).unwrap()[0].after, before);
    });
}
trait Largest {
    fn max_of_all(&self) -> f32;
}
impl Largest for Tensor {
    fn max_of_all(&self) -> f32 {
        let read = || -> Result<f32> { self.amax(..).item::<f32>() };
        read().unwrap()
    }
}
