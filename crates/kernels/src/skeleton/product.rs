//! Tiled products: a workgroup computes a tile of the result and every invocation keeps a block of sums in registers. K is
//! walked in slices that lie in the workgroup's memory, or that subgroups pass on. What the factors are, and where the
//! result goes, are the caller's texts.
//!
//! A long K with a small result is split over workgroups; the parts are added in order by a second launch, so the bits
//! are the same from run to run.
mod matrices;
pub(crate) use matrices::{UnitFactor, UnitFactors};

use crate::{
    Subgroup,
    bindings::{Access, Bindings, Place},
    frame::{GROUP, KernelFrame, Numbering, OF_128_REGISTERS, ROUNDS, SharedArray, per_element},
    launcher::{CompiledText, Key, LaunchTarget, Launcher},
};
use adamant_ir::{DType, ErrorKind};

/// The sizes of a product, `batch` times `[rows, depth] x [depth, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct ProductSizes {
    pub batch: usize,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
}
/// The text of a product's ends.
pub(crate) struct ProductEnds {
    /// `fn left(batch: u32, row: u32, k: u32) -> T`, `fn right(batch: u32, k: u32, column: u32) -> T`
    pub factors: String,
    /// functions that `store` calls
    pub behind: String,
    /// statements that store `total`, of the type, for `batch`, `row` and `column`, and where functions are called for
    /// `number`, the result's place in the product; of pairs also `next`, of the next column
    pub store: String,
    /// for the matrix unit: what brings a factor that is no matrix, a type of the language itself without its last three arguments
    /// (`matrices/tiles.cuh`)
    pub gathers: [Option<String>; 2],
}
/// How a product reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct ProductForm {
    /// does the left factor lie along K, and the right one along its columns?
    pub along: [bool; 2],
    /// are results stored two columns at a time? Columns are even then.
    pub paired: bool,
    /// the factors, where the matrix unit of a warp is to multiply them
    pub matrices: Option<UnitFactors>,
}
impl ProductForm {
    /// How many results are stored together.
    fn together(self) -> usize {
        1 + self.paired as usize
    }
    /// Where column `j` of an invocation lies, of neighbours that are `apart`.
    fn column(self, j: usize, apart: usize, x: &str) -> String {
        if self.paired { format!("2u * {x} + {}u", j % 2 + j / 2 * 2 * apart) } else { format!("{x} + {}u", j * apart) }
    }
    /// The statements that store `s<i>_<j>` of all rows and columns of an invocation.
    fn stores(self, [tall, wide]: [usize; 2], place: impl Fn(usize, usize) -> [String; 2]) -> String {
        let mut text = String::new();
        for (i, j) in (0..tall).flat_map(|i| (0..wide).step_by(self.together()).map(move |j| (i, j))) {
            let [row, column] = place(i, j);
            text += &format!("put(batch, split, {row}, {column}, s{i}_{j}, s{i}_{});\n", j + self.together() - 1);
        }
        text
    }
}
/// What a product is computed in: f32 for floats but f64, else the integers that hold the dtype.
pub(crate) fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        d if d.is_float() => DType::F32,
        DType::I64 => DType::I64,
        d if d.is_signed() => DType::I32,
        _ => DType::U32,
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

