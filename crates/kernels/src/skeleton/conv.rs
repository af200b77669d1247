//! Conv: all three roles as products whose depth is walked by nested loops over channels and places, so that nothing is
//! divided inside them and no patches are laid out in memory. An invocation computes a block of rows and columns: a value
//! of either factor that it reads serves the whole block.
//!
//! | role | rows | columns | depth |
//! |---|---|---|---|
//! | forward | output channels | images x output places | input channels x kernel places |
//! | input gradient | input channels | images x input places | output channels x kernel places |
//! | weight gradient | output channels | input channels x kernel places | images x output places |
//!
//! Groups of channels are the batches. The geometry of the window is the kernel's own and stands in the text; channels,
//! images and places are parameters. A weight gradient, which has few results and a long depth, is summed over parts of
//! the images, and the parts are added in order. A depth of very many rounds is walked by several launches, one after the other, each of a
//! box of channels and places; sums wait in scratch between them. Of 16-bit floats they are the matrix unit's where there is one
//! (`conv/matrices.rs`).
mod matrices;

use crate::{
    bindings::{Access, Bindings, Place},
    frame::{KernelFrame, Numbering, ROUNDS, per_element},
    launcher::{Array, Key, Launcher, Work, misshapen},
    skeleton::{
        boxes::{boxes, rounds},
        epilogue::BoundEpilogue,
        matmul::narrowed,
        product::accumulator,
    },
};
use adamant_ir::{
    DType, ErrorKind, Op, TensorType,
    op::{ConvRole, ConvSpec},
    product::Product,
};
use std::sync::Arc;

/// Rows and columns of an invocation's block.
const ROWS: usize = 8;
const COLUMNS: usize = 4;
/// Columns of a workgroup: neighbours read neighbours, block by block.
const WIDE: usize = 64;

/// Where the parameters are.
const LAUNCHED: usize = 0;
const ROWS_AT: usize = 1;
const COLUMNS_AT: usize = 2;
const GROUPS_AT: usize = 3;
/// images, and images of a part
const IMAGES_AT: usize = 4;
const PART_AT: usize = 5;
/// results of a part
const RESULTS_AT: usize = 6;
/// channels of a group: in, out
const CHANNELS_AT: usize = 7;
/// offsets of x, w, y
const OFFSETS_AT: usize = 9;
/// sizes of x, w, y for each axis
const PLACES_AT: usize = 12;
/// behind the places, where a box of the depth is walked: whether it is the first and the last, its channels or images from and
/// to, and its places from and to for each axis
const BOX: usize = 4;

