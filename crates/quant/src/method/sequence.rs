//! A model whose layers become codes one after the other, in the order in which it runs them: each is looked at with the inputs that
//! those before it give it now. After an error every parameter has its value again.
use super::{
    WeightMethod,
    awq::{self, AwqRows, ColumnFactors},
    candidate::Candidate,
    fold::{FoldableNorm, WatchedModules},
    gptq::GptqFactor,
    inputs::{InputMoments, Run, WeightRows, gather, is_seen, rows_by_input, survey},
};
use crate::{
    quantize::{Calibrated, PlannedLayer, QuantizationPlan, RoundedWeight, named, tied},
    report::{LayerReport, MethodReport, QuantizationReport},
    scheme::LayerKind,
    select::joined,
};
use adamant_core::{DType, Error, Result, Tensor, grad::no_grad};
use adamant_nn::{InputCodes, Param, Walk};
use std::{cmp::Reverse, collections::HashMap};

/// Parameters that have changed, with their values before.
#[derive(Default)]
struct ChangedParams(Vec<(Param, Tensor)>);
impl ChangedParams {
    #[track_caller]
    fn pack(&mut self, rounded: &RoundedWeight, input: &InputCodes) -> Result<()> {
        let before = rounded.param.detached();
        rounded.param.pack(&rounded.weight, input.clone())?;
        self.0.push((rounded.param.clone(), before));
        Ok(())
    }
    #[track_caller]
    fn set(&mut self, param: &Param, value: &Tensor) -> Result<()> {
        let before = param.detached();
        value.materialize()?;
        param.set(value)?;
        self.0.push((param.clone(), before));
        Ok(())
    }
    #[track_caller]
    fn take_back(self) -> Result<()> {
        self.0.into_iter().rev().try_for_each(|(param, before)| {
            param.unpack()?;
            param.set(&before)
        })
    }
}

/// Quantizes the planned layers by a method that looks at their inputs.
///
/// # Errors
/// No calibration data, or values in it that are not finite; what rounding refuses. Then nothing has changed.
#[track_caller]
pub(crate) fn quantize_in_order(
    op: &'static str,
    model: &(impl Walk + ?Sized),
    plan: QuantizationPlan,
    calibrated: &Calibrated,
    method: WeightMethod,
    run: &mut Run<'_>,
) -> Result<QuantizationReport> {
    let before = model.memory_usage();
    let mut order = InOrder { op, calibrated, method, changed: ChangedParams::default(), reports: plan.left, tied: Vec::new() };
    match no_grad(|| order.run(model, plan.planned, run)) {
        Ok(()) => {
            order.reports.sort_by(|a, b| a.path.cmp(&b.path));
            Ok(QuantizationReport { layers: order.reports, before, after: model.memory_usage(), fused: None })
        }
        Err(error) => {
            order.changed.take_back()?;
            Err(error)
        }
    }
}