/// Records a product. `parameters` begins with [`OWN`] words that are filled here; `ends` writes the text once the bindings are
/// known.
///
/// # Errors
/// A text that cannot be compiled; more scratch than there is.
pub(crate) fn record(
    launcher: &mut dyn Launcher,
    mut bindings: Bindings,
    mut parameters: Vec<u32>,
    mut key: Key,
    sizes: ProductSizes,
    dtype: DType,
    form: ProductForm,
    ends: impl Fn(&Bindings) -> Result<ProductEnds, ErrorKind>,
) -> Result<(), ErrorKind> {
    let groups = |way: TileWay| {
        let tile = way.tile();
        sizes.rows.div_ceil(tile[0]).max(1) * sizes.columns.div_ceil(tile[1]).max(1) * sizes.batch
    };
    let ideal = TileWay::of(&launcher.target(), &sizes, form);
    let apart = groups(ideal);
    let splits = if apart < 32 && sizes.depth >= SPLIT { (sizes.depth / 256).min(64 / apart.max(1)).max(1) } else { 1 };
    // Of tiles a slice takes some 25 rounds for its 16 elements, of subgroups two.
    let splits = splits.max(sizes.depth.div_ceil(ROUNDS));
    let length = sizes.depth.div_ceil(splits).next_multiple_of(SLICE).max(SLICE);
    let splits = sizes.depth.div_ceil(length).max(1);
    let elements = sizes.batch * sizes.rows * sizes.columns;
    parameters[..OWN].copy_from_slice(&[sizes.rows as u32, sizes.columns as u32, sizes.depth as u32, length as u32, sizes.batch as u32, elements as u32]);
    let acc = accumulator(dtype);
    key.extend([form.along[0] as u8, form.along[1] as u8, form.paired as u8]);
    if let Some(factors) = &form.matrices {
        factors.describe(&mut key);
    }
    // Whether K is split follows from the sizes, so one text does both.
    let scratch = bindings.bind(Place::Scratch, Access::Write);
    let text = ProductText { key: &key, bindings: &bindings, acc, form, scratch };
    let known = launcher.known(&text.key(None))?;
    if known.is_empty() {
        // What does for a product of any size.
        text.pipeline(launcher, ideal.largest(), &ends)?;
    }
    let way = ideal.or_larger(&known);
    let (parts, sum) = (text.pipeline(launcher, way, &ends)?, text.sum(launcher, &ends)?);
    launcher.launch_groups(parts, &bindings, &parameters, (groups(way) * splits) as u64);
    if splits == 1 {
        return Ok(());
    }
    launcher.scratch((splits * elements * acc.size() / 4) as u64)?;
    let stored = elements / form.together();
    parameters[0] = stored as u32;
    parameters[2] = splits as u32;
    parameters[3] = sizes.rows as u32;
    launcher.launch(sum, &bindings, &parameters, stored as u64);
    Ok(())
}
/// The text of one way to compute a product.
#[derive(Clone, Copy)]
struct ProductText<'f> {
    key: &'f Key,
    bindings: &'f Bindings,
    acc: DType,
    form: ProductForm,
    /// the binding of the parts, where K is split
    scratch: usize,
}
type EndsOf<'f> = &'f dyn Fn(&Bindings) -> Result<ProductEnds, ErrorKind>;
impl ProductText<'_> {
    /// The tile is the end of the key.
    fn key(&self, way: Option<TileWay>) -> Key {
        let mut key = self.key.clone();
        key.extend(self.bindings.access.iter().map(|a| *a as u8));
        if let Some(way) = way {
            way.describe(&mut key);
        }
        key
    }
    /// The tiles.
    fn pipeline(&self, launcher: &mut dyn Launcher, way: TileWay, ends: EndsOf<'_>) -> Result<CompiledText, ErrorKind> {
        let ProductText { acc, form, .. } = *self;
        launcher.compile(&self.key(Some(way)), self.bindings, &mut || {
            let ends = ends(self.bindings)?;
            let t = acc.name();
            let number = if ends.behind.is_empty() { "" } else { "let number: u32 = (batch * p[0u] + row) * p[1u] + column;\n" };
            let next =
                if form.paired { format!("let after: u32 = at + 1u;\n{}\n", self.bindings.store(self.scratch, acc, "after", "next")) } else { String::new() };
            let put = format!(
                "fn put(batch: u32, split: u32, row: u32, column: u32, total: {t}, next: {t}) {{
if (row >= p[0u] || column >= p[1u]) {{ return; }}
if (p[3u] < p[2u]) {{
    let at: u32 = split * p[5u] + (batch * p[0u] + row) * p[1u] + column;
    {}
    {next}
    return;
}}
{number}{}
}}
",
                self.bindings.store(self.scratch, acc, "at", "total"),
                ends.store
            );
            way.text(self.bindings, &(ends.factors + &ends.behind + &put), &ends.gathers, acc, form)
        })
    }
    /// The sum of the parts.
    fn sum(&self, launcher: &mut dyn Launcher, ends: EndsOf<'_>) -> Result<CompiledText, ErrorKind> {
        let mut key = self.key(None);
        key.push(0xFE);
        launcher.compile(&key, self.bindings, &mut || {
            let ends = ends(self.bindings)?;
            let (t, each) = (self.acc.name(), self.form.together());
            let part = || self.bindings.load(self.scratch, self.acc, "at");
            let number = if ends.behind.is_empty() { "" } else { "let number: u32 = first;\n" };
            let next = if self.form.paired { format!("at += 1u; next += {};", part()) } else { String::new() };
            let body = format!(
                "var total: {t} = {t}(0);
var next: {t} = {t}(0);
let first: u32 = i * {each}u;
for (var split: u32 = 0u; split < p[2u]; split++) {{ var at: u32 = split * p[5u] + first; total += {}; {next} }}
let column: u32 = first % p[1u];
let row: u32 = (first / p[1u]) % p[3u];
let batch: u32 = (first / p[1u]) / p[3u];
{number}{}",
                part(),
                ends.store
            );
            per_element(self.bindings, &ends.behind, &body)
        })
    }
}
/// How a tile is computed.
#[derive(Clone, Copy)]
enum TileWay {
    /// factors in the workgroup's memory, in 16 x 16 blocks of so many rows and columns
    Shared([usize; 2]),
    /// by subgroups of so many invocations, each of which holds columns and passes on its rows
    Subgroups(usize),
    /// by the matrix unit of a warp, in large tiles or in small ones
    Matrices(bool),
}
/// Large tiles from which on there is work for a whole device.
const MANY: usize = 96;
/// Rows and columns of an invocation of a subgroup.
const OF_SUBGROUP: [usize; 2] = [16, 2];

