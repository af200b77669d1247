//! A small GPT, with a mixture of experts or without, and what is learned from a batch: in one process by the ordinary loss, and on the ranks of a mesh.
use adamant::{
    DType, Error, ErrorKind, Grads, Result, Tensor,
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{
        Activation, Embedding, Gelu, LayerNorm, Linear, Module, PositionEmbedding, Sequential, TransformerEncoderLayer, TransformerOptions, Walk, manual_seed,
    },
    parallel::{
        Mesh, MeshAxis, MixtureOfExperts, MixtureOptions,
        pipeline::{Pipeline, PipelineSchedule, PipelineTrace, layer_costs},
        sum_gradients,
        tensor::{ParallelStyle, Sharding, TensorOptions, VocabularyLossOptions, parallelize_with, vocabulary_cross_entropy},
        with_balance_loss,
    },
};
use std::collections::HashMap;

/// What makes a model and its batch.
#[derive(Clone, Copy)]
pub struct SharedSubject {
    pub vocabulary: usize,
    pub features: usize,
    pub length: usize,
    pub rows: usize,
    pub experts: usize,
    pub seed: u64,
    pub dtype: DType,
    /// is what lies between pieces cut along the sequence?
    pub sequence: bool,
}
/// The loss, and whole gradients by path.
pub type Learned = (f64, Vec<(String, Vec<f64>)>);

/// Numbers from -1 to 1, by a seed.
pub fn numbers(seed: u64, shape: &[usize], dtype: DType) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    Tensor::from_vec((0..shape.iter().product()).map(|_| next()).collect::<Vec<f64>>(), shape.to_vec()).cast(dtype)
}
pub fn read(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.cast(DType::F64).to_vec::<f64>()
}
const MICROS: usize = 4;

