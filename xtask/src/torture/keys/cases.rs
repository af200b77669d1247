//! Descriptions with one key wrong: its type, sign, size, spelling, its absence, or that it is there twice.
use super::subjects::{KeySubject, written};
use toml::{Table, Value};

/// One description that is wrong.
pub struct Case {
    /// which of the subjects it was
    pub subject: usize,
    /// the key
    pub path: Vec<String>,
    pub wrong: Wrong,
    pub text: String,
}
/// What is wrong with a key.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// another value, as TOML
    Value(String),
    /// another name
    Spelling(String),
    Absent,
    Twice,
}
impl Wrong {
    pub fn kind(&self) -> &'static str {
        match self {
            Wrong::Value(_) => "value",
            Wrong::Spelling(_) => "spelling",
            Wrong::Absent => "absence",
            Wrong::Twice => "duplication",
        }
    }
    /// The fault as it may be typed again.
    pub fn describe(&self, path: &[String]) -> String {
        let path = path.join(".");
        match self {
            Wrong::Value(value) => format!("{path} = {}", value.chars().take(60).collect::<String>()),
            Wrong::Spelling(name) => format!("{path} misspelt `{name}`"),
            Wrong::Absent => format!("{path} left out"),
            Wrong::Twice => format!("{path} twice"),
        }
    }
}
impl Case {
    /// Does a message name the key, the section it is in, or the layer whose shape it changes?
    pub fn is_named_by(&self, message: &str) -> bool {
        let named: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let last = self.path.last().map_or("", String::as_str);
        match &self.wrong {
            // The text of the line stands in what the parser says.
            Wrong::Twice => message.contains(last),
            Wrong::Spelling(name) => named.iter().any(|n| n.split('.').any(|part| part == name || part == last)),
            Wrong::Absent | Wrong::Value(_) => {
                let whole = self.path.join(".");
                // A section of the key, or an element of its list.
                let is_section = |n: &str| whole.starts_with(&format!("{n}.")) || n.starts_with(&format!("{whole}."));
                // One alternative is named where another is missing; a width that is wrong shows in another layer.
                let in_model = self.path[0] == "model" || self.path[0] == "data" || self.path[0] == "batch";
                named.iter().any(|n| *n == whole || *n == last || is_section(n) || (in_model && (*n == "model" || n.starts_with("model."))))
            }
        }
    }
}