impl TileWay {
    fn of(target: &LaunchTarget, sizes: &ProductSizes, form: ProductForm) -> TileWay {
        if form.matrices.is_some() {
            let [tall, wide] = matrices::tile(true);
            return TileWay::Matrices(sizes.rows.div_ceil(tall) * sizes.columns.div_ceil(wide) * sizes.batch >= MANY);
        }
        match target.subgroup {
            // Where the workgroup's memory is the host's, barriers and reads of it cost more than passing on saves: a
            // product of 512 x 512 x 512 takes 55 ms by subgroups and 242 ms by tiles on llvmpipe.
            Some(size) if target.on_host => TileWay::Subgroups(size),
            _ => TileWay::Shared([block(sizes.rows), block(sizes.columns).max(1 + form.paired as usize)]),
        }
    }
    /// What computes the largest tiles.
    fn largest(self) -> TileWay {
        match self {
            TileWay::Shared(_) => TileWay::Shared([4, 4]),
            TileWay::Matrices(_) => TileWay::Matrices(true),
            subgroups => subgroups,
        }
    }
    /// A larger tile that a kernel has for other sizes, by the ends of its keys, does as well, with the same sums.
    fn or_larger(self, known: &[Key]) -> TileWay {
        let ideal = match self {
            TileWay::Shared(ideal) => ideal,
            TileWay::Matrices(false) if !known.is_empty() && !known.contains(&self.ending()) => return TileWay::Matrices(true),
            TileWay::Matrices(_) => return self,
            TileWay::Subgroups(_) => return self,
        };
        let fits = |end: &Key| match &end[..] {
            &[tall, wide] if tall as usize >= ideal[0] && wide as usize >= ideal[1] => Some([tall as usize, wide as usize]),
            _ => None,
        };
        TileWay::Shared(known.iter().filter_map(fits).min().unwrap_or(ideal))
    }
    /// Rows and columns of a workgroup.
    fn tile(self) -> [usize; 2] {
        match self {
            TileWay::Shared([tall, wide]) => [SIDE * tall, SIDE * wide],
            TileWay::Subgroups(size) => [OF_SUBGROUP[0] * 64 / size / (32 / size), 32 / size * size * OF_SUBGROUP[1]],
            TileWay::Matrices(is_large) => matrices::tile(is_large),
        }
    }
    /// How the keys of its texts end.
    fn ending(self) -> Key {
        let mut key = Key::new();
        self.describe(&mut key);
        key
    }
    fn describe(self, key: &mut Key) {
        match self {
            TileWay::Shared([tall, wide]) => key.extend([tall as u8, wide as u8]),
            TileWay::Subgroups(size) => key.extend([0xFF, size as u8]),
            TileWay::Matrices(is_large) => key.extend([0xFD, 0xFD, is_large as u8]),
        }
    }
    fn text(self, bindings: &Bindings, functions: &str, gathers: &[Option<String>; 2], acc: DType, form: ProductForm) -> Result<String, ErrorKind> {
        match (self, &form.matrices) {
            (TileWay::Matrices(is_large), Some(factors)) => matrices::text(bindings, functions, gathers, factors, is_large, form),
            (TileWay::Matrices(_), None) => Err(ErrorKind::Internal("tiles of the matrix unit without their factors".into())),
            (TileWay::Shared(blocks), _) => shared(bindings, functions, acc, blocks, form),
            (TileWay::Subgroups(size), _) => subgroups(bindings, functions, acc, [size, self.tile()[0], self.tile()[1]], form),
        }
    }
}
/// Statements that find the tile of a workgroup and its part of K.
fn tile_of([rows, columns]: [usize; 2]) -> String {
    format!(
        "let number: u32 = group.y * groups.x + group.x;
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
"
    )
}
/// The entry point where subgroups share rows: no memory of the workgroup, and no barriers.
fn subgroups(bindings: &Bindings, functions: &str, acc: DType, [size, rows_of, columns_of]: [usize; 3], form: ProductForm) -> Result<String, ErrorKind> {
    let t = acc.name();
    let [tall, wide] = OF_SUBGROUP;
    // Elements of K that an invocation passes on: its own of so many.
    let passed = size.min(8);
    let across = 32 / size;
    let each = |f: &dyn Fn(usize, usize) -> String| (0..tall).flat_map(|i| (0..wide).map(move |j| f(i, j))).collect::<String>();
    let sums = each(&|i, j| format!("var s{i}_{j}: {t} = {t}(0);\n"));
    // Rows and columns beyond the result are computed and not stored.
    let rows: String = (0..tall).map(|i| format!("let y{i}: u32 = min(y + {i}u, p[0u] - 1u);\n")).collect();
    let columns: String = (0..wide).map(|j| format!("let x{j}: u32 = min(edge + {}, p[1u] - 1u);\n", form.column(j, size, "x"))).collect();
    let lefts: String = (0..tall).map(|i| format!("let l{i}: {t} = left(batch, y{i}, k0 + lane % {passed}u);\n")).collect();
    let rights: String = (0..wide).flat_map(|j| (0..passed).map(move |k| format!("let r{k}_{j}: {t} = right(batch, k0 + {k}u, x{j});\n"))).collect();
    let products: String = (0..passed)
        .map(|k| each(&|i, j| format!("s{i}_{j} += {} * r{k}_{j};\n", bindings.dialect.subgroup(Subgroup::Broadcast(k), acc, &format!("l{i}")))))
        .collect();
    let last_lefts: String = (0..tall).map(|i| format!("let l{i}: {t} = left(batch, y{i}, k0);\n")).collect();
    let last_rights: String = (0..wide).map(|j| format!("let r{j}: {t} = right(batch, k0, x{j});\n")).collect();
    let last = each(&|i, j| format!("s{i}_{j} += l{i} * r{j};\n"));
    let stores = form.stores([tall, wide], |i, j| [format!("y + {i}u"), format!("edge + {}", form.column(j, size, "x"))]);
    let body = format!(
        "    {}
    if (split * p[3u] >= max(p[2u], 1u)) {{ return; }}
    let x: u32 = {} + lane;
    let y: u32 = top + (own / {across}u) * {tall}u;
    {rows}{columns}{sums}
    var k0: u32 = begin;
    for (; k0 + {passed}u <= end; k0 += {passed}u) {{
        {lefts}{rights}{products}
    }}
    for (; k0 < end; k0++) {{
        {last_lefts}{last_rights}{last}
    }}
    {stores}",
        tile_of([rows_of, columns_of]),
        // Pairs of columns lie side by side.
        if form.paired { format!("(own % {across}u) * {}u", size * wide / 2) } else { format!("(own % {across}u) * {}u", size * wide) }
    );
    KernelFrame { bindings, lanes: 64, numbered: Numbering::InSubgroup(size), shared: Vec::new(), functions, blocks: None, body }.text()
}
/// The entry point: one tile of the result.
fn shared(bindings: &Bindings, functions: &str, acc: DType, [tall, wide]: [usize; 2], form: ProductForm) -> Result<String, ErrorKind> {
    let t = acc.name();
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
    let left = fill("lefts", rows, form.along[0], "left(batch, top + x, k0 + k)", "top + x < p[0u]");
    let right = fill("rights", columns, !form.along[1], "right(batch, k0 + k, edge + x)", "edge + x < p[1u]");
    let each = |f: &dyn Fn(usize, usize) -> String| (0..tall).flat_map(|i| (0..wide).map(move |j| f(i, j))).collect::<String>();
    let sums = each(&|i, j| format!("var s{i}_{j}: {t} = {t}(0);\n"));
    let lefts: String = (0..tall).map(|i| format!("let l{i}: {t} = lefts[k * {rows}u + y + {}u];\n", i * SIDE)).collect();
    let rights: String = (0..wide).map(|j| format!("let r{j}: {t} = rights[k * {columns}u + {}];\n", form.column(j, SIDE, "x"))).collect();
    let products = each(&|i, j| format!("s{i}_{j} += l{i} * r{j};\n"));
    let stores = form.stores([tall, wide], |i, j| [format!("top + y + {}u", i * SIDE), format!("edge + {}", form.column(j, SIDE, "x"))]);
    let barrier = bindings.dialect.barrier();
    let body = format!(
        "    {}
    let x: u32 = lane % {SIDE}u;
    let y: u32 = lane / {SIDE}u;
    {sums}
    for (var k0: u32 = begin; k0 < end; k0 += {SLICE}u) {{
        {left}{right}{barrier}
        for (var k: u32 = 0u; k < {SLICE}u; k++) {{
            {lefts}{rights}{products}
        }}
        {barrier}
    }}
    if (split * p[3u] >= max(p[2u], 1u)) {{ return; }}
    {stores}",
        tile_of([rows, columns])
    );
    // Sums of 4 bytes do with half as many.
    let blocks = Some(OF_128_REGISTERS / GROUP as usize * if acc.size() > 4 { 1 } else { 2 });
    let shared = vec![SharedArray { name: "lefts", of: t, length: rows * SLICE }, SharedArray { name: "rights", of: t, length: columns * SLICE }];
    KernelFrame { bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared, functions, blocks, body }.text()
}
