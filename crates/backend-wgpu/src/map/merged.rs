//! Equal Maps over different tensors — an optimizer's step, parameter by parameter — as segments of one launch, as many as
//! the adapter binds buffers for. The program is one function; each segment has its own operands, sizes and arguments,
//! and whole workgroups.
use crate::{
    bindings::{Bindings, Place, bits_of},
    frame::Frame,
    gpu::Gpu,
    launch::{GROUP, Recorder, buffer},
    nest::{Group, Nest},
    pipeline::Key,
    program::{Program, axes},
};
use adamant_codegen::{Sources, type_name, write_expr};
use adamant_runtime::{
    ErrorKind,
    expr::{Expr, Instr, Reg},
    kernel::{KernelKind, Step},
};
use std::ptr;

/// How many steps from the first on are one program over tensors that do not depend on each other.
pub(crate) fn together(gpu: &Gpu, steps: &[Step<'_>]) -> usize {
    let Some(first) = steps.first().filter(|s| is_plain(s)) else { return 1 };
    // The parameters are a buffer too.
    let most = gpu.limits.max_storage_buffers_per_shader_stage.min(gpu.limits.max_bindings_per_bind_group) as usize - 1;
    // A driver on the host's processor runs all sides of a branch, so there only what fits a workgroup is worth it: 60
    // parameters of 4,096 elements and more take 15 ms one by one and 34 ms together on llvmpipe.
    let small = |s: &Step<'_>| gpu.adapter.device_type != wgpu::DeviceType::Cpu || s.space.elements() as u64 <= GROUP;
    let mut bound = 0;
    let mut fits = |k: usize, s: &Step<'_>| {
        bound += s.inputs.len() + s.outputs.len();
        bound <= most && small(s) && (k == 0 || (is_equal(first, s) && steps[..k].iter().all(|before| is_apart(before, s))))
    };
    steps.iter().enumerate().take_while(|(k, s)| fits(*k, s)).count().max(1)
}
/// A program of nothing but its elements and arguments.
fn is_plain(step: &Step<'_>) -> bool {
    let KernelKind::Map { expr, .. } = &step.kernel.kind else { return false };
    step.space.elements() > 0
        && expr.instrs.iter().all(|i| match *i {
            Instr::Index(_) | Instr::Random(_) => false,
            Instr::Binary(f, x, _) => !f.can_fault(expr.dtypes[x as usize]),
            _ => true,
        })
}
fn is_equal(a: &Step<'_>, b: &Step<'_>) -> bool {
    let (KernelKind::Map { expr, outputs }, KernelKind::Map { expr: other, outputs: others }) = (&a.kernel.kind, &b.kernel.kind) else { return false };
    let dtypes = |s: &Step<'_>| s.inputs.iter().map(|i| i.dtype).collect::<Vec<_>>();
    b.space.elements() > 0 && outputs == others && expr == other && dtypes(a) == dtypes(b)
}
/// Does neither write what the other touches?
fn is_apart(a: &Step<'_>, b: &Step<'_>) -> bool {
    let meets =
        |writer: &Step<'_>, other: &Step<'_>| writer.outputs.iter().any(|w| other.inputs.iter().chain(other.outputs).any(|o| ptr::eq(o.buffer, w.buffer)));
    !meets(a, b) && !meets(b, a)
}
/// A segment with its operands bound.
struct Segment<'e> {
    program: Program<'e>,
    frame: Frame,
    nest: Nest,
}
/// Records equal Maps as one launch.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, steps: &[Step<'a>]) -> Result<(), ErrorKind> {
    let KernelKind::Map { expr, outputs: results } = &steps[0].kernel.kind else { return Err(crate::device::misshapen("map")) };
    let mut bindings = Bindings::default();
    let mut segments = Vec::new();
    // Where the segments' workgroups begin comes first.
    let mut parameters = vec![0; steps.len()];
    let mut groups = 0;
    let mut key = Key::from_slice(&[0xF9, steps.len() as u8]);
    for (k, step) in steps.iter().enumerate() {
        let mut program = Program::new(&mut bindings, expr, step)?;
        let outputs = step.outputs.iter().map(|o| Ok((*o, Place::Buffer(buffer(o)?)))).collect::<Result<Vec<_>, ErrorKind>>()?;
        let mut frame = Frame::new(&mut bindings, &outputs);
        let mut nest = recorder.gpu.nest(steps[0].kernel, 64 + k as u8, &bindings, &step.space, [&axes(&step.space), &[]], &program.operands(step))?;
        parameters[k] = groups as u32;
        groups += frame.units().div_ceil(GROUP);
        frame.place(&mut parameters, 0);
        program.place(&mut parameters, step);
        nest.place(&mut parameters);
        program.describe(&mut key);
        frame.describe(&mut key);
        nest.describe(&mut key);
        segments.push(Segment { program, frame, nest });
    }
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let gpu = recorder.gpu;
    let pipeline = gpu.pipeline(steps[0].kernel, &key, &bindings.access, || {
        let (function, arguments) = function(gpu, expr, results)?;
        let mut chain = String::new();
        for (k, segment) in segments.iter().enumerate().rev() {
            let Segment { program, frame, nest } = segment;
            let values: Vec<String> = arguments
                .iter()
                .map(|i| match *i {
                    Instr::Load(k) => program.load(&bindings, k),
                    Instr::Arg(k) => program.arg(k),
                    _ => String::new(),
                })
                .collect();
            let body = format!("{}{}let u: Results = program({});\n", nest.coordinates(Group::Outer, "i"), program.places(nest, "i"), values.join(", "));
            let bits: Vec<String> = results.iter().enumerate().map(|(n, &r)| bits_of(expr.dtypes[r as usize], &format!("u.y{n}"))).collect();
            chain +=
                &format!("if (number >= p[{k}u]) {{\nlet unit: u32 = (number - p[{k}u]) * 256u + lane;\n{}return;\n}}\n", frame.unit(&bindings, &body, &bits));
        }
        let main = format!(
            "@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
let number: u32 = group.y * groups.x + group.x;
{chain}}}
"
        );
        Ok(bindings.module(gpu.dialect(), &(function + &main)))
    })?;
    recorder.launch_groups(pipeline, &bindings, &parameters, groups);
    Ok(())
}
/// The program as a function, and the instructions that its parameters stand for.
fn function(gpu: &Gpu, expr: &Expr, results: &[Reg]) -> Result<(String, Vec<Instr>), ErrorKind> {
    let dialect = gpu.dialect();
    let (mut arguments, mut types) = (Vec::new(), Vec::new());
    for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes).filter(|(i, _)| matches!(i, Instr::Load(_) | Instr::Arg(_))) {
        if !arguments.contains(instr) {
            types.push(format!("v{}: {}", arguments.len(), type_name(dtype, dialect)?));
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
    let body = write_expr(expr, dialect, &sources)?.body;
    let members = results.iter().enumerate().map(|(n, &r)| Ok(format!("y{n}: {}, ", type_name(expr.dtypes[r as usize], dialect)?)));
    let members = members.collect::<Result<String, ErrorKind>>()?;
    let values: Vec<String> = results.iter().map(|r| format!("r{r}")).collect();
    let text = format!("struct Results {{ {members}}}\nfn program({}) -> Results {{\n{body}return Results({});\n}}\n", types.join(", "), values.join(", "));
    Ok((text, arguments))
}
