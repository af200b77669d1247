//! What is wrong with the keys of a description: all of it at once, and by cause. A section's reader stops at its first fault,
//! before it has asked for all its keys; so a check puts something plausible in the place of what was wrong and reads the
//! section again, until its reader comes to the end. Then every key is known that the section could have had, and what is
//! missing can be told from what is misspelt.
//!
//! Nothing has to be declared for that: a key is known because a reader asks for it.
use super::{
    Document,
    section::{Instead, KeyFault, Section, SectionNotes},
};
use crate::Failure;
use std::rc::Rc;

/// Faults of one section that are looked for.
const MOST_FAULTS: usize = 20;

/// A check of a document.
pub(crate) struct Check<'a> {
    root: Section<'a>,
    notes: Rc<SectionNotes<'a>>,
    faults: Vec<KeyFault>,
    /// Have the readers of the outermost section come to their ends?
    complete: bool,
}
impl<'a> Check<'a> {
    pub fn new(document: &'a Document) -> Result<Check<'a>, Failure> {
        let root = Section::root(document, true)?;
        let notes = root.notes();
        Ok(Check { root, notes, faults: Vec::new(), complete: true })
    }
    /// Reads keys of the outermost section.
    pub fn keys<T>(&mut self, reader: impl Fn(&Section<'a>) -> Result<T, Failure>) -> Option<T> {
        let (value, complete) = self.read(reader);
        self.complete &= complete;
        value
    }
    /// Reads a section that must be there.
    pub fn needed<T>(&mut self, key: &'static str, reader: impl Fn(Section<'a>) -> Result<T, Failure>) -> Option<T> {
        self.read(|root| reader(root.need(key, root.section(key)?)?)).0
    }
    /// What the reader gives where nothing is wrong, and whether it came to its end.
    fn read<T>(&mut self, reader: impl Fn(&Section<'a>) -> Result<T, Failure>) -> (Option<T>, bool) {
        for round in 0..2 * MOST_FAULTS {
            self.notes.fault.take();
            let failure = match reader(&self.root) {
                Ok(value) => return (Some(value).filter(|_| round == 0), true),
                Err(failure) => failure,
            };
            let text = failure.to_string();
            let Some(fault) = self.notes.fault.take().filter(|f| f.failure.to_string() == text) else {
                // What no key is at fault for may follow from what was put in the place of others.
                if round == 0 {
                    self.faults.push(KeyFault {
                        from: super::KeyOrigin::Line(usize::MAX),
                        path: String::new(),
                        keys: Vec::new(),
                        missing: false,
                        certain: true,
                        failure,
                    });
                }
                return (None, false);
            };
            let (goes_on, outermost) = (self.replace(&fault), fault.path.is_empty());
            // The value of one key may be wrong beside what was put in the place of another.
            if goes_on != Replaced::Follows && (round == 0 || (goes_on == Replaced::First && (fault.certain || fault.path.is_empty()))) {
                self.faults.push(fault);
            }
            if goes_on == Replaced::Never {
                // Readers ask for the keys of the outermost section before they go into others.
                return (None, !outermost);
            }
        }
        (None, false)
    }
    /// Puts something in the place of what is at fault.
    fn replace(&self, fault: &KeyFault) -> Replaced {
        let mut asked = self.notes.asked.borrow_mut();
        // Which keys there are depends on the kind.
        let key = fault.keys.first().filter(|key| *key != "kind");
        let (Some(asked), Some(key)) = (asked.get_mut(&fault.path), key) else { return Replaced::Never };
        let before = asked.instead.get(key).copied();
        let there = asked.table.contains_key(key);
        let (next, replaced) = match (before, there) {
            (None, true) => (Instead::Nothing, Replaced::First),
            (None, false) if asked.imagined => (Instead::Plausible, Replaced::Follows),
            (None, false) => (Instead::Plausible, Replaced::First),
            (Some(Instead::Nothing), _) => (Instead::Plausible, Replaced::Follows),
            (Some(Instead::Plausible), _) => return Replaced::Never,
        };
        asked.instead.insert(key.clone(), next);
        replaced
    }
    /// The faults, in the order of their lines, those of the command line first and what is missing last.
    pub fn finish(mut self) -> Vec<Failure> {
        let asked: Vec<(String, bool, Vec<_>)> = self
            .notes
            .asked
            .borrow()
            .iter()
            .map(|(path, asked)| (path.clone(), asked.finished || (path.is_empty() && self.complete), asked.unknown()))
            .collect();
        for (path, finished, unknown) in asked {
            let Some(section) = self.root.again(&path) else { continue };
            for (key, node) in unknown {
                let fault = section.no_key(key, node);
                let meant = fault.keys.first();
                let missing = meant.and_then(|meant| self.faults.iter().position(|f| f.missing && f.path == path && f.keys.contains(meant)));
                if let Some(at) = missing {
                    self.faults.remove(at);
                } else if !finished {
                    // Perhaps its reader would have asked for it.
                    continue;
                }
                self.faults.push(fault);
            }
        }
        // What is missing may follow from what is wrong, so it comes last.
        self.faults.sort_by_key(|f| match f.from {
            super::KeyOrigin::CommandLine => (f.missing, 0),
            super::KeyOrigin::Line(line) => (f.missing, line),
        });
        let mut failures: Vec<Failure> = Vec::new();
        for fault in self.faults {
            if failures.iter().all(|f| f.to_string() != fault.failure.to_string()) {
                failures.push(fault.failure);
            }
        }
        failures
    }
}
/// What was done about a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaced {
    /// Something stands in the key's place now.
    First,
    /// Something else does: the fault is that of what was put there.
    Follows,
    /// Nothing can.
    Never,
}

/// The name that a misspelt word is likely to mean: by the letters that are wrong, missing, too many, or in each other's
/// place (Damerau 1964), capitals aside, at most a third of them.
pub(crate) fn nearest<'k>(word: &str, names: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Nobody misspells a name by a hundred letters.
    if word.len() > 100 {
        return None;
    }
    let small = word.to_lowercase();
    let distances = names.into_iter().map(|name| (strsim::osa_distance(&small, &name.to_lowercase()), strsim::osa_distance(word, name), name));
    distances.min().filter(|(distance, _, name)| *distance <= small.len().max(name.len()).div_ceil(3)).map(|(.., name)| name)
}
