//! Batch norms that became part of the layer before them: the model answers what it answered before, and they are gone; what cannot be
//! folded stays, with the reason.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu::trace::trace;
use adamant_conformance::random::Random;
use adamant_core::{
    DType, Result, Tensor, compile,
    functional::{ConvTransposeOptions as TransposeOptions, PadMode},
    grad::no_grad,
};
use adamant_nn::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNormOptions, Conv, Conv1d, Conv2d, ConvOptions, ConvTranspose, ConvTransposeOptions, Flatten, Hooked, Linear,
    Module, Param, Relu, Relu6, Sequential, Walk, init, manual_seed, parametrize::weight_norm,
};
use adamant_quant::{
    FuseReport, LayerKind, NormOutcome, QuantizationConfig, folded_pairs, fuse_modules, fuse_modules_on, load_quantized, observe::Observation,
    quantize_dynamic, quantize_model, save_quantized,
};

fn normal(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f32>().unwrap().into_iter().map(f64::from).collect()
}
const CHANNELS: usize = 4;
/// Where layer and norm stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Around {
    Sequential,
    /// what the norm returns is added to the input
    Residual,
    /// what the layer returns is added to what the norm returns
    TwoReaders,
    /// what the layer returns is returned beside, through a sum over everything
    ReadByFunction,
}
const AROUND: [Around; 4] = [Around::Sequential, Around::Residual, Around::TwoReaders, Around::ReadByFunction];
const KINDS: [&str; 7] = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Linear"];
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Relu,
    Relu6,
    Function,
    Nothing,
}
const BEHIND: [Behind; 4] = [Behind::Relu, Behind::Relu6, Behind::Function, Behind::Nothing];

