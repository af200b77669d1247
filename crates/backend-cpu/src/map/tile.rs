//! The tile interpreter: runs a program over up to 1,024 positions at a time, one loop per instruction, with all
//! registers in tiles that stay in the L1 cache; or the loop that was compiled ahead of time, over as many as lie side by side. A
//! value is the same wherever its position falls in a tile.
use super::compiled::CompiledPart;
use super::drawn::Drawn;
use super::integers;
use super::load;
use super::loops::{self, Src};
use super::program::{Code, Program, Register, TileKind};
use super::random::{self, Traffic};
use super::tiles::{Lane, OutTile, Scratch, Value, with_kind, with_scratch};
use crate::isa::Isa;
use crate::nest::Nest;
use crate::operand::{In, internal};
use crate::scratch::{ScratchVec, filled};
use crate::simd::stream::{self, ReadAhead};
use adamant_runtime::{
    DType, ErrorKind, Scalar,
    expr::Reg,
    kernel::{Fault, FaultWord},
    reference::{round_float, wrap_int},
    round_to_odd,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The number as a register of `dtype` holds it.
pub(super) fn scalar_value(s: Scalar, dtype: DType) -> Value {
    match TileKind::of(dtype) {
        TileKind::F32 => Value::F32(round_float(s.to_f64(), dtype) as f32),
        TileKind::F64 => Value::F64(s.to_f64()),
        TileKind::I64 => Value::I64(wrap_int(s.to_i64(), dtype)),
        TileKind::Bool => Value::Bool((s.to_f64() != 0.0) as u8),
    }
}

/// A program with its operands, ready to run tiles. Shared by the threads of one kernel.
pub(crate) struct TileRun<'a> {
    pub program: &'a Program,
    pub isa: Isa,
    /// operands first, then the program's coordinates and element numbers
    pub nest: Nest,
    pub inputs: &'a [In<'a>],
    /// registers that are the same for all elements
    pub(super) uniform: ScratchVec<Option<Value>>,
    /// inputs that are read where they lie
    pub(super) direct: SmallVec<[bool; 8]>,
    /// inputs that are read from the output whose memory they share: nobody writes there before the last has read
    pub(super) shared: SmallVec<[Option<u8>; 8]>,
    /// the output that a register is computed into, where no tile is needed
    pub into: ScratchVec<Option<u8>>,
    /// results are made in tiles and written by non-temporal stores
    pub streamed: bool,
    /// registers that are the same along a line of the nest, and are computed once where a tile lies within one
    pub(super) lines: ScratchVec<bool>,
    /// registers that nobody asks for
    pub(super) idle: ScratchVec<bool>,
    /// registers that are random numbers as a whole
    pub(super) drawn: SmallVec<[Drawn; 2]>,
    /// the loop that was compiled for the program with these operands
    pub(super) compiled: Option<Arc<CompiledPart>>,
    args: &'a [Scalar],
    fault: &'a FaultWord,
    keys: SmallVec<[[u32; 4]; 6]>,
}

