//! Every public function of `Tensor` and of `functional` has an entry in the registry or a reason why not; every
//! primitive with a gradient and every composite is differentiated by some entry. Read from core's sources.
#![allow(clippy::unwrap_used, clippy::panic)]
use adamant_conformance::{
    data::upload,
    fuzz::coverage::{Primitive, primitive_of},
    gradcheck,
    random::Random,
    registry::{EXCLUDED, Entry, Function, WITHOUT_RULE, entries},
};
use adamant_core::{
    Arg, DType, Device, Op, Outputs, Tensor,
    intercept::{self, Interceptor},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use syn::{Item, ItemMacro, Visibility};

fn core_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src")
}
fn parsed(folder: &Path, into: &mut Vec<(PathBuf, syn::File)>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            parsed(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let file = syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap();
            into.push((path, file));
        }
    }
}
/// A macro of core that writes public functions, and where in each of its repetitions their names stand.
struct Writer {
    file: &'static str,
    name: &'static str,
    /// Splits one call's text into the names of the functions it writes.
    names: fn(&str) -> Vec<String>,
}
/// `name name_keepdim(arguments) = |..| body;`
fn before_parenthesis(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut in_head = true;
    for token in text.parse::<proc_macro2::TokenStream>().unwrap() {
        use proc_macro2::TokenTree::{Group, Ident, Punct};
        match token {
            Ident(word) if in_head => words.push(word.to_string()),
            Group(g) if in_head && g.delimiter() == proc_macro2::Delimiter::Parenthesis => {
                names.append(&mut words);
                in_head = false;
            }
            Punct(p) if p.as_char() == ';' => in_head = true,
            _ => {}
        }
    }
    names
}
/// `1 conv1d conv_transpose1d "length";`
fn every_word(text: &str) -> Vec<String> {
    let tokens = text.parse::<proc_macro2::TokenStream>().unwrap();
    tokens.into_iter().filter_map(|t| if let proc_macro2::TokenTree::Ident(word) = t { Some(word.to_string()) } else { None }).collect()
}
/// `name DTYPE "text",`
fn lower_case_words(text: &str) -> Vec<String> {
    every_word(text).into_iter().filter(|word| word.starts_with(char::is_lowercase)).collect()
}
/// The tables' rows are in the registry by rule.
fn none(_: &str) -> Vec<String> {
    Vec::new()
}
const WRITERS: &[Writer] = &[
    Writer { file: "tensor/reduce.rs", name: "reductions", names: before_parenthesis },
    // in any file
    Writer { file: "", name: "two_forms", names: before_parenthesis },
    Writer { file: "tensor/meta.rs", name: "casts", names: lower_case_words },
    Writer { file: "tensor/polynomials.rs", name: "polynomials", names: before_parenthesis },
    Writer { file: "functional/pool.rs", name: "dimensions", names: every_word },
    Writer { file: "functional/conv.rs", name: "dimensions", names: every_word },
    Writer { file: "scalar.rs", name: "unary_gradients", names: none },
    Writer { file: "scalar.rs", name: "binary_gradients", names: none },
];

