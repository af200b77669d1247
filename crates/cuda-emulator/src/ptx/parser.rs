//! Reads a module's statements: directives, functions, instructions and their operands.
use super::{
    Operand, PtxError, PtxFunction, Source, StateSpace, Statement, Variable,
    declarations::{registers, space, variable},
    lexer::{PlacedToken, PtxToken, tokens},
};
use std::collections::HashMap;

/// Braces within braces that a text may have.
const MOST_DEPTH: usize = 64;

/// Where in the tokens the reader stands.
pub struct Cursor<'c, 't> {
    tokens: &'c [PlacedToken<'t>],
    at: usize,
}

impl<'t> Cursor<'_, 't> {
    pub fn peek(&self) -> Option<PtxToken<'t>> {
        self.tokens.get(self.at).map(|p| p.token)
    }
    fn peek_second(&self) -> Option<PtxToken<'t>> {
        self.tokens.get(self.at + 1).map(|p| p.token)
    }
    pub fn next(&mut self) -> Option<PtxToken<'t>> {
        let token = self.peek();
        self.at += 1;
        token
    }
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |p| p.line)
    }
    fn wrong<T>(&self, what: &str) -> Result<T, PtxError> {
        let there = match self.peek() {
            Some(PtxToken::Word(w)) => format!("`{w}`"),
            Some(PtxToken::Mark(m)) => format!("`{}`", char::from(m)),
            Some(_) => "a number or text".into(),
            None => "the end of the text".into(),
        };
        Err(PtxError::new(self.line(), format!("{what} is wanted, and there is {there}")))
    }
    pub fn word(&mut self) -> Result<&'t str, PtxError> {
        match self.peek() {
            Some(PtxToken::Word(w)) => {
                self.at += 1;
                Ok(w)
            }
            _ => self.wrong("a name"),
        }
    }
    pub fn integer(&mut self) -> Result<u32, PtxError> {
        match self.peek() {
            Some(PtxToken::Integer(n)) if u32::try_from(n).is_ok() => {
                self.at += 1;
                Ok(n as u32)
            }
            _ => self.wrong("a number below 2^32"),
        }
    }
    pub fn take_mark(&mut self, mark: u8) -> bool {
        let there = self.peek() == Some(PtxToken::Mark(mark));
        self.at += usize::from(there);
        there
    }
    pub fn mark(&mut self, mark: u8) -> Result<(), PtxError> {
        if self.take_mark(mark) { Ok(()) } else { self.wrong(&format!("`{}`", char::from(mark))) }
    }
    /// Goes on behind the next such mark.
    fn skip_to(&mut self, mark: u8) {
        while let Some(token) = self.next() {
            if token == PtxToken::Mark(mark) {
                return;
            }
        }
    }
}

/// What a name means within a function, by scope.
#[derive(Default)]
pub struct ScopedNames {
    scopes: Vec<NameScope>,
}

#[derive(Default)]
struct NameScope {
    registers: HashMap<String, usize>,
    /// `%r<10>`: the stem, how many, and the first one's number.
    ranges: HashMap<String, (u32, usize)>,
    variables: HashMap<String, usize>,
}

impl ScopedNames {
    fn open(&mut self) {
        self.scopes.push(NameScope::default());
    }
    fn close(&mut self) {
        self.scopes.pop();
    }
    pub fn register(&mut self, name: &str, number: usize) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.registers.insert(name.to_string(), number);
        }
    }
    pub fn range(&mut self, stem: &str, count: u32, first: usize) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.ranges.insert(stem.to_string(), (count, first));
        }
    }
    fn variable(&mut self, name: &str, number: usize) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.variables.insert(name.to_string(), number);
        }
    }
    fn find(&self, name: &str) -> Option<Operand> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let index = name.get(stem.len()..).and_then(|d| d.parse::<u32>().ok());
        for scope in self.scopes.iter().rev() {
            if let Some(number) = scope.registers.get(name) {
                return Some(Operand::Register(*number));
            }
            if let (Some(index), Some((count, first))) = (index, scope.ranges.get(stem))
                && index < *count
            {
                return Some(Operand::Register(first + index as usize));
            }
            if let Some(number) = scope.variables.get(name) {
                return Some(Operand::Variable(*number));
            }
        }
        None
    }
}

