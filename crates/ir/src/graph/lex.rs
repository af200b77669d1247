//! The words of a line of a graph's text, with their columns. A line is read for itself, so what is wrong in one is told of it.
use super::{
    TextError,
    text::{in_name, is_bare},
};
use std::str::FromStr;

/// A word.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// `%name`
    Value(String),
    /// `@name`
    Cell(String),
    /// letters, digits, dots and lines, beginning with a letter
    Word(String),
    /// a number as it stands, `inf` and `nan` among them
    Number(String),
    /// in quotes
    Text(String),
    /// `#` and 32 hexadecimal digits
    Hash(u128),
    /// one of `: , = ( ) [ ] { }`
    Mark(char),
    /// the end of the line
    End,
}
impl Token {
    /// As an error shows it.
    pub fn shown(&self) -> String {
        match self {
            Token::Value(s) => format!("`%{s}`"),
            Token::Cell(s) => format!("`@{s}`"),
            Token::Word(s) | Token::Number(s) => format!("`{s}`"),
            Token::Text(s) => format!("{s:?}"),
            Token::Hash(h) => format!("`#{h:032x}`"),
            Token::Mark(c) => format!("`{c}`"),
            Token::End => "the end of the line".into(),
        }
    }
}
/// A line being read.
pub(super) struct Line {
    tokens: Vec<(Token, u32)>,
    at: usize,
    /// its number, from 1
    pub number: u32,
}
impl Line {
    /// Splits a line into its words; what follows `//` is a comment.
    ///
    /// # Errors
    /// A character that begins no word; quotes that do not end.
    pub fn new(text: &str, number: u32) -> Result<Line, TextError> {
        let chars: Vec<char> = text.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        let fail = |at: usize, what: String| TextError { line: number, column: at as u32 + 1, what, nearest: None };
        while let Some(&c) = chars.get(at) {
            let begin = at;
            let run = |from: usize, of: &dyn Fn(char) -> bool| chars[from..].iter().take_while(|c| of(**c)).collect::<String>();
            let token = match c {
                ' ' | '\t' | '\r' => {
                    at += 1;
                    continue;
                }
                '/' if chars.get(at + 1) == Some(&'/') => break,
                ':' | ',' | '=' | '(' | ')' | '[' | ']' | '{' | '}' => {
                    at += 1;
                    Token::Mark(c)
                }
                '"' => {
                    let (text, end) = quoted(&chars, at).map_err(|(at, what)| fail(at, what))?;
                    at = end;
                    Token::Text(text)
                }
                '%' | '@' => {
                    let name = if chars.get(at + 1) == Some(&'"') {
                        let (text, end) = quoted(&chars, at + 1).map_err(|(at, what)| fail(at, what))?;
                        at = end;
                        text
                    } else {
                        let name = run(at + 1, &in_name);
                        at += 1 + name.len();
                        if !is_bare(&name) {
                            return Err(fail(begin, format!("a name is expected behind `{c}`")));
                        }
                        name
                    };
                    if c == '%' { Token::Value(name) } else { Token::Cell(name) }
                }
                '#' => {
                    let digits = run(at + 1, &|c| c.is_ascii_hexdigit());
                    at += 1 + digits.len();
                    match (digits.len(), u128::from_str_radix(&digits, 16)) {
                        (32, Ok(hash)) => Token::Hash(hash),
                        _ => return Err(fail(begin, "a content hash has 32 hexadecimal digits".into())),
                    }
                }
                '-' | '0'..='9' => {
                    let mut text = run(at, &|c| c.is_ascii_alphanumeric() || ".+-".contains(c));
                    if text == "-nan" {
                        text.clear();
                    }
                    at += text.len().max(1);
                    Token::Number(text)
                }
                'a'..='z' | 'A'..='Z' | '_' => {
                    let mut word = run(at, &in_name);
                    at += word.len();
                    if word == "nan" && chars.get(at) == Some(&'(') {
                        let rest = run(at + 1, &|c| c.is_ascii_alphanumeric());
                        if chars.get(at + 1 + rest.len()) == Some(&')') {
                            word = format!("nan({rest})");
                            at += rest.len() + 2;
                        }
                    }
                    if word.starts_with("nan(") || word == "nan" || word == "inf" { Token::Number(word) } else { Token::Word(word) }
                }
                c => return Err(fail(at, format!("{c:?} begins no word of a graph's text"))),
            };
            tokens.push((token, begin as u32 + 1));
        }
        tokens.push((Token::End, chars.len() as u32 + 1));
        Ok(Line { tokens, at: 0, number })
    }
    /// The next word.
    pub fn peek(&self) -> &Token {
        // The end stays.
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }
    /// Goes on behind the next word.
    pub fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len());
    }
    /// The column of the next word.
    pub fn column(&self) -> u32 {
        self.tokens[self.at.min(self.tokens.len() - 1)].1
    }
    /// Is the next word this mark? Then it is taken.
    pub fn takes(&mut self, mark: char) -> bool {
        let is = *self.peek() == Token::Mark(mark);
        self.at += usize::from(is);
        is
    }
    /// Is the next word this one? Then it is taken.
    pub fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Token::Word(w) if w == word);
        self.at += usize::from(is);
        is
    }
    /// Takes a mark.
    ///
    /// # Errors
    /// Another word stands there.
    pub fn mark(&mut self, mark: char) -> Result<(), TextError> {
        if self.takes(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }
    /// Takes the name of a value.
    ///
    /// # Errors
    /// Another word stands there.
    pub fn value(&mut self) -> Result<String, TextError> {
        let Token::Value(name) = self.peek().clone() else { return Err(self.expected("a value `%name`")) };
        self.next();
        Ok(name)
    }
    /// Takes the name of a cell.
    ///
    /// # Errors
    /// Another word stands there.
    pub fn cell(&mut self) -> Result<String, TextError> {
        let Token::Cell(name) = self.peek().clone() else { return Err(self.expected("a cell `@name`")) };
        self.next();
        Ok(name)
    }
    /// Takes a whole number of the type.
    ///
    /// # Errors
    /// Another word stands there, or the type has no such number.
    pub fn whole<T: FromStr>(&mut self, what: &str) -> Result<T, TextError> {
        let number = if let Token::Number(n) = self.peek() { n.parse().ok() } else { None };
        let number = number.ok_or_else(|| self.expected(what))?;
        self.next();
        Ok(number)
    }
    /// An error at the next word, which is not what was expected.
    pub fn expected(&self, what: &str) -> TextError {
        self.fail(self.column(), format!("{what} is expected, not {}", self.peek().shown()))
    }
    /// An error at a column.
    pub fn fail(&self, column: u32, what: String) -> TextError {
        TextError { line: self.number, column, what, nearest: None }
    }
}
/// The text in quotes that begin at a position, and where they end; or where it goes wrong.
fn quoted(chars: &[char], begin: usize) -> Result<(String, usize), (usize, String)> {
    let mut out = String::new();
    let mut at = begin + 1;
    loop {
        match chars.get(at) {
            None => return Err((begin, "the quotes do not end on this line".into())),
            Some('"') => return Ok((out, at + 1)),
            Some('\\') => match chars.get(at + 1) {
                Some(c @ ('"' | '\\')) => {
                    out.push(*c);
                    at += 2;
                }
                Some('u') if chars.get(at + 2) == Some(&'{') => {
                    let digits: String = chars[at + 3..].iter().take(7).take_while(|c| c.is_ascii_hexdigit()).collect();
                    let c = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    match (c, chars.get(at + 3 + digits.len())) {
                        (Some(c), Some('}')) => out.push(c),
                        _ => return Err((at, "`\\u{...}` holds a character's number in hexadecimal digits".into())),
                    }
                    at += 4 + digits.len();
                }
                _ => return Err((at, "behind a backslash stands a quote, a backslash or u{...}".into())),
            },
            Some(c) => {
                out.push(*c);
                at += 1;
            }
        }
    }
}
