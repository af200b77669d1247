//! Losses are PyTorch's: values and gradients of `losses.json` (made by `python/losses.py`) in f32 and f64; wrong calls are told
//! by the loss; weights are buffers.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{functional::*, *};
use adamant_nn::*;
use serde_json::Value;
use std::collections::BTreeMap;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}

/// A case in one dtype.
struct Case<'a> {
    json: &'a Value,
    dtype: DType,
}
impl Case<'_> {
    fn tensor(&self, written: &Value, kind: DType) -> Tensor {
        let dims: Vec<usize> = written[0].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
        let values: Vec<f64> = written[1].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        Tensor::from_vec(values, dims).cast(kind)
    }
    /// Indices are written as whole numbers without a point.
    fn input(&self, k: usize) -> Tensor {
        let written = &self.json["inputs"][k];
        let is_index = written[1].as_array().unwrap().iter().all(Value::is_i64);
        self.tensor(written, if is_index { DType::I64 } else { self.dtype })
    }
    fn option(&self, name: &str) -> Option<&Value> {
        self.json["options"].get(name)
    }
    /// Are PyTorch's defaults asked for?
    fn is_plain(&self) -> bool {
        self.json["options"].as_object().unwrap().is_empty()
    }
    fn f(&self, name: &str) -> f64 {
        self.option(name).unwrap().as_f64().unwrap()
    }
    fn flag(&self, name: &str) -> bool {
        self.option(name).unwrap().as_bool().unwrap()
    }
    fn reduction(&self) -> Reduction {
        self.option("reduction").unwrap().as_str().unwrap().parse().unwrap()
    }
    fn weight(&self, name: &str) -> Option<Tensor> {
        self.option(name).map(|w| match w.as_array() {
            Some(all) => Tensor::from_vec(all.iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>(), [all.len()]).cast(self.dtype),
            None => Tensor::full((), w.as_f64().unwrap(), self.dtype),
        })
    }
    fn ignore_index(&self) -> i64 {
        self.option("ignore_index").map_or(-100, |v| v.as_i64().unwrap())
    }
    fn cross_entropy<'a>(&self, weight: Option<&'a Tensor>) -> CrossEntropyOptions<'a> {
        CrossEntropyOptions { weight, ignore_index: self.ignore_index(), reduction: self.reduction(), label_smoothing: self.f("label_smoothing") }
    }
}
/// The module of a case: how it is called, and what it holds.
type Made = (Box<dyn Fn(&[Tensor]) -> Result<Tensor>>, Vec<String>);
fn names(model: &dyn Walk) -> Vec<String> {
    model.state_dict().into_iter().map(|(name, _)| name).collect()
}
fn of_two(loss: impl Criterion + 'static) -> Made {
    let names = names(&loss);
    (Box::new(move |x| loss.forward(&x[0], &x[1])), names)
}
macro_rules! of_three {
    ($loss:expr) => {{
        let loss = $loss;
        let names = names(&loss);
        (Box::new(move |x: &[Tensor]| loss.forward(&x[0], &x[1], &x[2])), names)
    }};
}
fn of_elements(name: &str, c: &Case<'_>) -> Result<Option<Made>> {
    let r = || c.reduction();
    Ok(Some(match (name, c.is_plain()) {
        ("L1Loss", true) => of_two(L1Loss::new()),
        ("L1Loss", false) => of_two(L1Loss::with(r())),
        ("MSELoss", true) => of_two(MseLoss::new()),
        ("MSELoss", false) => of_two(MseLoss::with(r())),
        ("SmoothL1Loss", true) => of_two(SmoothL1Loss::new()),
        ("SmoothL1Loss", false) => of_two(SmoothL1Loss::with(c.f("beta"), r())),
        ("HuberLoss", true) => of_two(HuberLoss::new()),
        ("HuberLoss", false) => of_two(HuberLoss::with(c.f("delta"), r())),
        ("BCELoss", true) => of_two(BceLoss::new()),
        ("BCELoss", false) => of_two(BceLoss::with(c.weight("weight").as_ref(), r())?),
        ("BCEWithLogitsLoss", true) => of_two(BceWithLogitsLoss::new()),
        ("BCEWithLogitsLoss", false) => of_two(BceWithLogitsLoss::with(c.weight("weight").as_ref(), c.weight("pos_weight").as_ref(), r())?),
        ("KLDivLoss", true) => of_two(KlDivLoss::new()),
        ("KLDivLoss", false) => of_two(KlDivLoss::with(c.flag("log_target"), r())),
        ("PoissonNLLLoss", true) => of_two(PoissonNllLoss::new()),
        ("PoissonNLLLoss", false) => {
            of_two(PoissonNllLoss::with(PoissonNllOptions { log_input: c.flag("log_input"), full: c.flag("full"), eps: c.f("eps"), reduction: r() }))
        }
        ("GaussianNLLLoss", true) => of_three!(GaussianNllLoss::new()),
        ("GaussianNLLLoss", false) => of_three!(GaussianNllLoss::with(c.flag("full"), c.f("eps"), r())),
        ("SoftMarginLoss", true) => of_two(SoftMarginLoss::new()),
        ("SoftMarginLoss", false) => of_two(SoftMarginLoss::with(r())),
        ("HingeEmbeddingLoss", true) => of_two(HingeEmbeddingLoss::new()),
        ("HingeEmbeddingLoss", false) => of_two(HingeEmbeddingLoss::with(c.f("margin"), r())),
        _ => return Ok(None),
    }))
}
fn of_pairs(name: &str, c: &Case<'_>) -> Option<Made> {
    let r = || c.reduction();
    Some(match (name, c.is_plain()) {
        ("CosineEmbeddingLoss", true) => of_three!(CosineEmbeddingLoss::new()),
        ("CosineEmbeddingLoss", false) => of_three!(CosineEmbeddingLoss::with(c.f("margin"), r())),
        ("MarginRankingLoss", true) => of_three!(MarginRankingLoss::new()),
        ("MarginRankingLoss", false) => of_three!(MarginRankingLoss::with(c.f("margin"), r())),
        ("TripletMarginLoss", true) => of_three!(TripletMarginLoss::new()),
        ("TripletMarginLoss", false) => {
            let options = TripletMarginOptions { margin: c.f("margin"), p: c.f("p"), eps: c.f("eps"), swap: c.flag("swap"), reduction: r() };
            of_three!(TripletMarginLoss::with(options))
        }
        ("TripletMarginWithDistanceLoss", true) => of_three!(TripletMarginWithDistanceLoss::new()),
        ("TripletMarginWithDistanceLoss", false) => {
            let is_largest = c.option("distance_function").unwrap() == "chebyshev";
            let distance = move |a: &Tensor, b: &Tensor| if is_largest { (a - b).abs().amax(-1) } else { a.pairwise_distance(b, 2.0, 1e-6) };
            of_three!(TripletMarginWithDistanceLoss::with(distance, c.f("margin"), c.flag("swap"), r()))
        }
        _ => return None,
    })
}
fn of_classes(name: &str, c: &Case<'_>) -> Result<Option<Made>> {
    let (r, weight) = (|| c.reduction(), c.weight("weight"));
    let weight = weight.as_ref();
    Ok(Some(match (name, c.is_plain()) {
        ("CrossEntropyLoss", true) => of_two(CrossEntropyLoss::new()),
        ("CrossEntropyLoss", false) => of_two(CrossEntropyLoss::with(c.cross_entropy(weight))?),
        ("NLLLoss", true) => of_two(NllLoss::new()),
        ("NLLLoss", false) => of_two(NllLoss::with(NllOptions { weight, ignore_index: c.ignore_index(), reduction: r() })?),
        ("MultiMarginLoss", true) => of_two(MultiMarginLoss::new()),
        ("MultiMarginLoss", false) => of_two(MultiMarginLoss::with(MultiMarginOptions { p: c.f("p") as u32, margin: c.f("margin"), weight, reduction: r() })?),
        ("MultiLabelMarginLoss", true) => of_two(MultiLabelMarginLoss::new()),
        ("MultiLabelMarginLoss", false) => of_two(MultiLabelMarginLoss::with(r())),
        ("MultiLabelSoftMarginLoss", true) => of_two(MultiLabelSoftMarginLoss::new()),
        ("MultiLabelSoftMarginLoss", false) => of_two(MultiLabelSoftMarginLoss::with(weight, r())?),
        ("CTCLoss", plain) => {
            let options = || CtcOptions { blank: c.f("blank") as usize, reduction: r(), zero_infinity: c.flag("zero_infinity") };
            let loss = if plain { CtcLoss::new() } else { CtcLoss::with(options()) };
            (Box::new(move |x: &[Tensor]| loss.forward(&x[0], &x[1], &x[2], &x[3])), Vec::new())
        }
        ("LinearCrossEntropyLoss", plain) => {
            let axes = || c.option("out_features").unwrap().as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
            let options = || LinearCrossEntropyOptions { out_features: axes(), bias: c.flag("bias"), loss: c.cross_entropy(weight) };
            let loss = if plain { LinearCrossEntropyLoss::new(3, 4)? } else { LinearCrossEntropyLoss::with(3, 4, options())? };
            loss.cast(c.dtype)?;
            let state: Vec<(String, Tensor)> = c.json["linear"].as_object().unwrap().iter().map(|(name, t)| (name.clone(), c.tensor(t, c.dtype))).collect();
            loss.linear.load_state_dict(&state)?;
            of_two(loss)
        }
        _ => return Ok(None),
    }))
}
/// What differs from PyTorch in a case, if anything does.
fn difference(c: &Case<'_>) -> Result<Option<String>> {
    let name = c.json["module"].as_str().unwrap();
    let made = match of_elements(name, c)? {
        Some(made) => Some(made),
        None => of_pairs(name, c).map_or_else(|| of_classes(name, c), |made| Ok(Some(made)))?,
    };
    let (loss, state) = made.unwrap_or_else(|| panic!("no module {name}"));
    let known = c.json.get("state").and_then(Value::as_array).into_iter().flatten().map(|n| n.as_str().unwrap());
    if !known.eq(state.iter().map(String::as_str)) {
        return Ok(Some(format!("its state is {state:?}")));
    }
    let grads = c.json["grads"].as_array().unwrap();
    let inputs: Vec<Tensor> =
        (0..c.json["inputs"].as_array().unwrap().len()).map(|k| if k < grads.len() { c.input(k).tracked() } else { c.input(k) }).collect();
    let loss = loss(&inputs)?;
    let n = loss.shape()?.elements();
    let times = Tensor::from_vec((0..n).map(|k| 0.25 * (k % 7 + 1) as f64).collect::<Vec<_>>(), loss.shape()?).cast(c.dtype);
    let wanted = c.tensor(&c.json["loss"], DType::F64);
    let mut pairs = vec![("loss".to_string(), loss.detach(), wanted)];
    let got = (loss * times).sum(..).backward()?;
    for (k, want) in grads.iter().enumerate() {
        let got = got.get(&inputs[k]).cloned().unwrap_or_else(|| inputs[k].zeros_like());
        pairs.push((format!("gradient {k}"), got, c.tensor(want, DType::F64)));
    }
    let (rtol, atol) = if c.dtype == DType::F64 { (1e-9, 1e-10) } else { (3e-5, 3e-6) };
    for (what, got, want) in pairs {
        if got.dtype()? != c.dtype || got.shape()? != want.shape()? {
            return Ok(Some(format!("{what} is {} {}, not {}", got.dtype()?, got.shape()?, want.shape()?)));
        }
        let (got, want) = (got.cast(DType::F64).to_vec::<f64>()?, want.to_vec::<f64>()?);
        let worst = got.iter().zip(&want).map(|(g, w)| (g - w).abs() - rtol * w.abs()).fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
        if worst.is_nan() || worst > atol {
            return Ok(Some(format!("{what} is off by {worst:.2e}: {got:?}, not {want:?}")));
        }
    }
    Ok(None)
}
#[test]
fn a_loss_or_gradient_that_is_not_pytorchs() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("losses.json")).unwrap();
    let mut of_module: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    on_reference(|| {
        for json in &cases {
            *of_module.entry(json["module"].as_str().unwrap()).or_default() += 1;
            for dtype in [DType::F32, DType::F64] {
                let found = difference(&Case { json, dtype }).unwrap_or_else(|e| Some(e.to_string()));
                wrong.extend(found.map(|what| format!("{} {} {} {dtype}: {what}", json["module"], json["options"], json["inputs"][0][0])));
            }
        }
    });
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(of_module.len(), 22);
    assert!(of_module.values().all(|n| *n >= 5), "{of_module:?}");
}

