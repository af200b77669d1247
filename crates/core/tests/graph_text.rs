//! The text of graphs: every kind of op, names, numbers, errors with their place, and what hostile text may cost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
use adamant_core::{
    Arg, Cell, Composite, Compound, DType, Device, ErrorKind, Meta, Op, Result, Scalar, Shape, Tensor, TensorType, Types, communicator,
    composite::{Attr, Attrs, registered},
    graph::{Data, Graph, GraphError, Reading, Type, Why},
    register_composite, scope, tensor,
};
use meeting::meeting;

#[path = "proofs/meeting.rs"]
mod meeting;

fn ty(dims: &[usize], dtype: DType) -> Type {
    Type { shape: Shape::new(dims).unwrap(), dtype }
}
fn meta(dims: &[usize]) -> Meta {
    Meta { shape: Shape::new(dims).unwrap(), dtype: DType::F32, device: Device::reference() }
}
fn read(text: &str) -> std::result::Result<Graph, GraphError> {
    Graph::parse(text, &Reading::new(Device::reference()))
}

/// `x / (|x| + softness)`, of a crate outside core.
#[derive(Clone, Copy, Debug)]
struct Softsign {
    softness: f64,
}
impl Composite for Softsign {
    fn name(&self) -> &'static str {
        "example.softsign"
    }
    fn attrs(&self) -> Attrs {
        [("softness", Attr::Float(self.softness))].into_iter().collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
}
impl Compound for Softsign {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![&inputs[0] / (inputs[0].abs() + self.softness)])
    }
}
register_composite!(SOFTSIGN, "example.softsign", 1..=1, |given| Ok(Softsign { softness: given.float("softness")? }));

