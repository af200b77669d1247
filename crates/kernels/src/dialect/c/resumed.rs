//! Invocations that wait for each other, one after the other: the body is left where it waits, and entered there again.
//! So it is one `switch` over the places where it waits (as Duff's device; Dunkels et al., "Protothreads", 2006), and
//! what it names is kept in a state of each invocation, under a name of its own.
use std::collections::BTreeMap;

/// What is known while such a body is written.
#[derive(Default)]
pub(super) struct Resumed {
    scopes: Vec<Scope>,
    /// the members of the state
    members: Vec<String>,
    points: usize,
    /// names that are known from the end of their statement on, with the brackets they are inside
    pending: Vec<(usize, String, String)>,
    brackets: usize,
    /// a statement has begun
    inside: bool,
    /// words that are values a subgroup has made: the word behind, and the value
    replaced: BTreeMap<usize, (usize, String)>,
}
#[derive(Default)]
struct Scope {
    /// the head of a loop, which ends with the loop's body
    is_for: bool,
    names: BTreeMap<String, String>,
}
impl Resumed {
    pub fn new() -> Resumed {
        Resumed { scopes: vec![Scope::default()], ..Resumed::default() }
    }
    /// The members of an invocation's state.
    pub fn members(&self) -> String {
        self.members.concat()
    }
    /// Where a name is kept, if it is one of the body's.
    pub fn kept(&self, name: &str) -> Option<String> {
        self.scopes.iter().rev().find_map(|s| s.names.get(name)).cloned()
    }
    /// A place where the body waits.
    pub fn point(&mut self) -> usize {
        self.points += 1;
        self.points
    }
    /// A member for a name that is known from the end of its statement on.
    pub fn declare(&mut self, name: &str, of: &str, length: Option<&str>) -> String {
        let own = format!("{name}_{}", self.members.len());
        self.members.push(format!("{of} {own}{}; ", length.map_or(String::new(), |n| format!("[{n}]"))));
        let kept = format!("s->{own}");
        self.pending.push((self.brackets, name.to_string(), kept.clone()));
        kept
    }
    pub fn temporary(&mut self, of: &str) -> String {
        let own = format!("t_{}", self.members.len());
        self.members.push(format!("{of} {own}; "));
        format!("s->{own}")
    }
    /// The words from `from` to `behind` are a value.
    pub fn replace(&mut self, from: usize, behind: usize, value: String) {
        self.replaced.insert(from, (behind, value));
    }
    pub fn waited_for(&self, at: usize) -> Option<(usize, String)> {
        self.replaced.get(&at).cloned()
    }
    pub fn is_fresh(&self) -> bool {
        !self.inside && self.brackets == 0
    }
    pub fn begin_statement(&mut self) {
        self.inside = true;
    }
    pub fn begin_for(&mut self) {
        self.scopes.push(Scope { is_for: true, names: BTreeMap::new() });
    }
    /// Follows brackets, braces and ends of statements.
    pub fn see(&mut self, s: &str) {
        match s {
            "(" => self.brackets += 1,
            ")" => self.brackets = self.brackets.saturating_sub(1),
            "{" => {
                self.scopes.push(Scope::default());
                self.inside = false;
            }
            "}" => {
                self.scopes.pop();
                if self.scopes.last().is_some_and(|s| s.is_for) {
                    self.scopes.pop();
                }
                self.inside = false;
            }
            ";" => {
                while let Some((_, name, kept)) = self.pending.pop_if(|p| p.0 == self.brackets) {
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.names.insert(name, kept);
                    }
                }
                self.inside &= self.brackets > 0;
            }
            _ => {}
        }
    }
}
