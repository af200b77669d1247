//! Instructions that touch memory: loads, stores, atomics, fences, asynchronous copies, matrices.
use super::{Decoded, PtxDecoder, unknown};
use crate::{
    machine::step::{AccessStep, AtomicStep, CopyAsync, MachineStep, MatrixAccess, Place, RowConstant, Strength, Update},
    ptx::{Operand, PtxError, PtxFunction, PtxType, StateSpace, Statement},
};

/// Words that change nothing here: caches, and where an order holds.
fn harmless(word: &str) -> bool {
    matches!(word, "ca" | "cg" | "cs" | "cv" | "wb" | "wt" | "lu" | "nc" | "cta" | "gpu" | "sys" | "cluster" | "weak" | "noftz" | "mmio")
        || word.starts_with("L1::")
        || word.starts_with("L2::")
        || matches!(word, "evict_last" | "evict_first")
}

/// What the words of an access say.
struct AccessWords {
    space: StateSpace,
    strength: Strength,
    count: usize,
    t: Option<PtxType>,
    others: Vec<String>,
}

fn words(s: &Statement) -> AccessWords {
    let mut w = AccessWords { space: StateSpace::Generic, strength: Strength::default(), count: 1, t: None, others: Vec::new() };
    for word in &s.words[1..] {
        match word.as_str() {
            "global" => w.space = StateSpace::Global,
            "const" => w.space = StateSpace::Const,
            "shared" | "shared::cta" => w.space = StateSpace::Shared,
            "local" => w.space = StateSpace::Local,
            "param" | "param::entry" | "param::func" => w.space = StateSpace::Param,
            "v2" => w.count = 2,
            "v4" => w.count = 4,
            "v8" => w.count = 8,
            "volatile" | "relaxed" => w.strength.strong = true,
            "acquire" => w.strength = Strength { strong: true, acquire: true, ..w.strength },
            "release" => w.strength = Strength { strong: true, release: true, ..w.strength },
            "acq_rel" => w.strength = Strength { strong: true, acquire: true, release: true },
            word if harmless(word) => {}
            word => match PtxType::named(word) {
                Some(t) => w.t = Some(t),
                None => w.others.push(word.to_string()),
            },
        }
    }
    w
}

