//! The acts of each stage of a strategy's step: the begin and wait steps of the run's own schedule.
//!
//! Rows alone are shared out (the trainer): parts one behind another, of which the last fills buckets as its walk back goes on; with `zero = 3` a
//! unit is gathered while the one before is computed, and again on the walk back. Stages and pieces (`adamant::parallel`): the lists of
//! `pipeline_actions`, exchanges between pieces that a layer waits for, and one sum over the replicas in the end.
use crate::{
    cluster::PlannedCluster,
    exchange::{ExchangeCost, ExchangeGroup, ExchangeKind, send_cost},
    load::{LayerLoad, LayerPiece, PassTimes, RunLoad},
    simulate::{StageAct, StageProgram},
    strategy::{Infeasible, MeshStrategy},
};
use adamant_parallel::pipeline::{PipelineAction, cut_by_cost, pipeline_actions};
use adamant_train::GradientCompression;
use std::ops::Range;

const ELEMENT: f64 = 4.0;
/// The first bucket is small: it is full soon, and the link is idle.
const FIRST_BUCKET: f64 = 1048576.0;
/// The walk back takes so much longer than the way forward.
const BACK: f64 = 2.0;

/// The unit of parameters that travel together where parameters are shared out: the path up to the first number in it.
pub(crate) fn unit_of(path: &str) -> &str {
    let mut end = 0;
    for part in path.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            return &path[..end];
        }
        end += 1;
    }
    path.split('.').next().unwrap_or(path)
}
/// The blocks of each stretch, cut by their operations as a pipeline is.
pub(crate) fn cut_blocks(load: &RunLoad, stretches: usize) -> Vec<Range<usize>> {
    let mut costs = vec![1.0; load.blocks()];
    for l in &load.layers {
        costs[l.block] += l.flops * load.rows as f64;
    }
    cut_by_cost(&costs, stretches).unwrap_or_else(|_| std::iter::once(0..costs.len()).collect())
}
/// Seconds of work on a device of its own.
struct LayerSeconds<'a> {
    load: &'a RunLoad,
    cluster: &'a PlannedCluster,
    tensor: usize,
    times: Option<&'a PassTimes>,
}
impl LayerSeconds<'_> {
    fn modelled(&self, l: &LayerLoad, rows: f64) -> f64 {
        let share = self.load.share(l, self.tensor);
        let bytes = (l.bytes * rows + ELEMENT * l.parameters) * share;
        let work = self.cluster.seconds(l.flops * rows * share, bytes, self.load.half);
        if l.flops + l.bytes > 0.0 { work + self.cluster.launch } else { 0.0 }
    }
    /// What was measured of so many rows, for what would be modelled.
    fn scale(&self, rows: f64) -> f64 {
        let whole = LayerSeconds { tensor: 1, ..*self };
        let modelled: f64 = self.load.layers.iter().map(|l| (1.0 + BACK) * whole.modelled(l, rows)).sum();
        match self.times.and_then(|times| times.pass(rows)) {
            Some(measured) if modelled > 0.0 => measured / modelled,
            _ => 1.0,
        }
    }
    /// The update of so many parameters: parameter, gradient and slots are read, parameter and slots written.
    fn update(&self, parameters: f64) -> f64 {
        let all = self.load.parameters();
        match self.times {
            Some(times) if all > 0.0 => times.update * parameters / all,
            Some(_) => 0.0,
            None => self.cluster.seconds(0.0, ELEMENT * parameters * (3.0 + 2.0 * self.load.slots as f64), false),
        }
    }
    /// What sharing adds before anything travels: gradients are weighed by rows, laid one behind another, and divided by all rows.
    fn sharing(&self) -> f64 {
        self.times.map_or_else(|| self.cluster.seconds(0.0, 6.0 * ELEMENT * self.load.parameters(), false), |times| times.sharing)
    }
    /// What units add: where ranks do not meet at the ends of parameters, these are put together of pieces, there and back.
    fn units(&self) -> f64 {
        self.times.map_or_else(|| self.cluster.seconds(0.0, 6.0 * ELEMENT * self.load.parameters(), false), |times| times.units)
    }
}
impl StageProgram {
    fn compute(&mut self, seconds: f64) {
        match self.acts.last_mut() {
            Some(StageAct::Compute(before)) => *before += seconds,
            _ if seconds > 0.0 => self.acts.push(StageAct::Compute(seconds)),
            _ => {}
        }
    }
    fn begin(&mut self, cost: ExchangeCost) -> usize {
        self.exchanges.push(cost);
        self.acts.push(StageAct::Begin(self.exchanges.len() - 1));
        self.exchanges.len() - 1
    }
    fn wait(&mut self, id: usize) {
        self.acts.push(StageAct::Wait(id));
    }
    fn exchange(&mut self, cost: ExchangeCost) {
        if cost.seconds() > 0.0 {
            let id = self.begin(cost);
            self.wait(id);
        }
    }
}
/// What each stage of a strategy does in a step.
pub fn programs(load: &RunLoad, cluster: &PlannedCluster, strategy: &MeshStrategy, rows: usize) -> Result<Vec<StageProgram>, Infeasible> {
    if strategy.is_of_rows() {
        return Ok(vec![of_rows(load, cluster, strategy, rows)]);
    }
    of_stages(load, cluster, strategy, rows)
}
/// Parameters that travel together, in the order of the walk back.
struct Travelling {
    /// the layer that makes the last gradient of them
    ready: usize,
    bytes: f64,
    elements: f64,
}
fn buckets(load: &RunLoad) -> Vec<Travelling> {
    let (mut all, mut now, mut most): (Vec<Travelling>, Option<Travelling>, f64) = (Vec::new(), None, FIRST_BUCKET.min(load.bucket_bytes));
    for (k, l) in load.layers.iter().enumerate().rev().filter(|(_, l)| l.parameters > 0.0) {
        let bucket = now.get_or_insert(Travelling { ready: k, bytes: 0.0, elements: 0.0 });
        (bucket.ready, bucket.bytes, bucket.elements) = (k, bucket.bytes + sent(load, l), bucket.elements + l.parameters);
        if ELEMENT * bucket.elements >= most {
            all.extend(now.take());
            most = load.bucket_bytes;
        }
    }
    all.extend(now);
    all
}
/// Bytes by which a layer's gradient travels.
fn sent(load: &RunLoad, l: &LayerLoad) -> f64 {
    match load.compress {
        None => ELEMENT * l.parameters,
        Some(GradientCompression::Bf16) => 2.0 * l.parameters,
        // As if it were square.
        Some(GradientCompression::PowerSgd { rank }) => ELEMENT * l.parameters.min(2.0 * rank as f64 * l.parameters.sqrt()),
        Some(GradientCompression::TopK { share }) => 2.0 * ELEMENT * share * l.parameters,
    }
}
fn units(load: &RunLoad) -> Vec<(Range<usize>, f64)> {
    let mut units: Vec<(Range<usize>, f64)> = Vec::new();
    let mut last = None;
    for (k, l) in load.layers.iter().enumerate() {
        let unit = unit_of(&l.path);
        match units.last_mut() {
            Some((range, bytes)) if last == Some(unit) || l.parameters == 0.0 => (range.end, *bytes) = (k + 1, *bytes + ELEMENT * l.parameters),
            _ => units.push((k..k + 1, ELEMENT * l.parameters)),
        }
        if l.parameters > 0.0 {
            last = Some(unit);
        }
    }
    units
}
fn of_rows(load: &RunLoad, cluster: &PlannedCluster, strategy: &MeshStrategy, rows: usize) -> StageProgram {
    let n = strategy.mesh.data;
    let of_host = cluster.ranks_of_host(n);
    let group = ExchangeGroup::strided(n, 1, of_host);
    let clock = LayerSeconds { load, cluster, tensor: 1, times: load.times.as_ref().map(|t| &t.run) };
    let shards = load.shards.unwrap_or(n).max(n);
    let part = (rows as f64 / shards as f64).ceil();
    let scale = clock.scale(part);
    let forward = |l: &LayerLoad| scale * clock.modelled(l, part);
    let zero = if n > 1 { strategy.zero } else { 0 };
    let held = shards.div_ceil(n);
    let cost = |kind, bytes| group.cost(kind, bytes, cluster);
    let mut p = StageProgram::default();
    let mut waits = Vec::new();
    let (buckets, units) = (buckets(load), units(load));
    for passed in 0..held {
        let is_last = passed + 1 == held;
        if zero == 3 {
            of_units(&mut p, load, &units, &|range| load.layers[range].iter().map(forward).sum(), &cost, is_last.then_some(&mut waits));
            continue;
        }
        p.compute(load.layers.iter().map(forward).sum());
        for (k, l) in load.layers.iter().enumerate().rev() {
            p.compute(BACK * forward(l));
            if n > 1 && is_last {
                let kind = if zero == 2 { ExchangeKind::ReduceScatter } else { ExchangeKind::AllReduce };
                buckets.iter().filter(|b| b.ready == k).for_each(|b| waits.push(p.begin(cost(kind, b.bytes))));
            }
        }
    }
    if shards > 1 {
        p.compute(clock.sharing());
    }
    if zero == 3 {
        p.compute(clock.units());
    }
    // Loss, rows, statistics.
    if n > 1 {
        waits.push(p.begin(cost(ExchangeKind::AllReduce, 4096.0)));
    }
    waits.drain(..).for_each(|id| p.wait(id));
    let all = load.parameters();
    if zero == 0 {
        p.compute(clock.update(all));
        return p;
    }
    for b in &buckets {
        p.compute(clock.update(b.elements / n as f64));
        if zero < 3 {
            waits.push(p.begin(cost(ExchangeKind::AllGather, ELEMENT * b.elements)));
        }
    }
    waits.into_iter().for_each(|id| p.wait(id));
    p
}
/// A pass of which units are gathered ahead; gradients of the last one are scattered.
fn of_units(
    p: &mut StageProgram,
    load: &RunLoad,
    units: &[(Range<usize>, f64)],
    forward: &dyn Fn(Range<usize>) -> f64,
    cost: &dyn Fn(ExchangeKind, f64) -> ExchangeCost,
    mut scatter: Option<&mut Vec<usize>>,
) {
    let gather = |p: &mut StageProgram, k: usize| p.begin(cost(ExchangeKind::AllGather, units[k].1));
    let mut next = (!units.is_empty()).then(|| gather(p, 0));
    for (k, (range, _)) in units.iter().enumerate() {
        let own = next.take();
        own.into_iter().for_each(|id| p.wait(id));
        next = (k + 1 < units.len()).then(|| gather(p, k + 1));
        p.compute(forward(range.clone()));
    }
    // The last unit is still there.
    for (k, (range, bytes)) in units.iter().enumerate().rev() {
        let own = next.take();
        own.into_iter().for_each(|id| p.wait(id));
        next = (k > 0).then(|| gather(p, k - 1));
        p.compute(BACK * forward(range.clone()));
        let elements: f64 = load.layers[range.clone()].iter().map(|l| l.parameters).sum();
        if let Some(waits) = scatter.as_mut().filter(|_| elements > 0.0) {
            waits.push(p.begin(cost(ExchangeKind::ReduceScatter, *bytes)));
        }
    }
}
/// What a stretch of layers does for a micro-batch, one way.
fn stretch(p: &mut StageProgram, layers: &[&LayerLoad], seconds: &dyn Fn(&LayerLoad) -> f64, pieces: &dyn Fn(f64) -> ExchangeCost, back: bool) {
    let ordered: Vec<&&LayerLoad> = if back { layers.iter().rev().collect() } else { layers.iter().collect() };
    for l in ordered {
        p.compute(seconds(l));
        // Forward the sums behind `Row`, heads and tables are waited for, on the walk back those before `Column` and heads.
        let bytes = match (l.piece, back) {
            (LayerPiece::Row | LayerPiece::Heads(_) | LayerPiece::Vocabulary(_), false) => l.ends[1],
            (LayerPiece::Column(_) | LayerPiece::Heads(_) | LayerPiece::Tied, true) => l.ends[0],
            _ => continue,
        };
        p.exchange(pieces(bytes));
    }
}
fn of_stages(load: &RunLoad, cluster: &PlannedCluster, strategy: &MeshStrategy, rows: usize) -> Result<Vec<StageProgram>, Infeasible> {
    let (data, stages, tensor) = (strategy.mesh.data, strategy.mesh.pipeline, strategy.mesh.tensor);
    let of_host = cluster.ranks_of_host(strategy.mesh.ranks());
    let micros = if stages > 1 { strategy.micro_batches } else { 1 };
    let micro_rows = (rows as f64 / data as f64 / micros as f64).ceil();
    let clock = LayerSeconds { load, cluster, tensor, times: load.times.as_ref().map(|t| &t.program) };
    let scale = clock.scale(micro_rows);
    let stretches = cut_blocks(load, stages * if stages > 1 { strategy.schedule.chunks() } else { 1 });
    let of_stretch: Vec<Vec<&LayerLoad>> = stretches.iter().map(|range| load.layers.iter().filter(|l| range.contains(&l.block)).collect()).collect();
    let pieces = |bytes: f64| ExchangeGroup::strided(tensor, 1, of_host).cost(ExchangeKind::AllReduce, micro_rows * bytes, cluster);
    let forward = |l: &LayerLoad| scale * clock.modelled(l, micro_rows);
    let backward = |l: &LayerLoad| BACK * forward(l);
    let lists = if stages > 1 {
        pipeline_actions(strategy.schedule, stages, micros).map_err(|_| Infeasible::Together("micro-batches are no multiple of the stages"))?
    } else {
        vec![vec![PipelineAction::Forward { micro: 0, chunk: 0 }, PipelineAction::Backward { micro: 0, chunk: 0 }]]
    };
    // What lies behind a stretch, which travels.
    let behind = |s: usize| micro_rows * of_stretch.get(s).and_then(|layers| layers.last()).map_or(0.0, |l| l.ends[1]);
    let mut all = Vec::new();
    for (stage, list) in lists.iter().enumerate() {
        let mut p = StageProgram::default();
        for action in list {
            match *action {
                PipelineAction::Forward { chunk, .. } => stretch(&mut p, &of_stretch[chunk * stages + stage], &forward, &pieces, false),
                PipelineAction::Backward { chunk, .. } => stretch(&mut p, &of_stretch[chunk * stages + stage], &backward, &pieces, true),
                PipelineAction::SendActivation { chunk, to, .. } => {
                    p.acts.push(StageAct::Send { to, cost: send_cost(behind(chunk * stages + stage), tensor, of_host, cluster) });
                }
                PipelineAction::SendGradient { chunk, to, .. } => {
                    let bytes = behind((chunk * stages + stage).saturating_sub(1));
                    p.acts.push(StageAct::Send { to, cost: send_cost(bytes, tensor, of_host, cluster) });
                }
                PipelineAction::ReceiveActivation { from, .. } | PipelineAction::ReceiveGradient { from, .. } => p.acts.push(StageAct::Receive { from }),
            }
        }
        let own = |l: &&LayerLoad| stretches.iter().position(|s| s.contains(&l.block)).is_some_and(|s| s % stages == stage);
        let parameters: f64 = load.layers.iter().filter(own).map(|l| l.parameters * load.share(l, tensor)).sum();
        // The sum over the replicas: gradients laid one behind another, in one exchange.
        if data > 1 {
            p.compute(if load.parameters() > 0.0 { clock.sharing() * parameters / load.parameters() } else { 0.0 });
            let group = ExchangeGroup::strided(data, tensor * stages, of_host);
            p.exchange(group.cost(ExchangeKind::AllReduce, ELEMENT * parameters, cluster));
        }
        p.compute(clock.update(parameters));
        all.push(p);
    }
    Ok(all)
}
