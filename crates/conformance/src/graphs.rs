//! Graphs of everything: each sample of the registry and random programs are captured, written, read back, evaluated and sent
//! through the passes, and each time the bits are those of the function itself. Mutated texts are read without a panic.
use crate::{
    data::{Spread, download, draw, same_bits, upload},
    fuzz::{
        self,
        program::{NodeKind, RandomProgram, Ref},
    },
    random::Random,
    registry::{Entry, entries},
};
use adamant_core::{
    Cell, DType, Device, ErrorKind, HostArray, Meta, Op, Origin, Result, Tensor,
    backend::Support,
    graph::{Graph, GraphError, PASSES, Reading, Why, Written},
    kernel::KernelKind,
    op::Group,
    step,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What was found.
#[derive(Default, Debug)]
pub struct Report {
    /// functions with at least one captured sample
    pub functions: BTreeSet<String>,
    /// samples (function, inputs, dtype) that were captured
    pub captured: usize,
    /// of these, text → parse → same hash and same text
    pub read_back: usize,
    /// of these, `eval(capture(f))` has the bits of `f`, from the graph as it was captured and as it was read back
    pub evaluated: usize,
    /// evaluations behind passes with the same bits
    pub passed: usize,
    /// nodes before and after each pass, over all graphs
    pub nodes: BTreeMap<&'static str, (usize, usize)>,
    /// functions that cannot be captured, with the reason
    pub holes: BTreeMap<String, String>,
    /// differentiable samples whose gradient through `eval` has the bits of the function's own, and those where it has not
    pub gradients: (usize, BTreeSet<String>),
    /// what failed
    pub failures: Vec<String>,
}
impl Report {
    fn fail(&mut self, name: &str, what: impl std::fmt::Display) {
        self.failures.push(format!("{name}: {what}"));
    }
    /// The counts and the holes as text.
    pub fn summary(&self) -> String {
        let mut out = format!(
            "{} functions, {} samples captured: text read back {}, eval = f {}, eval behind passes {}, gradients the same {} and {} not; {} failures\n",
            self.functions.len(),
            self.captured,
            self.read_back,
            self.evaluated,
            self.passed,
            self.gradients.0,
            self.gradients.1.len(),
            self.failures.len()
        );
        for (pass, (before, after)) in &self.nodes {
            let _ = writeln!(out, "  {pass}: {before} nodes before, {after} after");
        }
        for (name, why) in &self.holes {
            let _ = writeln!(out, "  hole {name}: {why}");
        }
        for name in &self.gradients.1 {
            let _ = writeln!(out, "  other gradient {name}");
        }
        out
    }
    /// Panics with what failed.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.failures.is_empty(), "{} failures:\n{}", self.failures.len(), self.failures[..self.failures.len().min(40)].join("\n"));
    }
}
type Seen = Vec<std::result::Result<HostArray, &'static str>>;
fn seen(tensors: &[Tensor]) -> Seen {
    tensors.iter().map(|t| download(t).map_err(|e| e.kind().word())).collect()
}
fn agree(a: &Seen, b: &Seen) -> std::result::Result<(), String> {
    if a.len() != b.len() {
        return Err(format!("{} outputs and {}", a.len(), b.len()));
    }
    for (k, pair) in a.iter().zip(b).enumerate() {
        match pair {
            (Ok(x), Ok(y)) if same_bits(x, y) => {}
            (Err(x), Err(y)) if x == y => {}
            (x, y) => {
                let shown = |v: &std::result::Result<HostArray, &str>| format!("{v:?}").chars().take(300).collect::<String>();
                return Err(format!("output {k} is {} and {}", shown(x), shown(y)));
            }
        }
    }
    Ok(())
}