impl<'a> TileRun<'a> {
    /// Binds a program to operands. `nest` strides over the inputs and then over the program's virtual operands.
    ///
    /// # Errors
    /// Operands that do not fit the program.
    pub fn new(program: &'a Program, isa: Isa, nest: Nest, inputs: &'a [In<'a>], args: &'a [Scalar], fault: &'a FaultWord) -> Result<TileRun<'a>, ErrorKind> {
        if inputs.len() < program.inputs {
            return Err(internal("a program with too few operands"));
        }
        let n = program.registers.len();
        let mut direct = SmallVec::new();
        for (k, i) in inputs.iter().enumerate() {
            direct.push(i.in_place.is_none() && TileKind::is_memory_of(i.dtype) && nest.is_dense(k));
        }
        let mut keys: SmallVec<[[u32; 4]; 6]> = SmallVec::new();
        if program.draws {
            for i in inputs {
                let mut key = [0; 4];
                if i.dtype == DType::U32 && i.in_place.is_none() && *i.shape == [4] {
                    let words = i.elements::<u32>()?;
                    for (k, w) in key.iter_mut().enumerate() {
                        *w = words[(i.layout.offset as isize + k as isize * i.layout.strides[0]) as usize];
                    }
                }
                keys.push(key);
            }
        }
        let mut run = TileRun {
            program,
            isa,
            nest,
            inputs,
            uniform: filled(None, n)?,
            shared: SmallVec::from_elem(None, inputs.len()),
            direct,
            into: filled(None, n)?,
            streamed: false,
            lines: ScratchVec::default(),
            idle: filled(false, n)?,
            drawn: SmallVec::new(),
            compiled: None,
            args,
            fault,
            keys,
        };
        run.find_uniform()?;
        for (drawn, idle) in program.uniforms.iter().filter_map(|u| u.bind(&run.uniform)) {
            idle.iter().for_each(|&r| run.idle[r as usize] = true);
            run.drawn.push(drawn);
        }
        Ok(run)
    }
    /// Once `into` is known: which inputs in the place of an output need no copy. An output that is written at the end, or
    /// by an instruction behind the last that reads the input, leaves it readable till then.
    pub fn find_shared(&mut self, results: &[Reg]) {
        for (k, i) in self.inputs.iter().enumerate() {
            let Some((o, &result)) = i.in_place.and_then(|o| Some((o, results.get(o)?))) else { continue };
            let is_load = |r: Reg| matches!(self.program.registers[r as usize].code, Code::Load(of) if of as usize == k);
            let last = self.program.reads.iter().rposition(|reads| reads.iter().flatten().any(|&r| is_load(r)));
            let written = if self.into[result as usize] == Some(o as u8) { result as usize } else { usize::MAX };
            let is_result = results.iter().any(|&r| is_load(r));
            let in_time = match self.program.ahead {
                // It reads each element before it writes it.
                Some(_) => written == result as usize,
                None => !is_result && last.is_none_or(|last| last < written),
            };
            if TileKind::is_memory_of(i.dtype) && self.nest.is_dense(k) && in_time {
                self.shared[k] = Some(o as u8);
            }
        }
    }
    /// Computes what is the same for all elements, once.
    fn find_uniform(&mut self) -> Result<(), ErrorKind> {
        let program = self.program;
        with_scratch(|scratch| {
            for (r, register) in program.registers.iter().enumerate() {
                let uniform = match register.code {
                    Code::Arg(k) => {
                        let s = self.args.get(k as usize).ok_or_else(|| internal("a program with too few arguments"))?;
                        self.uniform[r] = Some(scalar_value(*s, register.dtype));
                        continue;
                    }
                    Code::Const(s) => {
                        self.uniform[r] = Some(scalar_value(s, register.dtype));
                        continue;
                    }
                    Code::Load(k) => self.inputs[k as usize].in_place.is_none() && self.nest.is_uniform(k as usize),
                    Code::Index(p) => self.nest.is_uniform(p as usize),
                    Code::Random { .. } => false,
                    _ => program.reads[r].iter().flatten().all(|&x| self.uniform[x as usize].is_some()),
                };
                if uniform && self.nest.len() > 0 {
                    self.direct_off(register.code, |run| run.execute(r, 0, 1, scratch, &mut []))?;
                    self.uniform[r] = Some(with_kind!(register.kind, T => T::tiles(scratch).values(register.slot)[0].value()));
                }
            }
            Ok(())
        })
    }
    /// Inputs of which only is asked whether they are zero are read so, without a tile of their elements.
    pub fn find_truths(&mut self, results: &[Reg]) {
        let program = self.program;
        if program.ahead.is_some() {
            return;
        }
        for (r, register) in program.registers.iter().enumerate() {
            let Code::Load(k) = register.code else { continue };
            let mut readers = program.reads.iter().enumerate().filter(|(_, reads)| reads.contains(&Some(r as Reg))).map(|(of, _)| &program.registers[of]);
            let is_test = |of: &Register| matches!(of.code, Code::Cast(_)) && of.kind == TileKind::Bool;
            let is_own = self.uniform[r].is_none() && self.inputs[k as usize].in_place.is_none() && register.kind != TileKind::Bool;
            self.idle[r] |= is_own && !results.contains(&(r as Reg)) && readers.all(is_test);
        }
    }
    /// Is register `r` read from memory as a truth value?
    pub fn is_truth(&self, r: Reg) -> bool {
        matches!(self.program.registers[r as usize].code, Code::Cast(x) if self.truth_of(x).is_some()) && !self.is_uniform(r)
    }
    /// The input that register `x` would be loaded from, if only whether it is zero is asked for.
    fn truth_of(&self, x: Reg) -> Option<usize> {
        match self.program.registers[x as usize].code {
            Code::Load(k) if self.idle[x as usize] => Some(k as usize),
            _ => None,
        }
    }
    /// A uniform input is loaded even where it could be read in place.
    fn direct_off(&mut self, code: Code, f: impl FnOnce(&TileRun<'_>) -> Result<(), ErrorKind>) -> Result<(), ErrorKind> {
        if let Code::Load(k) = code {
            self.direct[k as usize] = false;
        }
        f(self)
    }
    /// Computes what is the same along a line of the nest once in a tile that lies within one. What reads a register's tile
    /// must then ask for the tile's own positions.
    ///
    /// # Errors
    /// Memory.
    pub fn find_lines(&mut self) -> Result<(), ErrorKind> {
        if self.program.ahead.is_some() || self.nest.dims.len() < 2 {
            return Ok(());
        }
        self.lines = filled(false, self.program.registers.len())?;
        // What goes to an output is there for every position, and so is what is made of it.
        for (r, register) in self.program.registers.iter().enumerate().filter(|(r, _)| self.into[*r].is_none()) {
            self.lines[r] = match register.code {
                Code::Load(k) => self.inputs[k as usize].in_place.is_none() && self.nest.innermost_stride(k as usize) == 0,
                Code::Index(place) => self.nest.innermost_stride(place as usize) == 0,
                Code::Random { .. } => false,
                _ => self.program.reads[r].iter().flatten().all(|&x| self.lines[x as usize] || self.uniform[x as usize].is_some()),
            };
        }
        Ok(())
    }
    /// Has register `r` one value over these positions, in the first place of its tile?
    pub(super) fn is_line(&self, r: usize, at: usize, n: usize) -> bool {
        self.lines.get(r) == Some(&true) && at % self.nest.innermost() + n <= self.nest.innermost()
    }
    /// Computes register `r` where output `o` has its memory, if that looks like a tile and the register is computed.
    pub fn compute_into(&mut self, r: Reg, o: usize) {
        let register = &self.program.registers[r as usize];
        let computed = !matches!(register.code, Code::Load(_)) && !self.is_uniform(r);
        if TileKind::is_memory_of(register.dtype) && computed && self.into[r as usize].is_none() {
            self.into[r as usize] = Some(o as u8);
        }
    }
    /// Input `k` lies densely in the memory of output `o`, which nobody writes.
    pub fn share(&mut self, k: usize, o: usize) {
        if TileKind::is_memory_of(self.inputs[k].dtype) {
            self.shared[k] = Some(o as u8);
        }
    }
    /// The tile of register `r`.
    fn slot(&self, r: usize) -> u16 {
        self.compiled.as_ref().map_or(self.program.registers[r].slot, |part| part.slot(r))
    }
    /// Is register `r` the same for all elements?
    pub fn is_uniform(&self, r: Reg) -> bool {
        self.uniform[r as usize].is_some()
    }
    /// Is register `r` drawn as a whole, which writes by non-temporal stores by itself?
    pub fn is_drawn(&self, r: Reg) -> bool {
        self.drawn.iter().any(|d| d.register == r)
    }
    /// Is register `r` an input that is read where it lies?
    pub fn is_direct(&self, r: Reg) -> bool {
        matches!(self.program.registers[r as usize].code, Code::Load(k) if self.direct[k as usize]) && !self.is_uniform(r)
    }
    /// Input k over a tile, if it may be read where it lies: all of it lies densely, or what the tile wants of it.
    pub(super) fn lies<T: Lane>(&self, k: usize, at: usize, n: usize) -> Option<&[T]> {
        let input = &self.inputs[k];
        let from = match self.direct[k] {
            true => at,
            false if input.in_place.is_none() && TileKind::is_memory_of(input.dtype) => self.nest.run(k, at, n)? as usize,
            false => return None,
        };
        // A run may begin before the offset: of what is flipped, the last element comes first.
        let start = input.layout.offset.wrapping_add(from) * size_of::<T>();
        Some(bytemuck::cast_slice(&input.bytes[start..start + n * size_of::<T>()]))
    }
    /// Register `r` over the tile at `at`, as the last `tile` left it. One that [`TileRun::is_direct`] may be of any length.
    pub fn src<'s, T: Lane>(&'s self, r: Reg, at: usize, n: usize, scratch: &'s Scratch, outs: &'s [OutTile<'_>]) -> Src<'s, T> {
        let r = r as usize;
        if let Some(v) = self.uniform[r] {
            return Src::Splat(T::of(v));
        }
        let register = &self.program.registers[r];
        if self.is_line(r, at, n) {
            return Src::Splat(T::tiles(scratch).values(self.slot(r))[0]);
        }
        if let Code::Load(k) = register.code {
            let k = k as usize;
            if let Some(there) = self.lies(k, at, n) {
                return Src::Slice(there);
            }
            if let Some(o) = self.shared[k] {
                let o = &outs[o as usize];
                return Src::Slice(bytemuck::cast_slice(&o.bytes[o.range(at, n)]));
            }
        }
        if let Some(o) = self.into[r] {
            let o = &outs[o as usize];
            return Src::Slice(bytemuck::cast_slice(&o.bytes[o.range(at, n)]));
        }
        Src::Slice(&T::tiles(scratch).values(self.slot(r))[..n])
    }
    /// Runs all instructions for the positions `at .. at + n`; inputs that share memory with an output are read first.
    ///
    /// # Errors
    /// Operands that do not fit the program.
    pub fn tile(&self, at: usize, n: usize, scratch: &mut Scratch, outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
        if let Some(ahead) = self.program.ahead {
            return self.run_ahead(ahead, at, n, scratch, outs);
        }
        if let Some(part) = &self.compiled {
            return self.run_compiled(part, at, n, scratch, outs);
        }
        let late = |r: usize| matches!(self.program.registers[r].code, Code::Load(k) if self.inputs[k as usize].in_place.is_some());
        let shares = self.inputs.iter().any(|i| i.in_place.is_some());
        if shares {
            for r in 0..self.program.registers.len() {
                if late(r) {
                    self.execute(r, at, n, scratch, outs)?;
                }
            }
        }
        for r in 0..self.program.registers.len() {
            if self.uniform[r].is_none() && !self.idle[r] && !(shares && late(r)) {
                self.execute(r, at, if self.is_line(r, at, n) { 1 } else { n }, scratch, outs)?;
            }
        }
        Ok(())
    }
    /// Stores register `r` to output `o`, unless it was computed there.
    pub fn store(&self, r: Reg, o: usize, at: usize, n: usize, scratch: &Scratch, outs: &mut [OutTile<'_>]) {
        if self.into[r as usize] == Some(o as u8) || self.compiled.as_ref().is_some_and(|part| part.writes_output(o)) {
            return;
        }
        let dtype = outs[o].dtype;
        let range = outs[o].range(at, n);
        let bytes = std::mem::take(&mut outs[o].bytes);
        with_kind!(self.program.registers[r as usize].kind, T => {
            let src = self.src::<T>(r, at, n, scratch, outs);
            match src {
                Src::Slice(tile) if self.streamed && TileKind::is_memory_of(dtype) => {
                    let soon = if self.drawn.is_empty() { self.next(at + n, n) } else { SmallVec::new() };
                    stream::copy(bytemuck::cast_slice(tile), &mut bytes[range], &soon);
                }
                src => load::store(self.isa, src, dtype, &mut bytes[range]),
            }
        });
        outs[o].bytes = bytes;
    }

    /// What the tile at `at` will read of inputs that go on and on.
    fn next(&self, at: usize, n: usize) -> SmallVec<[ReadAhead<'_>; 4]> {
        let of = |input: &'a In<'a>| {
            let size = input.dtype.size();
            let range = |from: usize| (input.layout.offset + from).saturating_mul(size).min(input.bytes.len());
            ReadAhead::of(&input.bytes[range(at)..range(at + n)])
        };
        self.inputs.iter().zip(&self.direct).filter(|(_, direct)| **direct).map(|(input, _)| of(input)).collect()
    }

    /// Runs instruction `r`.
    pub(super) fn execute(&self, r: usize, at: usize, n: usize, scratch: &mut Scratch, outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
        let register = &self.program.registers[r];
        if let Code::Load(k) = register.code
            && self.uniform[r].is_none()
            && (self.shared[k as usize].is_some() || with_kind!(register.kind, T => self.lies::<T>(k as usize, at, n).is_some()))
        {
            return Ok(());
        }
        with_kind!(register.kind, T => self.place_result::<T>(r, at, n, scratch, outs))
    }
    /// Computes register `r`.
    fn compute<T: Lane + Compute>(&self, r: usize, at: usize, n: usize, scratch: &Scratch, outs: &[OutTile<'_>], out: &mut [T]) -> Result<(), ErrorKind> {
        let Some(drawn) = self.drawn.iter().find(|d| d.register as usize == r) else { return T::compute(self, r, at, n, scratch, outs, out) };
        let key = self.keys.get(drawn.key as usize).copied().unwrap_or_default();
        // Only registers of f32 are drawn.
        let out: &mut [f32] = bytemuck::cast_slice_mut(out);
        // Drawing takes its time, in which the next tile's operands come.
        let soon = if self.streamed { self.next(at + n, n) } else { SmallVec::new() };
        let factors = match drawn.times.map(|r| self.src::<f32>(r, at, n, scratch, outs)) {
            None => &[],
            Some(Src::Slice(factors)) => &factors[..n],
            Some(Src::Splat(_)) => return unexpected(),
        };
        let traffic = Traffic { past: self.streamed && self.into[r].is_some(), soon: &soon };
        self.nest.runs(drawn.place as usize, at, n, |first, count, offset, stride| {
            let factors = factors.get(first..first + count).unwrap_or_default();
            drawn.draw.fill(self.isa, key, (offset as u64, stride as u64), &mut out[first..first + count], factors, &traffic);
        });
        Ok(())
    }
    /// Takes the destination out of its place, computes, puts it back.
    fn place_result<T: Lane + Compute>(&self, r: usize, at: usize, n: usize, scratch: &mut Scratch, outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
        match self.into[r] {
            Some(o) => {
                let range = outs[o as usize].range(at, n);
                let bytes = std::mem::take(&mut outs[o as usize].bytes);
                let result = self.compute::<T>(r, at, n, scratch, outs, bytemuck::cast_slice_mut(&mut bytes[range]));
                outs[o as usize].bytes = bytes;
                result
            }
            None => {
                let slot = self.slot(r);
                let mut tile = T::tiles_mut(scratch).take(slot);
                let result = self.compute(r, at, n, scratch, outs, &mut tile.values_mut()[..n]);
                T::tiles_mut(scratch).put(slot, tile);
                result
            }
        }
    }
    fn load<T: Lane + load::Decode>(&self, k: usize, at: usize, n: usize, outs: &[OutTile<'_>], out: &mut [T]) -> Result<(), ErrorKind> {
        let input = &self.inputs[k];
        if let Some(o) = input.in_place {
            let o = outs.get(o).ok_or_else(|| internal("an input in the place of no output"))?;
            load::decode(self.isa, input.dtype, &o.bytes[o.range(at, n)], out);
            return Ok(());
        }
        load::gather(self.isa, input, &self.nest, k, at, out)
    }
    fn kind(&self, r: Reg) -> TileKind {
        self.program.registers[r as usize].kind
    }
}

/// What the instructions are, by the kind of their result.
pub(crate) trait Compute: Lane {
    #[allow(clippy::too_many_arguments)]
    fn compute(run: &TileRun<'_>, r: usize, at: usize, n: usize, scratch: &Scratch, outs: &[OutTile<'_>], out: &mut [Self]) -> Result<(), ErrorKind>;
}
pub(super) fn unexpected() -> Result<(), ErrorKind> {
    Err(internal("an instruction of another kind than its register"))
}

macro_rules! real_compute {
    ($t:ty, $odd:expr) => {
        impl Compute for $t {
            fn compute(run: &TileRun<'_>, r: usize, at: usize, n: usize, scratch: &Scratch, outs: &[OutTile<'_>], out: &mut [$t]) -> Result<(), ErrorKind> {
                let register = &run.program.registers[r];
                let src = |x: Reg| run.src::<$t>(x, at, n, scratch, outs);
                match register.code {
                    Code::Load(k) => return run.load(k as usize, at, n, outs, out),
                    Code::RealUnary(f, x) => loops::one(src(x), out, |x, out| loops::real_unary(run.isa, f, x, out)),
                    Code::RealBinary(f, x, y) => loops::real_binary(run.isa, f, src(x), src(y), out),
                    Code::Select(c, x, y) => {
                        loops::select(run.isa, run.src::<u8>(c, at, n, scratch, outs), src(x), src(y), out);
                        return Ok(());
                    }
                    Code::Cast(x) => {
                        let narrow = register.dtype.size() < 4;
                        with_kind!(run.kind(x), S => {
                            let mut buffer = [S::default(); 1];
                            let from = run.src::<S>(x, at, n, scratch, outs);
                            let splat = matches!(from, Src::Splat(_));
                            let from = loops::spread(from, &mut buffer);
                            let to = if splat { 1 } else { n };
                            load::cast_real(run.isa, from, &mut out[..to], narrow);
                            if splat {
                                let v = out[0];
                                out.fill(v);
                            }
                        });
                    }
                    Code::Bitcast(x) => {
                        return bitcast(run, x, register.dtype, at, n, scratch, outs, out);
                    }
                    _ => return unexpected(),
                }
                $odd(run.isa, register.dtype, out);
                Ok(())
            }
        }
    };
}
real_compute!(f32, loops::round);
real_compute!(f64, |_, _, _: &mut [f64]| {});

impl Compute for i64 {
    fn compute(run: &TileRun<'_>, r: usize, at: usize, n: usize, scratch: &Scratch, outs: &[OutTile<'_>], out: &mut [i64]) -> Result<(), ErrorKind> {
        let register = &run.program.registers[r];
        let src = |x: Reg| run.src::<i64>(x, at, n, scratch, outs);
        match register.code {
            Code::Load(k) => return run.load(k as usize, at, n, outs, out),
            Code::Index(place) => {
                run.nest.runs(place as usize, at, n, |first, count, offset, stride| {
                    for (k, o) in out[first..first + count].iter_mut().enumerate() {
                        *o = (offset + k as isize * stride) as i64;
                    }
                });
            }
            Code::Random { key, place } => {
                let key = run.keys.get(key as usize).copied().unwrap_or_default();
                run.nest.runs(place as usize, at, n, |first, count, offset, stride| {
                    random::fill(run.isa, key, offset as u64, stride as u64, &mut out[first..first + count]);
                });
                return Ok(());
            }
            Code::IntUnary(f, x) => loops::one(src(x), out, |x, out| integers::int_unary(run.isa, f, x, out)),
            Code::IntBinary(f, x, y) => {
                if integers::int_binary(run.isa, f, src(x), src(y), out) {
                    run.fault.set(Fault::DivisionByZero);
                }
            }
            Code::Select(c, x, y) => {
                loops::select(run.isa, run.src::<u8>(c, at, n, scratch, outs), src(x), src(y), out);
                return Ok(());
            }
            Code::Cast(x) => {
                with_kind!(run.kind(x), S => {
                    match run.src::<S>(x, at, n, scratch, outs) {
                        Src::Slice(from) => load::cast_int(run.isa, from, out),
                        Src::Splat(v) => {
                            load::cast_int(run.isa, &[v], &mut out[..1]);
                            let v = out[0];
                            out.fill(v);
                        }
                    }
                });
            }
            Code::Bitcast(x) => return bitcast(run, x, register.dtype, at, n, scratch, outs, out),
            _ => return unexpected(),
        }
        loops::wrap(run.isa, register.dtype, out);
        Ok(())
    }
}
impl Compute for u8 {
    fn compute(run: &TileRun<'_>, r: usize, at: usize, n: usize, scratch: &Scratch, outs: &[OutTile<'_>], out: &mut [u8]) -> Result<(), ErrorKind> {
        let register = &run.program.registers[r];
        let src = |x: Reg| run.src::<u8>(x, at, n, scratch, outs);
        match register.code {
            Code::Load(k) => return run.load(k as usize, at, n, outs, out),
            Code::RealTest(f, x) => match run.kind(x) {
                TileKind::F64 => loops::one(run.src::<f64>(x, at, n, scratch, outs), out, |x, o| loops::real_test(run.isa, f, x, o)),
                _ => loops::one(run.src::<f32>(x, at, n, scratch, outs), out, |x, o| loops::real_test(run.isa, f, x, o)),
            },
            Code::IntTest(f, x) => loops::one(run.src::<i64>(x, at, n, scratch, outs), out, |x, o| integers::int_test(run.isa, f, x, o)),
            Code::BoolUnary(table, x) => loops::one(src(x), out, |x, o| loops::bool_unary(table, x, o)),
            Code::Compare(f, x, y) => {
                with_kind!(run.kind(x), S => loops::compare(run.isa, f, run.src::<S>(x, at, n, scratch, outs), run.src::<S>(y, at, n, scratch, outs), out))
            }
            Code::RealPredicate(f, x, y) => match run.kind(x) {
                TileKind::F64 => loops::real_predicate(run.isa, f, run.src::<f64>(x, at, n, scratch, outs), run.src(y, at, n, scratch, outs), out),
                _ => loops::real_predicate(run.isa, f, run.src::<f32>(x, at, n, scratch, outs), run.src(y, at, n, scratch, outs), out),
            },
            Code::IntPredicate(f, x, y) => integers::int_predicate(run.isa, f, run.src(x, at, n, scratch, outs), run.src(y, at, n, scratch, outs), out),
            Code::BoolBinary(table, x, y) => loops::bool_binary(table, src(x), src(y), out),
            Code::Select(c, x, y) => loops::select(run.isa, src(c), src(x), src(y), out),
            Code::Cast(x) => match run.truth_of(x) {
                Some(k) => return load::gather(run.isa, &run.inputs[k], &run.nest, k, at, out),
                None => with_kind!(run.kind(x), S => loops::one(run.src::<S>(x, at, n, scratch, outs), out, |x, o| load::cast_bool(run.isa, x, o))),
            },
            Code::Bitcast(x) => return bitcast(run, x, register.dtype, at, n, scratch, outs, out),
            _ => return unexpected(),
        }
        Ok(())
    }
}
/// The bits of register `x` as `dtype`: written to memory and read back.
#[allow(clippy::too_many_arguments)]
fn bitcast<T: Lane + load::Decode>(
    run: &TileRun<'_>,
    x: Reg,
    dtype: DType,
    at: usize,
    n: usize,
    scratch: &Scratch,
    outs: &[OutTile<'_>],
    out: &mut [T],
) -> Result<(), ErrorKind> {
    let from = run.program.registers[x as usize].dtype;
    let size = from.size();
    if size != dtype.size() {
        return Err(internal("a bitcast between sizes"));
    }
    let mut memory = [0u64; 64];
    let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
    with_kind!(TileKind::of(from), S => {
        let src = run.src::<S>(x, at, n, scratch, outs);
        let step = memory.len() / size;
        let mut done = 0;
        while done < n {
            let count = step.min(n - done);
            let part = match src {
                Src::Slice(s) => Src::Slice(&s[done..done + count]),
                splat => splat,
            };
            load::store(run.isa, part, from, &mut memory[..count * size]);
            load::decode(run.isa, dtype, &memory[..count * size], &mut out[done..done + count]);
            done += count;
        }
    });
    Ok(())
}
/// f64 to a 16-bit float goes through an odd-rounded f32, so that it is rounded once.
pub(crate) fn odd(v: f64) -> f32 {
    round_to_odd(v)
}
