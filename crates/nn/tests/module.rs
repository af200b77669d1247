//! What a model promises: names, order, modes, state, and errors that name the layer.
#![allow(clippy::unwrap_used)]

use adamant_core::{DType, Device, Result, Tensor};
use adamant_nn::*;

#[derive(Module)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm2d,
    #[module(rename = "projection")]
    proj: Option<Conv2d>,
    channels: usize,
}
impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.norm.forward(&self.conv.forward(x)?)?.relu();
        match &self.proj {
            Some(p) => (p.forward(x)? + y).ok(),
            None => y.ok(),
        }
    }
}
#[derive(Module)]
struct Net {
    features: Vec<Block>,
    dropout: Dropout,
    head: Box<Linear>,
    /// tied to the head
    again: Linear,
    scale: Tensor,
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for block in &self.features {
            x = block.forward(&x)?;
        }
        self.again.forward(&self.head.forward(&self.dropout.forward(&x.flatten(1, -1))?)?)
    }
}
fn block(from: usize, to: usize, project: bool) -> Result<Block> {
    let padded = ConvOptions { padding: 1.into(), bias: false, ..Default::default() };
    let proj = if project { Some(Conv2d::new(from, to, 1)?) } else { None };
    Ok(Block { conv: Conv2d::with(from, to, 3, padded)?, norm: BatchNorm2d::new(to)?, proj, channels: to })
}
fn net() -> Result<Net> {
    let head = Linear::new(4 * 16, 8)?;
    let again = Linear::new(8, 8)?;
    Ok(Net { features: vec![block(1, 2, true)?, block(2, 4, false)?], dropout: Dropout::new(0.5)?, head: Box::new(head), again, scale: Tensor::ones([3]) })
}
fn on_reference(f: impl FnOnce() -> Result<()>) {
    Device::reference().scoped(|| {
        manual_seed(7);
        f().unwrap();
    });
}
fn names(state: &[(String, Tensor)]) -> Vec<&str> {
    state.iter().map(|(n, _)| n.as_str()).collect()
}

