//! The pages docs/from-burn.md and docs/from-candle.md: the names that another framework's crates offer (`NAME.names`, which
//! `xtask/python/peer_names.py` writes from their sources) and what they are here (`NAME.txt`). No name of theirs may be without an
//! answer. That ours are public, rustdoc says: `crates/book/src/peers.rs` links to each of them, so a renamed one is a broken link
//! in `cargo xtask check`.
use super::{Line, Relation, means, table};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

struct Peer {
    name: &'static str,
    page: &'static str,
    chapter: &'static str,
    names: &'static str,
    table: &'static str,
    head: &'static str,
}
const PEERS: [Peer; 2] = [
    Peer {
        name: "Burn",
        page: "docs/from-burn.md",
        chapter: "docs/book/src/from-burn.md",
        names: include_str!("burn.names"),
        table: include_str!("burn.txt"),
        head: include_str!("burn.md"),
    },
    Peer {
        name: "Candle",
        page: "docs/from-candle.md",
        chapter: "docs/book/src/from-candle.md",
        names: include_str!("candle.names"),
        table: include_str!("candle.txt"),
        head: include_str!("candle.md"),
    },
];
const LINKS: &str = "crates/book/src/peers.rs";

/// Writes the pages and the links, or tells which are not as they would be written; and the names without an answer.
pub fn compare(root: &Path, write: bool) -> Result<Vec<String>, String> {
    let (mut wrong, mut links) = (Vec::new(), Links::default());
    let mut files = Vec::new();
    for peer in &PEERS {
        files.push((peer.page, page(peer, &mut links, &mut wrong)?));
        files.push((
            peer.chapter,
            format!("# From {}\n\n{}\nEach public name of {}, and what it is here, stands in `{}`.\n", peer.name, peer.head, version(peer), peer.page),
        ));
    }
    files.push((LINKS, links.text()));
    for (file, text) in files {
        let path = root.join(file);
        if write {
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        } else if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            wrong.push(format!("{file} is not what the tables say: `cargo xtask parity --page` writes it"));
        }
    }
    Ok(wrong)
}
fn page(peer: &Peer, links: &mut Links, wrong: &mut Vec<String>) -> Result<String, String> {
    let lines = table(peer.table)?;
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut used = vec![false; lines.len()];
    let (mut here, mut left, mut own) = (0, 0, 0);
    for (space, name) in peer.names.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(' ')) {
        let Some(at) = lines.iter().position(|l| l.names.iter().any(|n| means(n, space, name))) else {
            wrong.push(format!("{}, {space}: `{name}` is not in the table", peer.name));
            continue;
        };
        used[at] = true;
        let (ours, differs) = answer(&lines[at]);
        match lines[at].relation {
            Relation::OtherName => {
                here += 1;
                links.add(ours);
                rows.entry(space).or_default().push(format!("| `{name}` | `{ours}` | {differs} |"));
            }
            Relation::Alias => {
                own += 1;
                rows.entry(space).or_default().push(format!("| `{name}` | | {ours} |"));
            }
            Relation::LeftOut => {
                left += 1;
                rows.entry(space).or_default().push(format!("| `{name}` | left out | {ours} |"));
            }
            Relation::Internal => own += 1,
        }
    }
    let unused = lines.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(unused.map(|(l, _)| format!("{}: the table has `{}`, which is no name of theirs or stands above", peer.name, l.names.join(" "))));
    let mut text = format!(
        "# From {}\n\n{}\n## Names\n\nOf the {} public names of {}, {here} have an answer here, {left} are left out with a reason, and {own} are its options or its own\ninside. `cargo xtask parity --page` writes this page; that each name on our side is public, `cargo xtask check` holds.\n",
        peer.name,
        peer.head,
        here + left + own,
        version(peer)
    );
    for (space, rows) in &rows {
        text += &format!("\n### {}\n\n| {} | here | what differs |\n|---|---|---|\n{}\n", space.replace('_', " "), peer.name, rows.join("\n"));
    }
    Ok(text)
}
/// Its name with the version that the names are of.
fn version(peer: &Peer) -> String {
    let version = peer.names.lines().next().and_then(|l| l.rsplit_once(' ')).map_or("", |(_, v)| v);
    format!("{} {version}", peer.name)
}
/// Our name, and what differs.
fn answer(line: &Line) -> (&'static str, &'static str) {
    // A bar ends a cell of the page.
    line.text.split_once(" | ").unwrap_or((line.text, ""))
}

/// Our names, each once.
#[derive(Default)]
struct Links(BTreeSet<&'static str>);
impl Links {
    fn add(&mut self, ours: &'static str) {
        self.0.insert(ours);
    }
    fn text(&self) -> String {
        let mut text = String::from(
            "//! Names that the pages from Burn and Candle give, as links: one that is not public is a broken link. `cargo xtask parity --page`\n//! writes this file.\n//!\n",
        );
        for name in &self.0 {
            // A function may have a module's name.
            let is_function = !name.contains("::") && name.starts_with(char::is_lowercase);
            text += &if is_function { format!("//! [`{name}`](fn@{name})\n") } else { format!("//! [`{name}`]\n") };
        }
        text + "#[allow(unused_imports)]\nuse adamant::{\n    composite::*,\n    cpu::CpuBackend,\n    data::*,\n    formats::{npz::Npz, safetensors::SafeTensors, *},\n    functional::PackedWeight,\n    metrics::*,\n    models::*,\n    nn::*,\n    optim::{schedule::*, *},\n    profile::record_function,\n    quant::{lora::LoraConfig, quantize_model},\n    train::{folder::RunFolder, trainer::*, *},\n    *,\n};\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_burn_or_candle_without_an_answer_and_a_page_that_is_not_what_the_tables_say() {
        let wrong = compare(&chores::workspace::root(), false).unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    #[test]
    fn a_planted_name_is_told() {
        let peer = Peer {
            name: "Peer",
            page: "",
            chapter: "",
            names: "# peer 1.0\nTensor exp\nTensor sin",
            table: "= exp : Tensor::exp | as there\n- cos : none",
            head: "",
        };
        let (mut links, mut wrong) = (Links::default(), Vec::new());
        let text = page(&peer, &mut links, &mut wrong).unwrap();
        assert!(text.contains("| `exp` | `Tensor::exp` | as there |") && links.text().contains("[`Tensor::exp`]"), "{text}");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