impl PtxDecoder<'_> {
    pub fn memory(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        match s.words[0].as_str() {
            "ld" | "ldu" | "st" => self.access(function, s),
            "atom" | "red" => self.atomic(function, s),
            "membar" => {
                self.program.has_fences = true;
                Ok(MachineStep::Fence(!s.words.iter().any(|w| w == "cta")))
            }
            "fence" => {
                if s.words.iter().any(|w| w.starts_with("proxy") || w == "mbarrier_init") {
                    return Err(unknown(s));
                }
                self.program.has_fences = true;
                Ok(MachineStep::Fence(!s.words.iter().any(|w| w == "cta")))
            }
            "cp" => self.copy(function, s),
            "ldmatrix" | "stmatrix" => self.matrix(function, s),
            _ => Ok(MachineStep::Nothing),
        }
    }
    /// `[register+offset]`, `[variable+offset]`: parameters of functions are local memory here.
    fn place(&mut self, function: &PtxFunction, operand: &Operand, mut space: StateSpace, s: &Statement) -> Decoded<Place> {
        let Operand::Address(base, offset) = operand else { return Err(unknown(s)) };
        if space == StateSpace::Param && !self.is_kernel_parameter(function, base, s)? {
            space = StateSpace::Local;
        }
        let (base, wide, offset) = match base.as_ref() {
            Operand::Register(_) => {
                let (row, wide) = self.any(function, base, PtxType::B32, s)?;
                (row, wide, *offset)
            }
            Operand::Integer(n) => (self.constant(RowConstant::Wide(*n as u64)), true, *offset),
            // Of shared and local memory all addresses fit; generic ones of names there are not written so.
            base => {
                let constant = self.address(function, base, *offset, PtxType::U64, s)?;
                (self.constant(constant), true, 0)
            }
        };
        if !wide && matches!(space, StateSpace::Generic | StateSpace::Global | StateSpace::Const) {
            return Err(PtxError::new(s.line, format!("an address of 32 bits in device memory: `{}`", s.text)));
        }
        Ok(Place { space, base, wide, offset })
    }
    fn is_kernel_parameter(&self, function: &PtxFunction, base: &Operand, s: &Statement) -> Decoded<bool> {
        match base {
            Operand::Variable(number) => {
                let variable = function.variables.get(*number).ok_or_else(|| unknown(s))?;
                if variable.space != StateSpace::Param {
                    return Err(PtxError::new(s.line, format!("`{}` is no parameter: `{}`", variable.name, s.text)));
                }
                Ok(function.kernel && function.parameters.contains(number))
            }
            // Only a kernel's parameters have an address to compute with.
            _ => Ok(true),
        }
    }
    fn access(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let w = words(s);
        let t = w.t.filter(|_| w.others.is_empty()).ok_or_else(|| unknown(s))?;
        let store = s.words[0] == "st";
        let [first, second] = s.operands.as_slice() else { return Err(unknown(s)) };
        let (place, values) = if store { (first, second) } else { (second, first) };
        let place = self.place(function, place, w.space, s)?;
        if store && matches!(place.space, StateSpace::Param | StateSpace::Const) {
            return Err(PtxError::new(s.line, format!("a store to what is not written: `{}`", s.text)));
        }
        let list: &[Operand] = match values {
            Operand::Vector(list) => list,
            one => std::slice::from_ref(one),
        };
        if list.len() != w.count || t == PtxType::Pred || t.bytes() > 8 || t.bytes() * w.count as u64 > 32 {
            return Err(unknown(s));
        }
        let mut rows = Vec::new();
        for value in list {
            if !store && !matches!(value, Operand::Register(_) | Operand::Nowhere) {
                return Err(unknown(s));
            }
            rows.push(self.any(function, value, t, s)?);
        }
        self.program.has_fences |= w.strength.release || w.strength.acquire;
        let access = Box::new(AccessStep { place, bytes: t.bytes() as u32, signed: t.signed(), values: rows, strength: w.strength });
        Ok(if store { MachineStep::Store(access) } else { MachineStep::Load(access) })
    }
    fn atomic(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let w = words(s);
        let t = w.t.ok_or_else(|| unknown(s))?;
        let update = match w.others.as_slice() {
            [one] => match one.as_str() {
                "add" => Update::Add,
                "min" => Update::Min,
                "max" => Update::Max,
                "and" => Update::And,
                "or" => Update::Or,
                "xor" => Update::Xor,
                "exch" => Update::Exchange,
                "cas" => Update::Compare,
                "inc" => Update::Increment,
                "dec" => Update::Decrement,
                _ => return Err(unknown(s)),
            },
            _ => return Err(unknown(s)),
        };
        let fits = match update {
            Update::Add => {
                matches!(
                    t,
                    PtxType::U32
                        | PtxType::S32
                        | PtxType::U64
                        | PtxType::S64
                        | PtxType::F32
                        | PtxType::F64
                        | PtxType::F16
                        | PtxType::F16x2
                        | PtxType::Bf16
                        | PtxType::Bf16x2
                )
            }
            Update::Min | Update::Max => {
                matches!(t, PtxType::U32 | PtxType::S32 | PtxType::U64 | PtxType::S64 | PtxType::F16 | PtxType::F16x2 | PtxType::Bf16 | PtxType::Bf16x2)
            }
            Update::And | Update::Or | Update::Xor => matches!(t, PtxType::B32 | PtxType::B64),
            Update::Exchange => matches!(t, PtxType::B32 | PtxType::B64),
            Update::Compare => matches!(t, PtxType::B16 | PtxType::B32 | PtxType::B64),
            Update::Increment | Update::Decrement => t == PtxType::U32,
        };
        if !fits || w.count != 1 {
            return Err(unknown(s));
        }
        let operands = s.operands.as_slice();
        let (d, rest) = match (s.words[0].as_str(), operands) {
            ("atom", [d, rest @ ..]) => (Some(self.write(function, d, t, s)?), rest),
            (_, rest) => (None, rest),
        };
        let (place, b, c) = match rest {
            [place, b] if update != Update::Compare => (place, b, b),
            [place, b, c] if update == Update::Compare => (place, b, c),
            _ => return Err(unknown(s)),
        };
        let place = self.place(function, place, w.space, s)?;
        if !matches!(place.space, StateSpace::Generic | StateSpace::Global | StateSpace::Shared) {
            return Err(unknown(s));
        }
        self.program.has_fences |= w.strength.release || w.strength.acquire;
        let (b, c) = (self.read(function, b, t, s)?, self.read(function, c, t, s)?);
        Ok(MachineStep::Atomic(Box::new(AtomicStep { place, update, of: t, d, b, c, strength: w.strength })))
    }
    fn copy(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let words: Vec<&str> = s.words[1..].iter().map(String::as_str).filter(|w| !w.starts_with("L2::")).collect();
        match words.as_slice() {
            ["async", "commit_group"] => Ok(MachineStep::CommitAsync),
            ["async", "wait_all"] => Ok(MachineStep::WaitAsync(None)),
            ["async", "wait_group"] => match s.operands.as_slice() {
                [Operand::Integer(n @ 0..=1_000_000)] => Ok(MachineStep::WaitAsync(Some(*n as u32))),
                _ => Err(unknown(s)),
            },
            ["async", "ca" | "cg", "shared" | "shared::cta", "global"] => {
                let [to, from, Operand::Integer(bytes), rest @ ..] = s.operands.as_slice() else { return Err(unknown(s)) };
                let bytes = match (words[1], *bytes) {
                    (_, 16) => 16,
                    ("ca", n @ (4 | 8)) => n as u32,
                    _ => return Err(PtxError::new(s.line, format!("a copy of that many bytes there is not: `{}`", s.text))),
                };
                let (mut read, mut ignore) = (None, None);
                match rest {
                    [] => {}
                    [one] => match one {
                        Operand::Register(n) if function.registers.get(*n) == Some(&PtxType::Pred) => ignore = Some(self.negated(function, one, s)?),
                        Operand::Not(_) => ignore = Some(self.negated(function, one, s)?),
                        _ => read = Some(self.read(function, one, PtxType::U32, s)?),
                    },
                    _ => return Err(unknown(s)),
                }
                let to = self.place(function, to, StateSpace::Shared, s)?;
                let from = self.place(function, from, StateSpace::Global, s)?;
                Ok(MachineStep::CopyAsync(Box::new(CopyAsync { to, from, bytes, read, ignore })))
            }
            _ => Err(unknown(s)),
        }
    }
    fn matrix(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let has = |word: &str| s.words.iter().any(|w| w == word);
        let known = |w: &String| matches!(w.as_str(), "sync" | "aligned" | "m8n8" | "x1" | "x2" | "x4" | "trans" | "shared" | "shared::cta" | "b16");
        if !s.words[1..].iter().all(known) || !has("m8n8") || !has("b16") {
            return Err(unknown(s));
        }
        let count = if has("x4") { 4 } else { 1 + usize::from(has("x2")) };
        let load = s.words[0] == "ldmatrix";
        let [first, second] = s.operands.as_slice() else { return Err(unknown(s)) };
        let (place, values) = if load { (second, first) } else { (first, second) };
        let space = if has("shared") || has("shared::cta") { StateSpace::Shared } else { StateSpace::Generic };
        let place = self.place(function, place, space, s)?;
        let list: &[Operand] = match values {
            Operand::Vector(list) => list,
            one => std::slice::from_ref(one),
        };
        if list.len() != count {
            return Err(unknown(s));
        }
        let registers = list.iter().map(|o| self.write(function, o, PtxType::B32, s)).collect::<Decoded<_>>()?;
        let access = Box::new(MatrixAccess { place, registers, transposed: has("trans") });
        Ok(if load { MachineStep::LoadMatrix(access) } else { MachineStep::StoreMatrix(access) })
    }
}
