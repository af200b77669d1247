//! Launches that run or do not run by what the device has found in data: one invocation looks at fault words and writes how many
//! workgroups the launches behind it have. So no kernel knows that it may be left out.
use crate::{
    Dialect,
    bindings::{Access, Bindings, Place},
    frame::per_element,
};
use adamant_ir::ErrorKind;

/// A word that nothing was reported to; the first word of a report.
pub const NOTHING: u32 = u32::MAX;
/// What its texts bind: words in the first buffer, what they write in the second.
const WORDS: Place = Place::Buffer(0);
const OUT: Place = Place::Buffer(1);

/// Parameters that the loop over the words reads.
fn is_raised(bindings: &Bindings, words: usize, count: &str, first: &str) -> String {
    format!(
        "var raised: bool = false;\nfor (var k: u32 = 0u; k < {count}; k++) {{\n    let at: u32 = p[{first} + k];\n    if ({} != {NOTHING}u) {{ raised = true; }}\n}}\n",
        bindings.word(words, "at")
    )
}
/// The parameters of a gate before launches of these workgroups, whose numbers it writes from launch number `first` on. It
/// lets them run if one of the words, by their places, is raised, or if none is.
pub fn parameters(words: &[u32], if_raised: bool, first: usize, launches: &[[u32; 3]]) -> Vec<u32> {
    let mut p = vec![1, words.len() as u32, u32::from(if_raised), 3 * first as u32, 3 * launches.len() as u32];
    p.extend(words);
    p.extend(launches.iter().flatten());
    p
}
/// The gate, for one workgroup: its bindings and its text.
///
/// # Errors
/// What the dialect lacks.
pub fn text(dialect: &'static dyn Dialect) -> Result<(Bindings, String), ErrorKind> {
    let mut bindings = Bindings::new(dialect);
    let (words, out) = (bindings.bind(WORDS, Access::Read), bindings.bind(OUT, Access::Write));
    let mut body = is_raised(&bindings, words, "p[1u]", "5u");
    body += &format!(
        "let runs: bool = raised == (p[2u] == 1u);\nfor (var n: u32 = 0u; n < p[4u]; n++) {{\n    let to: u32 = p[3u] + n;\n    var groups: u32 = 0u;\n    if (runs) {{ groups = p[5u + p[1u] + n]; }}\n    {}\n}}\n",
        bindings.set_word(out, "to", "groups")
    );
    let text = per_element(&bindings, "", &body)?;
    Ok((bindings, text))
}
/// The parameters of an inheritance: the word at `to` is raised if one of these words of another buffer is.
pub fn inheritance(words: &[u32], to: u32) -> Vec<u32> {
    let mut p = vec![1, words.len() as u32, to];
    p.extend(words);
    p
}
/// What inherits, for one workgroup: its bindings and its text.
///
/// # Errors
/// What the dialect lacks.
pub fn inherits(dialect: &'static dyn Dialect) -> Result<(Bindings, String), ErrorKind> {
    let mut bindings = Bindings::new(dialect);
    let (words, out) = (bindings.bind(WORDS, Access::Read), bindings.bind(OUT, Access::Write));
    let mut body = is_raised(&bindings, words, "p[1u]", "3u");
    body += &format!("if (raised) {{\n    let to: u32 = p[2u];\n    {}\n}}\n", bindings.set_word(out, "to", "0u"));
    let text = per_element(&bindings, "", &body)?;
    Ok((bindings, text))
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{C, Wgsl};

    #[test]
    fn every_dialect_has_a_gate() {
        for dialect in [Wgsl::PLAIN as &'static dyn Dialect, &C] {
            let (bindings, gate) = text(dialect).unwrap();
            assert_eq!(bindings.access[..], [Access::Read, Access::Write]);
            assert!(gate.contains("raised") && inherits(dialect).unwrap().1.contains("raised"), "{gate}");
        }
        assert_eq!(parameters(&[3, 9], true, 2, &[[7, 1, 1]]), [1, 2, 1, 6, 3, 3, 9, 7, 1, 1]);
        assert_eq!(inheritance(&[0], 6), [1, 1, 6, 0]);
    }
}