/// Layers that are given the same inputs at every call, and the norm that they alone read.
struct SharedInputs {
    /// by their number
    layers: Vec<usize>,
    /// the numbers of the inputs that differ
    distinct: Vec<usize>,
    /// for each input the place of its like among those
    moments: Vec<usize>,
    norm: Option<FoldableNorm>,
}
/// A weight of a layer that is at work.
struct OpenWeight {
    layer: usize,
    name: String,
    param: Param,
    /// f32
    value: Tensor,
    /// with the number of the moments of their input
    rows: Vec<(WeightRows, usize)>,
}
impl OpenWeight {
    fn rows_of(&self, rows: WeightRows) -> Tensor {
        self.value.narrow(0, rows.start, rows.rows)
    }
}
fn each_rows(weights: &[OpenWeight]) -> impl Iterator<Item = (&OpenWeight, &(WeightRows, usize))> {
    weights.iter().flat_map(|weight| weight.rows.iter().map(move |rows| (weight, rows)))
}
struct InOrder<'a> {
    op: &'static str,
    calibrated: &'a Calibrated,
    method: WeightMethod,
    changed: ChangedParams,
    reports: Vec<LayerReport>,
    /// layers whose weight belongs to another one too
    tied: Vec<PlannedLayer>,
}
impl InOrder<'_> {
    #[track_caller]
    fn run(&mut self, model: &(impl Walk + ?Sized), mut planned: Vec<PlannedLayer>, run: &mut Run<'_>) -> Result<()> {
        // A weight of several layers belongs to the first whose inputs are seen.
        planned.sort_by_key(|layer| Reverse(is_seen(layer)));
        let mut owners: HashMap<usize, String> = HashMap::new();
        let mut seen = Vec::new();
        for layer in planned {
            if let Some(first) = layer.weights.iter().find_map(|(_, p)| owners.get(&p.id())) {
                self.reports.push(layer.report(tied(first)));
                self.tied.push(layer);
                continue;
            }
            owners.extend(layer.weights.iter().map(|(_, p)| (p.id(), layer.layer.path().to_string())));
            layer.weights.iter().try_for_each(|(name, param)| layer.value(self.op, name, param).map(drop))?;
            if is_seen(&layer) {
                seen.push(layer);
            } else {
                let note = format!("{} looks at inputs, and hooks do not see what the weights of this layer meet", self.method.name());
                let (rounded, input) = (layer.rounded(self.op, WeightMethod::Round)?, layer.input(self.calibrated));
                self.finish(&layer, &rounded, &input, MethodReport::rounded(Some(&note)))?;
            }
        }
        for shared in self.shared_inputs(model, &seen, run)? {
            self.quantize(&seen, shared, run)?;
        }
        Ok(())
    }
    #[track_caller]
    fn finish(&mut self, layer: &PlannedLayer, rounded: &[RoundedWeight], input: &InputCodes, method: MethodReport) -> Result<()> {
        let outcome = layer.outcome(rounded, input.clone(), method)?;
        self.reports.push(layer.report(outcome));
        rounded.iter().try_for_each(|r| self.changed.pack(r, input))
    }
    /// The layers that are given the same inputs, in the order in which the model runs them.
    #[track_caller]
    fn shared_inputs(&self, model: &(impl Walk + ?Sized), layers: &[PlannedLayer], run: &mut Run<'_>) -> Result<Vec<SharedInputs>> {
        if layers.is_empty() {
            return Ok(Vec::new());
        }
        let mut norms = Vec::new();
        let seen = if matches!(self.method, WeightMethod::Awq(_)) {
            let mut watched = WatchedModules::new(model)?;
            let seen = survey(self.op, layers, run, &|y| watched.returned(y))?;
            watched.stop();
            norms = watched.foldable(model, layers, &seen, run)?;
            seen
        } else {
            survey(self.op, layers, run, &|_| Ok(()))?
        };
        let mut order: Vec<usize> = (0..layers.len()).collect();
        order.sort_by_key(|k| seen[*k].first);
        let mut all: Vec<SharedInputs> = Vec::new();
        for k in order {
            let alike = |shared: &&mut SharedInputs| shared.layers.first().is_some_and(|first| seen[*first].calls == seen[k].calls);
            match all.iter_mut().find(alike) {
                Some(shared) => shared.layers.push(k),
                None => {
                    let (distinct, moments) = seen[k].distinct();
                    all.push(SharedInputs { layers: vec![k], distinct, moments, norm: None });
                }
            }
        }
        for shared in &mut all {
            let mut readers = shared.layers.clone();
            readers.sort_unstable();
            shared.norm = norms.iter().position(|norm| shared.distinct.len() == 1 && norm.readers == readers).map(|k| norms.swap_remove(k));
        }
        Ok(all)
    }
    /// Codes of all weights that share inputs.
    #[track_caller]
    fn quantize(&mut self, layers: &[PlannedLayer], shared: SharedInputs, run: &mut Run<'_>) -> Result<()> {
        let Some(first) = shared.layers.first().map(|k| &layers[*k]) else { return Ok(()) };
        let mut moments = gather(self.op, first, &shared.distinct, run)?;
        let mut weights = self.open(layers, &shared)?;
        weights.iter_mut().try_for_each(|weight| self.join_readers(weight, &mut moments, run))?;
        let (candidates, factors) = match self.method {
            WeightMethod::Gptq(options) => {
                let factors: Vec<GptqFactor> = moments.iter().map(|m| GptqFactor::new(self.op, first.layer.path(), m, options)).collect::<Result<_>>()?;
                let of = |(weight, rows): (&OpenWeight, &(WeightRows, usize))| {
                    let scheme = &layers[weight.layer].scheme;
                    factors[rows.1].codes(&weight.rows_of(rows.0), scheme.packing, scheme.scales).map_err(|e| self.told(layers, weight, &e))
                };
                (each_rows(&weights).map(of).collect::<Result<Vec<_>>>()?, None)
            }
            WeightMethod::Awq(options) => {
                let rows: Vec<AwqRows<'_>> = each_rows(&weights)
                    .map(|(weight, rows)| AwqRows { weight: weight.rows_of(rows.0), moments: &moments[rows.1], scheme: layers[weight.layer].scheme })
                    .collect();
                let choice = awq::search(&rows, options, shared.norm.is_some(), shared.norm.as_ref().is_some_and(FoldableNorm::is_narrow));
                let choice = choice.map_err(|e| named(self.op, first.layer.path(), &e))?;
                (choice.candidates, choice.factors)
            }
            WeightMethod::Round | WeightMethod::NormalFloat => return Ok(()),
        };
        let mut candidates = candidates.into_iter();
        let mut closed = Vec::new();
        for weight in &weights {
            let parts: Vec<Candidate> = candidates.by_ref().take(weight.rows.len()).collect();
            closed.push(self.close(layers, weight, parts, &moments, factors.is_some())?);
        }
        let note = self.note(&shared, factors.as_ref());
        if let (Some(norm), Some(factors)) = (&shared.norm, &factors) {
            self.divide(norm, factors)?;
        }
        let mut closed = closed.into_iter();
        for layer in shared.layers.iter().map(|k| &layers[*k]) {
            let (rounded, errors): (Vec<RoundedWeight>, Vec<[f64; 2]>) = closed.by_ref().take(layer.weights.len()).unzip();
            let [plain, chosen] = errors.into_iter().fold([0.0; 2], |[a, b], [plain, chosen]| [a + plain, b + chosen]);
            let relative_error = (plain > 0.0).then(|| chosen / plain);
            let method = MethodReport { name: self.method.name(), relative_error, note: note.clone() };
            self.finish(layer, &rounded, &layer.input(self.calibrated), method)?;
        }
        Ok(())
    }
    fn note(&self, shared: &SharedInputs, factors: Option<&ColumnFactors>) -> Option<String> {
        match (self.method, &shared.norm, factors) {
            (WeightMethod::Awq(_), Some(norm), Some(factors)) => Some(format!("`{}` divided by inputs to the power of {:.2}", norm.path, factors.exponent)),
            (WeightMethod::Awq(_), Some(norm), None) => Some(format!("no power of the inputs is better, `{}` stays", norm.path)),
            (WeightMethod::Awq(_), None, _) => Some("no norm is known that this input alone reads, so columns are not scaled".into()),
            _ => None,
        }
    }
    #[track_caller]
    fn told(&self, layers: &[PlannedLayer], weight: &OpenWeight, error: &Error) -> Error {
        named(self.op, &joined(layers[weight.layer].layer.path(), &weight.name), error)
    }
    #[track_caller]
    fn open(&self, layers: &[PlannedLayer], shared: &SharedInputs) -> Result<Vec<OpenWeight>> {
        let mut all = Vec::new();
        for k in &shared.layers {
            let layer = &layers[*k];
            for (name, param) in &layer.weights {
                let value = layer.value(self.op, name, param)?.cast(DType::F32);
                let refused = |kind| named(self.op, &joined(layer.layer.path(), name), &Error::new(self.op, kind));
                layer.scheme.packing.check(&value.shape()?).map_err(refused)?;
                let mut rows: Vec<(WeightRows, usize)> = Vec::new();
                for next in rows_by_input(layer, name, value.shape()?[0]).unwrap_or_default() {
                    let moments = shared.moments.get(next.input).copied().unwrap_or(0);
                    match rows.last_mut() {
                        Some((last, of_last)) if *of_last == moments => last.rows += next.rows,
                        _ => rows.push((next, moments)),
                    }
                }
                all.push(OpenWeight { layer: *k, name: name.clone(), param: param.clone(), value, rows });
            }
        }
        Ok(all)
    }
    /// Gives a weight that other layers read too moments of its own, which have theirs in them.
    #[track_caller]
    fn join_readers(&self, weight: &mut OpenWeight, moments: &mut Vec<InputMoments>, run: &mut Run<'_>) -> Result<()> {
        for other in self.tied.iter().filter(|other| other.weights.iter().any(|(_, p)| p.same(&weight.param))) {
            // Inputs are told apart where all rows meet one of them.
            let theirs = match (LayerKind::of(other.layer.kind), is_seen(other)) {
                (Some(LayerKind::Linear), true) => gather(self.op, other, &[0], run)?.pop(),
                _ => None,
            };
            for (rows, at) in &mut weight.rows {
                let joined = moments[*at].and(&weight.value.narrow(0, rows.start, rows.rows), theirs.as_ref())?;
                *at = moments.len();
                moments.push(joined);
            }
        }
        Ok(())
    }
    /// A weight of the candidates for its rows; where a row of rounded numbers loses less of the outputs, it is that. With the
    /// squared errors of rounded numbers and of these.
    #[track_caller]
    fn close(
        &self,
        layers: &[PlannedLayer],
        weight: &OpenWeight,
        parts: Vec<Candidate>,
        moments: &[InputMoments],
        is_scaled: bool,
    ) -> Result<(RoundedWeight, [f64; 2])> {
        let scheme = &layers[weight.layer].scheme;
        let (mut kept, mut errors) = (Vec::new(), [0.0; 2]);
        for ((rows, moments), part) in weight.rows.iter().map(|(rows, at)| (rows, &moments[*at])).zip(parts) {
            let value = weight.rows_of(*rows);
            let device = moments.hessian.device()?;
            let error = |c: &Candidate| moments.row_errors(&(&c.numbers - &value).to(device).cast(DType::F64));
            let plain = Candidate::rounded(&value, scheme)?;
            let (of_plain, of_part) = (error(&plain), error(&part));
            let worse = of_plain.lt(&of_part);
            // Rows of other columns' factors cannot be exchanged.
            let (part, of_part) = if is_scaled { (part, of_part) } else { (part.with_rows(&plain, &worse.to(value.device()?)), of_plain.minimum(&of_part)) };
            errors = [errors[0] + of_plain.sum(..).item::<f64>()?, errors[1] + of_part.sum(..).item::<f64>()?];
            kept.push(part);
        }
        let all = Candidate::stacked(&kept);
        let packed = all.packed(scheme, &weight.param.meta().shape).map_err(|e| self.told(layers, weight, &e))?;
        [Some(packed.codes()), Some(packed.scale()), packed.zero_point(), Some(&all.numbers)].into_iter().flatten().try_for_each(Tensor::materialize)?;
        Ok((RoundedWeight { param: weight.param.clone(), weight: packed, numbers: all.numbers }, errors))
    }
    #[track_caller]
    fn divide(&mut self, norm: &FoldableNorm, factors: &ColumnFactors) -> Result<()> {
        for param in [Some(&norm.weight), norm.bias.as_ref()].into_iter().flatten() {
            let value = param.detached();
            let factors = factors.tensor().to(value.device()?).cast(value.dtype()?);
            self.changed.set(param, &(value / factors))?;
        }
        Ok(())
    }
}
