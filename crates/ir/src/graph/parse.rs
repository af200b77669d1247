//! A graph from its text: the reader of what [`super::text`] writes. It takes memory in proportion to the text, whatever the
//! text says, and never panics.
use super::{
    At, Data, Environment, Graph, GraphError, TextError, Type, Write, form, hash,
    lex::{Line, Token},
    nearest, number,
    text::HEAD,
};
use crate::{
    Arg, Attr, DType, DeviceId, ErrorKind, MAX_RANK, PlacedType, Scalar, Shape,
    composite::Given,
    op::Group,
    scope::{self, ScopeId},
};
use smallvec::SmallVec;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What a text does not hold and its reader needs.
pub struct Reading<'a> {
    home: DeviceId,
    blobs: Option<&'a BTreeMap<u128, Arc<[u8]>>>,
    groups: Vec<Group>,
}
impl<'a> Reading<'a> {
    /// The graph will be at home on this device.
    pub fn new(home: impl Into<DeviceId>) -> Reading<'a> {
        Reading { home: home.into(), blobs: None, groups: Vec::new() }
    }
    /// With the table of large constants that was written beside the text.
    #[must_use]
    pub fn blobs(mut self, blobs: &'a BTreeMap<u128, Arc<[u8]>>) -> Reading<'a> {
        self.blobs = Some(blobs);
        self
    }
    /// With the groups of ranks that its collectives run in, by their number in the text.
    #[must_use]
    pub fn groups(mut self, groups: Vec<Group>) -> Reading<'a> {
        self.groups = groups;
        self
    }
}

impl Graph {
    /// Reads a graph from its text, and verifies it.
    ///
    /// ```
    /// # use adamant_ir::{DeviceId, graph::{Graph, Reading}};
    /// let text = "adamant graph 1\n\
    ///     input %x: f32[2, 3]\n\
    ///     %double: f32[2, 3] = mul(%x) {scalar: \"right\"} with 2.0\n\
    ///     return %double\n";
    /// let graph = Graph::parse(text, &Reading::new(DeviceId(0)), &())?;
    /// assert_eq!(graph.text(&())?.text, text);
    /// let wrong = Graph::parse(&text.replace("mul", "mull"), &Reading::new(DeviceId(0)), &()).unwrap_err();
    /// assert_eq!(wrong.to_string(), "line 3, column 22: there is no op `mull`; did you mean `mul`?");
    /// # Ok::<(), adamant_ir::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// Text that is no graph, with line, column and what was meant; a graph that breaks a rule, with the line of the node.
    pub fn parse(text: &str, reading: &Reading<'_>, environment: &dyn Environment) -> Result<Graph, GraphError> {
        let context = form::FormContext { home: reading.home, groups: reading.groups.clone(), environment };
        let mut reader =
            Reader { graph: Graph::new(reading.home), values: HashMap::new(), cells: HashMap::new(), scopes: HashMap::new(), reading, context, done: false };
        let mut lines = (1..).zip(text.lines());
        match lines.by_ref().find(|(_, line)| !line.trim().is_empty()) {
            Some((_, line)) if line.trim_end() == HEAD => {}
            found => {
                let line = found.map_or(1, |(number, _)| number);
                return Err(TextError { line, column: 1, what: format!("a graph begins with the line `{HEAD}`"), nearest: None }.into());
            }
        }
        let mut last = 1;
        for (number, line) in lines {
            last = number;
            reader.line(Line::new(line, number)?)?;
        }
        if !reader.done {
            return Err(TextError { line: last, column: 1, what: "the text ends without `return`".into(), nearest: None }.into());
        }
        reader.graph.verify(environment)?;
        Ok(reader.graph)
    }
}