#[derive(Module)]
struct Net {
    layer: Box<dyn Module>,
    norm: Box<dyn Module>,
    act: Option<Box<dyn Module>>,
    head: Linear,
    #[module(skip)]
    around: Around,
    #[module(skip)]
    behind: Behind,
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.layer.forward(x)?;
        let z = self.norm.forward(&y)?;
        let z = match self.around {
            Around::Sequential => z,
            Around::Residual => z + x,
            Around::TwoReaders => z + y,
            Around::ReadByFunction => z * y.tanh().mean(..),
        };
        let z = match &self.act {
            Some(act) => act.forward(&z)?,
            None if self.behind == Behind::Function => z.relu(),
            None => z,
        };
        let axes: Vec<isize> = (2..z.shape()?.rank() as isize).collect();
        self.head.forward(&if axes.is_empty() { z } else { z.mean(axes.as_slice()) })
    }
}
#[derive(Clone, Debug)]
struct Case {
    kind: &'static str,
    groups: usize,
    bias: bool,
    affine: bool,
    around: Around,
    behind: Behind,
}
impl Case {
    fn all() -> Vec<Case> {
        let mut all = Vec::new();
        for (kind, groups) in KINDS.iter().flat_map(|kind| [1, 2, CHANNELS].map(|groups| (*kind, groups))).filter(|(kind, g)| *kind != "Linear" || *g == 1) {
            for (bias, affine) in [(false, false), (false, true), (true, false), (true, true)] {
                for (around, behind) in AROUND.iter().flat_map(|around| BEHIND.map(|behind| (*around, behind))) {
                    all.push(Case { kind, groups, bias, affine, around, behind });
                }
            }
        }
        all
    }
    fn layer(&self) -> Result<Box<dyn Module>> {
        fn conv<const N: usize>(of: &Case) -> Result<Box<dyn Module>> {
            let options = ConvOptions { padding: 1.into(), groups: of.groups, bias: of.bias, ..Default::default() };
            Ok(Box::new(Conv::<N>::with(CHANNELS, CHANNELS, 3, options)?))
        }
        fn transposed<const N: usize>(of: &Case) -> Result<Box<dyn Module>> {
            let conv = TransposeOptions { padding: 1.into(), groups: of.groups, ..Default::default() };
            Ok(Box::new(ConvTranspose::<N>::with(CHANNELS, CHANNELS, 3, ConvTransposeOptions { conv, bias: of.bias })?))
        }
        match self.kind {
            "Conv1d" => conv::<1>(self),
            "Conv2d" => conv::<2>(self),
            "Conv3d" => conv::<3>(self),
            "ConvTranspose1d" => transposed::<1>(self),
            "ConvTranspose2d" => transposed::<2>(self),
            "ConvTranspose3d" => transposed::<3>(self),
            _ if self.bias => Ok(Box::new(Linear::new(CHANNELS, CHANNELS)?)),
            _ => Ok(Box::new(Linear::no_bias(CHANNELS, CHANNELS)?)),
        }
    }
    fn spatial(&self) -> usize {
        self.kind.chars().find(char::is_ascii_digit).map_or(0, |d| d as usize - '0' as usize)
    }
    fn model(&self, seed: u64) -> Result<Net> {
        manual_seed(seed);
        let options = BatchNormOptions { affine: self.affine, eps: 1e-3, ..Default::default() };
        let norm: Box<dyn Module> = match self.spatial() {
            2 => Box::new(BatchNorm::<2>::with(CHANNELS, options)?),
            3 => Box::new(BatchNorm::<3>::with(CHANNELS, options)?),
            _ => Box::new(BatchNorm::<1>::with(CHANNELS, options)?),
        };
        let act: Option<Box<dyn Module>> = match self.behind {
            Behind::Relu => Some(Box::new(Relu::new())),
            Behind::Relu6 => Some(Box::new(Relu6::new())),
            Behind::Function | Behind::Nothing => None,
        };
        let net = Net { layer: self.layer()?, norm, act, head: Linear::new(CHANNELS, 3)?, around: self.around, behind: self.behind };
        stir(&net)?;
        net.eval();
        Ok(net)
    }
    fn input(&self) -> Tensor {
        normal([vec![2, CHANNELS], vec![5; self.spatial()]].concat())
    }
}
/// Running statistics, scales and shifts that say something.
fn stir(model: &(impl Walk + ?Sized)) -> Result<()> {
    for (path, p) in model.leaves() {
        let meta = p.meta();
        let value = normal(meta.shape);
        let value = if path.ends_with("running_var") { value.abs() + 0.3 } else { value * 0.5 };
        if meta.dtype.is_float() {
            p.set(&value.cast(meta.dtype))?;
        }
    }
    Ok(())
}
fn answer(model: &(impl Module + ?Sized), x: &Tensor) -> Result<Vec<f64>> {
    Ok(numbers(&no_grad(|| model.forward(x))?))
}
/// Equal to 1e-6 of the largest.
fn same(got: &[f64], want: &[f64], of: &str) {
    assert_eq!(got.len(), want.len(), "{of}");
    let most = 1e-6 * want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    let apart = got.iter().zip(want).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
    assert!(apart <= most, "{of}: {apart:e} apart, at most {most:e}");
}
fn names(model: &(impl Walk + ?Sized)) -> Vec<String> {
    model.state_dict().into_iter().map(|(name, _)| name).collect()
}
/// Why the one norm of a model stays.
fn why(report: &FuseReport) -> String {
    match report.norms.as_slice() {
        [norm] => match &norm.outcome {
            NormOutcome::Left(why) => why.clone(),
            NormOutcome::Folded { layer } => format!("folded into `{layer}`"),
        },
        other => format!("{} norms", other.len()),
    }
}

#[test]
fn a_folded_model_of_any_layers_that_answers_otherwise_or_keeps_what_its_norm_held() -> Result<()> {
    let mut folded = 0;
    for (k, case) in Case::all().iter().enumerate() {
        let of = format!("{case:?}");
        let (model, x) = (case.model(k as u64)?, case.input());
        let (wanted, before) = (answer(&model, &x)?, model.state_dict().len());
        let (weight, bytes) = (model.get_submodule("layer")?.parameter("weight").unwrap().elements(), model.memory_usage());
        let report = fuse_modules_on(&model, &x)?;
        same(&answer(&model, &x)?, &wanted, &of);
        if matches!(case.around, Around::TwoReaders | Around::ReadByFunction) {
            assert_eq!((why(&report).as_str(), model.state_dict().len()), ("it is not alone in reading what `layer` returns", before), "{of}");
            continue;
        }
        folded += 1;
        assert_eq!(report.norms[0].outcome, NormOutcome::Folded { layer: "layer".into() }, "{of}");
        assert_eq!(names(&model), ["layer.weight", "layer.bias", "head.weight", "head.bias"], "{of}");
        let head = 3 * CHANNELS + 3;
        assert_eq!((model.parameter_count(), model.named_buffers().len()), (weight + CHANNELS + head, 0), "{of}");
        assert_eq!((report.before, report.after, model.memory_usage()), (bytes, 4 * (weight + CHANNELS + head), report.after), "{of}");
        // In training it passes values on too, and the bias is trained.
        model.train();
        same(&answer(&model, &x)?, &wanted, &of);
        let grads = model.forward(&x)?.sum(..).backward()?;
        assert!(model.parameters().iter().all(|p| grads.of(&p.cell()).is_some()), "{of}");
        model.eval();
        // The user's word does what the graph does.
        let named = case.model(k as u64)?;
        let list: Vec<&str> = if case.behind == Behind::Relu { vec!["layer", "norm", "act"] } else { vec!["layer", "norm"] };
        fuse_modules(&named, &[list])?;
        assert_eq!(answer(&named, &x)?, answer(&model, &x)?, "{of}");
    }
    assert_eq!(folded, 19 * 4 * 4 * 2);
    Ok(())
}

