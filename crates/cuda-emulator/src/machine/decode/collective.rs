//! Instructions of several threads together: barriers, shuffles, votes, products of matrices.
use super::{Decoded, Decoder, unknown};
use crate::{
    machine::{
        registers::TRUE,
        step::{Barrier, Collective, Count, Multiply, Step, Together},
    },
    ptx::{Function, Operand, Statement, Type},
};

impl Decoder<'_> {
    pub fn collective(&mut self, function: &Function, s: &Statement) -> Decoded<Step> {
        let words: Vec<&str> = s.words.iter().map(String::as_str).filter(|w| !matches!(*w, "cta" | "aligned")).collect();
        match words.as_slice() {
            ["bar" | "barrier", "warp", "sync"] => {
                let [mask] = s.operands.as_slice() else { return Err(unknown(s)) };
                let mask = self.read(function, mask, Type::B32, s)?;
                Ok(Step::Collective(Box::new(empty(Together::Sync, mask))))
            }
            ["bar" | "barrier", rest @ ..] => self.barrier(function, s, rest),
            ["shfl", "sync", mode, "b32"] => self.shuffle(function, s, mode),
            ["vote", "sync", mode, _] => self.vote(function, s, mode),
            ["match", "sync", mode, t] => self.matched(function, s, mode, t),
            ["match", mode, "sync", t] => self.matched(function, s, mode, t),
            ["redux", "sync", operation, t] => self.reduced(function, s, operation, t),
            ["activemask", "b32"] => {
                let [d] = s.operands.as_slice() else { return Err(unknown(s)) };
                Ok(Step::ActiveMask(self.write(function, d, Type::B32, s)?))
            }
            ["nanosleep", "u32"] => Ok(Step::Nothing),
            ["mma", "sync", shape, "row", "col", rest @ ..] => self.multiply(function, s, shape, rest),
            _ => Err(unknown(s)),
        }
    }
    fn barrier(&mut self, function: &Function, s: &Statement, words: &[&str]) -> Decoded<Step> {
        let mut operands = s.operands.iter();
        let mut next = || operands.next().ok_or_else(|| unknown(s));
        let mut barrier = Barrier { id: 0, threads: None, arrive: false, count: Count::None, predicate: (TRUE, false) };
        match words {
            ["sync"] => {}
            ["arrive"] => barrier.arrive = true,
            ["red", "popc", "u32"] => barrier.count = Count::Population(self.write(function, next()?, Type::U32, s)?),
            ["red", "and", "pred"] => barrier.count = Count::And(self.predicate(function, next()?, s)?),
            ["red", "or", "pred"] => barrier.count = Count::Or(self.predicate(function, next()?, s)?),
            _ => return Err(unknown(s)),
        }
        barrier.id = self.read(function, next()?, Type::U32, s)?;
        let rest: Vec<&Operand> = operands.collect();
        let (threads, predicate) = match (words[0] == "red", rest.as_slice()) {
            (false, []) if words[0] == "sync" => (None, None),
            (false, [threads]) => (Some(*threads), None),
            (true, [predicate]) => (None, Some(*predicate)),
            (true, [threads, predicate]) => (Some(*threads), Some(*predicate)),
            _ => return Err(unknown(s)),
        };
        if let Some(threads) = threads {
            barrier.threads = Some(self.read(function, threads, Type::U32, s)?);
        }
        if let Some(predicate) = predicate {
            barrier.predicate = self.turned(function, predicate, s)?;
        }
        Ok(Step::Barrier(Box::new(barrier)))
    }
    /// A word and a predicate, or the word alone.
    fn word_and_predicate(&mut self, function: &Function, d: &Operand, s: &Statement) -> Decoded<(u32, Option<u32>)> {
        match d {
            Operand::Pair(d, p) => Ok((self.write(function, d, Type::B32, s)?, Some(self.predicate(function, p, s)?))),
            d => Ok((self.write(function, d, Type::B32, s)?, None)),
        }
    }
    fn shuffle(&mut self, function: &Function, s: &Statement, mode: &str) -> Decoded<Step> {
        let [d, a, b, c, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match mode {
            "up" => Together::Up,
            "down" => Together::Down,
            "bfly" => Together::Butterfly,
            "idx" => Together::Index,
            _ => return Err(unknown(s)),
        };
        let mut found = empty(what, self.read(function, mask, Type::B32, s)?);
        (found.d, found.p) = self.word_and_predicate(function, d, s)?;
        found.a = self.read(function, a, Type::B32, s)?;
        found.b = self.read(function, b, Type::B32, s)?;
        found.c = self.read(function, c, Type::B32, s)?;
        Ok(Step::Collective(Box::new(found)))
    }
    fn vote(&mut self, function: &Function, s: &Statement, mode: &str) -> Decoded<Step> {
        let [d, a, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match mode {
            "all" => Together::VoteAll,
            "any" => Together::VoteAny,
            "uni" => Together::VoteUniform,
            "ballot" => Together::Ballot,
            _ => return Err(unknown(s)),
        };
        let mut found = empty(what, self.read(function, mask, Type::B32, s)?);
        found.d = if what == Together::Ballot { self.write(function, d, Type::B32, s)? } else { self.predicate(function, d, s)? };
        (found.a, found.turned) = self.turned(function, a, s)?;
        Ok(Step::Collective(Box::new(found)))
    }
    fn matched(&mut self, function: &Function, s: &Statement, mode: &str, t: &str) -> Decoded<Step> {
        let [d, a, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match mode {
            "any" => Together::MatchAny,
            "all" => Together::MatchAll,
            _ => return Err(unknown(s)),
        };
        let t = Type::named(t).filter(|t| matches!(t, Type::B32 | Type::B64)).ok_or_else(|| unknown(s))?;
        let mut found = empty(what, self.read(function, mask, Type::B32, s)?);
        (found.d, found.p) = self.word_and_predicate(function, d, s)?;
        found.a = self.read(function, a, t, s)?;
        found.a_wide = t == Type::B64;
        Ok(Step::Collective(Box::new(found)))
    }
    fn reduced(&mut self, function: &Function, s: &Statement, operation: &str, t: &str) -> Decoded<Step> {
        let [d, a, mask] = s.operands.as_slice() else { return Err(unknown(s)) };
        let what = match operation {
            "add" => Together::ReduceAdd,
            "min" => Together::ReduceMin,
            "max" => Together::ReduceMax,
            "and" => Together::ReduceAnd,
            "or" => Together::ReduceOr,
            "xor" => Together::ReduceXor,
            _ => return Err(unknown(s)),
        };
        let t = Type::named(t).filter(|t| matches!(t, Type::B32 | Type::U32 | Type::S32)).ok_or_else(|| unknown(s))?;
        let mut found = empty(what, self.read(function, mask, Type::B32, s)?);
        found.d = self.write(function, d, t, s)?;
        found.a = self.read(function, a, t, s)?;
        found.signed = t == Type::S32;
        Ok(Step::Collective(Box::new(found)))
    }
    fn multiply(&mut self, function: &Function, s: &Statement, shape: &str, words: &[&str]) -> Decoded<Step> {
        let (saturate, types): (bool, Vec<&&str>) = (words.contains(&"satfinite"), words.iter().filter(|w| **w != "satfinite").collect());
        // `kind::f8f6f4` only says what the types say as well.
        let types: Vec<Type> = types.iter().filter(|w| !w.starts_with("kind::")).filter_map(|w| Type::named(w)).collect();
        let [d_type, a_type, b_type, c_type] = types[..] else { return Err(unknown(s)) };
        let (m, n, k) = match shape {
            "m16n8k4" => (16, 8, 4),
            "m16n8k8" => (16, 8, 8),
            "m16n8k16" => (16, 8, 16),
            "m16n8k32" => (16, 8, 32),
            _ => return Err(unknown(s)),
        };
        let float = matches!(d_type, Type::F32 | Type::F16) && matches!(c_type, Type::F32 | Type::F16);
        let eight = |t: Type| matches!(t, Type::E4m3 | Type::E5m2);
        let bytes = |t: Type| matches!(t, Type::S8 | Type::U8);
        let fits = match (a_type, b_type) {
            (Type::F16, Type::F16) => float && matches!(k, 8 | 16),
            (Type::Bf16, Type::Bf16) => d_type == Type::F32 && c_type == Type::F32 && matches!(k, 8 | 16),
            (Type::Tf32, Type::Tf32) => d_type == Type::F32 && c_type == Type::F32 && matches!(k, 4 | 8),
            (a, b) if eight(a) && eight(b) => float && k == 32,
            (a, b) if bytes(a) && bytes(b) => d_type == Type::S32 && c_type == Type::S32 && matches!(k, 16 | 32),
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
            list.iter().map(|o| if write { self.write(function, o, Type::B32, s) } else { self.read(function, o, Type::B32, s) }).collect()
        };
        let bits = |t: Type| if t == Type::Tf32 { 32 } else { t.bits() };
        Ok(Step::Multiply(Box::new(Multiply {
            m,
            n,
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

fn empty(what: Together, mask: u32) -> Collective {
    Collective { what, mask, d: 0, p: None, a: 0, a_wide: false, turned: false, b: 0, c: 0, signed: false }
}