/// All cases of a description, the same each time.
pub fn of(subject: &KeySubject) -> Vec<Case> {
    let mut paths = Vec::new();
    keys(&Value::Table(subject.root.clone()), &mut Vec::new(), &mut paths);
    let mut cases = Vec::new();
    for (path, value) in paths {
        let mut push = |wrong: Wrong, text: Option<String>| {
            cases.extend(text.map(|text| Case { subject: subject.number, path: path.clone(), wrong, text }));
        };
        for other in values(&value) {
            let changed = edited(&subject.root, &path, |table, key| {
                table.insert(key.into(), other.clone());
            });
            push(Wrong::Value(other.to_string()), changed);
        }
        // What stands in a list has no name.
        if path.last().is_some_and(|key| key.parse::<usize>().is_ok()) {
            continue;
        }
        let siblings = siblings(&subject.root, &path);
        for name in misspelt(path.last().map_or("", String::as_str)) {
            if siblings.contains(&name) {
                continue;
            }
            let changed = edited(&subject.root, &path, |table, key| {
                if let Some(value) = table.remove(key) {
                    table.insert(name.clone(), value);
                }
            });
            push(Wrong::Spelling(name), changed);
        }
        push(
            Wrong::Absent,
            edited(&subject.root, &path, |table, key| {
                table.remove(key);
            }),
        );
        push(Wrong::Twice, doubled(&subject.root, &path));
    }
    cases
}
/// Each key with its value; layers and other tables in lists by their numbers.
fn keys(value: &Value, path: &mut Vec<String>, into: &mut Vec<(Vec<String>, Value)>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Table(table) => table.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(list) => list.iter().enumerate().filter(|(_, v)| v.is_table()).map(|(k, v)| (k.to_string(), v)).collect(),
        _ => return,
    };
    for (key, value) in inner {
        path.push(key);
        into.push((path.clone(), value.clone()));
        keys(value, path, into);
        path.pop();
    }
}
/// Values that are wrong in the place of one: of each other type, of the other sign, zero, as large as can be written, no
/// number, and of another length.
fn values(value: &Value) -> Vec<Value> {
    let date = "1979-05-27".parse().map(Value::Datetime);
    let of_each_type = [Value::from("text"), Value::from(7), Value::from(0.5), Value::from(true), Value::Array(vec![]), Value::Table(Table::new())];
    let mut others: Vec<Value> = of_each_type.into_iter().chain(date).filter(|other| !other.same_type(value)).collect();
    if value.is_integer() || value.is_float() || value.is_array() {
        others.extend([-1, 0, 1_000_000, 1_000_000_000, i64::MAX, i64::MIN].map(Value::from));
        others.extend([-0.5, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::from));
    }
    match value {
        Value::String(_) => others.extend([Value::from(""), Value::from("x".repeat(3000)), Value::from("\u{1b}[31mred"), Value::from("$nothing")]),
        Value::Array(list) => {
            others.extend([Value::Array(list[..list.len().saturating_sub(1)].to_vec()), Value::Array([&list[..], &list[..1.min(list.len())]].concat())]);
            others.push(Value::Array(list.iter().cycle().take(1500 * list.len().min(1)).cloned().collect()));
            others.extend([vec![-1, -1], vec![0], vec![i64::MAX, i64::MAX]].map(|l| Value::Array(l.into_iter().map(Value::from).collect())));
        }
        Value::Table(_) => others.push(Value::Array(vec![Value::Table(Table::new())])),
        _ => {}
    }
    others.retain(|other| other != value);
    others
}
/// A name with a letter missing, one too many, two in each other's place, and in capitals.
fn misspelt(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut all = Vec::new();
    for k in 0..letters.len() {
        let mut missing = letters.clone();
        missing.remove(k);
        let mut more = letters.clone();
        more.insert(k + 1, 'x');
        all.extend([missing, more]);
        if k + 1 < letters.len() && letters[k] != letters[k + 1] {
            let mut swapped = letters.clone();
            swapped.swap(k, k + 1);
            all.push(swapped);
        }
    }
    let mut names: Vec<String> = all.into_iter().map(|letters| letters.into_iter().collect()).collect();
    names.push(name.to_uppercase());
    names.push(name.chars().take(1).flat_map(char::to_uppercase).chain(name.chars().skip(1)).collect());
    names.retain(|other| !other.is_empty() && other != name);
    names.sort();
    names.dedup();
    names
}
/// The description with the table that holds a key changed.
fn edited(root: &Table, path: &[String], change: impl FnOnce(&mut Table, &str)) -> Option<String> {
    let mut root = Value::Table(root.clone());
    let (key, above) = path.split_last()?;
    let mut place = &mut root;
    for part in above {
        place = step(place, part)?;
    }
    match place {
        Value::Table(table) => change(table, key),
        // An element of a list is a table of one for a moment.
        Value::Array(list) => {
            let at: usize = key.parse().ok()?;
            let mut one = Table::from_iter([(key.clone(), list.get(at)?.clone())]);
            change(&mut one, key);
            *list.get_mut(at)? = one.remove(key)?;
        }
        _ => return None,
    }
    root.as_table().map(written)
}
fn step<'v>(value: &'v mut Value, part: &str) -> Option<&'v mut Value> {
    match value {
        Value::Table(table) => table.get_mut(part),
        Value::Array(list) => list.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    }
}
fn siblings(root: &Table, path: &[String]) -> Vec<String> {
    let mut root = Value::Table(root.clone());
    let mut place = &mut root;
    for part in &path[..path.len() - 1] {
        match step(place, part) {
            Some(next) => place = next,
            None => return Vec::new(),
        }
    }
    place.as_table().map(|table| table.keys().cloned().collect()).unwrap_or_default()
}
/// The description with a key twice: under another name first, which is then changed back in the text.
fn doubled(root: &Table, path: &[String]) -> Option<String> {
    const STAND_IN: &str = "stand_in_for_the_second";
    let key = path.last()?;
    let text = edited(root, path, |table, key| {
        if let Some(value) = table.get(key).filter(|v| !v.is_table() && !v.is_array()).cloned() {
            table.insert(STAND_IN.into(), value);
        }
    })?;
    text.contains(STAND_IN).then(|| text.replace(STAND_IN, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_made_wrong_in_every_way() {
        let root: Table = "epochs = 3\n[model]\nlayers = [{ kind = \"Linear\", size = [1, 2] }]\n".parse().unwrap_or_default();
        let subject = KeySubject { name: "one".into(), number: 0, folder: Default::default(), root };
        let cases = of(&subject);
        for path in ["epochs", "model", "model.layers", "model.layers.0", "model.layers.0.kind", "model.layers.0.size"] {
            let of_path = |kind: &str| cases.iter().filter(|c| c.path.join(".") == path && c.wrong.kind() == kind).count();
            let named = !path.ends_with(".0");
            assert!(of_path("value") >= 7, "{path}");
            assert_eq!((of_path("spelling") >= 6, of_path("absence")), (named, usize::from(named)), "{path}");
        }
        let text = |wrong: &str| cases.iter().find(|c| c.wrong.describe(&c.path) == wrong).map(|c| c.text.clone()).unwrap_or_default();
        assert!(text("epochs twice").matches("epochs = 3").count() == 2, "{}", text("epochs twice"));
        assert!(text("epochs = -1").starts_with("epochs = -1\n"), "{}", text("epochs = -1"));
        assert!(
            text("model.layers.0.kind misspelt `knd`").contains("[[model.layers]]\nknd = \"Linear\"")
                || text("model.layers.0.kind misspelt `knd`").contains("knd = \"Linear\"")
        );
        assert!(cases.iter().all(|c| c.text != subject.text()), "a case that is not wrong");
    }
    #[test]
    fn a_message_that_names_another_key() {
        let case = |wrong| Case { subject: 0, path: vec!["data".into(), "label".into()], wrong, text: String::new() };
        for (message, wrong, named) in [
            ("run.toml:3: `data.label` takes an integer", Wrong::Value("true".into()), true),
            ("run.toml:3: `data`: no such column", Wrong::Value("7".into()), true),
            ("run.toml:3: `optimizer.lr` takes a number", Wrong::Value("7".into()), false),
            ("run.toml:3: unknown key `data.lable`; did you mean `label`?", Wrong::Spelling("lable".into()), true),
            ("run.toml:3: unknown key `data.other`; there are path", Wrong::Spelling("lable".into()), false),
            ("run.toml:3: duplicate key in `label = 4`", Wrong::Twice, true),
        ] {
            assert_eq!(case(wrong).is_named_by(message), named, "{message}");
        }
    }
}
