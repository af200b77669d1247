//! The tiled product that matrix products and convolutions share: a workgroup computes a tile of the result, K is walked
//! in slices that lie in the workgroup's memory, and every invocation keeps a block of sums in registers. What the
//! factors are, and where the result goes, are three functions of the caller.
//!
//! A long K with a small result is split over workgroups; the parts are added in order by a second launch, so the bits
//! are the same from run to run.
use crate::{
    bindings::{Access, Bindings, Place},
    copy::per_element,
    gpu::Gpu,
    launch::Recorder,
    pipeline::{Key, Pipeline},
};
use adamant_core::{
    DType, ErrorKind,
    kernel::{Kernel, Step},
};
use std::sync::Arc;

/// The sizes of a product, `batch` times `[rows, depth] x [depth, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}
/// The text of a product's ends.
pub(crate) struct Ends {
    /// `fn left(batch: u32, row: u32, k: u32) -> T`, `fn right(batch: u32, k: u32, column: u32) -> T`
    pub factors: String,
    /// statements that store `total`, of the type, for `batch`, `row` and `column`
    pub store: String,
}
/// What a product is computed in: f32 for floats, else the integers that hold the dtype.
pub(crate) fn accumulator(dtype: DType) -> DType {
    match dtype {
        d if d.is_float() => DType::F32,
        DType::I64 => DType::I64,
        d if d.is_signed() => DType::I32,
        _ => DType::U32,
    }
}
/// The name of an accumulator's type.
pub(crate) fn type_name(accumulator: DType) -> &'static str {
    match accumulator {
        DType::F32 => "f32",
        DType::I64 => "i64",
        DType::I32 => "i32",
        _ => "u32",
    }
}
/// Words of the parameters that come before the caller's.
pub(crate) const OWN: usize = 6;
/// The K from which on it may be split.
const SPLIT: usize = 512;
/// Slices of K.
const SLICE: usize = 16;
/// The side of the square that all 256 invocations compute, one element each.
const SIDE: usize = 16;

/// Rows or columns of each invocation's block: small results spread over more workgroups.
fn block(extent: usize) -> usize {
    match extent {
        0..=16 => 1,
        17..=48 => 2,
        _ => 4,
    }
}