#[test]
fn names_that_are_not_field_paths_in_order() {
    on_reference(|| {
        let expected = [
            "features.0.conv.weight",
            "features.0.norm.weight",
            "features.0.norm.bias",
            "features.0.norm.running_mean",
            "features.0.norm.running_var",
            "features.0.norm.num_batches_tracked",
            "features.0.projection.weight",
            "features.0.projection.bias",
            "features.1.conv.weight",
            "features.1.norm.weight",
            "features.1.norm.bias",
            "features.1.norm.running_mean",
            "features.1.norm.running_var",
            "features.1.norm.num_batches_tracked",
            "head.weight",
            "head.bias",
            "again.weight",
            "again.bias",
        ];
        let net = net()?;
        assert_eq!(names(&net.state_dict()), expected);
        assert_eq!(net.features[0].channels, 2);
        let trained: Vec<String> = net.named_parameters().into_iter().map(|(n, _)| n).collect();
        let buffers = ["running_mean", "running_var", "num_batches_tracked"];
        let without_buffers: Vec<&str> = expected.into_iter().filter(|n| !buffers.iter().any(|b| n.ends_with(b))).collect();
        assert_eq!(trained, without_buffers);
        Ok(())
    });
}
/// The keys and shapes that `torch.nn`'s state dicts have.
#[test]
fn layers_whose_weights_do_not_load_by_pytorchs_names() {
    on_reference(|| {
        let check = |layer: &dyn Walk, expected: &[(&str, &[usize])]| {
            let got: Vec<(String, Vec<usize>)> = layer.state_dict().into_iter().map(|(n, t)| (n, t.shape().unwrap().to_vec())).collect();
            let expected: Vec<(String, Vec<usize>)> = expected.iter().map(|(n, s)| (n.to_string(), s.to_vec())).collect();
            assert_eq!(got, expected);
        };
        check(&Linear::new(3, 5)?, &[("weight", &[5, 3]), ("bias", &[5])]);
        check(&Bilinear::new(3, 4, 2)?, &[("weight", &[2, 3, 4]), ("bias", &[2])]);
        check(&ConvTranspose2d::new(4, 2, [3, 5])?, &[("weight", &[4, 2, 3, 5]), ("bias", &[2])]);
        check(&Embedding::new(7, 5)?, &[("weight", &[7, 5])]);
        check(&PRelu::with(3, 0.25)?, &[("weight", &[3])]);
        check(&LayerNorm::new([2, 5])?, &[("weight", &[2, 5]), ("bias", &[2, 5])]);
        let two_ways = RecurrentOptions { bidirectional: true, proj_size: 2, ..Default::default() };
        check(
            &Lstm::with(3, 4, two_ways)?,
            &[
                ("weight_ih_l0", &[16, 3]),
                ("weight_hh_l0", &[16, 2]),
                ("bias_ih_l0", &[16]),
                ("bias_hh_l0", &[16]),
                ("weight_hr_l0", &[2, 4]),
                ("weight_ih_l0_reverse", &[16, 3]),
                ("weight_hh_l0_reverse", &[16, 2]),
                ("bias_ih_l0_reverse", &[16]),
                ("bias_hh_l0_reverse", &[16]),
                ("weight_hr_l0_reverse", &[2, 4]),
            ],
        );
        check(&GruCell::new(3, 4)?, &[("weight_ih", &[12, 3]), ("weight_hh", &[12, 4]), ("bias_ih", &[12]), ("bias_hh", &[12])]);
        let own_width = MultiheadAttentionOptions { kdim: Some(5), vdim: Some(7), add_bias_kv: true, ..Default::default() };
        check(
            &MultiheadAttention::with(8, 4, own_width)?,
            &[
                ("q_proj_weight", &[8, 8]),
                ("k_proj_weight", &[8, 5]),
                ("v_proj_weight", &[8, 7]),
                ("in_proj_bias", &[24]),
                ("bias_k", &[1, 1, 8]),
                ("bias_v", &[1, 1, 8]),
                ("out_proj.weight", &[8, 8]),
                ("out_proj.bias", &[8]),
            ],
        );
        let o = TransformerOptions { dim_feedforward: 12, ..Default::default() };
        let model = Transformer::with(8, 2, 1, 1, o)?;
        let state = model.state_dict();
        for name in
            ["encoder.layers.0.self_attn.in_proj_weight", "decoder.layers.0.multihead_attn.out_proj.bias", "decoder.layers.0.norm3.weight", "encoder.norm.bias"]
        {
            assert!(names(&state).contains(&name), "{name}");
        }
        assert_eq!(state.len(), 34);
        Ok(())
    });
}
#[test]
fn a_shared_parameter_is_counted_or_trained_twice() {
    on_reference(|| {
        let mut net = net()?;
        let (bytes, count) = (net.memory_usage(), net.parameter_count());
        let tied = Linear::new(8, 8)?;
        *net.head = Linear::new(64, 8)?;
        net.again = tied.clone();
        assert_eq!((net.memory_usage(), net.parameter_count()), (bytes, count));
        let twice = vec![tied.clone(), tied];
        assert_eq!((twice.parameters().len(), twice.memory_usage(), twice.state_dict().len()), (2, (64 + 8) * 4, 4));
        // conv 18 + norm 4 + running 4 + count + projection 4; conv 72 + norm 8 + running 8 + count; head 520; again 72; scale 3
        assert_eq!(bytes, 4 * (18 + 4 + 4 + 4 + 72 + 8 + 8 + 520 + 72 + 3) + 8 * 2);
        Ok(())
    });
}
#[test]
fn an_error_that_names_neither_layer_nor_line() {
    on_reference(|| {
        let net = net()?;
        net.eval();
        let line = line!() + 1;
        let error = net.forward(&Tensor::ones([2, 3, 4, 4])).unwrap_err();
        assert_eq!(error.scope(), "features.0.conv");
        assert!(error.to_string().contains("[2, 3, 4, 4]") && error.to_string().contains("[2, 1, 3, 3]"), "{error}");
        assert!(error.to_string().contains("module.rs:"), "{error} (called at {line})");
        // A layer in a box knows the line, too.
        let boxed: Box<dyn Module> = Box::new(Sequential::new().add(Linear::new(3, 3)?).add(Sequential::new().add_named("fc", Linear::new(4, 2)?)));
        let line = line!() + 1;
        let error = boxed.forward(&Tensor::ones([1, 3])).unwrap_err();
        assert_eq!(error.scope(), "1.fc");
        assert!(error.to_string().contains(&format!("module.rs:{line}")), "{error}");
        Ok(())
    });
}
#[test]
fn a_state_dict_that_loads_in_part_or_without_a_hint() {
    on_reference(|| {
        let (from, to) = (net()?, net()?);
        let state = from.state_dict();
        to.load_state_dict(&state)?;
        for ((_, a), (_, b)) in state.iter().zip(to.state_dict()) {
            assert_eq!(a.to_bytes()?, b.to_bytes()?);
        }
        let mut other = net()?.state_dict();
        other[0].0 = "features.0.conv.wieght".into();
        let before = to.state_dict()[1].1.to_bytes()?;
        let error = to.load_state_dict(&other).unwrap_err().to_string();
        assert!(error.contains("missing: `features.0.conv.weight`; unknown: `features.0.conv.wieght`"), "{error}");
        assert!(error.contains("the model has `features.0.conv.weight` where you have `features.0.conv.wieght`"), "{error}");
        let mut other = net()?.state_dict();
        let last = other.len() - 1;
        other[last].1 = Tensor::ones([9]);
        let error = to.load_state_dict(&other).unwrap_err().to_string();
        assert!(error.contains("`again.bias` has shape [8] in the model and [9] in the state dict"), "{error}");
        assert_eq!(to.state_dict()[1].1.to_bytes()?, before);
        Ok(())
    });
}
#[test]
fn evaluation_that_drops_or_moves_statistics() {
    on_reference(|| {
        let net = net()?;
        assert!(net.is_training());
        let x = init::normal([4, 1, 4, 4], 1.0, 2.0)?;
        let first = net.forward(&x)?.to_vec::<f32>()?;
        let mean = net.features[0].norm.running_mean().unwrap().detached().to_vec::<f32>()?;
        assert_ne!(mean, [0.0, 0.0]);
        assert_ne!(net.forward(&x)?.to_vec::<f32>()?, first, "two dropout masks are equal");
        net.eval();
        assert!(!net.is_training() && !net.features[1].is_training());
        let moved = net.features[0].norm.running_mean().unwrap().detached().to_vec::<f32>()?;
        let a = net.forward(&x)?.to_vec::<f32>()?;
        assert_eq!(net.forward(&x)?.to_vec::<f32>()?, a);
        assert_eq!(net.features[0].norm.running_mean().unwrap().detached().to_vec::<f32>()?, moved);
        Ok(())
    });
}
#[test]
fn a_frozen_part_that_gets_a_gradient() {
    on_reference(|| {
        let net = net()?;
        net.eval();
        net.features.freeze();
        assert_eq!((net.parameters().len(), net.trainable_parameters().len()), (12, 4));
        let grads = net.forward(&Tensor::ones([2, 1, 4, 4]))?.sum(..).backward()?;
        assert!(grads.of(&net.features[0].conv.weight.cell()).is_none());
        assert!(grads.of(&net.head.weight.cell()).is_some());
        net.unfreeze();
        assert_eq!(net.trainable_parameters().len(), 12);
        Ok(())
    });
}
#[test]
fn a_dtype_that_integers_follow_or_gradients_miss() {
    on_reference(|| {
        let net = net()?;
        net.cast(DType::F64)?;
        let dtypes: Vec<DType> = net.leaves().iter().map(|(_, p)| p.meta().dtype).collect();
        assert_eq!(dtypes.iter().filter(|d| **d == DType::I64).count(), 2);
        assert!(dtypes.iter().all(|d| matches!(d, DType::F64 | DType::I64)));
        let y = net.forward(&Tensor::ones([2, 1, 4, 4]).cast(DType::F64))?;
        let grads = y.sum(..).backward()?;
        assert_eq!(grads.of(&net.head.weight.cell()).unwrap().dtype()?, DType::F64);
        Ok(())
    });
}
#[test]
fn the_same_seed_gives_other_weights() {
    on_reference(|| {
        manual_seed(3);
        let a = Linear::new(5, 5)?.weight.detached().to_vec::<f32>()?;
        let b = Linear::new(5, 5)?.weight.detached().to_vec::<f32>()?;
        manual_seed(3);
        assert_eq!(Linear::new(5, 5)?.weight.detached().to_vec::<f32>()?, a);
        assert_ne!(a, b);
        Ok(())
    });
}