/// Records a Conv step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, spec: &ConvSpec) -> Result<(), ErrorKind> {
    let [_, _] = work.inputs else { return Err(misshapen("conv")) };
    with_epilogue(launcher, work, spec, None)
}
/// Records a convolution, in the forward role with an epilogue.
///
/// # Errors
/// As [`record`].
pub(crate) fn with_epilogue(launcher: &mut dyn Launcher, work: &Work<'_>, spec: &ConvSpec, product: Option<&Product>) -> Result<(), ErrorKind> {
    let ([first, second, others @ ..], [out]) = (work.inputs, work.outputs) else { return Err(misshapen("conv")) };
    let summed = product.map_or(out.dtype, |p| p.dtype);
    // The result may be a reshape of what is summed.
    let shape = match product {
        Some(_) => {
            let types = [first, second].map(|o| TensorType { shape: o.shape, dtype: o.dtype });
            Op::Conv(Arc::new(spec.clone())).infer_first(&types)?.shape
        }
        None => out.shape,
    };
    let out = &Array { shape, ..*out };
    let [x, w, y] = bilinear(spec.role, [first, second, out]);
    if let Some(unit) = matrices::GatheredConv::of(launcher, spec, [x, w, y]) {
        return unit.record(launcher, out, product.map(|product| (product, Work { inputs: others, ..*work })));
    }
    let places = |o: &Array| o.shape[2..].iter().product::<usize>();
    let (images, ci, co) = (x.shape[0], w.shape[1], w.shape[0] / spec.groups);
    let (rows, columns) = match spec.role {
        ConvRole::Forward => (co, images * places(y)),
        ConvRole::InputGrad => (ci, images * places(x)),
        ConvRole::WeightGrad => (co, ci * places(w)),
    };
    let units = |parts: usize| rows.div_ceil(ROWS) * columns.div_ceil(COLUMNS * WIDE) * spec.groups * parts;
    let sums = spec.role == ConvRole::WeightGrad;
    let (walked, channels) = match spec.role {
        ConvRole::Forward => (&w.shape[2..], ci),
        ConvRole::InputGrad => (&w.shape[2..], co),
        ConvRole::WeightGrad => (&y.shape[2..], images),
    };
    let few = images.div_ceil((ROUNDS / rounds(&[&[1], walked].concat())).max(1));
    let parts = if sums { (64 / units(1).max(1)).max(few).clamp(1, images.max(1)) } else { 1 };
    let part = images.div_ceil(parts).max(1);
    let parts = images.div_ceil(part).max(1);
    let results = out.shape.elements();
    // Sums of parts wait in the dtype that they are formed in.
    let held = accumulator(summed);

    let mut parameters = vec![units(parts) as u32, rows as u32, columns as u32, spec.groups as u32, images as u32, part as u32, results as u32];
    parameters.extend([ci as u32, co as u32]);
    parameters.extend([x.offset as u32, w.offset as u32, y.offset as u32]);
    for a in 2..x.shape.rank() {
        parameters.extend([x.shape[a] as u32, w.shape[a] as u32, y.shape[a] as u32]);
    }
    let box_at = parameters.len();
    let is_long = rounds(&[&[if sums { part } else { channels }], walked].concat()) > ROUNDS;
    if is_long {
        parameters.resize(box_at + BOX + 2 * walked.len(), 0);
    }
    let mut bindings = Bindings::new(launcher.target().dialect);
    let left = bindings.bind(first.place(), Access::Read);
    let right = bindings.bind(second.place(), Access::Read);
    let result = if sums {
        launcher.scratch((parts * results * held.size() / 4) as u64)?;
        bindings.bind(Place::Scratch, Access::Write)
    } else {
        bindings.bind(out.place(), Bindings::to_store(out.dtype.size()))
    };
    let waits = if is_long && !sums {
        launcher.scratch((results * held.size() / 4) as u64)?;
        bindings.bind(Place::Scratch, Access::Write)
    } else {
        result
    };
    let behind = Work { inputs: others, ..*work };
    let mut epilogue = product.map(|product| BoundEpilogue::new(launcher, &mut bindings, product, &behind)).transpose()?;
    let mut key = Key::new();
    key.extend([first.dtype as u8, out.dtype as u8, left as u8, right as u8, result as u8, is_long as u8]);
    if let Some(epilogue) = &mut epilogue {
        epilogue.place(&mut bindings, &mut parameters, &behind);
        epilogue.describe(&mut key);
    }
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let text = ConvText {
            spec,
            axes: x.shape.rank() - 2,
            bindings: &bindings,
            first: left,
            second: right,
            result,
            dtype: summed,
            epilogue: epilogue.as_ref().map(|e| (e, out.dtype)),
            waits: is_long.then_some((waits, box_at)),
        };
        text.main()
    })?;
    let all = if is_long { boxes(&[&[if sums { 1 } else { channels }], walked].concat(), ROUNDS) } else { vec![Vec::new()] };
    for (k, of) in all.iter().enumerate() {
        if is_long {
            (parameters[box_at], parameters[box_at + 1]) = (u32::from(k == 0), u32::from(k + 1 == all.len()));
            parameters[box_at + 2..][..of.len()].copy_from_slice(of);
        }
        launcher.launch_groups(pipeline, &bindings, &parameters, units(parts) as u64);
    }
    if !sums {
        return Ok(());
    }
    let mut bindings = Bindings::new(launcher.target().dialect);
    let partial = bindings.bind(Place::Scratch, Access::Read);
    let target = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
    let pipeline = launcher.compile(&Key::from_slice(&[0xFE, out.dtype as u8]), &bindings, &mut || {
        let t = held.name();
        let body = format!(
            "var total: {t} = 0.0;
for (var part: u32 = 0u; part < p[1u]; part++) {{ let held: u32 = part * p[0u] + i; total += {}; }}
let at: u32 = p[2u] + i;
{}
",
            bindings.load(partial, held, "held"),
            bindings.store(target, out.dtype, "at", &narrowed(out.dtype, "total"))
        );
        per_element(&bindings, "", &body)
    })?;
    launcher.launch(pipeline, &bindings, &[results as u32, parts as u32, out.offset as u32], results as u64);
    Ok(())
}
/// The three tensors of the bilinear form, x, w, y, from a role's inputs and its result.
fn bilinear(role: ConvRole, [first, second, out]: [&Array; 3]) -> [&Array; 3] {
    match role {
        ConvRole::Forward => [first, second, out],
        ConvRole::InputGrad => [out, second, first],
        ConvRole::WeightGrad => [first, out, second],
    }
}
/// What the text of a role depends on.
struct ConvText<'t> {
    spec: &'t ConvSpec,
    axes: usize,
    bindings: &'t Bindings,
    /// its values differ from column to column
    first: usize,
    /// its values differ from row to row
    second: usize,
    result: usize,
    dtype: DType,
    /// what runs on a result, and the dtype of what is stored then
    epilogue: Option<(&'t BoundEpilogue<'t>, DType)>,
    /// where sums wait for the next box of a depth that is walked box by box, and where its parameters are
    waits: Option<(usize, usize)>,
}
/// The tensors, as the parameters number them.
const X: usize = 0;
const W: usize = 1;
const Y: usize = 2;

