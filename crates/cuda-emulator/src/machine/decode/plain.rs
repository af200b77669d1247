//! Instructions on registers alone: arithmetic, bits, comparisons, choices, moves, conversions.
use super::{Decoded, PtxDecoder, SCRATCH, none, unknown};
use crate::{
    machine::{
        bits, compare,
        convert::{Conversion, usual},
        exact::Rounding,
        floats, halves, integers,
        registers::{NOWHERE, Plain, Registers, RowOperands, map1},
        step::{Combination, ConvertStep, MachineStep, RegisterParts},
    },
    ptx::{Operand, PtxFunction, PtxType, StateSpace, Statement},
};

/// Where a generic address means shared, local or parameter memory.
use crate::machine::windows::{LOCAL, PARAMETERS, SHARED, WINDOW};

/// What stands between an instruction's name and its types.
#[derive(Default)]
struct Flags<'s> {
    rounding: Option<Rounding>,
    whole: Option<Rounding>,
    ftz: bool,
    sat: bool,
    relu: bool,
    finite: bool,
    approximate: bool,
    /// All others, with the name before them: `mul.lo`.
    key: String,
    types: Vec<PtxType>,
    others: Vec<&'s str>,
}

fn flags(s: &Statement) -> Flags<'_> {
    let mut f = Flags { key: s.words[0].clone(), ..Flags::default() };
    for word in &s.words[1..] {
        match word.as_str() {
            "ftz" => f.ftz = true,
            "sat" => f.sat = true,
            "relu" => f.relu = true,
            "satfinite" => f.finite = true,
            "approx" | "full" => f.approximate = true,
            "rni" => f.whole = Some(Rounding::Nearest),
            "rzi" => f.whole = Some(Rounding::Zero),
            "rmi" => f.whole = Some(Rounding::Down),
            "rpi" => f.whole = Some(Rounding::Up),
            word => {
                if let Some(rounding) = floats::rounding(word) {
                    f.rounding = Some(rounding);
                } else if let Some(t) = PtxType::named(word) {
                    f.types.push(t);
                } else {
                    f.others.push(word);
                    f.key.push('.');
                    f.key.push_str(word);
                }
            }
        }
    }
    f
}