/// Reads a module's text.
///
/// # Errors
/// It is no PTX, or holds a directive that is unknown: the line, and what it is.
pub fn parse(text: &str) -> Result<Source, PtxError> {
    let tokens = tokens(text)?;
    let mut cursor = Cursor { tokens: &tokens, at: 0 };
    let mut source = Source::default();
    while let Some(token) = cursor.peek() {
        let line = cursor.line();
        let PtxToken::Word(word) = token else { return cursor.wrong("a directive") };
        cursor.at += 1;
        match word {
            ".version" => {
                cursor.next();
            }
            ".target" => source.target = target(&mut cursor)?,
            ".address_size" => {
                if cursor.integer()? != 64 {
                    return Err(PtxError::new(line, "only addresses of 64 bits are known here"));
                }
            }
            ".visible" | ".extern" | ".weak" | ".common" | ".noreturn" => {}
            ".file" | ".loc" => skip_line(&mut cursor, line),
            ".section" => {
                cursor.skip_to(b'{');
                cursor.skip_to(b'}');
            }
            ".pragma" => cursor.skip_to(b';'),
            ".entry" | ".func" => {
                if let Some(function) = function(&mut cursor, text, word == ".entry")? {
                    source.functions.push(function);
                }
            }
            _ => match space(word) {
                Some(space) => {
                    let found = variable(&mut cursor, space)?;
                    cursor.mark(b';')?;
                    source.variables.push(found);
                }
                None => return Err(PtxError::new(line, format!("the directive `{word}` is unknown"))),
            },
        }
    }
    if source.target == 0 {
        return Err(PtxError::new(0, "the text names no target"));
    }
    Ok(source)
}

/// `sm_90a, texmode_independent`: 90.
fn target(cursor: &mut Cursor<'_, '_>) -> Result<u32, PtxError> {
    let line = cursor.line();
    let word = cursor.word()?;
    let digits: String = word.strip_prefix("sm_").unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
    while cursor.take_mark(b',') {
        cursor.word()?;
    }
    digits.parse().map_err(|_| PtxError::new(line, format!("`{word}` is no target")))
}

fn skip_line(cursor: &mut Cursor<'_, '_>, line: u32) {
    while cursor.peek().is_some() && cursor.line() == line {
        cursor.at += 1;
    }
}

/// Reads a function after `.entry` or `.func`; none if it is only announced.
fn function(cursor: &mut Cursor<'_, '_>, text: &str, kernel: bool) -> Result<Option<PtxFunction>, PtxError> {
    let mut reader = FunctionReader { function: PtxFunction { kernel, line: cursor.line(), ..PtxFunction::default() }, names: ScopedNames::default(), text };
    reader.names.open();
    if cursor.take_mark(b'(') {
        reader.function.results = reader.parameters(cursor)?;
    }
    reader.function.name = cursor.word()?.to_string();
    if cursor.take_mark(b'(') {
        reader.function.parameters = reader.parameters(cursor)?;
    }
    loop {
        match cursor.peek() {
            Some(PtxToken::Mark(b';')) => {
                cursor.next();
                return Ok(None);
            }
            Some(PtxToken::Mark(b'{')) => break,
            Some(PtxToken::Word(".maxntid" | ".reqntid")) => {
                cursor.next();
                let mut threads = cursor.integer()?;
                while cursor.take_mark(b',') {
                    threads = threads.saturating_mul(cursor.integer()?);
                }
                reader.function.max_threads = Some(threads);
            }
            Some(PtxToken::Word(".minnctapersm" | ".maxnctapersm" | ".maxnreg")) => {
                cursor.next();
                cursor.integer()?;
            }
            Some(PtxToken::Word(".noreturn")) => {
                cursor.next();
            }
            Some(PtxToken::Word(".pragma")) => cursor.skip_to(b';'),
            _ => return cursor.wrong("a function's body"),
        }
    }
    reader.body(cursor)?;
    Ok(Some(reader.function))
}