#[test]
fn a_copy_a_fresh_model_or_a_compiled_function_that_does_not_know_what_was_folded() -> Result<()> {
    for case in Case::all().iter().filter(|c| c.around == Around::Residual && c.behind == Behind::Relu && c.affine) {
        let of = format!("{case:?}");
        let (model, fresh, x) = (case.model(1)?, case.model(2)?, case.input());
        let captured = compile(|x| Ok(vec![no_grad(|| model.forward(&x[0]))?]));
        let wanted = answer(&model, &x)?;
        assert_eq!(numbers(&captured.call(&[&x])?[0]), wanted, "{of}");
        fuse_modules_on(&model, &x)?;
        let after = answer(&model, &x)?;
        same(&numbers(&captured.call(&[&x])?[0]), &wanted, &of);
        let copy = model.deep_copy()?;
        assert_eq!((names(&copy), answer(&copy, &x)?, folded_pairs(&copy)), (names(&model), after.clone(), folded_pairs(&model)), "{of}");
        // The copy's parameters are its own, the late bias too.
        copy.parameters().iter().try_for_each(|p| p.set(&p.detached().zeros_like()))?;
        assert_eq!(answer(&model, &x)?, after, "{of}");
        let refused = fresh.load_state_dict(&model.state_dict()).unwrap_err().to_string();
        assert!(refused.contains("norm.running_mean"), "{refused}");
        fuse_modules(&fresh, &folded_pairs(&model))?;
        fresh.load_state_dict(&model.state_dict())?;
        assert_eq!(answer(&fresh, &x)?, after, "{of}");
        let handle = model.get_submodule("norm")?;
        assert!(handle.parameters.is_empty(), "{of}");
    }
    Ok(())
}

#[test]
fn what_was_given_up_and_is_read_or_trained_as_if_it_were_there() -> Result<()> {
    let net = Sequential::new().add(Conv2d::new(2, 3, 3)?).add(BatchNorm2d::new(3)?);
    net.eval();
    let held: Vec<Param> = net.get_submodule("1")?.parameters.into_iter().map(|(_, p)| p).collect();
    fuse_modules(&net, &[["0", "1"]])?;
    for param in &held {
        let gone = param.get().to_bytes().unwrap_err().to_string();
        assert!(gone.contains("was given up") && gone.contains("weight and bias"), "{gone}");
        assert!(param.set(&Tensor::ones(param.meta().shape)).is_err() && !param.is_trainable());
    }
    let again = fuse_modules(&net, &[["0", "1"]]).unwrap_err().to_string();
    assert!(again.contains("it was folded into `0` before"), "{again}");
    assert_eq!(why(&fuse_modules_on(&net, &normal([1, 2, 5, 5]))?), "it was folded into `0` before");
    Ok(())
}

#[test]
fn more_than_one_kernel_for_a_convolution_its_norm_and_its_relu() -> Result<()> {
    for relu in [true, false] {
        let net = Sequential::new().add(Conv2d::with(3, 8, 3, ConvOptions { bias: false, padding: 1.into(), ..Default::default() })?).add(BatchNorm2d::new(8)?);
        let net = if relu { net.add(Relu::new()) } else { net };
        stir(&net)?;
        net.eval();
        let x = normal([2, 3, 9, 9]);
        fuse_modules_on(&net, &x)?;
        let run = || -> Result<()> {
            // By a module, or by a function of what the norm returns.
            let y = no_grad(|| net.forward(&x).map(|y| if relu { y } else { y.relu() }))?;
            y.materialize()
        };
        run()?;
        let (done, ran) = trace(run);
        done?;
        let kernels: Vec<&str> = ran.iter().map(|r| r.kernel).collect();
        assert_eq!(kernels, ["conv"], "{relu}");
    }
    Ok(())
}