#[test]
fn a_dict_that_forgets_the_order_or_the_names_of_its_parts() {
    on_reference(|| {
        let mut dict: ModuleDict = ModuleDict::of([("z", Box::new(Linear::new(2, 3)?) as Box<dyn Module>), ("a", Box::new(Relu::new()))])?;
        assert!(dict.insert("m", Box::new(Linear::no_bias(3, 2)?))?.is_none());
        assert_eq!(dict.keys().collect::<Vec<_>>(), ["z", "a", "m"]);
        // Parts have their paths before the model is walked, as those of a sequence.
        let wrong = Tensor::ones([1, 7]);
        assert_eq!(dict.get("m").unwrap().forward(&wrong).unwrap_err().scope(), "m");
        assert_eq!(Sequential::new().add_named("m", Linear::new(3, 2)?).forward(&wrong).unwrap_err().scope(), "m");
        assert_eq!(names(&dict.state_dict()), ["z.weight", "z.bias", "m.weight"]);
        // A layer that takes another's name takes its place, as in Python's dict.
        assert!(dict.insert("z", Box::new(Linear::no_bias(2, 3)?))?.is_some());
        assert_eq!(names(&dict.state_dict()), ["z.weight", "m.weight"]);
        let mut x = Tensor::ones([1, 2]);
        for part in dict.values() {
            x = part.forward(&x)?;
        }
        assert_eq!(x.dims()?, [1, 2]);
        dict.eval();
        assert!(!dict.is_training());
        assert!(dict.remove("z").is_some() && dict.remove("z").is_none() && dict.get("z").is_none());
        assert_eq!((dict.len(), dict.is_empty()), (2, false));
        for name in ["", "a.b"] {
            let error = dict.insert(name, Box::new(Relu::new())).err().unwrap();
            assert_eq!(error.kind().word(), "argument");
        }
        assert_eq!(dict.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "m"]);
        Ok(())
    });
}
#[test]
fn a_dict_of_parameters_or_of_one_kind_of_layers_that_is_no_part_of_a_model() {
    #[derive(Module)]
    struct Heads {
        scales: ParameterDict,
        heads: ModuleDict<Linear>,
    }
    on_reference(|| {
        let scales = ParameterDict::of([("b", Param::new(&Tensor::ones([2]))?), ("a", Param::buffer(&Tensor::zeros([3]))?)])?;
        let model = Heads { scales, heads: ModuleDict::of([("right", Linear::new(1, 1)?), ("left", Linear::no_bias(1, 1)?)])? };
        assert_eq!(names(&model.state_dict()), ["scales.b", "scales.a", "heads.right.weight", "heads.right.bias", "heads.left.weight"]);
        assert_eq!(model.parameters().len(), 4);
        model.cast(DType::F64)?;
        assert_eq!(model.scales.get("a").unwrap().meta().dtype, DType::F64);
        assert_eq!(&*model.heads.get("left").unwrap().weight.path(), "heads.left.weight");
        Ok(())
    });
}
#[test]
fn a_causal_mask_that_hides_what_is_appended() -> Result<()> {
    Device::reference().scoped(|| {
        manual_seed(3);
        for (add_bias_kv, add_zero_attn) in [(true, false), (false, true), (true, true)] {
            let options = MultiheadAttentionOptions { batch_first: true, add_bias_kv, add_zero_attn, ..Default::default() };
            let layer = MultiheadAttention::with(8, 2, options)?;
            let x = init::normal([2, 5, 8], 0.0, 1.0)?;
            let causal = layer.forward(&x, &x, &x, &Masks { is_causal: true, ..Default::default() })?;
            for t in 0..5 {
                // The last query of a prefix sees what a causal one sees.
                let prefix = x.narrow(1, 0, t + 1);
                let last = layer.forward(&prefix, &prefix, &prefix, &Masks::default())?.select(1, t);
                let off = (causal.select(1, t) - last).abs().amax(..).item::<f32>()?;
                assert!(off < 1e-5, "bias {add_bias_kv}, zeros {add_zero_attn}, query {t}: {off}");
            }
        }
        Ok(())
    })
}
