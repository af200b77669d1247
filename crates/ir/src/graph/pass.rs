//! Passes: rewritings of a graph that keep its meaning, by name. Each is one file with a `run`; what they share is in
//! [`super::rewrite`]. A pass neither merges nor drops an effect nor changes the order of effects, and keeps random bits: these are
//! functions of their key, so two of one key are the same bits.
//!
//! | pass | does | bits |
//! |---|---|---|
//! | `constant_folding` | computes what depends on constants alone, where the result is the same on every device | the same |
//! | `dead_code` | drops what nobody reads | the same |
//! | `common_subexpressions` | computes once what is computed twice | the same |
//! | `conv_norm_folding` | puts a batch norm of inference into the convolution before it | within the bound that its file gives |
//! | `transpose_elimination` | makes transposes meet and cancel | the same |
//! | `expand` | puts the bodies of composites in their places | those of the bodies: where a device has a kernel of its own for a composite, its table holds |
use super::{Environment, Graph, GraphError};

mod common_subexpressions;
mod constant_folding;
mod conv_norm_folding;
mod dead_code;
mod expand;
mod transpose_elimination;

/// What a pass does to a graph.
pub type Pass = fn(&mut Graph, &dyn Environment) -> Result<(), GraphError>;
/// The passes, by name.
pub const PASSES: &[(&str, Pass)] = &[
    ("constant_folding", constant_folding::run),
    ("dead_code", |graph, _| dead_code::run(graph)),
    ("common_subexpressions", common_subexpressions::run),
    ("conv_norm_folding", conv_norm_folding::run),
    ("transpose_elimination", transpose_elimination::run),
    ("expand", expand::run),
];

/// What a pass has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// the pass
    pub name: &'static str,
    /// nodes before
    pub before: usize,
    /// nodes after
    pub after: usize,
}

impl Graph {
    /// Runs passes by name, in order, and tells what each did. See [`PASSES`] for their names; the graph stays as it was
    /// if one of them fails.
    ///
    /// # Errors
    /// A name that no pass has, with the list; a graph that the verifier refuses.
    pub fn run<S: AsRef<str>>(&mut self, passes: &[S], environment: &dyn Environment) -> Result<Vec<Ran>, GraphError> {
        run(self, passes, environment)
    }
}
/// Runs passes in order, each on a graph that is verified.
fn run<S: AsRef<str>>(graph: &mut Graph, passes: &[S], environment: &dyn Environment) -> Result<Vec<Ran>, GraphError> {
    let find = |name: &S| PASSES.iter().find(|(known, _)| *known == name.as_ref()).ok_or_else(|| unknown(name.as_ref()));
    let passes = passes.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    graph.verify(environment)?;
    let mut new = graph.clone();
    // Names of before stay names of after, so that two texts differ where the graphs do.
    new.name_values();
    let mut ran = Vec::new();
    for (name, pass) in passes {
        let before = new.nodes.len();
        pass(&mut new, environment)?;
        if cfg!(debug_assertions) {
            new.verify(environment)?;
        }
        ran.push(Ran { name, before, after: new.nodes.len() });
    }
    *graph = new;
    Ok(ran)
}
fn unknown(name: &str) -> GraphError {
    GraphError::Pass { name: name.into(), known: PASSES.iter().map(|(known, _)| *known).collect() }
}