fn zeros(dims: &[usize]) -> Tensor {
    Tensor::zeros(dims)
}
fn index(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, [values.len()])
}
/// Wrong calls of every loss: what is wrong, how the error is called, and the function that it names.
fn wrong_calls_of_two() -> Vec<(Box<dyn Criterion>, Tensor, Tensor, &'static str, &'static str)> {
    let (x, column, row, double) = (zeros(&[2, 3]), zeros(&[4, 1]), zeros(&[4]), zeros(&[2, 3]).cast(DType::F64));
    let classes = index(&[0, 2]);
    let beyond = index(&[0, 3]);
    let sum = Reduction::Sum;
    let mut calls: Vec<(Box<dyn Criterion>, Tensor, Tensor, &str, &str)> = Vec::new();
    macro_rules! elements {
        ($($loss:expr, $op:literal;)*) => { $(
            calls.push((Box::new($loss), x.clone(), zeros(&[2, 4]), "shape", $op));
            calls.push((Box::new($loss), column.clone(), row.clone(), "shape", $op));
            // Counts are integers: the loss of a Poisson distribution takes them.
            let refused = if $op == "poisson_nll_loss" { DType::F8E4M3 } else { DType::I64 };
            calls.push((Box::new($loss), x.cast(refused), x.cast(refused), "dtype", $op));
        )* };
    }
    elements! {
        L1Loss::new(), "l1_loss";
        MseLoss::new(), "mse_loss";
        SmoothL1Loss::new(), "smooth_l1_loss";
        HuberLoss::new(), "huber_loss";
        KlDivLoss::new(), "kl_div";
        PoissonNllLoss::new(), "poisson_nll_loss";
        SoftMarginLoss::new(), "soft_margin_loss";
        HingeEmbeddingLoss::new(), "hinge_embedding_loss";
        BceLoss::new(), "binary_cross_entropy";
        BceWithLogitsLoss::new(), "binary_cross_entropy_with_logits";
        MultiLabelSoftMarginLoss::new(), "multilabel_soft_margin_loss";
    }
    macro_rules! of_classes {
        ($($loss:expr, $op:literal, $targets:expr, $beyond:expr;)*) => { $(
            calls.push((Box::new($loss), x.clone(), zeros(&[3]).cast(DType::I64), "shape", $op));
            calls.push((Box::new($loss), x.clone(), double.clone(), "dtype", $op));
            calls.push((Box::new($loss), x.cast(DType::I64), $targets, "dtype", $op));
            // Found when it is read, in the op that reads by the index; the layer is named.
            calls.push((Box::new($loss), x.clone(), $beyond, "index", $op));
        )* };
    }
    let sets = |v: i64| Tensor::from_vec(vec![0, v, -1, 1, -1, 0], [2, 3]);
    of_classes! {
        CrossEntropyLoss::new(), "cross_entropy", classes.clone(), beyond.clone();
        NllLoss::new(), "nll_loss", classes.clone(), beyond.clone();
        MultiMarginLoss::new(), "multi_margin_loss", classes.clone(), beyond.clone();
        MultiLabelMarginLoss::new(), "multilabel_margin_loss", sets(1), sets(3);
    }
    calls.push((Box::new(LinearCrossEntropyLoss::new(3, 4).unwrap()), zeros(&[2, 1, 3]), classes.clone(), "shape", "linear_cross_entropy"));
    calls.push((Box::new(LinearCrossEntropyLoss::new(3, 3).unwrap()), x.clone(), index(&[0]), "shape", "cross_entropy"));
    calls.push((Box::new(LinearCrossEntropyLoss::new(3, 3).unwrap()), x.clone(), beyond.clone(), "index", "cross_entropy"));
    let w = zeros(&[2]);
    let weighted = CrossEntropyLoss::with(CrossEntropyOptions { weight: Some(&w), ..Default::default() }).unwrap();
    calls.push((Box::new(weighted), x.clone(), classes.clone(), "shape", "cross_entropy"));
    let smooth = CrossEntropyLoss::with(CrossEntropyOptions { label_smoothing: 1.5, ..Default::default() }).unwrap();
    calls.push((Box::new(smooth), x.clone(), classes.clone(), "argument", "cross_entropy"));
    let batch_mean = NllLoss::with(NllOptions { reduction: Reduction::BatchMean, ..Default::default() }).unwrap();
    calls.push((Box::new(batch_mean), x.clone(), classes.clone(), "argument", "nll_loss"));
    let cube = MultiMarginLoss::with(MultiMarginOptions { p: 3, ..Default::default() }).unwrap();
    calls.push((Box::new(cube), x.clone(), classes, "argument", "multi_margin_loss"));
    calls.push((Box::new(SmoothL1Loss::with(-1.0, sum)), x.clone(), x.clone(), "argument", "smooth_l1_loss"));
    calls.push((Box::new(HuberLoss::with(0.0, sum)), x.clone(), x.clone(), "argument", "huber_loss"));
    calls
}
/// Of which kind the first layer is.
fn layer(model: &dyn Walk) -> &'static str {
    struct Kind(&'static str);
    impl Visit for Kind {
        fn site(&mut self, _: &str, site: &Site) {
            if self.0.is_empty() {
                self.0 = site.kind();
            }
        }
    }
    let mut kind = Kind("");
    model.visit(&mut kind);
    kind.0
}
type Call<'a> = Box<dyn Fn() -> Result<Tensor> + 'a>;
fn wrong_calls_of_more(x: &Tensor) -> Vec<(Call<'_>, &'static str, &'static str, &'static str)> {
    let integers = || x.cast(DType::I64);
    let length = |n: i64| index(&[n, n]);
    let lp = || zeros(&[4, 2, 3]);
    let sum = Reduction::Sum;
    vec![
        (Box::new(|| GaussianNllLoss::new().forward(x, x, &zeros(&[3]))), "shape", "gaussian_nll_loss", "GaussianNLLLoss"),
        (Box::new(|| GaussianNllLoss::new().forward(&zeros(&[4, 1]), &zeros(&[4]), &zeros(&[4, 1]))), "shape", "gaussian_nll_loss", "GaussianNLLLoss"),
        (Box::new(move || GaussianNllLoss::new().forward(x, x, &integers())), "dtype", "gaussian_nll_loss", "GaussianNLLLoss"),
        (Box::new(|| CosineEmbeddingLoss::new().forward(x, x, &zeros(&[3]))), "shape", "cosine_embedding_loss", "CosineEmbeddingLoss"),
        (
            Box::new(move || CosineEmbeddingLoss::new().forward(&integers(), &integers(), &zeros(&[2]).cast(DType::I64))),
            "dtype",
            "cosine_embedding_loss",
            "CosineEmbeddingLoss",
        ),
        (Box::new(|| MarginRankingLoss::new().forward(x, &zeros(&[2, 4]), x)), "shape", "margin_ranking_loss", "MarginRankingLoss"),
        (Box::new(|| MarginRankingLoss::new().forward(&zeros(&[4, 1]), &zeros(&[4]), &zeros(&[4]))), "shape", "margin_ranking_loss", "MarginRankingLoss"),
        (Box::new(|| MarginRankingLoss::new().forward(&zeros(&[4, 1]), &zeros(&[4, 1]), &zeros(&[4]))), "shape", "margin_ranking_loss", "MarginRankingLoss"),
        (Box::new(move || MarginRankingLoss::new().forward(&integers(), &integers(), &integers())), "dtype", "margin_ranking_loss", "MarginRankingLoss"),
        (Box::new(|| TripletMarginLoss::new().forward(x, x, &zeros(&[3]))), "shape", "triplet_margin_loss", "TripletMarginLoss"),
        (Box::new(move || TripletMarginLoss::new().forward(&integers(), &integers(), &integers())), "dtype", "triplet_margin_loss", "TripletMarginLoss"),
        (
            Box::new(|| TripletMarginLoss::with(TripletMarginOptions { margin: 0.0, ..Default::default() }).forward(x, x, x)),
            "argument",
            "triplet_margin_loss",
            "TripletMarginLoss",
        ),
        (
            Box::new(|| TripletMarginWithDistanceLoss::new().forward(x, x, &zeros(&[3]))),
            "shape",
            "triplet_margin_with_distance_loss",
            "TripletMarginWithDistanceLoss",
        ),
        (
            Box::new(move || TripletMarginWithDistanceLoss::with(|a, _| a.clone(), -1.0, true, sum).forward(x, x, x)),
            "argument",
            "triplet_margin_with_distance_loss",
            "TripletMarginWithDistanceLoss",
        ),
        (
            Box::new(move || TripletMarginWithDistanceLoss::with(|a, b| a.matmul(b), 1.0, true, sum).forward(x, x, x)),
            "shape",
            "triplet_margin_with_distance_loss",
            "TripletMarginWithDistanceLoss",
        ),
        (Box::new(move || CtcLoss::new().forward(x, &length(1), &length(2), &length(1))), "shape", "ctc_loss", "CTCLoss"),
        (Box::new(move || CtcLoss::new().forward(&lp(), &zeros(&[2, 1]), &length(4), &length(1))), "dtype", "ctc_loss", "CTCLoss"),
        (Box::new(move || CtcLoss::new().forward(&lp(), &length(7).reshape([2, 1]), &length(4), &length(1))), "index", "ctc_loss", "CTCLoss"),
        (
            Box::new(move || CtcLoss::with(CtcOptions { blank: 3, ..Default::default() }).forward(&lp(), &length(1), &length(4), &length(1))),
            "index",
            "ctc_loss",
            "CTCLoss",
        ),
    ]
}
#[test]
fn a_wrong_call_that_the_loss_does_not_tell() {
    on_reference(|| {
        let mut wrong = Vec::new();
        let mut check = |what: String, result: Result<Tensor>, kind: &str, op: &str, scope: &str| {
            let error = match result.and_then(|loss| loss.materialize()) {
                Ok(()) => return wrong.push(format!("{what}: no error")),
                Err(error) => error,
            };
            let told = (error.kind().word(), error.op().trim_start_matches("adamant."), error.scope());
            if told.0 != kind || told.1 != op || !told.2.contains(scope) {
                wrong.push(format!("{what}: {told:?}, not {kind} of {op} in {scope}: {error}"));
            }
        };
        for (loss, x, target, kind, op) in wrong_calls_of_two() {
            check(format!("{op} {:?}", (x.shape(), target.shape())), loss.forward(&x, &target), kind, op, layer(&loss));
        }
        let x = zeros(&[2, 3]);
        for (call, kind, op, scope) in wrong_calls_of_more(&x) {
            check(op.to_string(), call(), kind, op, scope);
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn a_weight_that_does_not_go_with_the_model() -> Result<()> {
    #[derive(Module)]
    struct Task {
        head: Linear,
        loss: BceWithLogitsLoss,
    }
    on_reference(|| {
        let (weight, pos_weight) = (Tensor::from_slice(&[1.0f32, 2.0], [2]), Tensor::from_slice(&[3.0f32, 4.0], [2]));
        let loss = BceWithLogitsLoss::with(Some(&weight), Some(&pos_weight), Reduction::Mean)?;
        let task = Task { head: Linear::new(3, 2)?, loss };
        assert_eq!(names(&task), ["head.weight", "head.bias", "loss.weight", "loss.pos_weight"]);
        let trained: Vec<String> = task.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(trained, ["head.weight", "head.bias"]);
        task.cast(DType::F64)?;
        let (x, target) = (Tensor::ones([4, 3]).cast(DType::F64), Tensor::zeros([4, 2]).cast(DType::F64));
        let loss = task.loss.forward(&task.head.forward(&x)?, &target)?;
        assert_eq!(loss.dtype()?, DType::F64);
        // The weights are its own: another state is another loss.
        let mut state = task.state_dict();
        state[2].1 = Tensor::zeros([2]);
        task.load_state_dict(&state)?;
        assert_eq!(task.loss.forward(&task.head.forward(&x)?, &target)?.item::<f64>()?, 0.0);
        Ok(())
    })
}
#[test]
fn an_error_that_does_not_name_the_loss_of_a_model() {
    #[derive(Module)]
    struct Task {
        criterion: Box<dyn Criterion>,
    }
    on_reference(|| {
        let task = Task { criterion: Box::new(NllLoss::new()) };
        assert!(task.state_dict().is_empty());
        let error = task.criterion.forward(&zeros(&[2, 3]), &index(&[0, 3])).unwrap().materialize().unwrap_err();
        assert!(error.scope().contains("criterion") && error.to_string().contains("losses.rs"), "{error}");
    });
}