impl ConvText<'_> {
    /// The tensor whose places the columns number, the one that is walked along the depth, and the one that is read for
    /// a column.
    fn tensors(&self) -> [usize; 3] {
        match self.spec.role {
            ConvRole::Forward => [Y, W, X],
            ConvRole::InputGrad => [X, W, Y],
            ConvRole::WeightGrad => [W, Y, X],
        }
    }
    /// Where a column reads along an axis, before the walk begins and at place `v<axis>` of it, and whether that is a place.
    fn place(&self, a: usize, j: usize) -> [String; 3] {
        let ConvSpec { stride, dilation, padding, .. } = self.spec;
        let (stride, dilation, before, inside) = (stride[a], dilation[a], padding[a].0, format!("in{a}_{j} < read{a}"));
        match self.spec.role {
            // What lies before the beginning wraps to a large number.
            ConvRole::Forward => [format!("c{a} * {stride}u - {before}u"), format!("base{a}_{j} + v{a} * {dilation}u"), inside],
            ConvRole::WeightGrad => [format!("c{a} * {dilation}u - {before}u"), format!("base{a}_{j} + v{a} * {stride}u"), inside],
            ConvRole::InputGrad => {
                let meets = format!("{inside} && t{a}_{j} < 0x80000000u && t{a}_{j} % {stride}u == 0u");
                [format!("c{a} + {before}u"), format!("t{a}_{j} / {stride}u"), meets]
            }
        }
    }
    /// What the role's text is made of.
    fn addresses(&self) -> Addresses {
        match self.spec.role {
            ConvRole::Forward => Addresses {
                row_step: "plane_w",
                column_step: "plane_x",
                row: "offset_w + (batch * outs + row) * ins * plane_w",
                column: "offset_x + (rest * ins * groups_of + batch * ins) * plane_x",
                result: "offset_y + ((column / plane_y) * outs * groups_of + batch * outs + row) * plane_y + column % plane_y",
                offset: "offset_y",
                depth: ["0u", "ins"],
            },
            ConvRole::InputGrad => Addresses {
                row_step: "ins * plane_w",
                column_step: "plane_y",
                row: "offset_w + (batch * outs * ins + row) * plane_w",
                column: "offset_y + (rest * outs * groups_of + batch * outs) * plane_y",
                result: "offset_x + ((column / plane_x) * ins * groups_of + batch * ins + row) * plane_x + column % plane_x",
                offset: "offset_x",
                depth: ["0u", "outs"],
            },
            ConvRole::WeightGrad => Addresses {
                row_step: "outs * groups_of * plane_y",
                column_step: "ins * groups_of * plane_x",
                row: "offset_y + (batch * outs + row) * plane_y",
                column: "offset_x + (batch * ins + rest) * plane_x",
                result: "part * results + (batch * outs + row) * columns + column",
                offset: "0u",
                depth: ["part * images_of_part", "min((part + 1u) * images_of_part, images)"],
            },
        }
    }
    fn main(&self) -> Result<String, ErrorKind> {
        let functions = self.epilogue_function()?;
        let text = self.sizes() + &self.beginnings() + &self.sums() + &self.walk() + &self.stores();
        let body = format!(
            "    let number: u32 = group.y * groups.x + group.x;
    if (number >= p[{LAUNCHED}u]) {{ return; }}
    let rows: u32 = p[{ROWS_AT}u];
    let columns: u32 = p[{COLUMNS_AT}u];
    let groups_of: u32 = p[{GROUPS_AT}u];
    let images: u32 = p[{IMAGES_AT}u];
    let images_of_part: u32 = p[{PART_AT}u];
    let results: u32 = p[{RESULTS_AT}u];
    let ins: u32 = p[{CHANNELS_AT}u];
    let outs: u32 = p[{}u];
    let offset_x: u32 = p[{OFFSETS_AT}u];
    let offset_w: u32 = p[{}u];
    let offset_y: u32 = p[{}u];
    let across: u32 = (columns + {wide}u - 1u) / {wide}u;
    let down: u32 = (rows + {ROWS}u - 1u) / {ROWS}u;
    let edge: u32 = (number % across) * {wide}u + lane;
    let top: u32 = ((number / across) % down) * {ROWS}u;
    let layer: u32 = (number / across) / down;
    let batch: u32 = layer % groups_of;
    let part: u32 = layer / groups_of;
    {text}",
            CHANNELS_AT + 1,
            OFFSETS_AT + 1,
            OFFSETS_AT + 2,
            wide = COLUMNS * WIDE
        );
        KernelFrame { bindings: self.bindings, lanes: WIDE, numbered: Numbering::InWorkgroup, shared: Vec::new(), functions: &functions, blocks: None, body }
            .text()
    }
    /// The sizes of the three tensors along the axes.
    fn sizes(&self) -> String {
        let [numbered, walked, read] = self.tensors();
        let size = |tensor: usize, a: usize| format!("p[{}u]", PLACES_AT + 3 * a + tensor);
        let plane = |name: &str, tensor: usize| {
            let product: Vec<String> = (0..self.axes).map(|a| size(tensor, a)).collect();
            format!("let plane_{name}: u32 = {};\n", if product.is_empty() { "1u".into() } else { product.join(" * ") })
        };
        let mut text = plane("x", X) + &plane("w", W) + &plane("y", Y);
        for a in 0..self.axes {
            text +=
                &format!("let read{a}: u32 = {};\nlet walked{a}: u32 = {};\nlet numbered{a}: u32 = {};\n", size(read, a), size(walked, a), size(numbered, a));
        }
        text
    }
    /// Where the rows and the columns of the block begin.
    fn beginnings(&self) -> String {
        let Addresses { row_step, column_step, row, column, .. } = self.addresses();
        let axes = self.axes;
        let mut text = format!("let row_step: u32 = {row_step};\nlet column_step: u32 = {column_step};\n");
        for i in 0..ROWS {
            text += &format!("var row_at{i}: u32; {{ let row: u32 = min(top + {i}u, rows - 1u); row_at{i} = {row}; }}\n");
        }
        for j in 0..COLUMNS {
            let bases: String = (0..axes).map(|a| format!("var base{a}_{j}: u32; ")).collect();
            let cuts: String = (0..axes).rev().map(|a| format!("let c{a}: u32 = rest % numbered{a}; rest = rest / numbered{a}; ")).collect();
            let set: String = (0..axes).map(|a| format!("base{a}_{j} = {}; ", self.place(a, j)[0])).collect();
            text +=
                &format!("{bases}var column_at{j}: u32;\n{{ var rest: u32 = min(edge + {}u, columns - 1u); {cuts}{set}column_at{j} = {column}; }}\n", j * WIDE);
        }
        text
    }
    /// The sums of the block: 0, or what waits of them behind the first box of the depth.
    fn sums(&self) -> String {
        let accumulator = accumulator(self.dtype);
        let zeros = each(|i, j| format!("var s{i}_{j}: {} = 0.0;\n", accumulator.name()));
        let Some((waits, at)) = self.waits else { return zeros };
        let load = self.bindings.load(waits, accumulator, "waiting");
        let taken = self.each_result(|i, j| self.waiting() + &format!("s{i}_{j} = {load};"));
        zeros + &format!("if (p[{at}u] == 0u) {{\n{taken}}}\n")
    }
    /// The loops over the depth, or over a box of it.
    fn walk(&self) -> String {
        let axes = self.axes;
        let bound = |k: usize| self.waits.map(|(_, at)| format!("p[{}u]", at + 2 + k));
        let of_box = if self.spec.role == ConvRole::WeightGrad { None } else { bound(0).zip(bound(1)) };
        let (begin, end) = of_box.unwrap_or_else(|| self.addresses().depth.map(String::from).into());
        let mut text = format!(
            "let depth_end: u32 = {end};\nfor (var c: u32 = {begin}; c < depth_end; c++) {{\nvar walk: u32 = c * row_step;\nlet channel: u32 = c * column_step;\n"
        );
        for a in 0..axes {
            let (from, to) = (bound(2 + 2 * a), bound(3 + 2 * a));
            if let (Some(from), true) = (&from, a + 1 == axes) {
                let outer = (0..a).fold("0u".to_string(), |flat, b| format!("({flat}) * walked{b} + v{b}"));
                text += &format!("walk = c * row_step + ({outer}) * walked{a} + {from};\n");
            }
            text += &format!("for (var v{a}: u32 = {}; v{a} < {}; v{a}++) {{\n", from.unwrap_or("0u".into()), to.unwrap_or(format!("walked{a}")));
        }
        text + &self.multiply_add() + &format!("walk++;\n{}}}\n", "}\n".repeat(axes))
    }
    /// One place of the depth: a value for each column and for each row, and their products to the sums.
    fn multiply_add(&self) -> String {
        let t = accumulator(self.dtype).name();
        let mut text = String::new();
        for j in 0..COLUMNS {
            let mut inside = vec!["true".to_string()];
            let mut flat = String::from("0u");
            for a in 0..self.axes {
                let [_, at, is_place] = self.place(a, j);
                if self.spec.role == ConvRole::InputGrad {
                    text += &format!("let t{a}_{j}: u32 = base{a}_{j} - v{a} * {}u;\n", self.spec.dilation[a]);
                }
                text += &format!("let in{a}_{j}: u32 = {at};\n");
                inside.push(is_place);
                flat = format!("({flat}) * read{a} + in{a}_{j}");
            }
            // Outside nothing is read but the first element, and that does not count.
            text += &format!(
                "let inside{j}: bool = {};\nlet at{j}: u32 = select(column_at{j}, column_at{j} + channel + {flat}, inside{j});\nlet r{j}: {t} = select(0.0, {}, inside{j});\n",
                inside.join(" && "),
                self.bindings.load(self.first, self.dtype, &format!("at{j}"))
            );
        }
        for i in 0..ROWS {
            text += &format!("let from{i}: u32 = row_at{i} + walk;\nlet l{i}: {t} = {};\n", self.bindings.load(self.second, self.dtype, &format!("from{i}")));
            text += &(0..COLUMNS).map(|j| format!("s{i}_{j} += l{i} * r{j};\n")).collect::<String>();
        }
        text
    }
    /// The function that runs an epilogue on a sum and stores what comes of it.
    fn epilogue_function(&self) -> Result<String, ErrorKind> {
        let Some((epilogue, stored)) = self.epilogue else { return Ok(String::new()) };
        let t = accumulator(self.dtype).name();
        let store = self.bindings.store(self.result, stored, "place", "value");
        let value = epilogue.finished("total", "number");
        let to = accumulator(stored).name();
        Ok(epilogue.function(self.bindings)? + &format!("fn put(place: u32, number: u32, total: {t}) {{\nlet value: {to} = {value};\n{store}\n}}\n"))
    }
    /// The sums go to where they are results, or to where they wait for the next box.
    fn stores(&self) -> String {
        let held = if self.spec.role == ConvRole::WeightGrad { accumulator(self.dtype) } else { self.dtype };
        let stored = self.each_result(|i, j| match self.epilogue {
            Some(_) => format!("put(place, place - offset_y, s{i}_{j});"),
            None => self.bindings.store(self.result, held, "place", &narrowed(held, &format!("s{i}_{j}"))),
        });
        match self.waits {
            Some((waits, at)) if self.spec.role != ConvRole::WeightGrad => {
                let store = |i, j| self.bindings.store(waits, accumulator(self.dtype), "waiting", &format!("s{i}_{j}"));
                let kept = self.each_result(|i, j| self.waiting() + &store(i, j));
                format!("if (p[{}u] == 1u) {{\n{stored}}} else {{\n{kept}}}\n", at + 1)
            }
            _ => stored,
        }
    }
    /// Where a sum waits: scratch has no offset.
    fn waiting(&self) -> String {
        format!("let waiting: u32 = place - {};\n", self.addresses().offset)
    }
    /// The statements for each result of the block that is one.
    fn each_result(&self, what: impl Fn(usize, usize) -> String) -> String {
        let place = self.addresses().result;
        each(|i, j| {
            let column = j * WIDE;
            let what = what(i, j);
            format!(
                "{{ let row: u32 = top + {i}u; let column: u32 = edge + {column}u;\nif (row < rows && column < columns) {{ let place: u32 = {place};\n{what} }} }}\n"
            )
        })
    }
}
/// How a role's tensors are walked.
struct Addresses {
    /// the step of a channel (of an image, in the weight gradient) in what is read for a row, and for a column
    row_step: &'static str,
    column_step: &'static str,
    /// where a row begins and where a column does
    row: &'static str,
    column: &'static str,
    /// where a result goes, and the offset of its tensor
    result: &'static str,
    offset: &'static str,
    /// the channels or images of the depth: the first, and the one behind the last
    depth: [&'static str; 2],
}
/// The text for each row and column of a block.
fn each(of: impl Fn(usize, usize) -> String) -> String {
    (0..ROWS).flat_map(|i| (0..COLUMNS).map(move |j| (i, j))).map(|(i, j)| of(i, j)).collect()
}