/// Every sample of the registry, in every dtype that the device has.
pub fn registry(device: Device) -> Report {
    let mut report = Report::default();
    for (k, entry) in entries().iter().enumerate() {
        for &dtype in &entry.dtypes {
            device.scoped(|| sample(device, k as u64, entry, dtype, &mut report));
        }
    }
    report
}
fn sample(device: Device, seed: u64, entry: &Entry, dtype: DType, report: &mut Report) {
    let name = format!("{} {dtype}", entry.name);
    let random = Random::new(0x6EA9 + seed);
    let x: Vec<Tensor> = entry.inputs.iter().enumerate().map(|(k, i)| upload(&i.draw(dtype, &mut random.part(k as u64)), device)).collect();
    let want = seen(&entry.function.call(&x));
    if want.iter().any(std::result::Result::is_err) {
        // A device need not do everything; what it does is the suite's affair.
        return;
    }
    let Ok(metas) = x.iter().map(Tensor::try_meta).collect::<Result<Vec<Meta>>>() else { return };
    let graph = match Graph::capture(device, &metas, |x| entry.function.call(x).into_iter().map(Tensor::ok).collect()) {
        Ok(graph) => graph,
        Err(e) => {
            report.holes.entry(entry.name.clone()).or_insert_with(|| e.kind().to_string());
            return;
        }
    };
    report.functions.insert(entry.name.clone());
    report.captured += 1;
    let given: Vec<&Tensor> = x.iter().collect();
    if let Err(what) = whole_way(device, &graph, &|graph| graph.execute(&given).map(|y| seen(&y)), &want, report) {
        report.fail(&name, what);
    }
    if entry.order > 0 && dtype == DType::F64 {
        gradient(&graph, entry, &x, &name, report);
    }
}
/// Text and back, evaluation of both, and each pass.
fn whole_way(device: Device, graph: &Graph, eval: &dyn Fn(&Graph) -> Result<Seen>, want: &Seen, report: &mut Report) -> std::result::Result<(), String> {
    let error = |e: GraphError| e.to_string();
    graph.verify().map_err(error)?;
    let read = read_back(device, graph)?;
    report.read_back += 1;
    for (which, graph) in [("captured", graph), ("read back", &read)] {
        let got = eval(graph).map_err(|e| format!("eval of the {which}: {e}"))?;
        agree(&got, want).map_err(|e| format!("eval of the {which}: {e}"))?;
    }
    report.evaluated += 1;
    let all: Vec<&str> = PASSES.iter().map(|(name, _)| *name).collect();
    let single = all.iter().map(std::slice::from_ref);
    for passes in single.chain([&all[..]]) {
        let mut new = graph.clone();
        let ran = new.run(passes).map_err(|e| format!("{passes:?}: {e}"))?;
        if let [only] = ran[..] {
            let sum = report.nodes.entry(only.name).or_default();
            (sum.0, sum.1) = (sum.0 + only.before, sum.1 + only.after);
        }
        new.verify().map_err(|e| format!("behind {passes:?}: {e}"))?;
        read_back(device, &new).map_err(|e| format!("behind {passes:?}: {e}"))?;
        // A kernel for a composite has bits of its own.
        let exact = !passes.contains(&"expand") || !has_own_kernel(device, graph);
        let got = eval(&new).map_err(|e| format!("eval behind {passes:?}: {e}"))?;
        if exact {
            agree(&got, want).map_err(|e| format!("behind {passes:?}: {e}"))?;
        }
        report.passed += usize::from(exact);
    }
    Ok(())
}
/// Does the device run a composite of the graph by a kernel of its own?
fn has_own_kernel(device: Device, graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| match &node.op {
        Op::Composite(c) => {
            let dtypes: Vec<DType> = node.inputs.iter().copied().chain(node.outputs.clone()).map(|v| graph.values[v as usize].dtype).collect();
            device.backend().supports(&KernelKind::Composite(c.function().clone()), &dtypes) == Support::Native
        }
        _ => false,
    })
}
fn read_back(device: Device, graph: &Graph) -> std::result::Result<Graph, String> {
    let written = graph.text().map_err(|e| e.to_string())?;
    let reading = Reading::new(device).blobs(&written.blobs).groups(groups(graph));
    let mut read = Graph::parse(&written.text, &reading).map_err(|e| format!("{e}\n{}", written.text))?;
    if read.hash() != graph.hash() || read.structure() != graph.structure() {
        return Err(format!("another hash of\n{}", written.text));
    }
    let again = read.text().map_err(|e| e.to_string())?;
    if again.text != written.text || again.blobs != written.blobs {
        return Err(format!("another text:\n{}\nof\n{}", again.text, written.text));
    }
    // Cells are bound by the program.
    for (new, old) in read.cells.iter_mut().zip(&graph.cells) {
        new.held.clone_from(&old.held);
    }
    Ok(read)
}
/// The groups of ranks of a graph, in the order in which its text numbers them.
fn groups(graph: &Graph) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for node in &graph.nodes {
        if let Op::Collective { group, .. } = &node.op
            && !groups.iter().any(|g| g.id == group.id)
        {
            groups.push(group.clone());
        }
    }
    groups
}
/// Gradients through `eval` and through the function.
fn gradient(graph: &Graph, entry: &Entry, x: &[Tensor], name: &str, report: &mut Report) {
    let of = |call: &dyn Fn(&[&Tensor]) -> Result<Vec<Tensor>>| -> Result<Seen> {
        let x: Vec<Tensor> = x
            .iter()
            .zip(&entry.inputs)
            .map(|(t, i)| if i.differentiable && t.dtype()?.is_float() { t.tracked().ok() } else { Ok(t.clone()) })
            .collect::<Result<_>>()?;
        let mut loss: Option<Tensor> = None;
        for y in call(&x.iter().collect::<Vec<_>>())?.iter().filter(|y| y.is_tracked()) {
            let term = y.sum(..).cast(DType::F64);
            loss = Some(loss.map_or(term.clone(), |l| l + term));
        }
        let Some(loss) = loss else { return Ok(Vec::new()) };
        let grads = loss.backward()?;
        Ok(seen(&x.iter().filter_map(|t| grads.get(t).cloned()).collect::<Vec<_>>()))
    };
    let own = of(&|x| entry.function.call(&x.iter().map(|t| (*t).clone()).collect::<Vec<_>>()).into_iter().map(Tensor::ok).collect());
    let through = of(&|x| graph.execute(x));
    match (own, through) {
        (Ok(own), Ok(through)) if agree(&own, &through).is_ok() => report.gradients.0 += 1,
        (Err(_), _) => {}
        _ => {
            report.gradients.1.insert(name.into());
        }
    }
}

