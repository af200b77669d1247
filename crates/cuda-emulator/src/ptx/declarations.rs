//! Variables as PTX declares them: `.global .align 4 .b8 table[24] = {…}`, parameters, registers.
use super::{
    Initial, PtxError, PtxType, StateSpace, Variable,
    lexer::PtxToken,
    parser::{Cursor, ScopedNames},
};

/// More registers than this no function has; a damaged text may ask for any number.
const MOST_REGISTERS: usize = 1 << 16;
/// Larger variables than this are refused.
const MOST_BYTES: u64 = 1 << 30;

/// Whether a word begins a variable's declaration, and where it lives then.
pub fn space(word: &str) -> Option<StateSpace> {
    Some(match word {
        ".global" => StateSpace::Global,
        ".const" => StateSpace::Const,
        ".shared" | ".shared::cta" => StateSpace::Shared,
        ".local" => StateSpace::Local,
        ".param" => StateSpace::Param,
        _ => return None,
    })
}

/// Reads what follows the word of the space, up to and without what ends it.
pub fn variable(cursor: &mut Cursor<'_, '_>, space: StateSpace) -> Result<Variable, PtxError> {
    let line = cursor.line();
    let (mut align, mut element, mut vector) = (0, 0, 1);
    let name = loop {
        let word = cursor.word()?;
        match word {
            ".align" => align = cursor.integer()? as u64,
            ".ptr" | ".global" | ".const" | ".shared" | ".local" | ".managed" => {}
            ".v2" => vector = 2,
            ".v4" => vector = 4,
            _ => match word.strip_prefix('.') {
                // A name may begin so, too, but no compiler writes one.
                Some(t) => element = PtxType::named(t).ok_or_else(|| PtxError::new(line, format!("`{word}` in a declaration is unknown")))?.bytes(),
                None => break word.to_string(),
            },
        }
        // `.ptr .align 16` is about what a pointer points to.
        if word == ".ptr" {
            while let Some(PtxToken::Word(".global" | ".const" | ".shared" | ".local")) = cursor.peek() {
                cursor.next();
            }
            if cursor.peek() == Some(PtxToken::Word(".align")) {
                cursor.next();
                cursor.integer()?;
            }
        }
    };
    if element == 0 {
        return Err(PtxError::new(line, format!("`{name}` is declared without a type")));
    }
    element *= vector;
    if align == 0 {
        align = element;
    }
    if !align.is_power_of_two() || align > 1 << 20 {
        return Err(PtxError::new(line, format!("`{name}`: an alignment of {align}")));
    }
    let mut bytes = Some(element);
    while cursor.take_mark(b'[') {
        let count = if cursor.peek() == Some(PtxToken::Mark(b']')) { 0 } else { cursor.integer()? as u64 };
        cursor.mark(b']')?;
        bytes = bytes.and_then(|b| b.checked_mul(count)).filter(|b| *b <= MOST_BYTES);
    }
    let bytes = bytes.ok_or_else(|| PtxError::new(line, format!("`{name}` is too large")))?;
    let mut initial = Vec::new();
    if cursor.take_mark(b'=') {
        initials(cursor, &mut initial)?;
        if (initial.len() as u64).checked_mul(element).is_none_or(|b| b > bytes) {
            return Err(PtxError::new(line, format!("`{name}` begins with more than it holds")));
        }
    }
    Ok(Variable { name, space, align, element, bytes, initial, line })
}

/// Reads a value, or values in braces of any depth.
fn initials(cursor: &mut Cursor<'_, '_>, into: &mut Vec<Initial>) -> Result<(), PtxError> {
    let mut depth = 0u32;
    loop {
        match cursor.peek() {
            Some(PtxToken::Mark(b'{')) => {
                cursor.next();
                depth += 1;
                continue;
            }
            Some(PtxToken::Mark(b'-')) => {
                cursor.next();
                into.push(Initial::Bits((cursor.integer()? as i64).wrapping_neg() as u64));
            }
            Some(PtxToken::Integer(n)) => {
                cursor.next();
                into.push(Initial::Bits(n));
            }
            Some(PtxToken::Float32(n)) => {
                cursor.next();
                into.push(Initial::Bits(u64::from(n)));
            }
            Some(PtxToken::Float64(n)) => {
                cursor.next();
                into.push(Initial::Bits(n));
            }
            Some(PtxToken::Word("generic")) => {
                cursor.next();
                cursor.mark(b'(')?;
                into.push(Initial::Address(cursor.word()?.to_string(), 0));
                cursor.mark(b')')?;
                offset(cursor, into)?;
            }
            Some(PtxToken::Word(name)) => {
                cursor.next();
                into.push(Initial::Address(name.to_string(), 0));
                offset(cursor, into)?;
            }
            _ => return Err(PtxError::new(cursor.line(), "a value is missing")),
        }
        while depth > 0 && cursor.take_mark(b'}') {
            depth -= 1;
        }
        if depth == 0 {
            return Ok(());
        }
        cursor.mark(b',')?;
    }
}

fn offset(cursor: &mut Cursor<'_, '_>, into: &mut [Initial]) -> Result<(), PtxError> {
    if cursor.take_mark(b'+') {
        let by = cursor.integer()? as i64;
        if let Some(Initial::Address(_, offset)) = into.last_mut() {
            *offset = by;
        }
    }
    Ok(())
}

/// Reads `.reg` declarations after that word: `.b32 %r<10>, a;`.
pub fn registers(cursor: &mut Cursor<'_, '_>, names: &mut ScopedNames, types: &mut Vec<PtxType>) -> Result<(), PtxError> {
    let line = cursor.line();
    let word = cursor.word()?;
    if matches!(word, ".v2" | ".v4") {
        return Err(PtxError::new(line, "registers of vectors are not known here"));
    }
    let of = word.strip_prefix('.').and_then(PtxType::named).ok_or_else(|| PtxError::new(line, format!("`{word}` is no type of a register")))?;
    loop {
        let name = cursor.word()?;
        let count = if cursor.take_mark(b'<') {
            let count = cursor.integer()?;
            cursor.mark(b'>')?;
            Some(count)
        } else {
            None
        };
        if count.unwrap_or(1) as usize > MOST_REGISTERS.saturating_sub(types.len()) {
            return Err(PtxError::new(line, format!("a function of more than {MOST_REGISTERS} registers")));
        }
        match count {
            Some(count) => {
                names.range(name, count, types.len());
                types.extend(std::iter::repeat_n(of, count as usize));
            }
            None => {
                names.register(name, types.len());
                types.push(of);
            }
        }
        if !cursor.take_mark(b',') {
            return cursor.mark(b';');
        }
    }
}
