//! Equal Maps over different tensors — an optimizer's step, parameter by parameter — as segments of one launch, as many as
//! the adapter binds buffers for. The program is one function; each segment has its own operands, sizes and arguments,
//! and whole workgroups.
use crate::{
    Dialect, Sources,
    bindings::{Bindings, Place},
    dense::{Dense, TakenInputs},
    frame::{GROUP, KernelFrame},
    launcher::{Array, Key, LaunchTarget, Launcher, Work},
    nest::{AxisGroup, Nest},
    program::{Program, axes},
    write_expr,
};
use adamant_ir::{
    ErrorKind,
    expr::{Expr, Instr, Reg},
};
use smallvec::SmallVec;

/// A Map as [`together`] sees it: its program, its results, and what it does.
pub type Mapped<'m> = (&'m Expr, &'m [Reg], Work<'m>);

/// How many maps from the first on are one program over tensors that do not depend on each other.
pub fn together(target: &LaunchTarget, maps: &[Mapped<'_>]) -> usize {
    let Some(first) = maps.first().filter(|m| is_plain(m)) else { return 1 };
    // The parameters are a buffer too.
    let most = target.buffers - 1;
    // A driver on the host's processor runs all sides of a branch, so there only what fits a workgroup is worth it: 60
    // parameters of 4,096 elements and more take 15 ms one by one and 34 ms together on llvmpipe.
    let small = |m: &Mapped<'_>| !target.on_host || m.2.space.elements() as u64 <= GROUP;
    // What is updated in place is one buffer, and so is what all of them read.
    let mut bound: SmallVec<[usize; 64]> = SmallVec::new();
    let mut fits = |k: usize, m: &Mapped<'_>| {
        for operand in m.2.inputs.iter().chain(m.2.outputs) {
            if !bound.contains(&operand.buffer) {
                bound.push(operand.buffer);
            }
        }
        bound.len() <= most && small(m) && (k == 0 || (is_equal(first, m) && maps[..k].iter().all(|before| is_apart(&before.2, &m.2))))
    };
    maps.iter().enumerate().take_while(|(k, m)| fits(*k, m)).count().max(1)
}
/// A program of nothing but its elements and arguments.
fn is_plain((expr, _, work): &Mapped<'_>) -> bool {
    work.space.elements() > 0
        && expr.instrs.iter().all(|i| match *i {
            Instr::Index(_) | Instr::Random(_) => false,
            Instr::Binary(f, x, _) => !f.can_fault(expr.dtypes[x as usize]),
            _ => true,
        })
}
fn is_equal((expr, results, a): &Mapped<'_>, (other, others, b): &Mapped<'_>) -> bool {
    let dtypes = |w: &Work<'_>| w.inputs.iter().map(|i| i.dtype).collect::<Vec<_>>();
    b.space.elements() > 0 && results == others && expr == other && dtypes(a) == dtypes(b)
}
/// Does neither write what the other touches?
fn is_apart(a: &Work<'_>, b: &Work<'_>) -> bool {
    let meets = |writer: &Work<'_>, other: &Work<'_>| writer.outputs.iter().any(|w| other.inputs.iter().chain(other.outputs).any(|o| o.buffer == w.buffer));
    !meets(a, b) && !meets(b, a)
}
/// A segment with its operands bound.
struct BoundSegment<'e> {
    program: Program<'e>,
    dense: Dense,
    nest: Nest,
}
/// Records equal maps as one launch, of the first one's kernel.
///
/// # Errors
/// A text that cannot be compiled.
pub fn record(launcher: &mut dyn Launcher, maps: &[Mapped<'_>]) -> Result<(), ErrorKind> {
    let Some(&(expr, results, _)) = maps.first() else { return Ok(()) };
    let dialect = launcher.target().dialect;
    let mut bindings = Bindings::new(dialect);
    let mut segments = Vec::new();
    // Where the segments' workgroups begin comes first.
    let mut parameters = vec![0; maps.len()];
    let mut groups = 0;
    let mut key = Key::from_slice(&[0xF9, maps.len() as u8]);
    for (k, (_, _, work)) in maps.iter().enumerate() {
        let mut program = Program::new(&mut bindings, expr, work);
        let outputs: Vec<(Array, Place)> = work.outputs.iter().map(|o| (*o, o.place())).collect();
        let mut dense = Dense::new(&mut bindings, &outputs);
        let mut nest = launcher.nest(64 + k as u8, &bindings, &work.space, [&axes(&work.space), &[]], &program.operands(work))?;
        dense.widen(dialect, work.inputs, &nest);
        parameters[k] = groups as u32;
        groups += dense.units().div_ceil(GROUP);
        dense.place(&mut parameters, 0);
        program.place(&mut bindings, &mut parameters, work);
        nest.place(&mut parameters);
        program.describe(&mut key);
        dense.describe(&mut key);
        nest.describe(&mut key);
        segments.push(BoundSegment { program, dense, nest });
    }
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let (function, arguments) = function(dialect, expr, results)?;
        let mut chain = String::new();
        for (k, segment) in segments.iter().enumerate().rev() {
            let BoundSegment { program, dense, nest } = segment;
            let body = |taken: &TakenInputs<'_>| {
                let value = |i: &Instr| match *i {
                    Instr::Load(k) => program.load(&bindings, k, taken),
                    Instr::Arg(k) => program.arg(&bindings, k),
                    _ => String::new(),
                };
                let values: Vec<String> = arguments.iter().map(value).collect();
                Ok(format!("{}{}let u: Results = program({});\n", nest.coordinates(AxisGroup::Outer, "i"), program.places(nest, "i"), values.join(", ")))
            };
            let bits: Vec<String> = results.iter().enumerate().map(|(n, &r)| bindings.bits_of(expr.dtypes[r as usize], &format!("u.y{n}"))).collect();
            chain += &format!(
                "if (number >= p[{k}u]) {{\nlet unit: u32 = (number - p[{k}u]) * 256u + lane;\n{}return;\n}}\n",
                dense.unit_of(&bindings, program, nest, &body, &bits)?
            );
        }
        KernelFrame::alone(&bindings, &function, format!("let number: u32 = group.y * groups.x + group.x;\n{chain}")).text()
    })?;
    launcher.launch_groups(pipeline, &bindings, &parameters, groups);
    Ok(())
}
/// The program as a function, and the instructions that its parameters stand for.
fn function(dialect: &dyn Dialect, expr: &Expr, results: &[Reg]) -> Result<(String, Vec<Instr>), ErrorKind> {
    let (mut arguments, mut types) = (Vec::new(), Vec::new());
    for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes).filter(|(i, _)| matches!(i, Instr::Load(_) | Instr::Arg(_))) {
        if !arguments.contains(instr) {
            types.push(format!("v{}: {}", arguments.len(), dialect.register(dtype)?));
            arguments.push(*instr);
        }
    }
    let name = |instr: Instr| format!("v{}", arguments.iter().position(|a| *a == instr).unwrap_or(0));
    let sources = Sources {
        load: &|k| name(Instr::Load(k)),
        arg: &|k| name(Instr::Arg(k)),
        index: &|_| String::new(),
        key: &|_, _| String::new(),
        element: ["0u", "0u"],
    };
    let body = dialect.verbatim(write_expr(expr, dialect, &sources)?.body);
    let members = results.iter().enumerate().map(|(n, &r)| Ok(format!("y{n}: {}, ", dialect.register(expr.dtypes[r as usize])?)));
    let members = members.collect::<Result<String, ErrorKind>>()?;
    let values: Vec<String> = results.iter().map(|r| format!("r{r}")).collect();
    let text = format!("struct Results {{ {members}}}\nfn program({}) -> Results {{\n{body}return Results({});\n}}\n", types.join(", "), values.join(", "));
    Ok((text, arguments))
}