/// Random programs as functions: leaves are inputs, cells are cells; their forward and, where they have one, backward.
pub fn random(device: Device, n: usize, seed: u64) -> Report {
    let mut report = Report::default();
    for index in 0..n {
        let mut program = fuzz::nth(seed, index, index % 2);
        // A transfer reads its input, so it cannot be captured.
        if program.nodes.iter().any(|n| matches!(n.kind, NodeKind::Transfer)) {
            continue;
        }
        program.rounds = 1;
        device.scoped(|| one(device, &program, index, &mut report));
    }
    report
}
fn one(device: Device, program: &RandomProgram, index: usize, report: &mut Report) {
    let name = format!("graph {index}");
    let random = Random::new(program.seed);
    let leaves: Vec<usize> = (0..program.nodes.len()).filter(|&k| matches!(program.nodes[k].kind, NodeKind::Leaf { .. })).collect();
    let leaf = |k: &usize| {
        let NodeKind::Leaf { spread, .. } = program.nodes[*k].kind else { return None };
        let (shape, dtype) = program.nodes[*k].metas[0];
        Some(upload(&draw(shape, dtype, spread, &mut random.part(*k as u64)), device))
    };
    let x: Vec<Tensor> = leaves.iter().filter_map(leaf).collect();
    let start: Vec<Tensor> = (0..program.cells.len())
        .map(|k| upload(&draw(program.cells[k].0, program.cells[k].1, Spread::Coarse, &mut random.part(1000 + k as u64)), device))
        .collect();
    let Ok(cells) = start.iter().map(|t| Cell::new(t, true)).collect::<Result<Vec<Cell>>>() else { return };
    let reset = || cells.iter().zip(&start).try_for_each(|(cell, t)| cell.set(t));
    let state = |mut seen_so_far: Seen| {
        seen_so_far.extend(seen(&cells.iter().map(Cell::detached).collect::<Vec<_>>()));
        seen_so_far
    };
    let Ok(metas) = x.iter().map(Tensor::try_meta).collect::<Result<Vec<Meta>>>() else { return };
    let f = |x: &[Tensor]| forward(program, device, &leaves, x, &cells);
    let want = match f(&x) {
        Ok(y) => state(seen(&y)),
        Err(_) => return,
    };
    // What reads bad data in a step leaves the cells to the step; that is told of by the suite.
    if want.iter().any(std::result::Result::is_err) && !program.writes.is_empty() || reset().is_err() {
        return;
    }
    let graph = match Graph::capture(device, &metas, f) {
        Ok(graph) => graph,
        Err(e) => return report.fail(&name, format!("{e}\n{program}")),
    };
    report.captured += 1;
    let given: Vec<&Tensor> = x.iter().collect();
    let eval = |graph: &Graph| {
        reset()?;
        Ok(state(seen(&graph.execute(&given)?)))
    };
    if let Err(what) = whole_way(device, &graph, &eval, &want, report) {
        report.fail(&name, format!("{what}\n{program}"));
    }
}
fn forward(program: &RandomProgram, device: Device, leaves: &[usize], x: &[Tensor], cells: &[Cell]) -> Result<Vec<Tensor>> {
    let origin = Origin::here();
    let mut values: Vec<Vec<Tensor>> = Vec::with_capacity(program.nodes.len());
    let mut tracked = Vec::new();
    for (k, n) in program.nodes.iter().enumerate() {
        let value = |r: &Ref| values[r.node].get(r.output).or_else(|| values[r.node].first()).cloned();
        let inputs: Vec<Tensor> = n.inputs.iter().filter_map(value).collect();
        let made = match &n.kind {
            NodeKind::Leaf { tracked: is, .. } => {
                let given = leaves.iter().position(|l| *l == k).map(|at| x[at].clone());
                let given = given.map(|t| if *is && !program.loss.is_empty() { t.tracked() } else { t });
                tracked.extend(given.clone().filter(|t| t.is_tracked()));
                given.into_iter().collect()
            }
            NodeKind::Read(c) => vec![cells[*c].get()],
            NodeKind::Apply { op, args } => Tensor::apply_many_on(device, op.clone(), args[0], &inputs.iter().collect::<Vec<_>>(), origin).into_vec(),
            NodeKind::Transfer => inputs,
        };
        values.push(made);
    }
    let value = |r: &Ref| values[r.node].get(r.output);
    let mut loss: Option<Tensor> = None;
    for v in program.loss.iter().filter_map(value) {
        let term = v.sum(..).cast(crate::suite::widest_float(device));
        loss = Some(loss.map_or(term.clone(), |l| l + term));
    }
    let mut outputs: Vec<Tensor> =
        program.nodes.iter().zip(&values).filter(|(n, _)| n.held).flat_map(|(n, made)| made.iter().take(n.metas.len()).map(Tensor::detach)).collect();
    if let Some(loss) = loss.filter(Tensor::is_tracked) {
        let grads = loss.backward()?;
        outputs.extend(tracked.iter().filter_map(|t| grads.get(t).cloned()));
        outputs.extend(cells.iter().filter_map(|c| grads.of(c).cloned()));
    }
    step(|| program.writes.iter().try_for_each(|(c, r)| value(r).map_or(Ok(()), |v| cells[*c].set(&v.detach()))))?;
    outputs.into_iter().map(Tensor::ok).collect()
}