/// `Tensor::name` and `functional::name` of everything public in these files, and macros that write such functions and
/// are not known here.
fn public_functions(files: &[(PathBuf, syn::File)]) -> (BTreeSet<String>, Vec<String>) {
    let (mut found, mut unknown) = (BTreeSet::new(), Vec::new());
    for (path, file) in files {
        let text = path.to_string_lossy().replace('\\', "/");
        let is_functional = text.contains("/functional/");
        let prefix = if is_functional { "functional" } else { "Tensor" };
        let writer = |m: &ItemMacro| {
            let name = m.mac.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
            WRITERS.iter().find(|w| text.ends_with(w.file) && w.name == name)
        };
        for item in &file.items {
            match item {
                Item::Impl(block) if block.trait_.is_none() => {
                    let of_tensor = matches!(&*block.self_ty, syn::Type::Path(p) if p.path.is_ident("Tensor"));
                    for inner in block.items.iter().filter(|_| of_tensor) {
                        match inner {
                            syn::ImplItem::Fn(f) if matches!(f.vis, Visibility::Public(_)) => {
                                found.insert(format!("Tensor::{}", f.sig.ident));
                            }
                            syn::ImplItem::Macro(m) => {
                                unknown.push(format!("{text}: a macro inside `impl Tensor`: {:?}", m.mac.path.segments.last().map(|s| s.ident.to_string())))
                            }
                            _ => {}
                        }
                    }
                }
                Item::Fn(f) if is_functional && matches!(f.vis, Visibility::Public(_)) => {
                    found.insert(format!("functional::{}", f.sig.ident));
                }
                Item::Macro(m) => {
                    if let Some(defined) = &m.ident {
                        let body = m.mac.tokens.to_string();
                        let writes = body.contains("pub fn $") && (is_functional || body.contains("impl Tensor"));
                        if writes && !WRITERS.iter().any(|w| text.ends_with(w.file) && *defined == w.name) {
                            unknown.push(format!("{text}: macro {defined} writes public functions"));
                        }
                    } else if let Some(w) = writer(m) {
                        found.extend((w.names)(&m.mac.tokens.to_string()).into_iter().map(|n| format!("{prefix}::{n}")));
                    }
                }
                _ => {}
            }
        }
    }
    (found, unknown)
}
fn registered() -> BTreeSet<String> {
    entries().into_iter().map(|e| e.name).collect()
}
fn excluded() -> BTreeSet<&'static str> {
    EXCLUDED.iter().flat_map(|(names, _)| names.split(' ')).collect()
}
fn missing(files: &[(PathBuf, syn::File)]) -> Vec<String> {
    let (registered, excluded) = (registered(), excluded());
    let bare = |name: &str| name.rsplit("::").next().unwrap_or(name).to_string();
    public_functions(files).0.into_iter().filter(|f| !registered.contains(f) && !excluded.contains(&*bare(f))).collect()
}
fn sources() -> Vec<(PathBuf, syn::File)> {
    let mut files = Vec::new();
    parsed(&core_sources(), &mut files);
    files
}

#[test]
fn every_public_function_is_registered() {
    let files = sources();
    let (found, unknown) = public_functions(&files);
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(found.len() > 300, "only {} public functions were found", found.len());
    let missing = missing(&files);
    assert!(missing.is_empty(), "public functions without an entry in the registry: {missing:#?}");
    println!("{} public functions besides the rows of the scalar tables, {} samples", found.len(), entries().len());
}
#[test]
fn a_public_function_that_is_not_registered_is_found() {
    for (file, text, name) in [
        ("core/src/tensor/planted.rs", "impl Tensor { pub fn planted(&self) -> Tensor { self.clone() } pub(crate) fn inner(&self) {} }", "Tensor::planted"),
        ("core/src/functional/planted.rs", "pub fn planted(x: &Tensor) -> Tensor { x.clone() } fn private() {}", "functional::planted"),
        ("core/src/functional/pool.rs", "dimensions! { 4 max_pool4d avg_pool1d lp_pool1d \"time\"; }", "functional::max_pool4d"),
        ("core/src/tensor/reduce.rs", "reductions! { /// Doc.\n planted sum_keepdim() = |x, axes, keep| { Ok(x.reduce(axes, keep)) }; }", "Tensor::planted"),
    ] {
        let mut files = sources();
        files.push((PathBuf::from(file), syn::parse_file(text).unwrap()));
        assert_eq!(missing(&files), [name]);
    }
    let macros = [(
        PathBuf::from("core/src/tensor/planted.rs"),
        syn::parse_file("macro_rules! planted { ($n:ident) => { impl Tensor { pub fn $n(&self) {} } } }").unwrap(),
    )];
    assert_eq!(public_functions(&macros).1.len(), 1);
}
#[test]
fn the_registry_names_only_what_exists() {
    let (found, _) = public_functions(&sources());
    let rows: BTreeSet<String> = adamant_core::scalar::Unary::ALL
        .iter()
        .map(|f| f.name())
        .chain(adamant_core::scalar::Binary::ALL.iter().map(|f| f.name()))
        .map(|n| format!("Tensor::{n}"))
        .collect();
    let primitive = |name: &str| name.starts_with("Op::");
    let stale: Vec<String> = registered().into_iter().filter(|n| !found.contains(n) && !rows.contains(n) && !primitive(n)).collect();
    assert!(stale.is_empty(), "entries of functions that do not exist: {stale:#?}");
    let bare: BTreeSet<&str> = found.iter().filter_map(|n| n.rsplit("::").next()).collect();
    let stale: Vec<&str> = excluded().into_iter().filter(|n| !bare.contains(n)).collect();
    assert!(stale.is_empty(), "excluded functions that do not exist: {stale:#?}");
}

