//! Hooks beyond what PyTorch says of them: where they are honoured, where they are refused, and when they go.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{grad::HookHandle, *};
use adamant_nn::{hooks::*, parametrize::*, *};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
type Log = Arc<Mutex<Vec<String>>>;
fn logged(log: &Log) -> impl Fn(&Site, &[Tensor], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static {
    let log = log.clone();
    move |site, inputs, outputs| {
        log.lock().unwrap().push(format!("{} {} {}>{}", site.path(), site.kind(), inputs.len(), outputs.len()));
        Ok(None)
    }
}
/// Every layer of the library that computes, with its inputs.
fn all_layers() -> Result<Vec<(Box<dyn Walk>, Box<dyn Fn() -> Result<Tensor>>)>> {
    fn one<M: Module + Clone + 'static>(layer: M, dims: &[usize]) -> (Box<dyn Walk>, Box<dyn Fn() -> Result<Tensor>>) {
        let (x, run) = (Tensor::ones(dims), layer.clone());
        (Box::new(layer), Box::new(move || run.forward(&x)))
    }
    let transformer = TransformerOptions { dim_feedforward: 4, dropout: 0.0, ..Default::default() };
    let layer = || TransformerEncoderLayer::with(4, 2, transformer);
    let mut all = vec![
        one(Linear::new(4, 4)?, &[2, 4]),
        one(Conv1d::new(2, 2, 2)?, &[1, 2, 4]),
        one(ConvTranspose2d::new(2, 2, 2)?, &[1, 2, 4, 4]),
        one(BatchNorm1d::new(4)?, &[2, 4]),
        one(InstanceNorm1d::new(2)?, &[1, 2, 4]),
        one(LayerNorm::new([4])?, &[2, 4]),
        one(RmsNorm::new([4])?, &[2, 4]),
        one(GroupNorm::new(2, 4)?, &[2, 4]),
        one(LocalResponseNorm::new(2), &[1, 2, 4]),
        one(CrossMapLrn2d::new(3), &[1, 2, 2, 2]),
        one(Dropout::new(0.5)?, &[2, 4]),
        one(Dropout2d::new(0.5)?, &[1, 2, 2, 2]),
        one(AlphaDropout::new(0.5)?, &[2, 4]),
        one(FeatureAlphaDropout::new(0.5)?, &[2, 4]),
        one(MaxPool1d::new(2), &[1, 2, 4]),
        one(AvgPool2d::new(2), &[1, 2, 4, 4]),
        one(LpPool1d::new(2.0, 2), &[1, 2, 4]),
        one(AdaptiveAvgPool1d::new(2), &[1, 2, 4]),
        one(AdaptiveMaxPool1d::new(2), &[1, 2, 4]),
        one(FractionalMaxPool2d::new(2, 2), &[1, 2, 4, 4]),
        one(Relu::new(), &[2, 4]),
        one(Gelu::default(), &[2, 4]),
        one(RRelu::default(), &[2, 4]),
        one(PRelu::with(1, 0.25)?, &[2, 4]),
        one(Flatten::default(), &[2, 2, 2]),
        one(Unflatten::new(1, [2, 2]), &[2, 4]),
        one(Pad::around(1, 1, Default::default()), &[1, 2, 4]),
        one(PixelShuffle::new(2), &[1, 4, 2, 2]),
        one(Unfold::new(2), &[1, 1, 3, 3]),
        one(PositionEmbedding::new(4, 4)?, &[2, 4]),
        one(Rnn::new(4, 3)?, &[2, 1, 4]),
        one(Lstm::new(4, 3)?, &[2, 1, 4]),
        one(GruCell::with(4, 3, true)?, &[1, 4]),
        one(layer()?, &[2, 1, 4]),
        one(TransformerEncoder::new(vec![layer()?], None), &[2, 1, 4]),
        one(Hooked::new(Linear::new(4, 4)?), &[2, 4]),
    ];
    let x = Tensor::ones([2, 4]);
    let (bilinear, similarity, mse) = (Bilinear::new(4, 4, 2)?, CosineSimilarity::with(1, 1e-8), MseLoss::new());
    let (b, s, m, y) = (bilinear.clone(), similarity.clone(), mse.clone(), x.clone());
    all.push((Box::new(bilinear), Box::new(move || b.forward(&y, &y))));
    let y = x.clone();
    all.push((Box::new(similarity), Box::new(move || s.forward(&y, &y))));
    all.push((Box::new(mse), Box::new(move || m.forward(&x, &x))));
    Ok(all)
}
#[test]
fn a_layer_whose_hooks_are_dropped_silently() -> Result<()> {
    on_reference(|| {
        let mut wrong = Vec::new();
        for (layer, run) in all_layers()? {
            let kind = layer.get_submodule("")?.kind;
            let (calls, first) = (Arc::new(AtomicUsize::new(0)), layer.get_submodule("")?.site()?.clone());
            let counted = |calls: &Arc<AtomicUsize>, by: usize| {
                let calls = calls.clone();
                move || calls.fetch_add(by, Relaxed)
            };
            let (pre, post) = (counted(&calls, 1), counted(&calls, 10));
            let handles: [HookHandle; 2] = [
                first.register_forward_pre_hook(move |_, _| {
                    pre();
                    Ok(None)
                })?,
                first.register_forward_hook(move |_, _, outputs| {
                    post();
                    Ok(Some(outputs.iter().map(|y| y * 0.0).collect()))
                })?,
            ];
            let y = run()?.to_vec::<f32>()?;
            handles.iter().for_each(HookHandle::remove);
            run()?;
            if calls.load(Relaxed) != 11 || y.iter().any(|v| *v != 0.0) {
                wrong.push(format!("{kind}: {} calls, {y:?}", calls.load(Relaxed)));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
}
/// A module of one's own without a place, and one with a place that does not run hooks.
#[derive(Clone, Module)]
struct Block {
    fc: Linear,
}
impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.fc.forward(&x.relu())
    }
}
#[derive(Module)]
struct Own {
    site: Site,
    block: Hooked<Block>,
    plain: Block,
}
impl Module for Own {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        self.plain.forward(&self.block.forward(x)?)
    }
}
#[test]
fn a_module_that_takes_a_hook_and_never_calls_it() -> Result<()> {
    on_reference(|| {
        let block = || Ok::<_, Error>(Block { fc: Linear::new(2, 2)? });
        let net = Own { site: Site::new("Own"), block: Hooked::new(block()?), plain: block()? };
        let nothing = |_: &Site, _: &[Tensor], _: &[Tensor]| Ok(None);
        for (error, named) in [
            (net.register_forward_hook(nothing).unwrap_err(), "the Own runs no hooks"),
            (net.plain.register_forward_hook(nothing).unwrap_err(), "the Block has no place for hooks"),
            (net.get_submodule("plain")?.site().map(|_| ()).unwrap_err(), "the Block at `plain` has no place for hooks"),
            (net.get_submodule("plian").map(|_| ()).unwrap_err(), "nearest one is `plain`"),
        ] {
            let text = error.to_string();
            assert!(text.contains(named) && error.kind().word() == "argument", "{text}");
        }
        let log = Log::default();
        net.block.register_forward_hook(logged(&log))?;
        net.get_submodule("plain.fc")?.site()?.register_forward_hook(logged(&log))?;
        let outer = Sequential::new().add_named("first", Sequential::new().add_named("own", net));
        outer.forward(&Tensor::ones([1, 2]))?;
        assert_eq!(*log.lock().unwrap(), ["first.own.block Block 1>1", "first.own.plain.fc Linear 1>1"]);
        Ok(())
    })
}
#[test]
fn a_hook_of_all_modules_that_outlives_its_handle() -> Result<()> {
    on_reference(|| {
        // Other tests run beside this one: only what happens at these paths counts.
        let net = Sequential::new().add_named("a", Linear::new(2, 2)?).add_named("b", Sequential::new().add_named("c", Tanh::default()));
        let outer = ModuleDict::of([("globally", net)])?;
        let log = Log::default();
        let note = logged(&log);
        let handle = register_module_forward_hook(move |site, x, y| if site.path().starts_with("globally") { note(site, x, y) } else { Ok(None) });
        let run = || outer.get("globally").unwrap().forward(&Tensor::ones([1, 2]));
        run()?;
        handle.remove();
        handle.remove();
        run()?;
        let want = ["globally.a Linear 1>1", "globally.b.c Tanh 1>1", "globally.b Sequential 1>1", "globally Sequential 1>1"];
        assert_eq!(*log.lock().unwrap(), want);
        Ok(())
    })
}
#[test]
fn hooks_in_another_order_or_a_removed_one_that_still_runs() -> Result<()> {
    on_reference(|| {
        let layer = Identity::new();
        let add = |v: f64| move |_: &Site, _: &[Tensor], y: &[Tensor]| Ok(Some(vec![&y[0] * 10.0 + v]));
        let (first, _second) = (layer.register_forward_hook(add(1.0))?, layer.register_forward_hook(add(2.0))?);
        let run = || layer.forward(&Tensor::zeros([1]))?.item::<f32>();
        assert_eq!(run()?, 12.0);
        first.remove();
        assert_eq!(run()?, 2.0);
        let x = Tensor::ones([1]).tracked();
        let handles: Vec<HookHandle> = (1..=2).map(|k| x.register_hook(move |g| Some(g * 10.0 + k as f64))).collect::<Result<_>>()?;
        let gradient = || (&x * 0.0).sum(..).backward().map(|g| g.get(&x).unwrap().item::<f32>().unwrap());
        assert_eq!(gradient()?, 12.0);
        handles[0].remove();
        assert_eq!(gradient()?, 2.0);
        Ok(())
    })
}
#[test]
fn a_wrong_replacement_that_is_taken() -> Result<()> {
    on_reference(|| {
        let x = Tensor::ones([2]).tracked();
        let told = |hook: fn(&Tensor) -> Option<Tensor>, part: &str| {
            let y = &x * 2.0;
            y.register_hook(hook).unwrap();
            let error = y.sum(..).backward().map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        told(|_| Some(Tensor::ones([3])), "what a hook returns has the shape of the gradient");
        told(|g| Some(g.cast(DType::F64)), "dtype");
        told(|g| Some(g.reshape([7])), "reshape");
        let error = Tensor::ones([1]).register_hook(|_| None).unwrap_err();
        assert!(error.kind().word() == "backward" && error.to_string().contains("Tensor::tracked"), "{error}");
        assert!(Tensor::ones([1]).retain_grad().is_err());
        let layer = Identity::new();
        layer.register_forward_hook(|_, _, y| Ok(Some(vec![y[0].clone(), y[0].clone()])))?;
        let error = layer.forward(&x).unwrap_err().to_string();
        assert!(error.contains("2 tensors in the place of 1") && error.contains("hooks.rs"), "{error}");
        Ok(())
    })
}
#[test]
fn a_parameters_hook_that_is_lost_when_it_moves_or_gets_its_shape() -> Result<()> {
    on_reference(|| {
        let layer = Linear::lazy(2)?;
        let handle = layer.weight.register_hook(|g| Some(g * 0.0))?;
        let gradient = |dtype: DType| -> Result<f64> {
            let grads = layer.forward(&Tensor::ones([1, 3]).cast(dtype))?.sum(..).backward()?;
            grads.of(&layer.weight.cell()).unwrap().cast(DType::F64).abs().amax(..).item::<f64>()
        };
        assert_eq!(gradient(DType::F32)?, 0.0);
        layer.cast(DType::F64)?;
        assert_eq!(gradient(DType::F64)?, 0.0);
        handle.remove();
        assert_eq!(gradient(DType::F64)?, 1.0);
        assert!(Param::buffer(&Tensor::ones([1]))?.register_hook(|_| None).is_err());
        weight_norm(&layer, "weight", None)?;
        assert!(layer.weight.register_hook(|_| None).unwrap_err().to_string().contains("parametrized"));
        Ok(())
    })
}
#[test]
fn a_second_derivative_or_a_checkpoint_that_passes_a_hook_by() -> Result<()> {
    on_reference(|| {
        let cube = |hooked: bool| -> Result<f32> {
            let x = Tensor::full([1], 2.0, DType::F32).tracked();
            let y = &x * &x * &x;
            if hooked {
                y.register_hook(|g| Some(g * 5.0))?;
            }
            let first = y.sum(..).backward_graph()?.get(&x).unwrap().clone();
            first.sum(..).backward()?.get(&x).unwrap().item::<f32>()
        };
        assert_eq!((cube(false)?, cube(true)?), (12.0, 60.0));
        let layer = Arc::new(Linear::no_bias(1, 1)?);
        layer.register_full_backward_hook(|_, inputs, _| Ok(Some(vec![inputs[0].as_ref().map(|g| g * 0.0)])))?;
        layer.weight.register_hook(|g| Some(g + 100.0))?;
        let x = Tensor::ones([1, 1]).tracked();
        let run = layer.clone();
        let grads = checkpoint(&[&x], move |x| run.forward(&x[0]))?.sum(..).backward()?;
        assert_eq!(grads.get(&x).unwrap().item::<f32>()?, 0.0);
        assert_eq!(grads.of(&layer.weight.cell()).unwrap().item::<f32>()?, 101.0);
        Ok(())
    })
}
#[test]
fn gradients_of_a_transform_that_pass_a_hook_by() -> Result<()> {
    on_reference(|| {
        let layer = Arc::new(Linear::no_bias(2, 1)?);
        layer.weight.set(&Tensor::from_slice(&[1.0f32, 2.0], [1, 2]))?;
        layer.register_full_backward_pre_hook(|_, g| Ok(Some(vec![g[0].as_ref().map(|g| g * 3.0)])))?;
        let run = layer.clone();
        let f = move |x: Tensor| run.forward(&x).unwrap_or_else(Tensor::failed).sum(..);
        assert_eq!(transform::grad(f)(Tensor::ones([2])).to_vec::<f32>()?, [3.0, 6.0]);
        Ok(())
    })
}
#[test]
fn memory_that_hooks_of_activations_keep() -> Result<()> {
    on_reference(|| {
        let held = Arc::new(());
        for _ in 0..10 {
            let y = Tensor::ones([1]).tracked() * 2.0;
            let kept = held.clone();
            y.register_hook(move |_| {
                let _kept = &kept;
                None
            })?;
            y.sum(..).backward()?;
        }
        assert_eq!(Arc::strong_count(&held), 1, "hooks go with the tensors");
        Ok(())
    })
}