/// What became of mutated texts.
#[derive(Default, Debug)]
pub struct Mutated {
    /// texts that were read
    pub texts: usize,
    /// of these, graphs all the same
    pub graphs: usize,
    /// by kind of error
    pub errors: BTreeMap<&'static str, usize>,
    /// panics, and panics of shape rules that the verifier caught
    pub panics: Vec<String>,
}
/// Reads mutations of texts: characters changed, dropped, doubled; numbers blown up; pieces of one text put into another.
pub fn mutated(device: Device, n: usize, seed: u64) -> Mutated {
    let mut report = Mutated::default();
    let texts = texts(device);
    let random = Random::new(seed);
    for k in 0..n {
        let mut r = random.part(k as u64);
        let (base, other) = (r.pick(&texts).clone(), r.pick(&texts).clone());
        let mut text: Vec<char> = base.text.chars().collect();
        for _ in 0..1 + r.below(3) {
            mutate(&mut text, &other.text, &mut r);
        }
        let text: String = text.into_iter().collect();
        report.texts += 1;
        let read = catch_unwind(AssertUnwindSafe(|| Graph::parse(&text, &Reading::new(device).blobs(&base.blobs))));
        match read {
            Err(_) => report.panics.push(text),
            Ok(Ok(_)) => report.graphs += 1,
            Ok(Err(e)) => {
                let word = match &e {
                    GraphError::Text(_) => "text",
                    GraphError::Invalid(i) => match &i.why {
                        Why::Op(kind) => {
                            if matches!(**kind, ErrorKind::Panicked { .. }) {
                                report.panics.push(format!("{e}\n{text}"));
                            }
                            "op"
                        }
                        _ => "rule",
                    },
                    _ => "other",
                };
                *report.errors.entry(word).or_default() += 1;
            }
        }
    }
    report
}
/// The texts of all samples that can be captured, in one dtype each.
fn texts(device: Device) -> Vec<Written> {
    let of = |(k, entry): (usize, &Entry)| {
        device.scoped(|| {
            let random = Random::new(k as u64);
            let dtype = *entry.dtypes.first()?;
            let x: Vec<Tensor> = entry.inputs.iter().enumerate().map(|(k, i)| upload(&i.draw(dtype, &mut random.part(k as u64)), device)).collect();
            let metas = x.iter().map(Tensor::try_meta).collect::<Result<Vec<Meta>>>().ok()?;
            // With the backward, whose composites are in no function's forward.
            let graph = Graph::capture(device, &metas, |x| {
                let x: Vec<Tensor> = x.iter().map(|t| if entry.order > 0 && t.dtype().is_ok_and(DType::is_float) { t.tracked() } else { t.clone() }).collect();
                let mut y: Vec<Tensor> = entry.function.call(&x).into_iter().map(Tensor::ok).collect::<Result<_>>()?;
                if let Some(first) = y.iter().find(|y| y.is_tracked()) {
                    let grads = first.sum(..).backward()?;
                    y.extend(x.iter().filter_map(|t| grads.get(t).cloned()));
                }
                Ok(y)
            });
            graph.ok()?.text().ok()
        })
    };
    entries().iter().enumerate().filter_map(of).collect()
}
fn mutate(text: &mut Vec<char>, other: &str, r: &mut Random) {
    const MARKS: &[char] = &['%', '@', '#', ':', ',', '=', '(', ')', '[', ']', '{', '}', '"', '\\', '-', '.', '0', '9', 'e', 'x', ' ', '\n', 'é', '\u{0}'];
    const NUMBERS: &[&str] =
        &["0", "1", "7", "8", "255", "256", "65536", "4294967295", "4294967296", "9223372036854775807", "-1", "1e308", "nan", "inf", "18446744073709551616"];
    if text.is_empty() {
        return;
    }
    let at = r.below(text.len());
    // Numbers and lines more often than characters, after which a text is rarely one any more.
    match [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 6][r.below(12)] {
        0 => text[at] = *r.pick(MARKS),
        1 => {
            text.remove(at);
        }
        2 => text.insert(at, *r.pick(MARKS)),
        3 => {
            let end = (at + 1 + r.below(40)).min(text.len());
            let piece: Vec<char> = text[at..end].to_vec();
            let to = r.below(text.len());
            text.splice(to..to, piece);
        }
        4 => {
            let end = (at + 1 + r.below(20)).min(text.len());
            text.drain(at..end);
        }
        // A line of another text.
        5 => {
            let lines: Vec<&str> = other.lines().collect();
            let line: Vec<char> = format!("\n{}\n", r.pick(&lines)).chars().collect();
            text.splice(at..at, line);
        }
        // A number becomes another one.
        _ => {
            if let Some(begin) = (at..text.len()).find(|&k| text[k].is_ascii_digit()) {
                let end = (begin..text.len()).find(|&k| !text[k].is_ascii_digit()).unwrap_or(text.len());
                text.splice(begin..end, r.pick(NUMBERS).chars());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::{Arg, Attr, Attrs, Composite, Compound, Scalar, Shape, TensorType, Types, op::View, register_composite};

    /// Multiplies by a number that its constructor forgets.
    #[derive(Clone, Copy, Debug)]
    struct Forgetful(f64);
    impl Composite for Forgetful {
        fn name(&self) -> &'static str {
            "planted.forgetful"
        }
        fn attrs(&self) -> Attrs {
            [("scale", Attr::Float(self.0))].into_iter().collect()
        }
        fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
            Ok(inputs.iter().copied().collect())
        }
    }
    impl Compound for Forgetful {
        fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
            Ok(vec![&inputs[0] * self.0])
        }
    }
    register_composite!(FORGETFUL, "planted.forgetful", 1..=1, |given| {
        given.float("scale")?;
        Ok(Forgetful(1.0))
    });

    /// A graph of `f` in which something is changed: what the way through text, evaluation and passes says of it.
    fn planted(f: fn(&[Tensor]) -> Tensor, plant: fn(&mut Graph)) -> std::result::Result<(), String> {
        let device = Device::reference();
        device.scoped(|| {
            let x = [upload(&draw(Shape::new(&[2, 3]).unwrap_or(Shape::SCALAR), DType::F32, Spread::Coarse, &mut Random::new(3)), device)];
            let want = seen(&[f(&x)]);
            let metas = x.iter().map(Tensor::try_meta).collect::<Result<Vec<Meta>>>().map_err(|e| e.to_string())?;
            let mut graph = Graph::capture(device, &metas, |x| Ok(vec![f(x)])).map_err(|e| e.to_string())?;
            plant(&mut graph);
            whole_way(device, &graph, &|graph| graph.execute(&x.iter().collect::<Vec<_>>()).map(|y| seen(&y)), &want, &mut Report::default())
        })
    }
    #[test]
    fn a_fault_that_the_way_through_a_graph_hides() {
        let f: fn(&[Tensor]) -> Tensor = |x| (x[0].exp() - &x[0]).mt() * 2.0;
        assert_eq!(planted(f, |_| ()), Ok(()));
        let plants: [(fn(&mut Graph), &str); 4] = [
            (|g| g.nodes[1].inputs.reverse(), "eval of the captured: output 0 is"),
            (|g| g.nodes[3].arg = Arg::Scalar(Scalar::Float(3.0)), "eval of the captured: output 0 is"),
            (|g| g.nodes.swap(0, 1), "is read before it is made"),
            (|g| g.nodes[2].op = Op::View(View::Permute([0; 8])), "no permutation"),
        ];
        for (plant, want) in plants {
            let told = planted(f, plant).err().unwrap_or_default();
            assert!(told.contains(want), "{want}: {told}");
        }
        let told = planted(|x| Tensor::composite1(Forgetful(2.0), &[&x[0]]), |_| ()).err().unwrap_or_default();
        assert!(told.starts_with("another hash"), "{told}");
    }
}