/// Records a product. `parameters` begins with [`OWN`] words of room; `ends` writes the text once the bindings are
/// known. `along`: does the left factor lie along K, and the right one along its columns?
///
/// # Errors
/// A text that cannot be compiled; more scratch than there is.
pub(crate) fn record<'a>(
    recorder: &mut Recorder<'a>,
    step: &Step<'a>,
    bindings: Bindings,
    mut parameters: Vec<u32>,
    mut key: Key,
    sizes: Sizes,
    dtype: DType,
    along: [bool; 2],
    ends: impl Fn(&Bindings) -> Result<Ends, ErrorKind>,
) -> Result<(), ErrorKind> {
    let gpu = recorder.gpu;
    let groups = |blocks: [usize; 2]| sizes.rows.div_ceil(SIDE * blocks[0]).max(1) * sizes.columns.div_ceil(SIDE * blocks[1]).max(1) * sizes.batch;
    let ideal = [block(sizes.rows), block(sizes.columns)];
    let apart = groups(ideal);
    let splits = if apart < 32 && sizes.depth >= SPLIT { (sizes.depth / 256).min(64 / apart.max(1)).max(1) } else { 1 };
    let length = sizes.depth.div_ceil(splits).next_multiple_of(SLICE).max(SLICE);
    let splits = sizes.depth.div_ceil(length).max(1);
    parameters[..OWN].copy_from_slice(&[
        sizes.rows as u32,
        sizes.columns as u32,
        sizes.depth as u32,
        length as u32,
        sizes.batch as u32,
        (sizes.batch * sizes.rows * sizes.columns) as u32,
    ]);
    let acc = accumulator(dtype);
    key.extend([along[0] as u8, along[1] as u8]);
    // The tile is the end of the key. A larger one that the kernel has for other sizes does as well, with the same sums.
    let whole = Form { kernel: step.kernel, key: &key, bindings: &bindings, acc, along, split: None };
    let known = gpu.forms(step.kernel, &whole.key(None))?;
    let fits = |f: &Key| {
        if let &[tall, wide] = &f[..] { (tall as usize >= ideal[0] && wide as usize >= ideal[1]).then_some([tall as usize, wide as usize]) } else { None }
    };
    let blocks = known.iter().filter_map(fits).min().unwrap_or(ideal);
    let mut divided = bindings.clone();
    let scratch = divided.bind(Place::Scratch, Access::Write);
    let split = Form { bindings: &divided, split: Some(scratch), ..whole };
    // Whether K is split follows from the sizes, so a kernel whose K is long enough gets both forms at once: another
    // batch compiles nothing.
    if sizes.depth < SPLIT {
        let pipeline = whole.pipeline(gpu, blocks, &ends)?;
        recorder.launch_groups(pipeline, &bindings, &parameters, groups(blocks) as u64);
        return Ok(());
    }
    let one = whole.pipeline(gpu, blocks, &ends)?;
    let (parts, sum) = (split.pipeline(gpu, blocks, &ends)?, split.sum(gpu, scratch, &ends)?);
    if splits == 1 {
        recorder.launch_groups(one, &bindings, &parameters, groups(blocks) as u64);
        return Ok(());
    }
    let elements = sizes.batch * sizes.rows * sizes.columns;
    recorder.scratch((splits * elements * acc.size() / 4) as u64)?;
    recorder.launch_groups(parts, &divided, &parameters, (groups(blocks) * splits) as u64);
    parameters[0] = elements as u32;
    parameters[2] = splits as u32;
    parameters[3] = sizes.rows as u32;
    recorder.launch(sum, &divided, &parameters, elements as u64);
    Ok(())
}
/// One way to compute a product: whole, or with K split.
#[derive(Clone, Copy)]
struct Form<'f> {
    kernel: &'f Kernel,
    key: &'f Key,
    bindings: &'f Bindings,
    acc: DType,
    along: [bool; 2],
    /// the binding of the parts
    split: Option<usize>,
}
type EndsOf<'f> = &'f dyn Fn(&Bindings) -> Result<Ends, ErrorKind>;
impl Form<'_> {
    fn key(&self, blocks: Option<[usize; 2]>) -> Key {
        let mut key = self.key.clone();
        key.push(self.split.is_some() as u8);
        key.extend(self.bindings.access.iter().map(|a| *a as u8));
        key.extend(blocks.into_iter().flatten().map(|b| b as u8));
        key
    }
    /// The tiles.
    fn pipeline(&self, gpu: &Gpu, blocks: [usize; 2], ends: EndsOf<'_>) -> Result<Arc<Pipeline>, ErrorKind> {
        gpu.pipeline(self.kernel, &self.key(Some(blocks)), &self.bindings.access, || {
            let ends = ends(self.bindings)?;
            let store = match self.split {
                None => ends.store,
                Some(s) => {
                    format!("let at: u32 = split * p[5u] + (batch * p[0u] + row) * p[1u] + column;\n{}\n", self.bindings.store(s, self.acc, "at", "total"))
                }
            };
            Ok(self.bindings.module(gpu.dialect(), &(ends.factors + &tile(type_name(self.acc), blocks, self.along, &store))))
        })
    }
    /// The sum of the parts.
    fn sum(&self, gpu: &Gpu, scratch: usize, ends: EndsOf<'_>) -> Result<Arc<Pipeline>, ErrorKind> {
        let mut key = self.key(None);
        key.push(0xFE);
        gpu.pipeline(self.kernel, &key, &self.bindings.access, || {
            let t = type_name(self.acc);
            let body = format!(
                "var total: {t} = {t}(0);
for (var split: u32 = 0u; split < p[2u]; split++) {{ let at: u32 = split * p[0u] + i; total += {}; }}
let column: u32 = i % p[1u];
let row: u32 = (i / p[1u]) % p[3u];
let batch: u32 = (i / p[1u]) / p[3u];
{}",
                self.bindings.load(scratch, self.acc, "at"),
                ends(self.bindings)?.store
            );
            Ok(self.bindings.module(gpu.dialect(), &per_element(&body)))
        })
    }
}
/// The entry point: one tile of the result.
fn tile(t: &str, [tall, wide]: [usize; 2], along: [bool; 2], store: &str) -> String {
    let (rows, columns) = (SIDE * tall, SIDE * wide);
    // Neighbouring invocations read neighbouring elements of a factor, whichever way it lies.
    let fill = |name: &str, extent: usize, k_inner: bool, value: &str, inside: &str| {
        let (k, x) = if k_inner { (format!("e % {SLICE}u"), format!("e / {SLICE}u")) } else { (format!("e / {extent}u"), format!("e % {extent}u")) };
        format!(
            "for (var e: u32 = lane; e < {}u; e += 256u) {{
            let k: u32 = {k};
            let x: u32 = {x};
            var element: {t} = {t}(0);
            if ({inside} && k0 + k < end) {{ element = {value}; }}
            {name}[k * {extent}u + x] = element;
        }}\n",
            extent * SLICE
        )
    };
    let left = fill("lefts", rows, along[0], "left(batch, top + x, k0 + k)", "top + x < p[0u]");
    let right = fill("rights", columns, !along[1], "right(batch, k0 + k, edge + x)", "edge + x < p[1u]");
    let each = |f: &dyn Fn(usize, usize) -> String| (0..tall).flat_map(|i| (0..wide).map(move |j| f(i, j))).collect::<String>();
    let sums = each(&|i, j| format!("var s{i}_{j}: {t} = {t}(0);\n"));
    let lefts: String = (0..tall).map(|i| format!("let l{i}: {t} = lefts[k * {rows}u + y + {}u];\n", i * SIDE)).collect();
    let rights: String = (0..wide).map(|j| format!("let r{j}: {t} = rights[k * {columns}u + x + {}u];\n", j * SIDE)).collect();
    let products = each(&|i, j| format!("s{i}_{j} += l{i} * r{j};\n"));
    let stores = each(&|i, j| {
        format!(
            "{{ let row: u32 = top + y + {}u; let column: u32 = edge + x + {}u; let total: {t} = s{i}_{j};
if (row < p[0u] && column < p[1u]) {{ {store} }} }}\n",
            i * SIDE,
            j * SIDE
        )
    });
    format!(
        "var<workgroup> lefts: array<{t}, {}>;
var<workgroup> rights: array<{t}, {}>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
    let number: u32 = group.y * groups.x + group.x;
    let across: u32 = (p[1u] + {columns}u - 1u) / {columns}u;
    let down: u32 = (p[0u] + {rows}u - 1u) / {rows}u;
    let edge: u32 = (number % across) * {columns}u;
    let top: u32 = ((number / across) % down) * {rows}u;
    let layer: u32 = (number / across) / down;
    let batch: u32 = layer % p[4u];
    let split: u32 = layer / p[4u];
    // The grid may be a little larger than the work.
    let begin: u32 = min(split * p[3u], p[2u]);
    let end: u32 = min(begin + p[3u], p[2u]);
    let x: u32 = lane % {SIDE}u;
    let y: u32 = lane / {SIDE}u;
    {sums}
    for (var k0: u32 = begin; k0 < end; k0 += {SLICE}u) {{
        {left}{right}workgroupBarrier();
        for (var k: u32 = 0u; k < {SLICE}u; k++) {{
            {lefts}{rights}{products}
        }}
        workgroupBarrier();
    }}
    if (split * p[3u] >= max(p[2u], 1u)) {{ return; }}
    {stores}}}
",
        rows * SLICE,
        columns * SLICE
    )
}
