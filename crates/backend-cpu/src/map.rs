//! Map: a program over an index space, tile by tile; and what Reduce needs of it. Must not know how a reduction
//! combines.
mod ahead;
pub(crate) mod compiled;
mod crossed;
pub(crate) mod direct;
mod drawn;
mod few;
mod held;
mod integers;
pub(crate) mod load;
pub(crate) mod loops;
pub(crate) mod prefused;
pub(crate) mod program;
mod random;
pub(crate) mod tile;
pub(crate) mod tiles;
mod translate;

use crate::{
    device::Runtime,
    isa::Isa,
    jit,
    nest::{Nest, Strides},
    operand::{In, Out, internal},
    simd::{
        has_vectors,
        stream::{self, STREAMED},
    },
};
use adamant_runtime::{
    DType, ErrorKind, MAX_RANK, Scalar, Shape,
    expr::Reg,
    kernel::{FaultWord, Kernel, KernelKind, Step},
};
pub(crate) use ahead::LINE;
use crossed::Crossed;
use few::GivenInput;
use program::{Code, Program};
use smallvec::SmallVec;
use std::sync::OnceLock;
use tile::TileRun;
use tiles::{OutTile, TILE, with_scratch};

/// Additions of a task, some 4 us; below two of them nothing is shared out.
pub(crate) const TASK: usize = 32 * 1024;
/// Into so many tasks for each thread much work is cut: threads do not run equally fast, and who comes first to the end
/// waits for the last task of another.
pub(crate) const PARTS: usize = 16;