/// A function that is being read.
struct FunctionReader<'t> {
    function: PtxFunction,
    names: ScopedNames,
    text: &'t str,
}

impl FunctionReader<'_> {
    fn declare(&mut self, variable: Variable) -> usize {
        let number = self.function.variables.len();
        self.names.variable(&variable.name, number);
        self.function.variables.push(variable);
        number
    }
    /// Parameters after `(`, up to and with `)`.
    fn parameters(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Vec<usize>, PtxError> {
        let mut found = Vec::new();
        while !cursor.take_mark(b')') {
            if !found.is_empty() {
                cursor.mark(b',')?;
            }
            if cursor.word()? != ".param" {
                return Err(PtxError::new(cursor.line(), "a parameter that is not `.param` is not known here"));
            }
            let variable = variable(cursor, StateSpace::Param)?;
            found.push(self.declare(variable));
        }
        Ok(found)
    }
    /// A body from `{` to its `}`.
    fn body(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<(), PtxError> {
        let mut depth = 0usize;
        loop {
            let line = cursor.line();
            match cursor.peek() {
                None => return cursor.wrong("`}`"),
                Some(PtxToken::Mark(b'{')) => {
                    cursor.at += 1;
                    depth += 1;
                    if depth > MOST_DEPTH {
                        return Err(PtxError::new(line, "braces within too many braces"));
                    }
                    self.names.open();
                }
                Some(PtxToken::Mark(b'}')) => {
                    cursor.at += 1;
                    self.names.close();
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Some(PtxToken::Mark(b';')) => cursor.at += 1,
                Some(PtxToken::Word(".reg")) => {
                    cursor.at += 1;
                    registers(cursor, &mut self.names, &mut self.function.registers)?;
                }
                Some(PtxToken::Word(".loc" | ".file")) => skip_line(cursor, line),
                Some(PtxToken::Word(".pragma")) => cursor.skip_to(b';'),
                Some(PtxToken::Word(".callprototype")) => cursor.skip_to(b';'),
                Some(PtxToken::Word(word)) if space(word).is_some() => {
                    cursor.at += 1;
                    let variable = variable(cursor, space(word).unwrap_or(StateSpace::Local))?;
                    cursor.mark(b';')?;
                    self.declare(variable);
                }
                Some(PtxToken::Word(word)) if cursor.peek_second() == Some(PtxToken::Mark(b':')) => {
                    cursor.at += 2;
                    if cursor.peek() == Some(PtxToken::Word(".branchtargets")) {
                        cursor.at += 1;
                        let targets = self.targets(cursor)?;
                        self.function.targets.insert(word.to_string(), targets);
                    } else if self.function.labels.insert(word.to_string(), self.function.body.len()).is_some() {
                        return Err(PtxError::new(line, format!("the label `{word}` is there twice")));
                    }
                }
                Some(PtxToken::Word(word)) if word.starts_with('.') => return Err(PtxError::new(line, format!("the directive `{word}` is unknown"))),
                Some(PtxToken::Word(_) | PtxToken::Mark(b'@')) => self.statement(cursor)?,
                Some(_) => return cursor.wrong("an instruction"),
            }
        }
    }
    fn targets(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<Vec<String>, PtxError> {
        let mut found = vec![cursor.word()?.to_string()];
        while cursor.take_mark(b',') {
            found.push(cursor.word()?.to_string());
        }
        cursor.mark(b';')?;
        Ok(found)
    }
    fn statement(&mut self, cursor: &mut Cursor<'_, '_>) -> Result<(), PtxError> {
        let (line, first) = (cursor.line(), cursor.at);
        let mut guard = None;
        if cursor.take_mark(b'@') {
            let negated = cursor.take_mark(b'!');
            let name = cursor.word()?;
            match self.names.find(name) {
                Some(Operand::Register(number)) => guard = Some((number, negated)),
                _ => return Err(PtxError::new(line, format!("the predicate `{name}` is not declared"))),
            }
        }
        let words: Vec<String> = cursor.word()?.split('.').map(str::to_string).collect();
        let mut operands = Vec::new();
        while !cursor.take_mark(b';') {
            if !operands.is_empty() {
                cursor.mark(b',')?;
            }
            operands.push(self.operand(cursor, 0)?);
        }
        let (start, end) = (cursor.tokens.get(first).map_or(0, |t| t.start), cursor.tokens.get(cursor.at - 1).map_or(0, |t| t.start));
        let text = self.text.get(start..end).unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
        self.function.body.push(Statement { guard, words, operands, line, text });
        Ok(())
    }
    fn operand(&mut self, cursor: &mut Cursor<'_, '_>, depth: usize) -> Result<Operand, PtxError> {
        if depth > 4 {
            return cursor.wrong("a plain operand");
        }
        let close = |open| if open == b'{' { b'}' } else { b')' };
        match cursor.peek() {
            Some(PtxToken::Mark(open @ (b'{' | b'('))) => {
                cursor.at += 1;
                let mut found = Vec::new();
                while !cursor.take_mark(close(open)) {
                    if !found.is_empty() {
                        cursor.mark(b',')?;
                    }
                    found.push(self.operand(cursor, depth + 1)?);
                }
                Ok(if open == b'{' { Operand::Vector(found) } else { Operand::List(found) })
            }
            Some(PtxToken::Mark(b'[')) => {
                cursor.at += 1;
                let base = self.operand(cursor, depth + 1)?;
                let address = match base {
                    Operand::Offset(base, offset) => Operand::Address(base, offset),
                    base => Operand::Address(Box::new(base), self.offset(cursor)?),
                };
                cursor.mark(b']')?;
                Ok(address)
            }
            Some(PtxToken::Mark(b'!')) => {
                cursor.at += 1;
                Ok(Operand::Not(Box::new(self.operand(cursor, depth + 1)?)))
            }
            Some(PtxToken::Mark(b'-')) => {
                cursor.at += 1;
                match cursor.next() {
                    Some(PtxToken::Integer(n)) => Ok(Operand::Integer(-i128::from(n))),
                    Some(PtxToken::Float32(n)) => Ok(Operand::Float32(n ^ 1 << 31)),
                    Some(PtxToken::Float64(n)) => Ok(Operand::Float64(n ^ 1 << 63)),
                    _ => cursor.wrong("a number"),
                }
            }
            Some(PtxToken::Integer(n)) => {
                cursor.at += 1;
                Ok(Operand::Integer(i128::from(n)))
            }
            Some(PtxToken::Float32(n)) => {
                cursor.at += 1;
                Ok(Operand::Float32(n))
            }
            Some(PtxToken::Float64(n)) => {
                cursor.at += 1;
                Ok(Operand::Float64(n))
            }
            Some(PtxToken::Word(word)) => {
                cursor.at += 1;
                let found = self.name(word);
                if cursor.take_mark(b'|') {
                    let second = self.operand(cursor, depth + 1)?;
                    return Ok(Operand::Pair(Box::new(found), Box::new(second)));
                }
                let offset = self.offset(cursor)?;
                Ok(if offset == 0 { found } else { Operand::Offset(Box::new(found), offset) })
            }
            _ => cursor.wrong("an operand"),
        }
    }
    fn name(&self, word: &str) -> Operand {
        match self.names.find(word) {
            Some(found) => found,
            None if word == "_" => Operand::Nowhere,
            None if word.starts_with('%') => Operand::Special(word.to_string()),
            None => Operand::Name(word.to_string()),
        }
    }
    /// `+4`, `+-4`, `-4` or nothing.
    fn offset(&self, cursor: &mut Cursor<'_, '_>) -> Result<i64, PtxError> {
        let negative = match cursor.peek() {
            Some(PtxToken::Mark(b'+')) => {
                cursor.at += 1;
                cursor.take_mark(b'-')
            }
            Some(PtxToken::Mark(b'-')) => {
                cursor.at += 1;
                true
            }
            _ => return Ok(0),
        };
        match cursor.next() {
            Some(PtxToken::Integer(n)) if i64::try_from(n).is_ok() => Ok(if negative { -(n as i64) } else { n as i64 }),
            _ => cursor.wrong("an offset"),
        }
    }
}
