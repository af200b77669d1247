//! The descriptions whose keys are made wrong: those of the examples and those that the program writes to begin with, each
//! beside a little data of its kind.
use crate::workspace;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use toml::{Table, Value};

/// The name of the description in its folder.
pub const FILE: &str = "run.toml";

/// A description and its data.
pub struct KeySubject {
    pub name: String,
    pub number: usize,
    pub folder: PathBuf,
    pub root: Table,
}
impl KeySubject {
    /// The description as it is.
    pub fn text(&self) -> String {
        written(&self.root)
    }
}
/// All of them, below a place.
pub fn all(program: &Path, place: &Path) -> Result<Vec<KeySubject>, String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for name in ["digits", "mnist", "chargpt"] {
        let path = workspace::root().join("examples").join(name).join(format!("{name}.toml"));
        texts.push((format!("examples/{name}"), fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?));
    }
    for kind in kinds(program)? {
        let made = Command::new(program).args(["config", "create", &kind]).output().map_err(|e| e.to_string())?;
        texts.push((format!("config create {kind}"), String::from_utf8_lossy(&made.stdout).into_owned()));
    }
    let mut subjects = Vec::new();
    for (number, (name, text)) in texts.into_iter().enumerate() {
        let mut root: Table = text.parse().map_err(|e| format!("{name}: {e}"))?;
        // What is written beside it is not gzipped.
        if let Some(path) = root.get_mut("data").and_then(|data| data.get_mut("path"))
            && let Some(plain) = path.as_str().and_then(|p| p.strip_suffix(".gz")).map(Value::from)
        {
            *path = plain;
        }
        let folder = place.join(number.to_string());
        data(&folder, &root).map_err(|e| format!("{name}: {e}"))?;
        subjects.push(KeySubject { name, number, folder, root });
    }
    Ok(subjects)
}
/// What the program writes descriptions of, as it says itself where it is asked for something else.
fn kinds(program: &Path) -> Result<Vec<String>, String> {
    let refused = Command::new(program).args(["config", "create", "nothing"]).output().map_err(|e| format!("{}: {e}", program.display()))?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let list = said.split_once("possible values: ").and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    let kinds: Vec<String> = list.unwrap_or_default().split(',').map(|kind| kind.trim().to_string()).filter(|kind| !kind.is_empty()).collect();
    if kinds.is_empty() { Err(format!("the program does not say what it writes descriptions of: {said}")) } else { Ok(kinds) }
}
/// A few records of the kind that the description says.
fn data(folder: &Path, root: &Table) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let section = root.get("data").and_then(Value::as_table).cloned().unwrap_or_default();
    let number = |key: &str, usual: i64| section.get(key).and_then(Value::as_integer).unwrap_or(usual);
    let path = section.get("path").and_then(Value::as_str);
    match section.get("kind").and_then(Value::as_str) {
        Some("csv") => {
            let (label, classes) = (number("label", 0), number("classes", 2));
            let row = |k: i64| (0..=label).map(|c| if c == label { k % classes } else { (k * (c + 3)) % 7 }.to_string()).collect::<Vec<_>>().join(",");
            let rows: String = (0..100).map(|k| row(k) + "\n").collect();
            let path = folder.join(path.unwrap_or("table.csv"));
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, rows)
        }
        Some("idx") => {
            for (part, count) in [("train", 40u32), ("t10k", 10)] {
                let images = [0, 0, 8, 3].into_iter().chain([count, 28, 28].into_iter().flat_map(u32::to_be_bytes)).chain((0..count * 784).map(|k| k as u8));
                let labels = [0, 0, 8, 1].into_iter().chain(count.to_be_bytes()).chain((0..count).map(|k| (k % 10) as u8));
                fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images.collect::<Vec<u8>>())?;
                fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels.collect::<Vec<u8>>())?;
            }
            Ok(())
        }
        Some("images") => {
            for part in [path, section.get("test_path").and_then(Value::as_str)].into_iter().flatten() {
                for class in ["cat", "dog"] {
                    let place = folder.join(part).join(class);
                    fs::create_dir_all(&place)?;
                    for k in 0..10u8 {
                        // The plainest picture that a reader knows: binary PPM.
                        let picture: Vec<u8> = b"P6 4 4 255\n".iter().copied().chain((0..48).map(|p| p * (k % 5))).collect();
                        fs::write(place.join(format!("{k}.ppm")), picture)?;
                    }
                }
            }
            Ok(())
        }
        _ => fs::write(folder.join(path.unwrap_or("input.txt")), "to be or not to be, that is the question. ".repeat(120)),
    }
}
/// A description, each key on a line of its own.
pub fn written(root: &Table) -> String {
    let mut text = String::new();
    section(root, "", &mut text);
    text
}
fn section(table: &Table, path: &str, text: &mut String) {
    let under = |key: &str| if path.is_empty() { bare(key) } else { format!("{path}.{}", bare(key)) };
    let tables = |value: &Value| matches!(value, Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_table));
    for (key, value) in table.iter().filter(|(_, v)| !v.is_table() && !tables(v)) {
        *text += &format!("{} = {value}\n", bare(key));
    }
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                *text += &format!("\n[{}]\n", under(key));
                section(inner, &under(key), text);
            }
            Value::Array(list) if tables(value) => {
                for inner in list.iter().filter_map(Value::as_table) {
                    *text += &format!("\n[[{}]]\n", under(key));
                    section(inner, &under(key), text);
                }
            }
            _ => {}
        }
    }
}
fn bare(key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain { key.into() } else { Value::from(key).to_string() }
}