#[test]
fn a_text_that_says_less_than_the_graph() {
    let device = Device::reference();
    device.scoped(|| {
        let weight = Cell::new(&Tensor::ones([4, 8]), true).unwrap();
        let steps = Cell::new(&Tensor::zeros([]).cast(DType::I64), false).unwrap();
        let scale = tensor![1.0f32, -0.0, f32::from_bits(0x7fc0_0001)];
        let table = Tensor::arange(0, 64, 1, DType::F32);
        table.materialize().unwrap();
        let name_of = |id| [(weight.id(), "fc.weight"), (steps.id(), "odd name")].into_iter().find(|(k, _)| *k == id).map(|(_, n)| n.to_string());
        let graph = Graph::capture_named(device, &[("x", meta(&[2, 8]))], name_of, |x| {
            let h = {
                let _layer = scope::enter("fc");
                adamant_core::functional::linear(&x[0], &weight.get(), None)
            };
            let h = Tensor::composite1(Softsign { softness: 1e-5 }, &[&h]);
            let (values, order) = (h.narrow(1, 1, 3) * &scale).sort(1, false);
            steps.set(&(steps.detached() + 1))?;
            Ok(vec![values, order, table.sum(..)])
        })
        .unwrap();
        let written = graph.text().unwrap();
        let expected = "\
adamant graph 1
cell @fc.weight: f32[4, 8] trainable
cell @\"odd name\": i64[]
input %x: f32[2, 8]
constant %constant: f32[3] = [1.0, -0.0, nan(0x7fc00001)]
constant %constant.1: f32[64] = #HASH
read %fc.weight = @fc.weight
read %\"odd name\" = @\"odd name\"
%fc.linear: f32[2, 4] = adamant.linear(%x, %fc.weight) in fc
%softsign: f32[2, 4] = example.softsign(%fc.linear) {softness: 1e-5}
%slice: f32[2, 3] = slice(%softsign) {axis: 1, step: 1} from 1
%mul: f32[2, 3] = mul(%slice, %constant)
%sort: f32[2, 3], %sort.1: i64[2, 3] = sort(%mul) {axis: 1, descending: false}
%add: i64[] = add(%\"odd name\") {scalar: \"right\"} with 1
%sum: f32[1] = sum(%constant.1) {axes: [0]}
%reshape: f32[] = reshape(%sum)
write @\"odd name\" = %add
return %sort, %sort.1, %reshape
";
        let hash = written.blobs.keys().next().map(|h| format!("{h:032x}")).unwrap();
        assert_eq!(written.text, expected.replace("HASH", &hash));
        let reading = Reading::new(device).blobs(&written.blobs);
        let mut back = Graph::parse(&written.text, &reading).unwrap();
        assert_eq!((back.hash(), back.structure(), back.text().unwrap().text), (graph.hash(), graph.structure(), written.text.clone()));
        // A graph that was read runs when its cells are bound, and moves them on as the function does.
        let x = Tensor::ones([2, 8]);
        assert_eq!(back.execute(&[&x]).unwrap_err().kind().word(), "graph");
        back.bind_cells(|name| Some(if name == "fc.weight" { weight.clone() } else { steps.clone() })).unwrap();
        for k in 1..3 {
            let y = back.execute(&[&x]).unwrap();
            assert_eq!(y[2].item::<f32>().unwrap(), 2016.0);
            assert_eq!(steps.detached().item::<i64>().unwrap(), k);
        }
        // What differs is told apart: by the whole hash an argument, by both an attribute.
        let other = written.text.replace("from 1", "from 0");
        let other = Graph::parse(&other, &reading).unwrap();
        assert!(other.hash() != graph.hash() && other.structure() == graph.structure());
        let other = Graph::parse(&written.text.replace("descending: false", "descending: true"), &reading).unwrap();
        assert!(other.structure() != graph.structure());
        assert!(matches!(Graph::parse(&written.text, &Reading::new(device)), Err(GraphError::Text(e)) if e.line == 6 && e.what.contains("no constant #")));
    });
}

/// A line for an edit: inside one layer, other layers keep their names.
#[test]
fn an_edit_in_one_layer_that_renames_another() {
    let device = Device::reference();
    let text = |twice: bool| {
        let graph = Graph::capture(device, &[meta(&[3])], |x| {
            let mut h = x[0].clone();
            for layer in ["a", "b", "c"] {
                let _layer = scope::enter(layer);
                h = h.exp().sin();
                if twice && layer == "a" {
                    h = h.exp();
                }
            }
            Ok(vec![h])
        });
        graph.unwrap().text().unwrap().text
    };
    let (before, after) = (text(false), text(true));
    let fresh: Vec<&str> = after.lines().filter(|l| !before.lines().any(|k| k == *l)).collect();
    assert_eq!(fresh, ["%a.exp.1: f32[3] = exp(%a.sin) in a", "%b.exp: f32[3] = exp(%a.exp.1) in b"]);
}
#[test]
fn a_pass_that_renames_what_it_leaves() {
    let device = Device::reference();
    let mut graph = Graph::capture(device, &[meta(&[3])], |x| {
        let _unread = x[0].exp();
        Ok(vec![x[0].exp() * 2.0, x[0].exp()])
    })
    .unwrap();
    let before = graph.text().unwrap().text;
    graph.run(&["dead_code"]).unwrap();
    let after = graph.text().unwrap().text;
    let gone: Vec<&str> = before.lines().filter(|l| !after.contains(l)).collect();
    assert_eq!((gone, after.lines().count() + 1), (vec!["%exp: f32[3] = exp(%input.0)"], before.lines().count()));
}

const PLAIN: &str = "adamant graph 1\ninput %x: f32[2, 3]\n%mul: f32[2, 3] = mul(%x) {scalar: \"right\"} with 2.0\nreturn %mul\n";
#[test]
fn an_error_without_its_place() {
    assert!(read(PLAIN).is_ok());
    for (from, to, want) in [
        ("adamant graph 1", "adamant graph 2", "line 1, column 1: a graph begins with the line `adamant graph 1`"),
        ("mul(", "mull(", "line 3, column 19: there is no op `mull`; did you mean `mul`?"),
        ("mul(", "adamant.sofmax(", "line 3, column 19: there is no op `adamant.sofmax`; did you mean `adamant.softmax`?"),
        ("(%x)", "(%y)", "line 3, column 23: there is no value `%y` before this line"),
        ("f32[2, 3] =", "f31[2, 3] =", "line 3, column 7: there is no dtype `f31`; did you mean `f32`?"),
        ("scalar", "scala", "line 3, column 19: mul: there is no attribute `scala`, or it is given twice; did you mean `scalar`?"),
        ("input", "imput", "line 2, column 1: `imput` begins no line of a graph; did you mean `input`?"),
        ("with 2.0", "with", "line 3, column 49: a number is expected, not the end of the line"),
        ("with 2.0", "with true", "node 0 (`mul`, line 3): the number true is none of f32"),
        ("with 2.0", "", "node 0 (`mul`, line 3): a number is missing (`with`)"),
        ("%mul: f32[2, 3]", "%mul: f32[3, 2]", "node 0 (`mul`, line 3): it makes f32[2, 3], and the graph says f32[3, 2]"),
        ("return %mul", "return %mul, ", "line 4, column 14: a value `%name` is expected, not the end of the line"),
        ("return %mul\n", "", "line 3, column 1: the text ends without `return`"),
        ("%mul: ", "%x: ", "line 3, column 1: `%x` is defined twice"),
        ("f32[2, 3]\n%", "f32[2, 3\n%", "line 2, column 19: `,` is expected, not the end of the line"),
        ("\"right\"", "\"right", "line 3, column 36: the quotes do not end on this line"),
        ("\"right\"", "\"above\"", "line 3, column 19: mul: the scalar stands `left` or `right`, not `above`"),
        ("f32[2, 3]\n%", "f32[1, 1, 1, 1, 1, 1, 1, 1, 1]\n%", "line 2, column 39: a tensor has at most 8 axes"),
        ("f32[2, 3]\n%", "f32[4294967296, 4294967296, 4294967296]\n%", "line 2, column 14: a tensor of shape"),
    ] {
        assert!(PLAIN.contains(from), "{from}");
        let error = match read(&PLAIN.replacen(from, to, 1)) {
            Ok(_) => panic!("{to} was read"),
            Err(e) => e.to_string(),
        };
        assert!(error.starts_with(want), "{to}:\n  {error}\n  {want}");
    }
}
#[test]
fn a_composite_that_is_not_made_again() {
    // Each by the attributes that it gives: from graphs of functions that use it, see conformance. Here: none is known twice.
    let mut names: Vec<&str> = registered().collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(names.contains(&"example.softsign") && names.contains(&"adamant.conv"));
    let text = PLAIN.replace("mul(%x) {scalar: \"right\"} with 2.0", "example.softsign(%x) {softness: 0.5}");
    assert!(read(&text).is_ok());
    for (wrong, what) in [("{}", "missing"), ("{softness: true}", "is a number"), ("{softness: 1, hard: 2}", "no attribute `hard`")] {
        let error = read(&text.replace("{softness: 0.5}", wrong)).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let error = read(&text.replace("(%x)", "(%x, %x)")).unwrap_err().to_string();
    assert!(error.contains("takes 1 to 1 inputs, not 2"), "{error}");
}

#[test]
fn a_device_or_a_group_that_the_reader_lacks() {
    let home = Device::reference();
    let groups: Vec<_> = [2, 3].map(|n| communicator::group(&meeting(n)[0])).to_vec();
    let text = "\
adamant graph 1
group 0: ranks 2
group 1: ranks 3
input %x: f32[2]
%to: f32[2] = to(%x) {device: \"home\"}
%all_reduce: f32[2] = all_reduce(%to) {group: 0, by: \"sum\", parts: 0, apart: false}
%broadcast: f32[2] = broadcast(%all_reduce) {group: 1, root: 2, apart: true}
return %broadcast
";
    let graph = Graph::parse(text, &Reading::new(home).groups(groups.clone())).unwrap();
    assert_eq!(graph.text().unwrap().text, text);
    // Effects are not dropped, though nobody reads them, and not merged, though they look alike.
    let twice = text.replace("return %broadcast", "%again: f32[2] = broadcast(%all_reduce) {group: 1, root: 2, apart: true}\nreturn");
    let mut twice = Graph::parse(&twice, &Reading::new(home).groups(groups.clone())).unwrap();
    let ran = twice.run(&["common_subexpressions", "dead_code"]).unwrap();
    assert_eq!(ran.iter().map(|r| r.after).collect::<Vec<_>>(), [4, 4]);
    assert!(read(text).unwrap_err().to_string().starts_with("line 2, column 7: group 0 was not given"));
    let error = Graph::parse(&text.replace("root: 2", "root: 3"), &Reading::new(home).groups(groups)).unwrap_err().to_string();
    assert!(error.contains("no rank 3 among 3"), "{error}");
    let error = read("adamant graph 1\ninput %x: f32[2] on \"moon\"\nreturn %x").unwrap_err().to_string();
    assert!(error.contains("`moon` is no device"), "{error}");
}

/// Faults planted into a graph, each of which the verifier must see.
#[test]
fn a_broken_rule_that_the_verifier_overlooks() {
    let device = Device::reference();
    let whole = || {
        let mut g = Graph::new(device);
        let x = g.add_input(Some("x"), ty(&[2, 3], DType::F32), device);
        let c = g.add_constant(ty(&[3], DType::F32), device, Data::Bytes(vec![0; 12].into()));
        let cell = g.add_cell(Some("state"), ty(&[2, 3], DType::F32), device, false);
        let state = g.add_read(cell);
        let add = |op: adamant_core::scalar::Binary| Op::Binary(op);
        let sum = g.apply(add(adamant_core::scalar::Binary::Add), Arg::None, &[x, c], Default::default(), Default::default()).unwrap().start;
        let next = g.apply(add(adamant_core::scalar::Binary::Mul), Arg::None, &[sum, state], Default::default(), Default::default()).unwrap().start;
        g.writes.push(adamant_core::graph::Write { cell, value: next, group: 0 });
        g.outputs = vec![next];
        g
    };
    whole().verify().unwrap();
    type Plant = fn(&mut adamant_core::graph::ir::Graph);
    let faults: &[(&str, Plant, fn(&Why) -> bool)] = &[
        ("order", |g| g.nodes.swap(0, 1), |w| matches!(w, Why::Early { .. })),
        ("a node gone", |g| drop(g.nodes.remove(0)), |w| matches!(w, Why::Undefined { .. })),
        ("two definitions", |g| g.nodes[1].outputs = g.nodes[0].outputs.clone(), |w| matches!(w, Why::Reassigned { .. })),
        ("no definition", |g| g.inputs.clear(), |w| matches!(w, Why::Undefined { .. })),
        ("a value of nowhere", |g| g.nodes[1].inputs[0] = 99, |w| matches!(w, Why::Undefined { .. })),
        ("arity", |g| g.nodes[0].inputs.truncate(1), |w| matches!(w, Why::Op(_))),
        ("a type", |g| g.values[3].dtype = DType::F64, |w| matches!(w, Why::Types { .. })),
        ("an argument", |g| g.nodes[0].arg = Arg::Scalar(Scalar::Int(1)), |w| matches!(w, Why::Argument(_))),
        ("a constant's size", |g| g.constants[0].data = Data::Bytes(vec![0; 8].into()), |w| matches!(w, Why::Constant(_))),
        ("a write's type", |g| g.writes[0].value = 1, |w| matches!(w, Why::Cell(_))),
        ("two writes", |g| g.writes.push(g.writes[0]), |w| matches!(w, Why::Cell(_))),
        ("order of writes", |g| g.writes.insert(0, adamant_core::graph::Write { group: 1, ..g.writes[0] }), |w| matches!(w, Why::Cell(_))),
        ("a cell's type", |g| g.cells[0].ty.dtype = DType::F64, |w| matches!(w, Why::Cell(_))),
        ("two cells of a name", |g| g.cells.push(g.cells[0].clone()), |w| matches!(w, Why::Reassigned { .. } | Why::Name(_))),
        ("an output of nowhere", |g| g.outputs.push(99), |w| matches!(w, Why::Undefined { .. })),
        ("a name twice", |g| drop(g.names.insert(1, "x".into())), |w| matches!(w, Why::Name(_))),
    ];
    for (name, plant, is) in faults {
        let mut graph = whole();
        plant(&mut graph);
        match graph.verify() {
            Err(GraphError::Invalid(e)) if is(&e.why) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    // A slice that leaves its axis, which only the argument says.
    for (start, fits) in [(0, true), (2, true), (3, false), (usize::MAX, false)] {
        let text = format!("adamant graph 1\ninput %x: f32[4]\n%slice: f32[2] = slice(%x) {{axis: 0, step: 1}} from {start}\nreturn %slice");
        assert_eq!(read(&text).is_ok(), fits, "from {start}");
    }
}
#[test]
fn text_that_asks_for_more_than_it_is() {
    // None of these makes what it names.
    for line in [
        "%y: f32[2] = adamant.split(%x) {axis: 0, parts: 4000000000}",
        "%y: f32[2] = adamant.embedding_backward(%x, %x) {rows: 4294967295}",
        "%y: f32[4294967295, 1000000] = full() with 1.0",
        "%y: f32[2] = adamant.layer_norm(%x) {axes: 4294967295, eps: 1e-5, weight: false, bias: false}",
        "%y: f32[2] = max_pool(%x) {size: [4294967295], stride: [1], padding: [4294967295, 0], dilation: [4294967295]}",
        "%y: f32[2] = conv_transpose(%x, %x) {stride: [1], padding: [0, 0], dilation: [1], groups: 4294967295, open: [4294967295]}",
        "%y: f32[2] = permute(%x) {perm: [4294967295]}",
        "%y: f32[2] = pad(%x) {widths: [9223372036854775807, 9223372036854775807]} with 0.0",
        "%y: f32[2] = slice(%x) {axis: 200, step: 4294967295} from 0",
        "constant %y: f32[4294967295, 1000000] = [1.0]",
    ] {
        let text = format!("adamant graph 1\ninput %x: f32[2]\n{line}\nreturn %x");
        if let Err(e) = read(&text) {
            assert!(!e.to_string().contains("panicked"), "{line}: {e}");
        }
    }
    let deep = format!("adamant graph 1\ninput %x: f32[2]\n%y: f32[2] = exp({}\nreturn %x", "(".repeat(100_000));
    assert!(read(&deep).is_err());
}