#[derive(Module)]
struct Pair {
    conv: Conv1d,
    norm: BatchNorm1d,
    #[module(skip)]
    forward: fn(&Conv1d, &BatchNorm1d, &Tensor) -> Result<Tensor>,
}
impl Module for Pair {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.forward)(&self.conv, &self.norm, x)
    }
}
fn pair(forward: fn(&Conv1d, &BatchNorm1d, &Tensor) -> Result<Tensor>) -> Result<Pair> {
    let net = Pair { conv: Conv1d::with(4, 4, 3, ConvOptions { padding: 1.into(), ..Default::default() })?, norm: BatchNorm1d::new(4)?, forward };
    stir(&net)?;
    net.eval();
    Ok(net)
}
#[test]
fn a_norm_that_is_folded_though_it_must_stay_or_stays_for_another_reason() -> Result<()> {
    type Apply = fn(&Conv1d, &BatchNorm1d, &Tensor) -> Result<Tensor>;
    type Spoil = fn(&Pair) -> Result<()>;
    let plain: Apply = |conv, norm, x| norm.forward(&conv.forward(x)?);
    let cases: [(&str, Apply, Spoil); 14] = [
        ("it is training", plain, |net| {
            net.norm.train();
            Ok(())
        }),
        ("it is applied 2 times", |conv, norm, x| norm.forward(&norm.forward(&conv.forward(x)?)?), |_| Ok(())),
        ("`conv` is applied 2 times", |conv, norm, x| norm.forward(&conv.forward(&conv.forward(x)?)?), |_| Ok(())),
        ("the model does not apply it", |conv, _, x| conv.forward(x), |_| Ok(())),
        ("it reads the model's input", |conv, norm, x| conv.forward(&norm.forward(x)?), |_| Ok(())),
        ("made by `relu`", |conv, norm, x| norm.forward(&conv.forward(x)?.relu()), |_| Ok(())),
        ("made by `slice`", |conv, norm, x| norm.forward(&conv.forward(x)?.transpose(1, 2).narrow(1, 0, 4)), |_| Ok(())),
        (
            "it is not alone in reading",
            |conv, norm, x| {
                let y = conv.forward(x)?;
                Ok(Tensor::cat(&[norm.forward(&y)?, y], 1))
            },
            |_| Ok(()),
        ),
        ("`conv` is computed from other parameters", plain, |net| weight_norm(net, "conv.weight", Some(0)).map(drop)),
        ("`conv` is integer codes already", plain, |net| quantize_dynamic(net, &[LayerKind::Conv], DType::I8).map(drop)),
        ("its parameters are computed from others", plain, |net| weight_norm(net, "norm.weight", None).map(drop)),
        ("hooks look at what `conv`", plain, |net| net.conv.register_forward_hook(|_, _, _| Ok(None)).map(drop)),
        ("hooks look at what it is given", plain, |net| net.norm.register_forward_pre_hook(|_, _| Ok(None)).map(drop)),
        ("statistics are not finite", plain, |net| net.norm.running_var().unwrap().set(&Tensor::from_vec(vec![1.0f32, -3.0, 1.0, 1.0], [4]))),
    ];
    for (reason, forward, spoil) in cases {
        let (net, x) = (pair(forward)?, normal([3, 4, 6]));
        spoil(&net)?;
        let (before, wanted) = (names(&net), net.deep_copy());
        let report = fuse_modules_on(&net, &x)?;
        assert!(why(&report).contains(reason), "{reason}: {}", why(&report));
        assert_eq!(names(&net), before, "{reason}");
        assert!(wanted.is_ok(), "{reason}");
        assert!(report.to_string().contains("0 of 1 norms folded"), "{report}");
    }
    Ok(())
}