/// Notes the ops that a call applies to something tracked.
struct Watch(Mutex<BTreeSet<String>>);
impl Interceptor for Watch {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        if inputs.iter().any(|x| x.is_tracked()) {
            let name = primitive_of(&op).map_or_else(|| op.name().to_string(), Primitive::name);
            self.0.lock().unwrap().insert(name);
        }
        next(op, arg, inputs)
    }
}
/// The text of every string literal that names a composite of core.
fn composites() -> BTreeSet<String> {
    fn texts(folder: &Path, into: &mut BTreeSet<String>) {
        for f in std::fs::read_dir(folder).unwrap() {
            let path = f.unwrap().path();
            if path.is_dir() {
                texts(&path, into);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for part in text.split("\"adamant.").skip(1) {
                into.insert(format!("adamant.{}", part.split('"').next().unwrap_or_default()));
            }
        }
    }
    let mut names = BTreeSet::new();
    texts(&core_sources(), &mut names);
    texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../ir/src/composite"), &mut names);
    names
}
#[test]
fn every_rule_and_every_composite_is_differentiated() {
    let mut seen = BTreeSet::new();
    let device = Device::reference();
    for (k, entry) in entries().iter().enumerate().filter(|(_, e)| e.order > 0 && e.dtypes.contains(&DType::F64)) {
        device.scoped(|| {
            let random = Random::new(k as u64);
            let drawn = entry.inputs.iter().enumerate().map(|(k, i)| (i, upload(&i.draw(DType::F64, &mut random.part(k as u64)), device)));
            let x: Vec<Tensor> = drawn.map(|(i, t)| if i.differentiable && t.dtype().unwrap().is_float() { t.tracked() } else { t }).collect();
            let watch = Arc::new(Watch(Mutex::new(BTreeSet::new())));
            drop(intercept::with(watch.clone(), || entry.function.call(&x)));
            for name in watch.0.lock().unwrap().iter() {
                // The second order differentiates what the first one applied.
                seen.extend((entry.order >= 2).then(|| format!("{name}_backward")));
                seen.insert(name.clone());
            }
        });
    }
    let without: BTreeSet<&str> = WITHOUT_RULE.iter().flat_map(|(names, _)| names.split(", ")).collect();
    let primitives = Primitive::all().into_iter().map(Primitive::name).filter(|n| !has_no_gradient(n));
    let lost: Vec<String> = primitives.chain(composites()).filter(|n| !seen.contains(n) && !without.contains(&**n)).collect();
    assert!(lost.is_empty(), "no entry differentiates {lost:#?}");
    let known: BTreeSet<String> = Primitive::all().into_iter().map(Primitive::name).chain(composites()).collect();
    let stale: Vec<&&str> = without.iter().filter(|n| !known.contains(**n)).collect();
    assert!(stale.is_empty(), "no such primitive or composite: {stale:?}");
}
/// A gradient check must be able to fail.
#[test]
fn a_wrong_gradient_is_found() {
    let right = entries().into_iter().find(|e| e.name == "Tensor::square" && e.inputs[0].shape == [2, 3]).unwrap();
    let check =
        |call: adamant_conformance::registry::Call| gradcheck::check(Device::reference(), &Entry { function: Function::Call(call), ..right.clone() }, 7);
    check(|x| vec![&x[0] * &x[0]]).unwrap();
    let first = check(|x| vec![&x[0] * x[0].detach()]).unwrap_err();
    assert!(first.contains("first derivative"), "{first}");
    // Half of the second derivative is lost, and nothing of the first: x² = 2 x c - c² at c = x.
    let second = check(|x| vec![(&x[0] * x[0].detach() * 2.0 - x[0].detach().square()) * 1.0 + (&x[0] - x[0].detach()).relu() * 0.0]).unwrap_err();
    assert!(second.contains("second derivative"), "{second}");
}
/// Rows of the scalar tables say themselves that they have no gradient.
fn has_no_gradient(name: &str) -> bool {
    let name = name.trim_end_matches(" with a number");
    adamant_core::scalar::Unary::ALL.iter().any(|f| f.name() == name && !f.row().differentiable)
        || adamant_core::scalar::Binary::ALL.iter().any(|f| f.name() == name && !f.row().differentiable)
}
