//! Instructions of several threads together: barriers, shuffles, votes, products of matrices.
use super::{Decoded, PtxDecoder, unknown};
use crate::{
    machine::{
        registers::TRUE,
        step::{Barrier, BarrierCount, Collective, MachineStep, Multiply, WarpAct},
    },
    ptx::{Operand, PtxFunction, PtxType, Statement},
};

impl PtxDecoder<'_> {
    pub fn collective(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let words: Vec<&str> = s.words.iter().map(String::as_str).filter(|w| !matches!(*w, "cta" | "aligned")).collect();
        match words.as_slice() {
            ["bar" | "barrier", "warp", "sync"] => {
                let [mask] = s.operands.as_slice() else { return Err(unknown(s)) };
                let mask = self.read(function, mask, PtxType::B32, s)?;
                Ok(MachineStep::Collective(Box::new(empty(WarpAct::Sync, mask))))
            }
            ["bar" | "barrier", rest @ ..] => self.barrier(function, s, rest),
            ["shfl", "sync", mode, "b32"] => self.shuffle(function, s, mode),
            ["vote", "sync", mode, _] => self.vote(function, s, mode),
            ["match", "sync", mode, t] => self.matched(function, s, mode, t),
            ["match", mode, "sync", t] => self.matched(function, s, mode, t),
            ["redux", "sync", operation, t] => self.reduced(function, s, operation, t),
            ["activemask", "b32"] => {
                let [d] = s.operands.as_slice() else { return Err(unknown(s)) };
                Ok(MachineStep::ActiveMask(self.write(function, d, PtxType::B32, s)?))
            }
            ["nanosleep", "u32"] => Ok(MachineStep::Nothing),
            ["mma", "sync", shape, "row", "col", rest @ ..] => self.multiply(function, s, shape, rest),
            _ => Err(unknown(s)),
        }
    }
    fn barrier(&mut self, function: &PtxFunction, s: &Statement, words: &[&str]) -> Decoded<MachineStep> {
        let mut operands = s.operands.iter();
        let mut next = || operands.next().ok_or_else(|| unknown(s));
        let mut barrier = Barrier { id: 0, threads: None, arrive: false, count: BarrierCount::None, predicate: (TRUE, false) };
        match words {
            ["sync"] => {}
            ["arrive"] => barrier.arrive = true,
            ["red", "popc", "u32"] => barrier.count = BarrierCount::Population(self.write(function, next()?, PtxType::U32, s)?),
            ["red", "and", "pred"] => barrier.count = BarrierCount::And(self.predicate(function, next()?, s)?),
            ["red", "or", "pred"] => barrier.count = BarrierCount::Or(self.predicate(function, next()?, s)?),
            _ => return Err(unknown(s)),
        }
        barrier.id = self.read(function, next()?, PtxType::U32, s)?;
        let rest: Vec<&Operand> = operands.collect();
        let (threads, predicate) = match (words[0] == "red", rest.as_slice()) {
            (false, []) if words[0] == "sync" => (None, None),
            (false, [threads]) => (Some(*threads), None),
            (true, [predicate]) => (None, Some(*predicate)),
            (true, [threads, predicate]) => (Some(*threads), Some(*predicate)),
            _ => return Err(unknown(s)),
        };
        if let Some(threads) = threads {
            barrier.threads = Some(self.read(function, threads, PtxType::U32, s)?);
        }
        if let Some(predicate) = predicate {
            barrier.predicate = self.negated(function, predicate, s)?;
        }
        Ok(MachineStep::Barrier(Box::new(barrier)))
    }
    /// A word and a predicate, or the word alone.
    fn word_and_predicate(&mut self, function: &PtxFunction, d: &Operand, s: &Statement) -> Decoded<(u32, Option<u32>)> {
        match d {
            Operand::Pair(d, p) => Ok((self.write(function, d, PtxType::B32, s)?, Some(self.predicate(function, p, s)?))),
            d => Ok((self.write(function, d, PtxType::B32, s)?, None)),
        }
    }
    fn shuffle(&mut self, function: &PtxFunction, s: &Statement, mode: &str) -> Decoded<MachineStep> {
        let [d, a, b, c, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match mode {
            "up" => WarpAct::Up,
            "down" => WarpAct::Down,
            "bfly" => WarpAct::Butterfly,
            "idx" => WarpAct::Index,
            _ => return Err(unknown(s)),
        };
        let mut found = empty(what, self.read(function, mask, PtxType::B32, s)?);
        (found.d, found.p) = self.word_and_predicate(function, d, s)?;
        found.a = self.read(function, a, PtxType::B32, s)?;
        found.b = self.read(function, b, PtxType::B32, s)?;
        found.c = self.read(function, c, PtxType::B32, s)?;
        Ok(MachineStep::Collective(Box::new(found)))
    }
    fn vote(&mut self, function: &PtxFunction, s: &Statement, mode: &str) -> Decoded<MachineStep> {
        let [d, a, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match mode {
            "all" => WarpAct::VoteAll,
            "any" => WarpAct::VoteAny,
            "uni" => WarpAct::VoteUniform,
            "ballot" => WarpAct::Ballot,
            _ => return Err(unknown(s)),
        };
        let mut found = empty(what, self.read(function, mask, PtxType::B32, s)?);
        found.d = if what == WarpAct::Ballot { self.write(function, d, PtxType::B32, s)? } else { self.predicate(function, d, s)? };
        (found.a, found.negated) = self.negated(function, a, s)?;
        Ok(MachineStep::Collective(Box::new(found)))
    }
    fn matched(&mut self, function: &PtxFunction, s: &Statement, mode: &str, t: &str) -> Decoded<MachineStep> {
        let [d, a, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match mode {
            "any" => WarpAct::MatchAny,
            "all" => WarpAct::MatchAll,
            _ => return Err(unknown(s)),
        };
        let t = PtxType::named(t).filter(|t| matches!(t, PtxType::B32 | PtxType::B64)).ok_or_else(|| unknown(s))?;
        let mut found = empty(what, self.read(function, mask, PtxType::B32, s)?);
        (found.d, found.p) = self.word_and_predicate(function, d, s)?;
        found.a = self.read(function, a, t, s)?;
        found.a_wide = t == PtxType::B64;
        Ok(MachineStep::Collective(Box::new(found)))
    }
    fn reduced(&mut self, function: &PtxFunction, s: &Statement, operation: &str, t: &str) -> Decoded<MachineStep> {
        let [d, a, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match operation {
            "add" => WarpAct::ReduceAdd,
            "min" => WarpAct::ReduceMin,
            "max" => WarpAct::ReduceMax,
            "and" => WarpAct::ReduceAnd,
            "or" => WarpAct::ReduceOr,
            "xor" => WarpAct::ReduceXor,
            _ => return Err(unknown(s)),
        };
        let t = PtxType::named(t).filter(|t| matches!(t, PtxType::B32 | PtxType::U32 | PtxType::S32)).ok_or_else(|| unknown(s))?;
        let mut found = empty(what, self.read(function, mask, PtxType::B32, s)?);
        found.d = self.write(function, d, t, s)?;
        found.a = self.read(function, a, t, s)?;
        found.signed = t == PtxType::S32;
        Ok(MachineStep::Collective(Box::new(found)))
    }
    fn multiply(&mut self, function: &PtxFunction, s: &Statement, shape: &str, words: &[&str]) -> Decoded<MachineStep> {
        let (saturate, types): (bool, Vec<&&str>) = (words.contains(&"satfinite"), words.iter().filter(|w| **w != "satfinite").collect());
        // `kind::f8f6f4` only says what the types say as well.
        let types: Vec<PtxType> = types.iter().filter(|w| !w.starts_with("kind::")).filter_map(|w| PtxType::named(w)).collect();
        let [d_type, a_type, b_type, c_type] = types[..] else { return Err(unknown(s)) };
        let (m, n, k) = match shape {
            "m16n8k4" => (16, 8, 4),
            "m16n8k8" => (16, 8, 8),
            "m16n8k16" => (16, 8, 16),
            "m16n8k32" => (16, 8, 32),
            _ => return Err(unknown(s)),
        };
        let float = matches!(d_type, PtxType::F32 | PtxType::F16) && matches!(c_type, PtxType::F32 | PtxType::F16);
        let eight = |t: PtxType| matches!(t, PtxType::E4m3 | PtxType::E5m2);
        let bytes = |t: PtxType| matches!(t, PtxType::S8 | PtxType::U8);
        let fits = match (a_type, b_type) {
            (PtxType::F16, PtxType::F16) => float && matches!(k, 8 | 16),
            (PtxType::Bf16, PtxType::Bf16) => d_type == PtxType::F32 && c_type == PtxType::F32 && matches!(k, 8 | 16),
            (PtxType::Tf32, PtxType::Tf32) => d_type == PtxType::F32 && c_type == PtxType::F32 && matches!(k, 4 | 8),
            (a, b) if eight(a) && eight(b) => float && k == 32,
            (a, b) if bytes(a) && bytes(b) => d_type == PtxType::S32 && c_type == PtxType::S32 && matches!(k, 16 | 32),
            _ => false,
        };
        if !fits || saturate && !bytes(a_type) {
            return Err(unknown(s));
        }
        let [d, a, b, c] = s.operands.as_slice() else { return Err(unknown(s)) };
        let mut rows = |operand: &Operand, elements: u32, bits: u64, write: bool| -> Decoded<Vec<u32>> {
            let list: &[Operand] = match operand {
                Operand::Vector(list) => list,
                one => std::slice::from_ref(one),
            };
            // Elements of all lanes in words of 32 bits.
            let wanted = u64::from(elements) * bits / 32 / 32;
            if list.len() as u64 != wanted {
                return Err(unknown(s));
            }
            list.iter().map(|o| if write { self.write(function, o, PtxType::B32, s) } else { self.read(function, o, PtxType::B32, s) }).collect()
        };
        let bits = |t: PtxType| if t == PtxType::Tf32 { 32 } else { t.bits() };
        Ok(MachineStep::Multiply(Box::new(Multiply {
            k,
            a_type,
            b_type,
            c_type,
            d_type,
            d: rows(d, m * n, bits(d_type), true)?,
            a: rows(a, m * k, bits(a_type), false)?,
            b: rows(b, k * n, bits(b_type), false)?,
            c: rows(c, m * n, bits(c_type), false)?,
            saturate,
        })))
    }
}

fn empty(what: WarpAct, mask: u32) -> Collective {
    Collective { what, mask, d: 0, p: None, a: 0, a_wide: false, negated: false, b: 0, c: 0, signed: false }
}