#[test]
fn layers_that_share_or_lack_what_folding_changes() -> Result<()> {
    let x = normal([3, 4]);
    // A weight of two layers; a norm over the channels of something else; no running statistics; a wrapped layer.
    let first = Linear::new(4, 4)?;
    let tied = Linear::tied(&first.weight)?;
    let net = Sequential::new().add(first).add(BatchNorm1d::new(4)?).add(tied);
    net.eval();
    assert!(why(&fuse_modules_on(&net, &x)?).contains("the parameters of `0` belong to several layers"));
    let steps = Sequential::new().add(Linear::new(4, 5)?).add(BatchNorm1d::new(5)?);
    steps.eval();
    assert!(why(&fuse_modules_on(&steps, &normal([2, 5, 4]))?).contains("given an input of other axes"));
    let options = BatchNormOptions { track_running_stats: false, ..Default::default() };
    let forgetful = Sequential::new().add(Linear::new(4, 5)?).add(BatchNorm1d::with(5, options)?);
    forgetful.eval();
    assert_eq!(why(&fuse_modules_on(&forgetful, &x)?), "it has no running statistics");
    let wrapped = Sequential::new().add(Hooked::new(Linear::new(4, 4)?)).add(BatchNorm1d::new(4)?);
    wrapped.eval();
    assert!(why(&fuse_modules_on(&wrapped, &x)?).contains("by no convolution or linear layer"), "{}", why(&fuse_modules_on(&wrapped, &x)?));
    let narrow = Sequential::new().add(Linear::new(4, 4)?).add(BatchNorm1d::new(4)?);
    narrow.eval();
    narrow.cast(DType::F64)?;
    narrow.get_submodule("0")?.parameters.iter().try_for_each(|(_, p)| p.cast(DType::F32))?;
    let differ = fuse_modules(&narrow, &[["0", "1"]]).unwrap_err().to_string();
    assert!(differ.contains("f64") && differ.contains("f32"), "{differ}");
    Ok(())
}

#[test]
fn a_list_that_names_nothing_or_does_half_of_what_it_says() -> Result<()> {
    let net = || -> Result<Sequential> {
        let net = Sequential::new().add(Conv2d::new(2, 3, 3)?).add(BatchNorm2d::new(3)?).add(Relu::new()).add(Flatten::new()).add(Linear::new(27, 4)?);
        let net = net.add(BatchNorm1d::new(5)?).add(Linear::lazy(4)?).add(BatchNorm1d::new(4)?);
        net.eval();
        Ok(net)
    };
    let cases: [(&[&str], &str); 8] = [
        (&["0", "9"], "there is no module at `9`"),
        (&["0"], "cannot be fused"),
        (&[], "cannot be fused"),
        (&["1", "0"], "cannot be fused"),
        (&["0", "1", "3"], "cannot be fused"),
        (&["0", "1", "2", "2"], "cannot be fused"),
        (&["4", "5"], "it has 5 channels, and the weight of `4` is [4, 27]"),
        (&["6", "7"], "has no values yet"),
    ];
    for (list, text) in cases {
        let net = net()?;
        let before: Vec<String> = names(&net);
        // The first list is good, and is undone.
        let refused = fuse_modules(&net, &[&["0", "1", "2"], list]).unwrap_err().to_string();
        assert!(refused.contains(text), "{list:?}: {refused}");
        assert_eq!(names(&net), before, "{list:?}");
        let kept = net.get_submodule("1")?.parameter("running_mean").unwrap().detached().to_vec::<f32>()?;
        assert_eq!((kept, folded_pairs(&net).len()), (vec![0.0; 3], 0), "{list:?}");
    }
    let told = fuse_modules(&net()?, &[["2", "1"]]).unwrap_err().to_string();
    assert!(told.contains("not wrapped, at `2`"), "{told}");
    let net = net()?;
    let report = fuse_modules(&net, &[&["0", "1"][..], &["0", "2"]])?;
    assert_eq!((report.norms.len(), report.folded().count()), (1, 1));
    Ok(())
}

#[test]
fn a_fold_whose_numbers_are_not_those_of_f64_arithmetic() -> Result<()> {
    let (mut random, eps) = (Random::new(5), 1e-5);
    for _ in 0..20 {
        let (groups, each) = (1 + random.below(3), 1 + random.below(3));
        let (inputs, outputs) = (groups * 2, groups * each);
        manual_seed(random.bits());
        let conv = TransposeOptions { groups, ..Default::default() };
        let net =
            Sequential::new().add(ConvTranspose::<1>::with(inputs, outputs, 2, ConvTransposeOptions { conv, bias: true })?).add(BatchNorm1d::new(outputs)?);
        stir(&net)?;
        net.eval();
        let state: Vec<Vec<f64>> = net.state_dict().iter().filter(|(_, t)| t.dtype().unwrap().is_float()).map(|(_, t)| numbers(t)).collect();
        let [weight, bias, scale, shift, mean, var] = state.try_into().unwrap();
        let factor: Vec<f64> = (0..outputs).map(|o| scale[o] / (var[o] + eps).sqrt()).collect();
        // [in, out / groups, 2]
        let channel = |at: usize| at / (2 * each) / 2 * each + at / 2 % each;
        let want: Vec<f64> = weight.iter().enumerate().map(|(at, w)| w * factor[channel(at)]).collect();
        fuse_modules(&net, &[["0", "1"]])?;
        let state = net.state_dict();
        same(&numbers(&state[0].1), &want, "weight");
        let want: Vec<f64> = (0..outputs).map(|o| (bias[o] - mean[o]) * factor[o] + shift[o]).collect();
        same(&numbers(&state[1].1), &want, "bias");
    }
    Ok(())
}