/// The resolved program of a Map or Reduce kernel, made at its first run.
#[inline]
pub(crate) fn program(kernel: &Kernel, isa: Isa) -> Result<&Program, ErrorKind> {
    let prepared = kernel.prepared.get_or_init(|| Box::new(Programs::default()));
    let programs: &Programs = prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))?;
    let place = if has_vectors(isa) { &programs.vectors } else { &programs.plain };
    Ok(place.get_or_init(|| match &kernel.kind {
        KernelKind::Map { expr, outputs } => Program::new(expr, outputs, isa),
        KernelKind::Reduce { expr, value, .. } => Program::new(expr, &[*value], isa),
        _ => Program::new(&Default::default(), &[], isa),
    }))
}
/// The programs of a kernel. Loops that were compiled ahead of time are there for sets with vectors alone, and what of a program needs
/// a place in a tile follows from whether there is one.
#[derive(Default)]
pub(crate) struct Programs {
    pub vectors: OnceLock<Program>,
    pub plain: OnceLock<Program>,
}
/// The nest of a program's operands, real and virtual, over the axes in the given order.
pub(crate) fn nest(program: &Program, space: &Shape, axes: impl Iterator<Item = usize>, inputs: &[In<'_>]) -> Nest {
    let key = |k: usize| program.registers.iter().any(|r| matches!(r.code, Code::Random { key, .. } if key as usize == k));
    let zero: Strides = [0; MAX_RANK];
    let mut own: SmallVec<[Strides; 2]> = SmallVec::new();
    for &a in &program.indices {
        let mut s = zero;
        s[a as usize] = 1;
        own.push(s);
    }
    if program.draws {
        own.push(space.strides());
    }
    let mut strides: SmallVec<[&Strides; 8]> = SmallVec::new();
    for (k, i) in inputs.iter().enumerate() {
        // A key is read by its own shape.
        strides.push(if program.draws && key(k) { &zero } else { &i.layout.strides });
    }
    strides.extend(own.iter());
    Nest::new(space, axes, &strides)
}

/// Runs a Map step of few elements by one loop, which takes its operands itself. False: there is none for it, and nothing
/// was done.
///
/// # Errors
/// A kernel prepared by another backend.
pub(crate) fn run_few(runtime: &Runtime, step: &Step<'_>) -> Result<bool, ErrorKind> {
    let program = program(step.kernel, runtime.isa)?;
    let done = match (&program.single, program.ahead) {
        (Some(single), _) => single.run(runtime.isa, step),
        (None, Some(ahead)) => direct::run_ahead(ahead, program, runtime.isa, step),
        (None, None) => None,
    };
    Ok(done.is_some())
}

/// Runs a Map step.
///
/// # Errors
/// Operands that do not fit the program.
pub(crate) fn run(runtime: &Runtime, step: &Step<'_>, results: &[Reg], inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let n = step.space.elements();
    if n == 0 {
        return Ok(());
    }
    let program = program(step.kernel, runtime.isa)?;
    if n <= direct::FEW && program.few && few(runtime, program, step, inputs, outputs)?.is_some() {
        return Ok(());
    }
    let mut bytes: Outputs<'_> = SmallVec::new();
    for o in outputs.iter_mut() {
        if o.shape.elements() != n {
            return Err(internal("an output of another size than its space"));
        }
        let dtype = o.dtype;
        bytes.push((o.dense_bytes()?, dtype));
    }
    if let Some(crossed) = Crossed::of(program, &step.space, inputs) {
        return crossed.run(runtime, program, step, results, inputs, bytes);
    }
    let nest = nest(program, &step.space, 0..step.space.rank(), inputs);
    execute(runtime, program, nest, n, results, inputs, bytes, step.args, step.fault)
}
/// Runs a program of few elements without a nest. `None`: it is none for that, and nothing was done.
fn few(runtime: &Runtime, program: &Program, step: &Step<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<Option<()>, ErrorKind> {
    let (n, columns) = (step.space.elements(), step.space.last().copied().unwrap_or(1));
    let given: Option<SmallVec<[GivenInput<'_>; 4]>> = inputs.iter().map(|i| GivenInput::new(i, n, columns)).collect();
    let Some(given) = given else { return Ok(None) };
    let mut outs = few::Outs::new();
    for out in outputs {
        if out.dtype != DType::F32 || !out.is_dense {
            return Ok(None);
        }
        outs.push(out.dense()?);
    }
    Ok(few::run(program, runtime.isa, step.args, &given, n, columns, &mut outs))
}
/// The memory of dense outputs.
pub(crate) type Outputs<'o> = SmallVec<[(&'o mut [u8], DType); 8]>;
/// Runs a program over the `n` positions of a nest, in its order.
///
/// # Errors
/// Operands that do not fit the program.
#[allow(clippy::too_many_arguments)]
pub(crate) fn execute(
    runtime: &Runtime,
    program: &Program,
    nest: Nest,
    n: usize,
    results: &[Reg],
    inputs: &[In<'_>],
    mut bytes: Outputs<'_>,
    args: &[Scalar],
    fault: &FaultWord,
) -> Result<(), ErrorKind> {
    if n == 0 {
        return Ok(());
    }
    let mut run = TileRun::new(program, runtime.isa, nest, inputs, args, fault)?;
    // What is read where it is written is in the caches already.
    run.streamed = bytes.iter().all(|(b, _)| b.len() >= STREAMED) && inputs.iter().all(|i| i.in_place.is_none());
    for (o, (&r, (_, dtype))) in results.iter().zip(&bytes).enumerate() {
        if *dtype != program.registers[r as usize].dtype {
            return Err(internal("an output of another dtype than its register"));
        }
        // A loop that was compiled ahead of time streams by itself.
        if !run.streamed || program.ahead.is_some() || run.is_drawn(r) {
            run.compute_into(r, o);
        }
    }
    run.find_shared(results);
    run.find_truths(results);
    let least = if program.indices.is_empty() { LINE } else { compiled::LEAST_LINE };
    if run.nest.innermost() >= least {
        run.find_lines()?;
    }
    if bytes.len() <= jit::POINTERS {
        let dtypes: SmallVec<[DType; jit::POINTERS]> = bytes.iter().map(|b| b.1).collect();
        run.compile(results, &dtypes, n);
    }
    let run = &run;
    let task = TASK / program.weight;
    if n <= 2 * task || runtime.threads.count() == 1 {
        let mut outs: SmallVec<[OutTile<'_>; 8]> = bytes.into_iter().map(|(bytes, dtype)| OutTile { bytes, dtype, start: 0 }).collect();
        return part(run, results, 0, n, &mut outs);
    }
    let size = n.div_ceil(runtime.threads.count() * PARTS).max(task).next_multiple_of(TILE);
    // Cut off when a thread asks for it: a list of them would take memory.
    let parts = (0..n.div_ceil(size)).map(move |k| {
        let (start, mut outs) = (k * size, SmallVec::<[OutTile<'_>; 8]>::new());
        let count = size.min(n - start);
        for (b, dtype) in &mut bytes {
            let (head, tail) = std::mem::take(b).split_at_mut(count * dtype.size());
            *b = tail;
            outs.push(OutTile { bytes: head, dtype: *dtype, start });
        }
        (start, count, outs)
    });
    runtime.threads.try_for_parts(parts, |_, (start, count, mut outs)| part(run, results, start, count, &mut outs))
}
/// The positions `start .. start + count`, of which `outs` hold the results.
///
/// # Errors
/// Operands that do not fit the program.
pub(crate) fn part(run: &TileRun<'_>, results: &[Reg], start: usize, count: usize, outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
    with_scratch(|scratch| {
        let stretch = run.stretch();
        let mut at = start;
        while at < start + count {
            let n = stretch.from(at).min(start + count - at);
            run.tile(at, n, scratch, outs)?;
            for (o, &r) in results.iter().enumerate() {
                run.store(r, o, at, n, scratch, outs);
            }
            at += n;
        }
        if run.streamed {
            stream::publish();
        }
        Ok(())
    })
}