struct Reader<'a> {
    graph: Graph,
    values: HashMap<String, u32>,
    cells: HashMap<String, u32>,
    scopes: HashMap<String, ScopeId>,
    reading: &'a Reading<'a>,
    context: form::FormContext<'a>,
    done: bool,
}
const STATEMENTS: [&str; 7] = ["group", "cell", "input", "constant", "read", "write", "return"];
impl Reader<'_> {
    fn line(&mut self, mut line: Line) -> Result<(), GraphError> {
        let column = line.column();
        match line.peek().clone() {
            Token::End => return Ok(()),
            _ if self.done => return Err(line.expected("nothing behind `return`").into()),
            Token::Value(_) => self.node(&mut line)?,
            Token::Word(word) => {
                line.next();
                match &*word {
                    "group" => self.group(&mut line)?,
                    "cell" => self.cell(&mut line)?,
                    "input" => {
                        let (name, ty, place) = self.typed(&mut line)?;
                        let value = self.graph.add_input(None, ty, place);
                        self.define(&line, column, name, value)?;
                    }
                    "constant" => self.constant(&mut line)?,
                    "read" => self.read(&mut line)?,
                    "write" => self.write(&mut line)?,
                    "return" => {
                        let mut more = *line.peek() != Token::End;
                        while more {
                            let value = self.value(&mut line)?;
                            self.graph.outputs.push(value);
                            more = line.takes(',');
                        }
                        self.done = true;
                    }
                    _ => {
                        let nearest = nearest(&word, STATEMENTS);
                        return Err(TextError { nearest, ..line.fail(column, format!("`{word}` begins no line of a graph")) }.into());
                    }
                }
            }
            _ => return Err(line.expected("a value or a word such as `input`").into()),
        }
        if *line.peek() == Token::End { Ok(()) } else { Err(line.expected("the end of the line").into()) }
    }
    /// Names a value for the lines that follow.
    fn define(&mut self, line: &Line, column: u32, name: String, value: u32) -> Result<(), TextError> {
        self.graph.names.insert(value, name.as_str().into());
        match self.values.entry(name) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(value);
                Ok(())
            }
            std::collections::hash_map::Entry::Occupied(place) => Err(line.fail(column, format!("`%{}` is defined twice", place.key()))),
        }
    }
    fn value(&self, line: &mut Line) -> Result<u32, TextError> {
        let column = line.column();
        let name = line.value()?;
        self.values.get(&name).copied().ok_or_else(|| {
            let what = format!("there is no value `%{name}` before this line");
            TextError { nearest: nearest(&name, self.values.keys().map(String::as_str)).map(|n| format!("%{n}")), ..line.fail(column, what) }
        })
    }
    fn cell_number(&self, line: &mut Line) -> Result<u32, TextError> {
        let column = line.column();
        let name = line.cell()?;
        self.cells.get(&name).copied().ok_or_else(|| {
            let nearest = nearest(&name, self.cells.keys().map(String::as_str)).map(|n| format!("@{n}"));
            TextError { nearest, ..line.fail(column, format!("there is no cell `@{name}` before this line")) }
        })
    }
    /// `%name: f32[2, 3] on "cpu"`
    fn typed(&self, line: &mut Line) -> Result<(String, Type, DeviceId), TextError> {
        let name = line.value()?;
        line.mark(':')?;
        let (ty, place) = self.ty(line)?;
        Ok((name, ty, place))
    }
    fn ty(&self, line: &mut Line) -> Result<(Type, DeviceId), TextError> {
        let column = line.column();
        let Token::Word(word) = line.peek().clone() else { return Err(line.expected("a type such as `f32[2, 3]`")) };
        let Some(dtype) = DType::ALL.into_iter().find(|d| d.name() == word) else {
            let nearest = nearest(&word, DType::ALL.iter().map(|d| d.name()));
            return Err(TextError { nearest, ..line.fail(column, format!("there is no dtype `{word}`")) });
        };
        line.next();
        let begin = line.column();
        line.mark('[')?;
        let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::new();
        while !line.takes(']') {
            if !dims.is_empty() {
                line.mark(',')?;
            }
            let at = line.column();
            dims.push(line.whole("a size")?);
            if dims.len() > MAX_RANK {
                return Err(line.fail(at, format!("a tensor has at most {MAX_RANK} axes")));
            }
        }
        let shape = Shape::new(&dims).map_err(|k| line.fail(begin, k.to_string()))?;
        let mut place = self.graph.home;
        if line.takes_word("on") {
            let at = line.column();
            let Token::Text(name) = line.peek().clone() else { return Err(line.expected("a device in quotes")) };
            line.next();
            place = self.context.device(&name).map_err(|k| line.fail(at, k.to_string()))?;
        }
        Ok((Type { shape, dtype }, place))
    }
    fn group(&mut self, line: &mut Line) -> Result<(), TextError> {
        let column = line.column();
        let number = small(line, "the number of a group")?;
        line.mark(':')?;
        if !line.takes_word("ranks") {
            return Err(line.expected("`ranks`"));
        }
        let ranks = small(line, "how many ranks it has")?;
        match self.reading.groups.get(number) {
            Some(group) => match group.size as usize {
                own if own == ranks => Ok(()),
                own => Err(line.fail(column, format!("group {number} has {ranks} ranks, and the one that was given to the reader {own}"))),
            },
            None => Err(line.fail(column, format!("group {number} was not given to the reader of the text"))),
        }
    }
    fn cell(&mut self, line: &mut Line) -> Result<(), TextError> {
        let column = line.column();
        let name = line.cell()?;
        line.mark(':')?;
        let (ty, place) = self.ty(line)?;
        let trainable = line.takes_word("trainable");
        let cell = self.graph.add_cell(Some(&name), ty, place, trainable);
        if self.cells.insert(name.clone(), cell).is_some() {
            return Err(line.fail(column, format!("`@{name}` is declared twice")));
        }
        Ok(())
    }
    fn read(&mut self, line: &mut Line) -> Result<(), TextError> {
        let column = line.column();
        let name = line.value()?;
        line.mark('=')?;
        let at = line.column();
        let cell = self.cell_number(line)?;
        if self.graph.cells[cell as usize].read.is_some() {
            return Err(line.fail(at, "this cell is read already; what it holds at entry has one name".into()));
        }
        let value = self.graph.add_read(cell);
        self.define(line, column, name, value)
    }
    fn write(&mut self, line: &mut Line) -> Result<(), TextError> {
        let cell = self.cell_number(line)?;
        line.mark('=')?;
        let value = self.value(line)?;
        let group = if line.takes_word("group") { small(line, "the number of a group of writes")? as u32 } else { 0 };
        self.graph.writes.push(Write { cell, value, group });
        Ok(())
    }
    fn constant(&mut self, line: &mut Line) -> Result<(), TextError> {
        let column = line.column();
        let (name, ty, place) = self.typed(line)?;
        line.mark('=')?;
        let at = line.column();
        let bytes: Arc<[u8]> = if let Token::Hash(hash) = line.peek() {
            let hash = *hash;
            let found = self.reading.blobs.and_then(|b| b.get(&hash)).cloned();
            let bytes = found.ok_or_else(|| line.fail(at, format!("the table beside the text has no constant #{hash:032x}")))?;
            if hash::content(&bytes) != hash {
                return Err(line.fail(at, format!("the table beside the text has other elements under #{hash:032x}")));
            }
            line.next();
            bytes
        } else {
            let mut bytes = Vec::new();
            line.mark('[')?;
            while !line.takes(']') {
                if !bytes.is_empty() {
                    line.mark(',')?;
                }
                let bits = if let Token::Number(n) | Token::Word(n) = line.peek() { number::read_bits(n, ty.dtype) } else { None };
                let bits = bits.ok_or_else(|| line.expected(&format!("an element of {}", ty.dtype)))?;
                line.next();
                bytes.extend_from_slice(&bits.to_le_bytes()[..ty.dtype.size()]);
            }
            bytes.into()
        };
        if bytes.len() != ty.bytes() {
            let what = format!("{ty} has {} elements, and {} are given", ty.shape.elements(), bytes.len() / ty.dtype.size());
            return Err(line.fail(at, what));
        }
        let value = self.graph.add_constant(ty, place, Data::Bytes(bytes));
        self.define(line, column, name, value)
    }
    /// `%y: f32[2] = op(%x) {axis: 0} with 2.0 in layer`
    fn node(&mut self, line: &mut Line) -> Result<(), GraphError> {
        let mut outputs = Vec::new();
        loop {
            let column = line.column();
            outputs.push((column, self.typed(line)?));
            if !line.takes(',') {
                break;
            }
        }
        line.mark('=')?;
        let column = line.column();
        let Token::Word(op) = line.peek().clone() else { return Err(line.expected("an op").into()) };
        line.next();
        if !form::is_known(&op, self.context.environment) {
            let nearest = nearest(&op, form::names().chain(self.context.environment.composites()));
            return Err(TextError { nearest, ..line.fail(column, format!("there is no op `{op}`")) }.into());
        }
        line.mark('(')?;
        let mut inputs: Vec<u32> = Vec::new();
        while !line.takes(')') {
            if !inputs.is_empty() {
                line.mark(',')?;
            }
            inputs.push(self.value(line)?);
        }
        let mut given = Given::new(attributes(line)?);
        let arg = argument(line)?;
        let scope = self.scope(line)?;
        let types: Vec<Type> = inputs.iter().map(|&v| self.graph.values[v as usize]).collect();
        let first = outputs.first().map(|(_, (_, ty, _))| *ty);
        let op = form::op(&op, &mut given, &types, first, &self.context).map_err(|kind| match kind {
            ErrorKind::Argument(what) => line.fail(column, format!("{op}: {what}")),
            kind => line.fail(column, format!("{op}: {kind}")),
        })?;
        let types = outputs.iter().map(|(_, (_, ty, place))| PlacedType { ty: *ty, place: *place });
        let made = self.graph.add_node(op, arg, &inputs, types, scope, At::Line(line.number));
        for (value, (column, (name, ..))) in made.zip(outputs) {
            self.define(line, column, name, value)?;
        }
        Ok(())
    }
    fn scope(&mut self, line: &mut Line) -> Result<ScopeId, TextError> {
        if !line.takes_word("in") {
            return Ok(ScopeId::default());
        }
        let path = match line.peek().clone() {
            Token::Word(path) | Token::Text(path) | Token::Number(path) => path,
            _ => return Err(line.expected("the path of a layer")),
        };
        line.next();
        if let Some(known) = self.scopes.get(&path) {
            return Ok(*known);
        }
        let id = {
            let _guard = scope::enter_path(&path.as_str().into());
            scope::current()
        };
        self.scopes.insert(path, id);
        Ok(id)
    }
}
/// A number that counts things of the graph.
fn small(line: &mut Line, what: &str) -> Result<usize, TextError> {
    Ok(line.whole::<u32>(what)? as usize)
}
/// `{axis: 0, eps: 1e-5}`, or nothing.
fn attributes(line: &mut Line) -> Result<Vec<(String, Attr)>, TextError> {
    let mut attrs = Vec::new();
    if !line.takes('{') {
        return Ok(attrs);
    }
    while !line.takes('}') {
        if !attrs.is_empty() {
            line.mark(',')?;
        }
        let Token::Word(name) = line.peek().clone() else { return Err(line.expected("the name of an attribute")) };
        line.next();
        line.mark(':')?;
        attrs.push((name, attribute(line)?));
    }
    Ok(attrs)
}
fn attribute(line: &mut Line) -> Result<Attr, TextError> {
    if line.takes('[') {
        let mut all = SmallVec::new();
        while !line.takes(']') {
            if !all.is_empty() {
                line.mark(',')?;
            }
            all.push(line.whole("an integer")?);
        }
        return Ok(Attr::Ints(all));
    }
    let attr = match line.peek() {
        Token::Text(text) => Some(Attr::Text(text.clone().into())),
        Token::Word(word) => match &**word {
            "true" => Some(Attr::Bool(true)),
            "false" => Some(Attr::Bool(false)),
            word => DType::ALL.into_iter().find(|d| d.name() == word).map(Attr::DType),
        },
        Token::Number(n) => number(n).map(|s| match s {
            Scalar::Int(v) => Attr::Int(v),
            s => Attr::Float(s.to_f64()),
        }),
        _ => None,
    };
    let attr = attr.ok_or_else(|| line.expected("an attribute's value"))?;
    line.next();
    Ok(attr)
}
/// An integer, or a float where a point, an exponent or a word says so.
fn number(text: &str) -> Option<Scalar> {
    match text.parse::<i64>() {
        Ok(int) if text != "-0" => Some(Scalar::Int(int)),
        _ if text.contains(['.', 'e', 'E', 'n']) => number::read_bits(text, DType::F64).map(|bits| Scalar::Float(f64::from_bits(bits))),
        _ => None,
    }
}
/// `with 2.0`, `from 3`, or nothing.
fn argument(line: &mut Line) -> Result<Arg, TextError> {
    if line.takes_word("with") {
        let scalar = match line.peek() {
            Token::Word(w) if w == "true" => Some(Scalar::Bool(true)),
            Token::Word(w) if w == "false" => Some(Scalar::Bool(false)),
            Token::Number(n) => number(n),
            _ => None,
        };
        let scalar = scalar.ok_or_else(|| line.expected("a number"))?;
        line.next();
        return Ok(Arg::Scalar(scalar));
    }
    if line.takes_word("from") {
        return Ok(Arg::Start(line.whole("the start of a slice")?));
    }
    Ok(Arg::None)
}