/// Two convolutions with norms, one with a reflecting border, and a head.
fn network(seed: u64) -> Result<Sequential> {
    manual_seed(seed);
    let reflect = ConvOptions { bias: false, padding: 1.into(), padding_mode: PadMode::Reflect, ..Default::default() };
    let net = Sequential::new().add(Conv2d::with(3, 8, 3, reflect)?).add(BatchNorm2d::new(8)?).add(Relu::new());
    let net = net.add(Conv2d::with(8, 8, 3, ConvOptions { bias: false, stride: 2.into(), ..Default::default() })?).add(BatchNorm2d::new(8)?).add(Relu::new());
    let net = net.add(Flatten::new()).add(Linear::new(8 * 9, 5)?);
    stir(&net)?;
    net.eval();
    Ok(net)
}
#[test]
fn codes_of_a_folded_model_that_another_program_reads_otherwise() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let x = normal([6, 3, 8, 8]);
    for (k, config) in [
        QuantizationConfig::int8(),
        QuantizationConfig::int8_dynamic(),
        QuantizationConfig::weights(8),
        QuantizationConfig::int8().skip("3"),
        QuantizationConfig::with(adamant_quant::LayerScheme::int8(adamant_quant::InputScheme::Calibrated(Observation::MinMax))),
    ]
    .into_iter()
    .enumerate()
    {
        let (model, file) = (network(1)?, folder.path().join(format!("{k}.safetensors")));
        let wanted = answer(&model, &x)?;
        let report = quantize_model(&model, &config.fuse(true), std::slice::from_ref(&x))?;
        assert_eq!(report.fused.as_ref().map(|f| f.folded().count()), Some(2), "{report}");
        let scale = wanted.iter().fold(0f64, |m, v| m.max(v.abs()));
        let got = answer(&model, &x)?;
        assert!(got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 0.05 * scale), "{k}: {got:?} and {wanted:?}");
        assert!(names(&model).iter().all(|name| !name.contains("running") && !name.starts_with("1.")), "{:?}", names(&model));
        save_quantized(&model, &file)?;
        let fresh = network(2)?;
        load_quantized(&fresh, &file)?;
        assert_eq!((answer(&fresh, &x)?, names(&fresh)), (got.clone(), names(&model)), "{k}");
        // One that is folded already takes it too, one of another shape is as it was.
        let folded = network(3)?;
        fuse_modules(&folded, &[["0", "1"], ["3", "4"]])?;
        load_quantized(&folded, &file)?;
        assert_eq!(answer(&folded, &x)?, got, "{k}");
        let other = Sequential::new().add(Conv2d::new(3, 8, 3)?).add(BatchNorm2d::new(8)?);
        let (before, told) = (names(&other), load_quantized(&other, &file).unwrap_err().to_string());
        assert!(told.contains("folded"), "{told}");
        assert_eq!(names(&other), before);
    }
    Ok(())
}
#[test]
fn a_quantization_that_fails_behind_the_fold_and_leaves_half_a_model() -> Result<()> {
    let (model, x) = (network(1)?, normal([2, 3, 8, 8]));
    let (before, wanted) = (names(&model), answer(&model, &x)?);
    let spoilt = x.clone() * f32::NAN;
    let config = QuantizationConfig::int8().fuse(true);
    let told = quantize_model(&model, &config, &[x.clone(), spoilt]).unwrap_err().to_string();
    assert!(told.contains("finite") || told.contains("NaN"), "{told}");
    assert_eq!((names(&model), answer(&model, &x)?), (before, wanted));
    let none = quantize_model(&model, &QuantizationConfig::int8_dynamic().fuse(true), &[]).unwrap_err().to_string();
    assert!(none.contains("fuse_modules"), "{none}");
    let with = adamant_quant::quantize_model_with(&model, &config, || Ok(())).unwrap_err().to_string();
    assert!(with.contains("fuse_modules_on"), "{with}");
    Ok(())
}