impl PtxDecoder<'_> {
    pub fn plain(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let f = flags(s);
        match s.words[0].as_str() {
            "mov" => self.moved(function, s, &f),
            "cvta" => self.generic(function, s),
            "cvt" => self.converted(function, s, &f),
            "setp" | "set" => self.set(function, s, &f),
            "testp" | "isspacep" => self.tested(function, s, &f),
            "selp" | "slct" => self.selected(function, s, &f),
            "lop3" | "bfi" => self.four(function, s, &f),
            _ if f.types.last() == Some(&PtxType::Pred) => self.logic(function, s),
            _ => self.arithmetic(function, s, &f),
        }
    }
    /// The rows of a destination and sources of given types.
    fn rows_of(&mut self, function: &PtxFunction, s: &Statement, d: PtxType, sources: &[PtxType]) -> Decoded<RowOperands> {
        if s.operands.len() != sources.len() + 1 {
            return Err(unknown(s));
        }
        let mut o = none();
        o.d = self.write(function, &s.operands[0], d, s)?;
        for (k, t) in sources.iter().enumerate() {
            let row = self.read(function, &s.operands[k + 1], *t, s)?;
            match k {
                0 => o.a = row,
                1 => o.b = row,
                _ => o.c = row,
            }
        }
        Ok(o)
    }
    fn arithmetic(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let name = s.words[0].as_str();
        let t = *f.types.last().ok_or_else(|| unknown(s))?;
        let word = PtxType::B32;
        let double = |t: PtxType| match t {
            PtxType::U16 | PtxType::S16 => PtxType::B32,
            _ => PtxType::B64,
        };
        let rounding = f.rounding.unwrap_or(Rounding::Nearest);
        let extra = |key: &str| format!("{key}{}{}", if f.sat { ".sat" } else { "" }, if f.relu { ".relu" } else { "" });
        let (plain, d, sources): (Option<Plain>, PtxType, Vec<PtxType>) = match (t, f.key.as_str()) {
            (_, "dp4a" | "dp2a.lo" | "dp2a.hi") => match f.types[..] {
                [a, b] => (bits::dot(&f.key, a, b), word, vec![word; 3]),
                _ => (None, t, Vec::new()),
            },
            (_, "mul.wide") => (integers::multiply_wide(t), double(t), vec![t; 2]),
            (_, "mad.wide") => (integers::multiply_add_wide(t), double(t), vec![t, t, double(t)]),
            (_, "shl" | "shr") => (integers::shift(name, t), t, vec![t, word]),
            (_, "popc" | "clz" | "bfind" | "bfind.shiftamt") => (bits::bits(&f.key, t), word, vec![t]),
            (_, "brev") => (bits::bits(name, t), t, vec![t]),
            (_, "bfe") => (bits::bits(name, t), t, vec![t, word, word]),
            (_, "bmsk.clamp" | "bmsk.wrap") => (bits::bits(&f.key, t), t, vec![t; 2]),
            (_, "fns") => (bits::bits(name, t), t, vec![t; 3]),
            (_, key) if key.starts_with("shf.") || key.starts_with("prmt") => (bits::bits(key, t), t, vec![t; 3]),
            (_, key) if key.contains(".cc") || key.starts_with("addc") || key.starts_with("subc") || key.starts_with("madc") => {
                let known = matches!(t, PtxType::U32 | PtxType::S32 | PtxType::U64 | PtxType::S64) && (!key.contains("hi") || !t.signed());
                (integers::carried(key, t.bits() == 64).filter(|_| known), t, vec![t; if name.starts_with("mad") { 3 } else { 2 }])
            }
            (PtxType::F32, key) => {
                let key = if key == "mad" { "fma" } else { key };
                (floats::single(key, rounding, f.ftz, f.sat), t, vec![t; arity(key)])
            }
            (PtxType::F64, key) if !f.sat => {
                let gross = f.approximate && f.ftz && matches!(key, "rcp" | "rsqrt");
                let key = if key == "mad" { "fma" } else { key };
                let known = gross || !f.ftz && (!f.approximate || key == "rsqrt");
                let name = if gross { format!("{key}.gross") } else { key.to_string() };
                (floats::double(&name, rounding).filter(|_| known), t, vec![t; arity(key)])
            }
            (PtxType::F16 | PtxType::F16x2 | PtxType::Bf16 | PtxType::Bf16x2, key) if rounding == Rounding::Nearest && (!f.ftz || matches!(key, "ex2")) => {
                (halves::half(&extra(key), t), t, vec![t; arity(key)])
            }
            (_, key) => (integers::arithmetic(&extra(key), t), t, vec![t; arity(key)]),
        };
        let plain = plain.ok_or_else(|| unknown(s))?;
        Ok(MachineStep::Plain(plain, self.rows_of(function, s, d, &sources)?))
    }
    /// `and.pred` and its kin. Either factor may be a constant, or negated.
    fn logic(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        // Bits of `x` tell which of the two is negated.
        let plain: Plain = match s.words[0].as_str() {
            "and" => |r, o, m| r.put_predicate(o.d, m, (r.predicate(o.a) ^ all(o.x & 1)) & (r.predicate(o.b) ^ all(o.x >> 1))),
            "or" => |r, o, m| r.put_predicate(o.d, m, (r.predicate(o.a) ^ all(o.x & 1)) | (r.predicate(o.b) ^ all(o.x >> 1))),
            "xor" => |r, o, m| r.put_predicate(o.d, m, r.predicate(o.a) ^ all(o.x & 1) ^ r.predicate(o.b) ^ all(o.x >> 1)),
            "not" => |r, o, m| r.put_predicate(o.d, m, !(r.predicate(o.a) ^ all(o.x & 1))),
            _ => return Err(unknown(s)),
        };
        let (d, sources) = s.operands.split_first().ok_or_else(|| unknown(s))?;
        let mut o = none();
        o.d = self.predicate(function, d, s)?;
        match (s.words[0].as_str(), sources) {
            ("not", [a]) => {
                let (a, negated) = self.negated(function, a, s)?;
                (o.a, o.x) = (a, u32::from(negated));
            }
            ("and" | "or" | "xor", [a, b]) => {
                let ((a, of_a), (b, of_b)) = (self.negated(function, a, s)?, self.negated(function, b, s)?);
                (o.a, o.b, o.x) = (a, b, u32::from(of_a) | u32::from(of_b) << 1);
            }
            _ => return Err(unknown(s)),
        }
        Ok(MachineStep::Plain(plain, o))
    }
    fn moved(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let [to, from] = s.operands.as_slice() else { return Err(unknown(s)) };
        let t = *f.types.last().ok_or_else(|| unknown(s))?;
        if t == PtxType::Pred {
            let mut o = none();
            o.d = self.predicate(function, to, s)?;
            let (a, negated) = self.negated(function, from, s)?;
            (o.a, o.x) = (a, u32::from(negated));
            return Ok(MachineStep::Plain(|r, o, m| r.put_predicate(o.d, m, r.predicate(o.a) ^ all(o.x)), o));
        }
        match (to, from) {
            (Operand::Vector(parts), whole) | (whole, Operand::Vector(parts)) => {
                let bits = t.bits() / (parts.len().max(1) as u64);
                let part = match bits {
                    8 => PtxType::B8,
                    16 => PtxType::B16,
                    32 => PtxType::B32,
                    _ => return Err(unknown(s)),
                };
                let unpacks = matches!(to, Operand::Vector(_));
                let mut found = Vec::new();
                for p in parts {
                    found.push(self.any(function, p, part, s)?);
                }
                let whole = if unpacks { self.read(function, whole, t, s)? } else { self.write(function, whole, t, s)? };
                let parts = Box::new(RegisterParts { whole, whole_wide: t.bits() == 64, parts: found, bits: bits as u32 });
                Ok(if unpacks { MachineStep::Unpack(parts) } else { MachineStep::Pack(parts) })
            }
            (to, Operand::Special(name)) if matches!(name.as_str(), "%clock" | "%clock64" | "%globaltimer" | "%clock_hi" | "%globaltimer_lo") => {
                Ok(MachineStep::Clock(self.write(function, to, t, s)?, t.bits() == 64))
            }
            _ => {
                let o = self.rows_of(function, s, t, &[t])?;
                Ok(MachineStep::Plain(copy(t.bits() == 64), o))
            }
        }
    }
    /// `cvta` between a space's addresses and generic ones.
    fn generic(&mut self, function: &PtxFunction, s: &Statement) -> Decoded<MachineStep> {
        let has = |word: &str| s.words.iter().any(|w| w == word);
        if !has("u64") {
            return Err(unknown(s));
        }
        let space = s.words.iter().find_map(|w| match w.as_str() {
            "global" | "const" => Some(StateSpace::Global),
            "shared" | "shared::cta" => Some(StateSpace::Shared),
            "local" => Some(StateSpace::Local),
            "param" | "param::entry" => Some(StateSpace::Param),
            _ => None,
        });
        let o = self.rows_of(function, s, PtxType::U64, &[PtxType::U64])?;
        let plain: Plain = match (space.ok_or_else(|| unknown(s))?, has("to")) {
            (StateSpace::Shared, false) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.wrapping_add(SHARED)),
            (StateSpace::Shared, true) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.wrapping_sub(SHARED)),
            (StateSpace::Local, false) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.wrapping_add(LOCAL)),
            (StateSpace::Local, true) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.wrapping_sub(LOCAL)),
            (StateSpace::Param, false) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.wrapping_add(PARAMETERS)),
            (StateSpace::Param, true) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.wrapping_sub(PARAMETERS)),
            _ => copy(true),
        };
        Ok(MachineStep::Plain(plain, o))
    }
    fn set(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let setp = s.words[0] == "setp";
        let (t, result) = match (setp, f.types.as_slice()) {
            (true, [t]) => (*t, *t),
            (false, [d, t]) => (*t, *d),
            _ => return Err(unknown(s)),
        };
        let (name, with) = match f.others.as_slice() {
            [name] => (*name, 0),
            [name, "and"] => (*name, 1),
            [name, "or"] => (*name, 2),
            [name, "xor"] => (*name, 3),
            _ => return Err(unknown(s)),
        };
        let relation = compare::relation(name, t, f.ftz).ok_or_else(|| unknown(s))?;
        let [d, a, b, rest @ ..] = s.operands.as_slice() else { return Err(unknown(s)) };
        let mut o = none();
        o.a = self.read(function, a, t, s)?;
        o.b = self.read(function, b, t, s)?;
        let mut combination = Combination { with, negated: false, second: NOWHERE };
        if with > 0 {
            let c = rest.first().ok_or_else(|| unknown(s))?;
            (o.c, combination.negated) = self.negated(function, c, s)?;
        }
        if !setp {
            if with > 0 {
                return Err(unknown(s));
            }
            let ones = match result {
                PtxType::F32 => 1f32.to_bits(),
                PtxType::U32 | PtxType::S32 | PtxType::B32 => u32::MAX,
                _ => return Err(unknown(s)),
            };
            o.d = self.write(function, d, result, s)?;
            return Ok(MachineStep::SetWord(relation, o, ones));
        }
        match d {
            Operand::Pair(p, q) => {
                o.d = self.predicate(function, p, s)?;
                combination.second = self.predicate(function, q, s)?;
            }
            d => o.d = self.predicate(function, d, s)?,
        }
        o.x = combination.word();
        Ok(MachineStep::Set(relation, o))
    }
    fn tested(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let [d, a] = s.operands.as_slice() else { return Err(unknown(s)) };
        let mut o = none();
        o.d = self.predicate(function, d, s)?;
        o.x = Combination { second: NOWHERE, ..Combination::default() }.word();
        if s.words[0] == "isspacep" {
            o.a = self.read(function, a, PtxType::U64, s)?;
            let within: compare::Relation = match f.others.first() {
                Some(&"shared" | &"shared::cta") => |r, o| super::super::registers::compare::<u64, u64>(r, o, |a, _b| a.wrapping_sub(SHARED) < WINDOW),
                Some(&"local") => |r, o| super::super::registers::compare::<u64, u64>(r, o, |a, _b| a.wrapping_sub(LOCAL) < WINDOW),
                Some(&"global") => |r, o| super::super::registers::compare::<u64, u64>(r, o, |a, _b| a < crate::memory::END_OF_ADDRESSES),
                _ => return Err(unknown(s)),
            };
            return Ok(MachineStep::Set(within, o));
        }
        let t = *f.types.last().ok_or_else(|| unknown(s))?;
        o.a = self.read(function, a, t, s)?;
        o.b = o.a;
        let name = f.others.first().ok_or_else(|| unknown(s))?;
        Ok(MachineStep::Set(compare::kind_of_float(name, t).ok_or_else(|| unknown(s))?, o))
    }
    fn selected(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let [d, a, b, c] = s.operands.as_slice() else { return Err(unknown(s)) };
        let t = *f.types.first().ok_or_else(|| unknown(s))?;
        let mut o = none();
        o.d = self.write(function, d, t, s)?;
        o.a = self.read(function, a, t, s)?;
        o.b = self.read(function, b, t, s)?;
        let wide = t.bits() == 64;
        if s.words[0] == "selp" {
            let (c, negated) = self.negated(function, c, s)?;
            (o.c, o.x) = (c, u32::from(negated));
            return Ok(MachineStep::Plain(compare::select(wide), o));
        }
        let by = *f.types.get(1).ok_or_else(|| unknown(s))?;
        o.c = self.read(function, c, by, s)?;
        Ok(MachineStep::Plain(compare::select_by_sign(wide, by).ok_or_else(|| unknown(s))?, o))
    }
    /// `lop3` and `bfi`, which have four sources.
    fn four(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let [d, a, b, c, x] = s.operands.as_slice() else { return Err(unknown(s)) };
        let t = *f.types.last().filter(|t| matches!(t, PtxType::B32 | PtxType::B64)).ok_or_else(|| unknown(s))?;
        let mut o = none();
        o.d = self.write(function, d, t, s)?;
        o.a = self.read(function, a, t, s)?;
        o.b = self.read(function, b, t, s)?;
        o.c = self.read(function, c, PtxType::B32, s)?;
        if s.words[0] == "lop3" {
            let Operand::Integer(table @ 0..=255) = x else { return Err(unknown(s)) };
            o.x = *table as u32;
            if t != PtxType::B32 || !f.others.is_empty() {
                return Err(unknown(s));
            }
            return Ok(MachineStep::Plain(
                |r, o, m| super::super::registers::map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| bits::any_function(a, b, c, o.x)),
                o,
            ));
        }
        o.x = self.read(function, x, PtxType::B32, s)?;
        fn insert<const WIDE: bool>(r: &mut Registers, o: &RowOperands, m: u32) {
            let (position, length) = (*r.words(o.c), *r.words(o.x));
            if WIDE {
                let (a, b) = (r.wide(o.a), r.wide(o.b));
                let d: [u64; 32] = std::array::from_fn(|k| bits::insert(a[k], b[k], position[k], length[k], 64));
                r.put(o.d, m, &d);
            } else {
                let (a, b) = (r.words(o.a), r.words(o.b));
                let d: [u32; 32] = std::array::from_fn(|k| bits::insert(a[k].into(), b[k].into(), position[k], length[k], 32) as u32);
                r.put(o.d, m, &d);
            }
        }
        Ok(MachineStep::Plain(if t == PtxType::B64 { insert::<true> } else { insert::<false> }, o))
    }
    fn converted(&mut self, function: &PtxFunction, s: &Statement, f: &Flags<'_>) -> Decoded<MachineStep> {
        let [d, sources @ ..] = s.operands.as_slice() else { return Err(unknown(s)) };
        let [to, from] = f.types[..] else { return Err(unknown(s)) };
        if !f.others.is_empty() {
            return Err(unknown(s));
        }
        // Types of two halves: what each half is, and the word's type.
        let half = |t: PtxType| match t {
            PtxType::F16x2 => Some((PtxType::F16, 16)),
            PtxType::Bf16x2 => Some((PtxType::Bf16, 16)),
            PtxType::E4m3x2 => Some((PtxType::E4m3, 8)),
            PtxType::E5m2x2 => Some((PtxType::E5m2, 8)),
            _ => None,
        };
        let (one_to, packed) = half(to).unwrap_or((to, 0));
        let (one_from, halves) = half(from).map_or((from, false), |(t, _)| (t, true));
        let floats = |t: PtxType| matches!(t, PtxType::F16 | PtxType::Bf16 | PtxType::F32 | PtxType::F64 | PtxType::Tf32 | PtxType::E4m3 | PtxType::E5m2);
        let mut c =
            Conversion { to: one_to, from: one_from, rounding: f.rounding, whole: f.whole, ftz: f.ftz, saturate: f.sat, relu: f.relu, finite: f.finite };
        let narrows = floats(one_to)
            && (!floats(one_from) || one_to.bits() < one_from.bits() || one_to == PtxType::Tf32 || one_to != one_from && one_to.bits() == one_from.bits());
        let fits = match (floats(one_from), floats(one_to)) {
            (_, true) if narrows => f.rounding.is_some(),
            (true, false) => f.whole.is_some(),
            _ => true,
        };
        if !fits || packed > 0 && !halves && sources.len() != 2 || (packed == 0 || halves) && sources.len() != 1 {
            return Err(unknown(s));
        }
        if !narrows {
            c.rounding = None;
        }
        let (d, d_wide) = self.any(function, d, to, s)?;
        let (mut rows, mut source_wide) = (Vec::new(), false);
        for source in sources {
            let (row, wide) = self.any(function, source, from, s)?;
            rows.push(row);
            source_wide = wide;
        }
        let natural = d_wide == (to.bits() == 64) && source_wide == (from.bits() == 64);
        if let (true, 0, Some(plain), [a]) = (natural, packed, usual(&c), rows.as_slice()) {
            return Ok(MachineStep::Plain(plain, RowOperands { d, a: *a, ..none() }));
        }
        Ok(MachineStep::Convert(Box::new(ConvertStep { conversion: c, d, d_wide, sources: rows, source_wide, halves, packed })))
    }
}

fn arity(key: &str) -> usize {
    match key.split('.').next().unwrap_or(key) {
        "neg" | "abs" | "not" | "cnot" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => 1,
        "fma" | "mad" | "mad24" | "sad" => 3,
        _ => 2,
    }
}
/// All lanes where the lowest bit is set, else none.
fn all(bit: u32) -> u32 {
    0u32.wrapping_sub(bit)
}
/// A row as it is.
fn copy(wide: bool) -> Plain {
    if wide { |r, o, m| r.put(o.d, m, &{ *r.wide(o.a) }) } else { |r, o, m| r.put(o.d, m, &{ *r.words(o.a) }) }
}

const _: () = assert!(SCRATCH > 0, "row 0 is the one that is read where an instruction has fewer operands");
