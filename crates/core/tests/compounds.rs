//! Compounds: gradients against differences, stability, masks, what they save, what they refuse.
mod numeric;
use adamant_core::{
    composite::{
        Attr, Attrs, InTensors, Keyed, Saves,
        attention::Attention,
        dropout::Dropout,
        embedding::Embedding,
        keyed,
        linear::Linear,
        loss::CrossEntropy,
        norm::{Norm, Over},
        softmax::{LogSoftmax, Softmax},
    },
    functional::*,
    *,
};
use numeric::{check, tensor};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}

#[test]
fn gradients_of_dense_layers_and_softmax() -> Result<()> {
    on_reference(|| {
        check("linear", &[tensor(&[2, 2, 3], 1), tensor(&[4, 3], 2), tensor(&[4], 3)], |x| linear(&x[0], &x[1], Some(&x[2])))?;
        check("linear of a vector", &[tensor(&[3], 1), tensor(&[2, 3], 2)], |x| linear(&x[0], &x[1], None))?;
        check("softmax", &[tensor(&[3, 4], 4)], |x| x[0].softmax(1))?;
        check("softmax of axis 0", &[tensor(&[3, 2], 4)], |x| x[0].softmax(0))?;
        check("log_softmax", &[tensor(&[2, 4], 5)], |x| x[0].log_softmax(-1))?;
        check("softmax of a scalar", &[tensor(&[], 5)], |x| x[0].softmax(0))
    })
}
#[test]
fn gradients_of_normalisations() -> Result<()> {
    on_reference(|| {
        let (x, w, b) = (tensor(&[2, 4, 3], 1), tensor(&[4], 2), tensor(&[4], 3));
        check("layer_norm", &[tensor(&[3, 4], 1), w.clone(), b.clone()], |x| layer_norm(&x[0], [4], Some(&x[1]), Some(&x[2]), 1e-5))?;
        check("layer_norm over two axes", std::slice::from_ref(&x), |x| layer_norm(&x[0], [4, 3], None, None, 1e-5))?;
        check("layer_norm with a bias only", &[tensor(&[3, 4], 1), b.clone()], |x| layer_norm(&x[0], [4], None, Some(&x[1]), 1e-5))?;
        check("rms_norm", &[tensor(&[3, 4], 1), w.clone()], |x| rms_norm(&x[0], [4], Some(&x[1]), None))?;
        check("group_norm", &[x.clone(), w.clone(), b.clone()], |x| group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-5))?;
        check("instance_norm", std::slice::from_ref(&x), |x| instance_norm(&x[0], None, None, 1e-5))?;
        check("batch_norm", &[x.clone(), w.clone(), b.clone()], |x| batch_norm_training(&x[0], Some(&x[1]), Some(&x[2]), 1e-5).0)?;
        check("local_response_norm", std::slice::from_ref(&x), |x| local_response_norm(&x[0], 3, 0.5, 0.75, 1.0))?;
        check("batch statistics", std::slice::from_ref(&x), |x| {
            let (y, mean, var) = batch_norm_training(&x[0], None, None, 1e-5);
            y.sum([0, 2]) * 0.5 + mean + var
        })?;
        let (mean, var) = (tensor(&[4], 7), tensor(&[4], 8).square());
        check("batch_norm of inference", &[x, w, b], |x| batch_norm_inference(&x[0], &mean, &var, Some(&x[1]), Some(&x[2]), 1e-5))
    })
}
#[test]
fn gradients_of_attention() -> Result<()> {
    on_reference(|| {
        let sdpa = |x: &[Tensor], o: &AttentionOptions<'_>| scaled_dot_product_attention(&x[0], &x[1], &x[2], o);
        let (q, k, v) = (tensor(&[2, 2, 3, 2], 1), tensor(&[2, 2, 4, 2], 2), tensor(&[2, 2, 4, 3], 3));
        let all = [q.clone(), k, v];
        check("attention", &all, |x| sdpa(x, &AttentionOptions::default()))?;
        check("causal attention", &all, |x| sdpa(x, &AttentionOptions { is_causal: true, scale: Some(0.7), ..Default::default() }))?;
        let mask = Tensor::from_vec(vec![true, false, true, true, false, false, false, false, true, true, false, true], [3, 4]);
        check("masked attention", &all, |x| sdpa(x, &AttentionOptions { mask: Some(&mask), ..Default::default() }))?;
        let bias = [all[0].clone(), all[1].clone(), all[2].clone(), tensor(&[2, 1, 3, 4], 4)];
        check("biased attention", &bias, |x| sdpa(x, &AttentionOptions { mask: Some(&x[3]), ..Default::default() }))?;
        let gqa = [tensor(&[4, 3, 2], 1), tensor(&[2, 4, 2], 2), tensor(&[2, 4, 3], 3)];
        check("attention with shared heads", &gqa, |x| sdpa(x, &AttentionOptions { enable_gqa: true, ..Default::default() }))
    })
}
#[test]
fn attention_is_softmax_of_scores_and_hides_masked_rows() -> Result<()> {
    on_reference(|| {
        let (q, k, v) = (tensor(&[3, 2], 1), tensor(&[4, 2], 2), tensor(&[4, 3], 3));
        let o = scaled_dot_product_attention(&q, &k, &v, &AttentionOptions::default());
        let plain = (q.matmul(k.mt()) / 2f64.sqrt()).softmax(-1).matmul(&v);
        for (a, b) in o.to_vec::<f64>()?.iter().zip(plain.to_vec::<f64>()?) {
            assert!((a - b).abs() < 1e-14, "{a} {b}");
        }
        let none = Tensor::from_vec(vec![false; 12], [3, 4]);
        let o = scaled_dot_product_attention(&q, &k, &v, &AttentionOptions { mask: Some(&none), ..Default::default() });
        assert_eq!(o.to_vec::<f64>()?, [0.0; 9]);
        let huge = &q * 1e4;
        assert!(
            scaled_dot_product_attention(&huge, &huge, &huge, &AttentionOptions { is_causal: true, ..Default::default() })
                .to_vec::<f64>()?
                .iter()
                .all(|v| v.is_finite())
        );
        let e = scaled_dot_product_attention(&q, &k, &tensor(&[5, 3], 3), &AttentionOptions::default()).ok().map(|_| ()).unwrap_err();
        assert_eq!(e.kind().word(), "shape");
        let e = scaled_dot_product_attention(&q, &k, &v, &AttentionOptions { mask: Some(&none), is_causal: true, ..Default::default() })
            .ok()
            .map(|_| ())
            .unwrap_err();
        assert_eq!(e.kind().word(), "argument");
        Ok(())
    })
}
#[test]
fn gradients_of_cross_entropy() -> Result<()> {
    on_reference(|| {
        let (x, w) = (tensor(&[3, 4], 1), tensor(&[4], 2).square());
        let t = Tensor::from_vec(vec![2i64, -100, 0], [3]);
        let dense = tensor(&[3, 4], 3).softmax(1);
        for reduction in [Reduction::None, Reduction::Mean, Reduction::Sum] {
            for label_smoothing in [0.0, 0.2] {
                for weight in [None, Some(&w)] {
                    let o = CrossEntropyOptions { weight, reduction, label_smoothing, ..Default::default() };
                    check(&format!("cross_entropy {reduction:?} {label_smoothing}"), std::slice::from_ref(&x), |x| cross_entropy(&x[0], &t, &o))?;
                    check(&format!("cross_entropy of probabilities {reduction:?} {label_smoothing}"), &[x.clone(), dense.clone()], |x| {
                        cross_entropy(&x[0], &x[1], &o)
                    })?;
                }
            }
        }
        let planes = Tensor::from_vec(vec![0u8, 1, 2, 1], [2, 2]);
        check("cross_entropy over positions", &[tensor(&[2, 3, 2], 1)], |x| cross_entropy(&x[0], &planes, &CrossEntropyOptions::default()))?;
        check("cross_entropy of one sample", &[tensor(&[3], 1)], |x| cross_entropy(&x[0], &Tensor::from_vec(vec![1i32], ()), &CrossEntropyOptions::default()))
    })
}
#[test]
fn a_target_out_of_range_is_an_error_that_names_it() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[3, 4], 1);
        for bad in [4i64, -1] {
            let t = Tensor::from_vec(vec![0i64, bad, 2], [3]);
            let e = cross_entropy(&x, &t, &CrossEntropyOptions::default()).item::<f64>().unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::Index { index, bound: 4, position: Some(1), .. } if *index == bad), "{e}");
        }
        let e = embedding(&Tensor::from_vec(vec![3i64], [1]), &x, None).to_vec::<f64>().unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Index { index: 3, bound: 3, .. }), "{e}");
        let e = cross_entropy(&x, &Tensor::from_vec(vec![0i64; 2], [2]), &CrossEntropyOptions::default()).item::<f64>().unwrap_err();
        assert_eq!(e.kind().word(), "shape");
        Ok(())
    })
}
#[test]
fn softmax_is_stable() -> Result<()> {
    on_reference(|| {
        let inf = f32::INFINITY;
        for row in [[1e4f32, 1e4, -1e4], [-1e4, -1e4, -1e4], [-inf, 0.0, 1.0], [88.0, 89.0, 90.0]] {
            let y = Tensor::from_vec(row.to_vec(), [3]).softmax(0).to_vec::<f32>()?;
            assert!(y.iter().all(|v| v.is_finite()) && (y.iter().sum::<f32>() - 1.0).abs() < 3e-7, "{row:?} gives {y:?}");
        }
        assert!(Tensor::from_vec(vec![-inf; 3], [3]).softmax(0).to_vec::<f32>()?.iter().all(|v| v.is_nan()));
        assert_eq!(Tensor::from_vec(vec![1e4f32, 0.0], [2]).log_softmax(0).to_vec::<f32>()?, [0.0, -1e4]);
        assert_eq!(Tensor::full([2, 0], 0.0f32, DType::F32).softmax(1).to_vec::<f32>()?, []);
        // Computed in f32 and rounded once: the sum of 1,000 equal 16-bit terms is 1,000 exactly.
        let half = Tensor::full([1000], 3.0f32, DType::F16).softmax(0).to_vec::<f16>()?;
        assert_eq!(half[0], f16::from_f32(0.001));
        Ok(())
    })
}
#[test]
fn dropout_draws_the_stream_of_uniform_and_the_same_mask_backward() -> Result<()> {
    on_reference(|| {
        let (a, b) = (Rng::new(5)?, Rng::new(5)?);
        let x = Tensor::full([64], 1.0f64, DType::F64).tracked();
        let y = dropout(&x, 0.25, &a);
        let want: Vec<f64> = b.uniform([64], DType::F32).to_vec::<f32>()?.iter().map(|&u| if u < 0.25 { 0.0 } else { 1.0 / 0.75 }).collect();
        assert_eq!(y.to_vec::<f64>()?, want);
        let g = y.sum(..).backward()?;
        assert_eq!(g.get(&x).map(|g| g.to_vec::<f64>()).transpose()?, Some(want));
        assert_eq!(dropout(&x, 1.0, &a).to_vec::<f64>()?, [0.0; 64]);
        assert_eq!(dropout(&x, 1.5, &a).ok().map(|_| ()).unwrap_err().kind().word(), "argument");
        let key = Rng::new(9)?.key();
        check("dropout", &[tensor(&[3, 4], 1)], |x| Tensor::composite1(Dropout { p: 0.5 }, &[&x[0], &key]))?;
        let all = [tensor(&[3, 2], 1), tensor(&[4, 2], 2), tensor(&[4, 2], 3)];
        let attention = Attention { scale: 0.5, causal: false, mask: false, dropout: 0.4 };
        check("attention with dropout", &all, |x| Tensor::composite1(attention, &[&x[0], &x[1], &x[2], &key]))
    })
}
#[test]
fn whole_channels_are_dropped_and_alpha_dropout_keeps_the_moments() -> Result<()> {
    on_reference(|| {
        let rng = Rng::new(3)?;
        let y = feature_dropout(&Tensor::ones([4, 8, 3]), 0.5, &rng).to_vec::<f32>()?;
        assert!(y.chunks(3).all(|c| c == [0.0; 3] || c == [2.0; 3]) && y.contains(&0.0) && y.contains(&2.0));
        let x = rng.normal([20_000], DType::F32);
        let y = alpha_dropout(&x, 0.3, &rng).to_vec::<f32>()?;
        let mean = y.iter().sum::<f32>() / 20_000.0;
        let var = y.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.05 && (var - 1.0).abs() < 0.05, "{mean} {var}");
        Ok(())
    })
}
#[test]
fn a_hard_choice_is_one_hot_and_has_the_soft_gradient() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[5, 4], 1).tracked();
        let hard = x.gumbel_softmax(0.7, true, -1, &Rng::new(1)?);
        for row in hard.to_vec::<f64>()?.chunks(4) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row.iter().any(|v| (v - 1.0).abs() < 1e-12), "{row:?}");
        }
        let w = tensor(&[5, 4], 2);
        let soft = x.gumbel_softmax(0.7, false, -1, &Rng::new(1)?);
        let g = |y: &Tensor| -> Result<Vec<f64>> { (y * &w).sum(..).backward()?.get(&x).map_or(Ok(Vec::new()), |g| g.to_vec()) };
        let (a, b) = (g(&hard)?, g(&soft)?);
        assert!(a.len() == 20 && a == b && a.iter().any(|v| *v != 0.0));
        Ok(())
    })
}
#[test]
fn embedding_gives_the_padding_row_no_gradient() -> Result<()> {
    on_reference(|| {
        let ids = Tensor::from_vec(vec![0i32, 2, 2, 1], [2, 2]);
        check("embedding", &[tensor(&[3, 2], 1)], |w| embedding(&ids, &w[0], None))?;
        let w = tensor(&[3, 2], 1).tracked();
        let g = embedding(&ids, &w, Some(2)).sum(..).backward()?;
        assert_eq!(g.get(&w).map(|g| g.to_vec::<f64>()).transpose()?, Some(vec![1.0, 1.0, 1.0, 1.0, 0.0, 0.0]));
        Ok(())
    })
}
/// What PyTorch keeps for the same functions: gelu and silu their input; softmax and its logarithm the output; layer_norm input, weight, mean, rstd; dropout a mask
/// of the input's size; cross_entropy the log-probabilities and the targets; attention q, k, v, output, lse.
#[test]
fn compounds_save_no_more_than_pytorch() {
    let norm = |over| Norm { over, eps: 1e-5, weight: true, bias: true };
    let cross = CrossEntropy { probabilities: false, ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean, weight: false };
    let table = [
        (keyed(Softmax { axis: 0 }), 0, 0b1),
        (keyed(LogSoftmax { axis: 0 }), 0b1, 0),
        (keyed(norm(Over::Layer { axes: 1 })), 0b11, 0b110),
        (keyed(norm(Over::Rms { axes: 1 })), 0b11, 0b10),
        (keyed(norm(Over::Group { groups: 2 })), 0b11, 0b110),
        (keyed(norm(Over::Batch)), 0b11, 0b110),
        (keyed(Dropout { p: 0.5 }), 0b10, 0),
        (keyed(Embedding { padding_idx: None }), 0b10, 0),
        (keyed(cross), 0b11, 0b110),
        (keyed(Linear), 0b11, 0),
        (keyed(Attention { scale: 1.0, causal: false, mask: false, dropout: 0.0 }), 0b111, 0b11),
    ];
    for unary in [scalar::Unary::Gelu, scalar::Unary::Silu] {
        assert_eq!(unary.row().saves, scalar::Saved::Input, "{}", unary.name());
    }
    for (composite, inputs, outputs) in table {
        assert_eq!(composite.saves(), Some(Saves { inputs, outputs }), "{}", composite.name());
    }
}
/// A composite of any attributes, whose end applies another.
#[derive(Debug)]
struct Told(Vec<(&'static str, Attr)>);
impl Composite for Told {
    fn name(&self) -> &'static str {
        "test.told"
    }
    fn attrs(&self) -> Attrs {
        self.0.iter().cloned().collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(inputs.into())
    }
}
impl Compound for Told {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(inputs.to_vec())
    }
}
impl Drop for Told {
    fn drop(&mut self) {
        keyed(Softmax { axis: self.0.len() });
    }
}
/// What is applied again is the function that was applied before, and no other.
#[test]
fn equal_composites_that_are_two() {
    use std::sync::Arc;
    let same = |a: &Keyed, b: &Keyed| Arc::ptr_eq(a.function(), b.function()) && a.key() == b.key();
    let half = keyed(Dropout { p: 0.5 });
    assert!(same(&half, &keyed(Dropout { p: 0.5 })));
    for p in [0.25, 0.75, 0.0] {
        let other = keyed(Dropout { p });
        assert!(!same(&half, &other) && other.key() == Composite::key(&Dropout { p }), "{p}");
    }
    assert!(!same(&keyed(Softmax { axis: 1 }), &keyed(LogSoftmax { axis: 1 })));
    assert!(!same(&keyed(Embedding { padding_idx: None }), &keyed(Embedding { padding_idx: Some(usize::MAX) })));
    for (a, b) in [
        (vec![("alpha", Attr::Float(0.5))], vec![("slope", Attr::Float(0.5))]),
        (vec![("on", Attr::Bool(true))], vec![("on", Attr::Int(1))]),
        (vec![("sizes", Attr::Ints([1, 2].into_iter().collect()))], vec![("sizes", Attr::Ints([1].into_iter().collect())), ("", Attr::Int(2))]),
        (vec![("word", Attr::Text("ab".into()))], vec![("word", Attr::Text("ab\0".into()))]),
    ] {
        let of = |attrs: &Vec<(&'static str, Attr)>| keyed(Told(attrs.clone()));
        assert!(same(&of(&a), &of(&a)) && !same(&of(&a), &of(&b)), "{a:?} {b:?}");
    }
    // More of them than are remembered: each is still itself.
    for k in (0..1000).chain(0..1000) {
        assert_eq!(format!("{:?}", &*keyed(Softmax { axis: k })), format!("{:?}", Softmax { axis: k }));
    }
}
