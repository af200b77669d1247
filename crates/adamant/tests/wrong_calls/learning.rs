//! Gradients, optimizers, schedules, metrics and distributions.
use crate::{Case, wrong};
use adamant::{
    Cell, DType, Device, ErrorKind, Result, Rng, Tensor, compile,
    distributions::*,
    functional as f,
    grad::checkpoint,
    metrics::*,
    nn::{Linear, Module, Param, Walk},
    optim::{schedule::*, *},
    step, transform,
};

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(shape)
}
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    gradients(&mut cases);
    optimizers(&mut cases);
    metrics(&mut cases);
    distributions(&mut cases);
    cases
}
#[rustfmt::skip]
fn gradients(cases: &mut Vec<Case>) {
    let (x, rng) = (ones(&[2, 3]).tracked(), Rng::new(3).unwrap());
    wrong!(cases; x.backward().map(drop));
    wrong!(cases; ones(&[2]).sum(..).backward().map(drop));
    wrong!(cases; x.backward_with(&ones(&[3, 2])).map(drop));
    wrong!(cases; x.backward_with(&ones(&[2, 3]).cast(DType::F64)).map(drop));
    let loss = x.exp().sum(..);
    loss.backward().unwrap();
    wrong!(cases; loss.backward().map(drop));
    wrong!(cases; ones(&[2]).cast(DType::I64).tracked());
    let outside = x.clone();
    wrong!(cases; checkpoint(&[&ones(&[2, 3])], move |i| Ok(&i[0] * &outside)).and_then(|y| y.sum(..).backward()).map(drop));
    let cell = Cell::new(&ones(&[2]), true).unwrap();
    wrong!(cases; cell.set(&ones(&[3])));
    wrong!(cases; cell.set(&ones(&[2]).cast(DType::F64)));
    wrong!(cases; cell.set(&ones(&[2]).to(Device::reference())));
    wrong!(cases; cell.set_i(5, 1.0));
    wrong!(cases; compile(|x: &[Tensor]| Ok(vec![&x[0] + 1.0])).call(&[&x]).map(drop));
    wrong!(cases; compile(|i: &[Tensor]| i[0].sum(..).item::<f32>().map(|_| Vec::new())).call(&[&ones(&[2])]).map(drop));
    wrong!(cases; compile(|i: &[Tensor]| Ok(vec![i[0].matmul(&i[0])])).call(&[&ones(&[2, 3])]).map(drop));
    let factor = std::sync::atomic::AtomicUsize::new(1);
    let frozen = compile(|i: &[Tensor]| Ok(vec![i[0].reshape([factor.load(std::sync::atomic::Ordering::Relaxed), 6])]));
    frozen.call(&[&ones(&[6])]).map(drop).unwrap_or_default();
    wrong!(cases; step(|| cell.set(&ones(&[7]))));
    wrong!(cases; adamant::step_when(|| Ok((ones(&[2]).gt(0.0), ()))));
    wrong!(cases; transform::grad(|x: Tensor| x)(ones(&[2])));
    wrong!(cases; transform::grad(|x: Tensor| x.sum(..))(ones(&[2]).cast(DType::I64)));
    wrong!(cases; transform::jvp(|x: Tensor| x.exp(), ones(&[2]), ones(&[3])));
    wrong!(cases; transform::vmap(|x: Tensor| x.exp())(ones(&[])));
    wrong!(cases; transform::vmap(|(a, b): (Tensor, Tensor)| a + b)((ones(&[2]), ones(&[3]))));
    wrong!(cases; transform::jacobian(|x: Tensor| x, transform::JacobianMode::Forward)(ones(&[2]).cast(DType::I64)));
    wrong!(cases; transform::hessian(|x: Tensor| x.exp())(ones(&[2])));
    wrong!(cases; rng.uniform([2], DType::I64));
    wrong!(cases; rng.normal([usize::MAX, 2], DType::F32));
    wrong!(cases; f::dropout(&ones(&[2]).cast(DType::I64), 0.5, &rng));
    wrong!(cases; f::dropout(&ones(&[2]), 1.5, &rng));
    wrong!(cases; adamant::promotion::strict(|| ones(&[2]) + ones(&[2]).cast(DType::F64)));
    wrong!(cases; compile::number(DType::I64, Device::reference(), || 1.0));
    let _ = |_: ErrorKind| Result::<()>::Ok(());
}
#[rustfmt::skip]
fn optimizers(cases: &mut Vec<Case>) {
    let model = Linear::new(3, 2).unwrap();
    let other = Linear::new(3, 2).unwrap();
    let grads = || model.forward(&ones(&[4, 3])).unwrap().sum(..).backward().unwrap();
    let of = || model.parameters();
    // Numbers that make no sense are told of the line that made the optimizer.
    macro_rules! bad {
        ($($rule:expr),* $(,)?) => { $(wrong!(cases; $rule.over(of()).step(&grads()));)* };
    }
    bad!(Sgd { lr: -1.0, ..Sgd::default() }, Sgd { nesterov: true, ..Sgd::default() }, Asgd { lr: f64::NAN, ..Asgd::default() }, RmsProp { lr: -1.0, ..RmsProp::default() },
        Rprop { lr: -1.0, ..Rprop::default() }, Adam { lr: -1.0, ..Adam::default() }, AdamW { lr: -1.0, ..AdamW::default() }, Adamax { lr: -1.0, ..Adamax::default() },
        NAdam { lr: -1.0, ..NAdam::default() }, RAdam { lr: -1.0, ..RAdam::default() }, Adagrad { lr: -1.0, ..Adagrad::default() }, Adadelta { lr: -1.0, ..Adadelta::default() },
        Adafactor { lr: -1.0, ..Adafactor::default() }, Lamb { lr: -1.0, ..Lamb::default() }, Lion { lr: -1.0, ..Lion::default() },
        SparseAdam { lr: -1.0, ..SparseAdam::default() }, Centralized(Sgd { lr: -1.0, ..Sgd::default() }));
    wrong!(cases; Muon::default().over(of()).step(&grads()));
    wrong!(cases; Lookahead::new(Sgd::default().over(of()), 0, 0.5).map(drop));
    wrong!(cases; Lbfgs::new(of(), LbfgsOptions { lr: -1.0, ..LbfgsOptions::default() }).map(drop));
    wrong!(cases; AveragedModel::ema(Linear::new(3, 2).unwrap(), &model, 1.5).map(drop));
    wrong!(cases; Ewc::new(&other.parameters()).penalty(-1.0).map(drop));
    wrong!(cases; Sgd::default().over(other.parameters()).step(&grads()));
    wrong!(cases; Sgd::default().over(Vec::<Param>::new()).step(&grads()));
    wrong!(cases; Adam::default().over(of()).load_state_dict(&[("nothing.exp_avg".into(), ones(&[2]))]));
    wrong!(cases; Adam::default().over(of()).set_hyperparameters(&[]));
    wrong!(cases; Adam::default().over(of()).weight_update(WeightUpdate::Split).slot_dtype(DType::F16).step(&grads()));
    wrong!(cases; Adam::default().over(of()).adopt_masters(&[]));
    wrong!(cases; clip_grad_norm(&mut grads(), &of(), 0.0).map(drop));
    wrong!(cases; clip_grad_norm(&mut grads(), &other.parameters(), 1.0).map(drop));
    wrong!(cases; clip_grad_value(&mut grads(), &of(), -1.0));
    wrong!(cases; GradientClipper::new(ClippingOptions { max_norm: 0.0, ..Default::default() }).map(drop));
    wrong!(cases; GradientClipper::new(ClippingOptions { z_alpha: 1.0, ..ClippingType::ZClip.into() }).map(drop));
    wrong!(cases; GradientClipper::new(ClippingOptions { percentile_threshold: 101.0, ..Default::default() }).map(drop));
    wrong!(cases; ClippingType::from_name("percentil").map(drop));
    wrong!(cases; GradientClipper::new(ClippingType::Agc).and_then(|mut c| c.clip(&mut grads(), &other.parameters())).map(drop));
    let encoder = ClippingOptions { layer_norm_thresholds: vec![("encoder.*".into(), 1.0)], ..ClippingType::LayerWise.into() };
    wrong!(cases; GradientClipper::new(encoder.clone()).and_then(|mut c| c.clip(&mut grads(), &of())).map(drop));
    wrong!(cases; GradientClipper::new(ClippingType::ZClip).and_then(|mut c| c.load_state_dict(&[("momentum".into(), ones(&[]))])));
    wrong!(cases; GradAccumulator::new(of(), 0).map(drop));
    wrong!(cases; GradAccumulator::new(of(), 2).and_then(|mut a| a.add(grads(), 0).map(drop)));
    wrong!(cases; WeightAverage::exponential(&of(), 1.0).map(drop));
    wrong!(cases; WeightAverage::equal(&of()).and_then(|mut a| a.load_state_dict(&[], 1)));
    wrong!(cases; SequentialLr::new(Vec::new(), vec![3]).map(drop));
}
#[rustfmt::skip]
fn metrics(cases: &mut Vec<Case>) {
    let (scores, classes, bools) = (ones(&[4, 3]), Tensor::from_slice(&[0i64, 1, 2, 2], [4]), ones(&[4]).cast(DType::Bool));
    let three = Classification::multiclass(3);
    macro_rules! refuse {
        ($($metric:literal $new:expr),* $(,)?) => { $(
            let mut metric = $new.unwrap();
            wrong!(cases, $metric; metric.update(&ones(&[4, 2]), &ones(&[3, 2])));
            cases.iter_mut().last().into_iter().for_each(|c| c.text = c.text.replace("metric", stringify!($new)));
        )* };
    }
    refuse!("accuracy" Accuracy::new(&three), "precision" Precision::new(&three), "recall" Recall::new(&three), "specificity" Specificity::new(&three),
        "f_beta" FBeta::new(1.0, &three), "confusion_matrix" ConfusionMatrix::new(&three, ConfusionShares::Counts), "cohen_kappa" CohenKappa::new(&three, KappaWeights::Equal),
        "matthews_corr_coef" MatthewsCorrCoef::new(&three), "auroc" Auroc::new(&three), "average_precision" AveragePrecision::new(&three), "mean_metric" MeanMetric::new(),
        "perplexity" Perplexity::new(5, None), "mean_absolute_error" MeanAbsoluteError::new(1), "mean_squared_error" MeanSquaredError::new(1),
        "r2_score" R2Score::new(1, OutputAveraging::Uniform));
    let mut accuracy = Accuracy::new(&three).unwrap();
    wrong!(cases, "accuracy"; accuracy.update(&scores, &ones(&[4])));
    wrong!(cases, "accuracy"; accuracy.update(&scores, &classes.narrow(0, 0, 3)));
    wrong!(cases, "accuracy"; accuracy.update(&scores.to(Device::reference()), &classes.to(Device::reference())));
    wrong!(cases, "mean_squared_error"; MeanSquaredError::new(1).unwrap().update(&bools, &bools));
    wrong!(cases; FBeta::new(-1.0, &three).map(drop));
    wrong!(cases; Accuracy::new(&Classification::multiclass(0)).map(drop));
    wrong!(cases; Accuracy::new(&Classification::multiclass(3).top_k(9)).map(drop));
    wrong!(cases; CohenKappa::new(&Classification::multilabel(3), KappaWeights::Linear).map(drop));
    wrong!(cases; MetricCollection::new().with("a.b", MeanMetric::new().unwrap()).map(drop));
}
#[rustfmt::skip]
fn distributions(cases: &mut Vec<Case>) {
    let (five, one, none, three, whole, rng) = (ones(&[2]) * 5.0, ones(&[2]), Tensor::zeros([2]), ones(&[3]), ones(&[2]).cast(DType::I64), Rng::new(3).unwrap());
    macro_rules! refuse {
        ($($new:expr),* $(,)?) => { $(wrong!(cases; $new.map(drop));)* };
    }
    refuse!(Normal::new(&one, &none), Normal::new(&one, &three), Normal::new(&one, &whole), Normal::new(&one, &one.cast(DType::F64)), Uniform::new(&one, &none), Laplace::new(&one, &none),
        Cauchy::new(&one, &none), Gumbel::new(&one, &none), VonMises::new(&one, &none), Exponential::new(&none), HalfNormal::new(&none), LogNormal::new(&one, &none), Pareto::new(&one, &none),
        Weibull::new(&none, &one), HalfCauchy::new(&none), InverseGamma::new(&none, &one), Kumaraswamy::new(&one, &none), GeneralizedPareto::new(&one, &none, &one), FisherSnedecor::new(&none, &one), Gamma::new(&none, &one), Beta::new(&none, &one), Chi2::new(&none), StudentT::new(&none, &one, &one), Dirichlet::new(&none), Bernoulli::new(&(&one * 2.0)),
        Geometric::new(&(&one * 2.0)), Binomial::new(&five, &(&one * 2.0)), Poisson::new(&one.neg()), Categorical::new(&none), OneHotCategorical::new(&none), Multinomial::new(5, &none),
        MultivariateNormal::from_covariance(&one, &none.diag_embed(0, -2, -1)), Independent::new(Normal::new(&one, &one).unwrap(), 3),
        MixtureSameFamily::new(Categorical::new(&three).unwrap(), Normal::new(&one, &one).unwrap()));
    refuse!(NegativeBinomial::new(&one, &one), ContinuousBernoulli::new(&five), RelaxedBernoulli::new(&none, &one), RelaxedOneHotCategorical::new(&none, &three),
        OneHotCategoricalStraightThrough::new(&none), LogisticNormal::new(&one, &none), LowRankMultivariateNormal::new(&one, &one.unsqueeze(-1), &none), LkjCholesky::new(1, &one),
        Wishart::from_scale_tril(&one, &one.diag_embed(0, -2, -1)),
        TransformedDistribution::new(Normal::new(&one.sum(..), &one.sum(..)).unwrap(), vec![Box::new(transforms::StickBreakingTransform)]));
    let normal = Normal::new(&one, &one).unwrap();
    wrong!(cases; normal.log_prob(&three));
    wrong!(cases; normal.log_prob(&one.cast(DType::F64)));
    wrong!(cases; normal.cdf(&three));
    wrong!(cases; Poisson::new(&one).unwrap().rsample(&[2], &rng));
    wrong!(cases; Poisson::new(&one).unwrap().icdf(&one));
    wrong!(cases; Categorical::new(&three).unwrap().log_prob(&one));
    wrong!(cases; kl_divergence(&normal, &Poisson::new(&one).unwrap()));
    wrong!(cases; kl_divergence(&normal, &Normal::new(&one.cast(DType::F64), &one.cast(DType::F64)).unwrap()));
}