impl SharedSubject {
    pub fn gpt() -> SharedSubject {
        // A vocabulary that no number of ranks divides.
        SharedSubject { vocabulary: 27, features: 16, length: 8, rows: 8, experts: 0, seed: 1, dtype: DType::F32, sequence: false }
    }
    pub fn model(&self, mesh: &Mesh) -> Result<Sequential> {
        manual_seed(self.seed);
        let table = Embedding::new(self.vocabulary, self.features)?;
        table.weight.set(&(table.weight.detached() * 0.1))?;
        let head = Linear::tied(&table.weight)?;
        let mut model = Sequential::new().add_named("wte", table).add_named("wpe", PositionEmbedding::new(self.length, self.features)?);
        let options = TransformerOptions {
            dim_feedforward: 2 * self.features,
            dropout: 0.0,
            activation: Activation::GeluTanh,
            batch_first: true,
            norm_first: true,
            is_causal: true,
            ..Default::default()
        };
        for k in 0..if self.experts > 0 { 1 } else { 4 } {
            model.push(&format!("blocks{k}"), Box::new(TransformerEncoderLayer::with(self.features, 4, options)?));
        }
        if self.experts > 0 {
            let expert = |_| {
                let layers = Sequential::new().add_named("fc", Linear::new(self.features, 32)?).add(Gelu::new());
                Ok(Box::new(layers.add_named("proj", Linear::new(32, self.features)?)) as Box<dyn Module>)
            };
            let options = MixtureOptions { capacity_factor: (self.seed % 2 == 0).then_some(1.0), ..MixtureOptions::default() };
            model.push("moe", Box::new(MixtureOfExperts::new(self.features, self.experts, mesh, options, expert)?));
        }
        let model = model.add_named("lnf", LayerNorm::new([self.features])?).add_named("head", head);
        // Biases begin as zeros, which would hide one that is added twice. Those of experts have the same on every rank by their path.
        for (path, param) in model.named_parameters().into_iter().filter(|(path, _)| path.ends_with("bias")) {
            let seed = path.bytes().fold(self.seed, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b)));
            param.set(&(numbers(seed, &param.meta().shape, DType::F32) * 0.3))?;
        }
        model.cast(self.dtype)?;
        Ok(model)
    }
    /// Ids and targets of so many rows.
    fn batch(&self, rows: usize) -> (Tensor, Tensor) {
        let ids = |seed: u64| ((numbers(seed, &[rows, self.length], DType::F64) * 0.5 + 0.5) * self.vocabulary as f64).floor().cast(DType::I64);
        (ids(self.seed + 10), ids(self.seed + 20))
    }
    fn styles(&self) -> Vec<(&'static str, ParallelStyle)> {
        let mut styles = vec![("wte", ParallelStyle::Vocabulary), ("head", ParallelStyle::Column), ("blocks*.self_attn", ParallelStyle::Heads)];
        styles.extend([("blocks*.linear1", ParallelStyle::Column), ("blocks*.linear2", ParallelStyle::Row)]);
        if self.sequence {
            styles.extend([("wpe", ParallelStyle::Scatter), ("blocks*.norm?", ParallelStyle::Apart), ("lnf", ParallelStyle::Apart)]);
        }
        if self.experts > 0 && !self.sequence {
            styles.extend([("moe.experts.*.fc", ParallelStyle::Column), ("moe.experts.*.proj", ParallelStyle::Row)]);
        }
        styles
    }
    fn cut(&self, model: &Sequential, mesh: &Mesh) -> Result<Sharding> {
        // A mixture takes whole sequences.
        let mut styles = self.styles();
        if self.sequence && self.experts > 0 {
            styles.retain(|(pattern, _)| !["lnf", "head", "wte"].contains(pattern));
            styles.push(("blocks0", ParallelStyle::Gather));
        }
        parallelize_with(model, mesh, &styles, TensorOptions { sequence_axis: self.sequence.then_some(1) })
    }
    fn loss(&self, logits: &Tensor, target: &Tensor, mesh: &Mesh) -> Result<Tensor> {
        let own = logits.shape()?.last().copied().unwrap_or(0);
        if own == self.vocabulary {
            return cross_entropy(&logits.reshape([-1, own as isize]), &target.reshape([-1]), &CrossEntropyOptions::default()).ok();
        }
        vocabulary_cross_entropy(logits, target, self.vocabulary, mesh.group(MeshAxis::Tensor), &VocabularyLossOptions::default())
    }
}
fn named(model: &(impl Walk + ?Sized), sharding: &Sharding, grads: &Grads) -> Result<Vec<(String, Vec<f64>)>> {
    let mut all = Vec::new();
    for (path, param) in model.named_parameters() {
        let zeros = param.detached().zeros_like();
        all.push((path, read(&sharding.gather(&param, grads.of(&param.cell()).unwrap_or(&zeros))?)?));
    }
    Ok(all)
}
/// The loss of the rows of all ranks, as far as this rank has them, and its parameters' whole gradients.
pub fn learned(subject: &SharedSubject, mesh: &Mesh, schedule: Option<PipelineSchedule>) -> Result<Learned> {
    let replicas = mesh.replicas();
    let (rank, size) = (replicas.rank as usize, replicas.size as usize);
    let (ids, target) = subject.batch(subject.rows);
    let rows = subject.rows / size;
    let (ids, target) = (ids.narrow(0, rank * rows, rows), target.narrow(0, rank * rows, rows));
    let model = subject.model(mesh)?;
    let counts = mesh.coordinate(MeshAxis::Tensor) == 0 && mesh.coordinate(MeshAxis::Pipeline) == 0;
    let Some(schedule) = schedule else {
        let sharding = subject.cut(&model, mesh)?;
        let (logits, balance) = with_balance_loss(|| model.forward(&ids))?;
        let mut loss = subject.loss(&logits, &target, mesh)?;
        if let Some(balance) = balance {
            loss = loss + balance * 0.01;
        }
        let loss = loss / size as f64;
        let mut grads = loss.backward_keep()?;
        sum_gradients(&model, &mut grads, mesh)?;
        let value = read(&loss)?.first().copied().unwrap_or(f64::NAN);
        return Ok((if counts { value } else { 0.0 }, named(&model, &sharding, &grads)?));
    };
    let micro = rows / MICROS;
    let costs = layer_costs(&subject.model(&Mesh::alone())?.into_layers(), &ids.narrow(0, 0, micro))?;
    let sharding = subject.cut(&model, mesh)?;
    let pipeline = Pipeline::with_costs(model.into_layers(), mesh, schedule, &costs)?;
    let inputs: Vec<Tensor> = (0..MICROS).map(|m| ids.narrow(0, m * micro, micro)).collect();
    let loss = |m: usize, logits: &Tensor| (subject.loss(logits, &target.narrow(0, m * micro, micro), mesh)? / (MICROS * size) as f64).ok();
    let mut step = pipeline.step(&inputs, loss)?;
    sum_gradients(&pipeline, &mut step.grads, mesh)?;
    Ok((if counts { step.loss } else { 0.0 }, named(&pipeline, &sharding, &step.grads)?))
}
/// What a model in one process learns from so many rows.
pub fn of_rows(subject: &SharedSubject, model: &dyn Module, rows: usize) -> Result<Learned> {
    let (ids, target) = subject.batch(rows);
    let loss = subject.loss(&model.forward(&ids)?, &target, &Mesh::alone())?;
    let grads = loss.backward_keep()?;
    let mut all = Vec::new();
    for (path, param) in model.named_parameters() {
        all.push((path, read(grads.of(&param.cell()).unwrap_or(&param.detached().zeros_like()))?));
    }
    Ok((read(&loss)?.first().copied().unwrap_or(f64::NAN), all))
}
/// The largest difference of a loss, or of a gradient relative to its largest number or 1. Every gradient of the one process is some rank's.
pub fn difference(ran: &[Learned], want: &Learned) -> std::result::Result<f64, String> {
    let by_path: HashMap<&str, &Vec<f64>> = want.1.iter().map(|(path, g)| (path.as_str(), g)).collect();
    let mut most = (ran.iter().map(|r| r.0).sum::<f64>() - want.0).abs();
    let mut seen = std::collections::HashSet::new();
    for (path, g) in ran.iter().flat_map(|r| &r.1) {
        let path = if path == "head.weight" { "wte.weight" } else { path };
        let want =
            by_path.get(path).filter(|want| want.len() == g.len()).ok_or_else(|| format!("{path}: a gradient that one process has not, or of another size"))?;
        let scale = want.iter().fold(1f64, |m, v| m.max(v.abs()));
        most = g.iter().zip(want.iter()).fold(most, |most, (a, b)| if a.is_finite() { most.max((a - b).abs() / scale) } else { f64::INFINITY });
        seen.insert(path.to_string());
    }
    if seen.len() == by_path.len() && most.is_finite() { Ok(most) } else { Err(format!("{} of {} gradients, off by {most}", seen.len(), by_path.len())) }
}
/// What a stage, or a process alone, has after a step.
pub struct StageBits {
    pub loss: f64,
    pub bits: HashMap<String, Vec<u8>>,
    pub in_flight: usize,
}
fn micro_batches(subject: &SharedSubject) -> (Vec<Tensor>, Vec<Tensor>) {
    let (ids, target) = subject.batch(subject.rows);
    let micro = subject.rows / MICROS;
    let cut = |all: &Tensor| (0..MICROS).map(|m| all.narrow(0, m * micro, micro)).collect();
    (cut(&ids), cut(&target))
}
/// One process: micro-batches one by one, gradients added as they come.
pub fn accumulated(subject: &SharedSubject) -> Result<StageBits> {
    let (model, (ids, target), mesh) = (subject.model(&Mesh::alone())?, micro_batches(subject), Mesh::alone());
    let mut sums: HashMap<String, Tensor> = HashMap::new();
    let mut total = 0.0;
    for (ids, target) in ids.iter().zip(&target) {
        let loss = subject.loss(&model.forward(ids)?, target, &mesh)? / MICROS as f64;
        let grads = loss.backward_keep()?;
        total += read(&loss)?.first().copied().unwrap_or(f64::NAN);
        for (path, param) in model.named_parameters() {
            let Some(g) = grads.of(&param.cell()).cloned() else { continue };
            let sum = match sums.remove(&path) {
                Some(sum) => sum + g,
                None => g,
            };
            sums.insert(path, sum);
        }
    }
    let bits = sums.into_iter().map(|(path, sum)| Ok((path, sum.to_bytes()?))).collect::<Result<_>>()?;
    Ok(StageBits { loss: total, bits, in_flight: 1 })
}
pub fn on_stages(subject: &SharedSubject, mesh: &Mesh, schedule: PipelineSchedule) -> Result<StageBits> {
    let (ids, target) = micro_batches(subject);
    let first = ids.first().ok_or_else(|| Error::new("distributed", ErrorKind::Internal("no micro-batches".into())))?;
    let pipeline = Pipeline::cut(subject.model(mesh)?, mesh, schedule, first)?;
    let loss =
        |m: usize, logits: &Tensor| (target.get(m).map_or_else(|| Ok(logits.clone()), |target| subject.loss(logits, target, mesh))? / MICROS as f64).ok();
    let step = pipeline.step(&ids, loss)?;
    let mut bits = HashMap::new();
    for (path, param) in pipeline.named_parameters() {
        if let Some(g) = step.grads.of(&param.cell()) {
            bits.insert(path, g.to_bytes()?);
        }
    }
    Ok(StageBits { loss: step.loss, bits, in_flight: PipelineTrace { stages: vec![step.spans] }.in_flight(0) })
}
