//! A description for a table that somebody has: the file is looked at, and what it says is written down, so that a person
//! reads it and changes what was guessed wrong.
use super::table::MISSING;
use crate::{Failure, config::quoted};
use adamant_data::{CsvOptions, Delimiter, Head, Seen, Survey, shown};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Names that a column of answers often has.
const CLASSES: [&str; 16] = [
    "label",
    "labels",
    "class",
    "classes",
    "target",
    "y",
    "species",
    "outcome",
    "diagnosis",
    "category",
    "result",
    "survived",
    "churn",
    "default",
    "income",
    "output",
];
const NUMBERS: [&str; 12] = ["target", "y", "price", "value", "medv", "score", "mpg", "charges", "salary", "cost", "output", "median_house_value"];
/// Names that a column of no meaning often has.
const NAMELESS: [&str; 6] = ["id", "index", "row", "rowid", "unnamed: 0", "uuid"];
/// Classes that one column is thought to hold at most.
const MOST_CLASSES: usize = 30;
/// Lines before the table that are looked through.
const TITLES: usize = 10;

/// A description of at most 25 lines that learns from a table: a linear model on scaled columns. `data` is how the file is
/// named in it; `target` is a second file that holds the answers, looked for beside the first unless it is named.
///
/// # Errors
/// `Input`: a file that cannot be read, or has nothing to learn from.
pub fn describe_table(name: &str, path: &Path, data: &str, target: Option<&Path>) -> Result<String, Failure> {
    let (options, survey, title) = look(path)?;
    let target = match target {
        Some(target) => Some((target.to_path_buf(), look(target)?.1)),
        None => beside(path, &survey),
    };
    let answer = match &target {
        Some((file, own)) => AnswerPlace { column: None, is_class: is_class(&own.columns[0], own.rows), file: Some(beside_name(data, file)) },
        None => answer(&survey, &title)?,
    };
    let answers: &Seen = match (&target, answer.column) {
        (Some((_, own)), _) => &own.columns[0],
        (None, Some(column)) => &survey.columns[column],
        (None, None) => return Err(Failure::Input(format!("{}: no column is left to be predicted", path.display()))),
    };
    let inputs = InputColumns::of(&survey, answer.column);
    if inputs.used.is_empty() {
        return Err(Failure::Input(format!("{}: no column is left to learn from", path.display())));
    }
    let has_commas = has_decimal_commas(path, &survey)?;
    let table = TableDescription { options, survey: &survey, title, answer, answers, inputs, has_commas };
    Ok(table.training(name) + &table.file(data) + &table.target() + &table.columns())
}
/// What was found in a table, from which the description is written.
struct TableDescription<'s> {
    options: CsvOptions,
    survey: &'s Survey,
    /// names of classes that stand above the table
    title: Vec<String>,
    answer: AnswerPlace,
    answers: &'s Seen,
    inputs: InputColumns,
    has_commas: bool,
}
impl TableDescription<'_> {
    /// How is learned: the model, the optimizer and for how long.
    fn training(&self, name: &str) -> String {
        let (rows, classes) = (self.survey.rows, self.classes());
        let train = (rows as f64 * 0.75).max(1.0);
        let batch = if train < 4000.0 { 64 } else { 256 };
        let per_epoch = (train / batch as f64).ceil();
        let epochs = (2000.0 / per_epoch).ceil().clamp(5.0, 500.0);
        let what = match self.answer.column {
            Some(k) if self.survey.head.header => format!("`{}`", shown(&self.survey.head.names[k])),
            Some(k) => format!("column {k}"),
            None => "the targets".into(),
        };
        let kind = if self.answer.is_class { format!(" ({classes} classes)") } else { String::new() };
        let out = if self.answer.is_class { "\"$classes\"" } else { "1" };
        // What logistic and ridge regression do by themselves: one unit of penalty on the weights for the sum over all rows.
        // Of two classes, each has half of the weights of the one that logistic regression has: twice the decay is the same.
        let decay = if self.answer.is_class && classes != 2 { 1.0 / train } else { 2.0 / train };
        format!(
            "# Learns {what}{kind} from {} columns of {rows} rows: adamant train {name}.toml
seed = 1
epochs = {epochs}
batch = {batch}
model = {{ layers = [{{ kind = \"Linear\", in_features = \"$features\", out_features = {out} }}] }}
optimizer = {{ kind = \"Adam\", lr = 0.02, weight_decay = {decay:.1e} }}
schedule = {{ kind = \"CosineAnnealingLR\" }} # the rate falls to zero
",
            self.inputs.used.len()
        )
    }
    /// How the file is read.
    fn file(&self, data: &str) -> String {
        let head = &self.survey.head;
        let mut t = format!("\n[data]\nkind = \"csv\"\npath = {}\n", quoted(data));
        if head.delimiter != Delimiter::Byte(b',') {
            t += &format!("delimiter = {}\n", quoted(&head.delimiter.to_string()).replace("\\\\t", "\\t"));
        }
        if self.options.skip_rows > 0 {
            t += &format!("skip_rows = {} # a title\n", self.options.skip_rows);
        }
        if let Some(comment) = self.options.comment {
            t += &format!("comment = \"{}\"\n", char::from(comment));
        }
        t += &format!("header = {}\n", head.header);
        if self.has_commas {
            t += "decimal = \",\"\n";
        }
        t
    }
    /// What is predicted.
    fn target(&self) -> String {
        let AnswerPlace { column, is_class, file } = &self.answer;
        let mut t = match (file, *column) {
            (Some(file), _) => format!("target_path = {}\n", quoted(file)),
            (None, Some(k)) if *is_class => format!("label = {}\n", self.column(k)),
            (None, k) => format!("targets = [{}]\n", k.map_or_else(String::new, |k| self.column(k))),
        };
        let list = |names: &[String]| names.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(", ");
        if !is_class {
            t += "target_scale = \"standard\"\n";
        } else if self.title.len() == self.classes() && !self.title.is_empty() {
            t += &format!("classes = [{}]\n", list(&self.title));
        } else if file.is_some() {
            t += &format!("classes = [{}]\n", list(&sorted(self.answers)));
        }
        t
    }
    /// What the other columns are, and which rows test what was learned.
    fn columns(&self) -> String {
        let InputColumns { used, ignored, whys, categorical } = &self.inputs;
        let list = |columns: &[usize]| columns.iter().map(|k| self.column(*k)).collect::<Vec<_>>().join(", ");
        let mut t = String::new();
        if !categorical.is_empty() {
            t += &format!("categorical = [{}] # one input for each text\n", list(categorical));
            t += "unknown = \"zero\" # a text that was never learned from is none of them\n";
        }
        if !ignored.is_empty() {
            t += &format!("ignore = [{}] # {}\n", list(ignored), whys.join("; "));
        }
        if used.iter().any(|k| self.survey.columns[*k].missing > 0) {
            t += "missing = \"median\" # or \"mean\", \"skip\", \"fail\"\n";
        }
        let bad = self.survey.odd + self.answers.missing + self.answers.nonfinite + used.iter().map(|k| self.survey.columns[*k].nonfinite).sum::<usize>();
        if bad > 0 {
            t += &format!(
                "on_bad_record = \"skip\" # {bad} of {} have no answer, no finite number or other columns; `on_bad_record = \"fail\"` names the first\n",
                self.survey.rows + self.survey.odd
            );
        }
        if bad > 50 {
            t += &format!("at_most = {}\n", 2 * bad);
        }
        t += "scale = \"standard\" # of each column, learned from the training part\n";
        t + &format!("test = {{ share = 0.25, seed = 1, stratify = {} }}\n", self.answer.is_class)
    }
    fn classes(&self) -> usize {
        self.answers.levels.as_ref().map_or(0, |l| l.len())
    }
    /// How the description names a column.
    fn column(&self, k: usize) -> String {
        if self.survey.head.header { quoted(&self.survey.head.names[k]) } else { k.to_string() }
    }
}
/// The columns beside the answers'.
struct InputColumns {
    used: Vec<usize>,
    ignored: Vec<usize>,
    /// why columns are ignored, each reason once
    whys: Vec<&'static str>,
    /// those of texts
    categorical: Vec<usize>,
}
impl InputColumns {
    fn of(survey: &Survey, answer: Option<usize>) -> InputColumns {
        let mut inputs = InputColumns { used: Vec::new(), ignored: Vec::new(), whys: Vec::new(), categorical: Vec::new() };
        for k in (0..survey.columns.len()).filter(|k| Some(*k) != answer) {
            let seen = &survey.columns[k];
            if let Some(why) = useless(seen, &survey.head.names[k].to_lowercase(), k, survey.rows) {
                inputs.ignored.push(k);
                inputs.whys.push(why);
                continue;
            }
            inputs.used.push(k);
            if !seen.is_numeric(survey.rows) {
                inputs.categorical.push(k);
            }
        }
        inputs.whys.dedup();
        inputs
    }
}
/// Are numbers written with a comma before their fractions?
fn has_decimal_commas(path: &Path, survey: &Survey) -> Result<bool, Failure> {
    let first = |is: fn(&Seen) -> bool| survey.columns.iter().position(|c| is(c) && c.is_numeric(survey.rows));
    let commas = first(|c| c.commas > 0);
    if let (Some(comma), Some(point)) = (commas, first(|c| c.points > 0)) {
        let name = |k: usize| shown(&survey.head.names[k]);
        let what = format!("column {} has numbers with commas, column {} with points", name(comma), name(point));
        return Err(Failure::Input(format!("{}: {what}; write them one way, and without separators of thousands", path.display())));
    }
    Ok(commas.is_some())
}
/// Why nothing can be learned from a column, if so.
fn useless(seen: &Seen, name: &str, place: usize, rows: usize) -> Option<&'static str> {
    let nameless = NAMELESS.contains(&name);
    let dates = |levels: &BTreeMap<String, usize>| !levels.is_empty() && levels.keys().all(|text| is_date(text));
    if seen.held(rows) == 0 {
        Some("nothing in it")
    } else if seen.counts && (nameless || place == 0) {
        Some("it counts the rows")
    } else if seen.is_numeric(rows) {
        (nameless && seen.levels.is_none()).then_some("a number for each row")
    } else if seen.levels.as_ref().is_some_and(dates) {
        Some("dates: write what matters of them, as the weekday, as numbers")
    } else {
        seen.levels.is_none().then_some("too many different texts")
    }
}
/// Does it look like a day, with or without a time?
fn is_date(text: &str) -> bool {
    let numbers: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).collect();
    let between = |c: char| c.is_ascii_digit() || matches!(c, '-' | '/' | '.' | ':' | ' ' | 'T' | 'Z' | '+');
    let has_year = numbers.iter().take(3).any(|n| n.len() == 4);
    numbers.len() >= 3 && has_year && text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(between)
}
/// Where the answers are.
struct AnswerPlace {
    column: Option<usize>,
    is_class: bool,
    file: Option<String>,
}
/// The file under the options that fit it, and the names of classes that its title holds.
fn look(path: &Path) -> Result<(CsvOptions, Survey, Vec<String>), Failure> {
    let mut options = CsvOptions { missing_values: MISSING.map(String::from).to_vec(), ..CsvOptions::default() };
    let mut title = Vec::new();
    loop {
        let survey = Survey::of(path, &options)?;
        let Head { first, title: is_title, .. } = &survey.head;
        if options.comment.is_none() && first.first().is_some_and(|f| f.starts_with('#')) {
            options.comment = Some(b'#');
        } else if *is_title && options.skip_rows < TITLES {
            title = if let [_, _, classes @ ..] = &first[..] { classes.iter().filter(|c| !c.is_empty()).cloned().collect() } else { Vec::new() };
            options.skip_rows += 1;
        } else {
            return Ok((options, survey, title));
        }
    }
}
/// Could it be a column of classes?
fn is_class(seen: &Seen, rows: usize) -> bool {
    let Some(levels) = &seen.levels else { return false };
    (2..=MOST_CLASSES).contains(&levels.len()) && !seen.fractions && 3 * levels.len() <= rows.max(6)
}
fn answer(survey: &Survey, title: &[String]) -> Result<AnswerPlace, Failure> {
    let (rows, columns) = (survey.rows, &survey.columns);
    let class = |k: usize| is_class(&columns[k], rows);
    let number = |k: usize| columns[k].is_numeric(rows);
    let last = columns.len() - 1;
    let as_class = |column: usize| Ok(AnswerPlace { column: Some(column), is_class: true, file: None });
    let named = |names: &[&str]| {
        let place = |name: &&str| survey.head.names.iter().position(|n| n.to_lowercase() == *name);
        names.iter().filter(|_| survey.head.header).find_map(place)
    };
    if !title.is_empty() && class(last) {
        return as_class(last);
    }
    if let Some(k) = named(&CLASSES).filter(|k| class(*k)) {
        return as_class(k);
    }
    if let Some(k) = named(&NUMBERS).filter(|k| number(*k)) {
        return Ok(AnswerPlace { column: Some(k), is_class: false, file: None });
    }
    let texts: Vec<usize> = (0..columns.len()).filter(|k| !number(*k)).collect();
    match texts[..] {
        // One column of a few texts among numbers.
        [k] if class(k) => return as_class(k),
        _ => {}
    }
    if class(last) {
        return as_class(last);
    }
    // Whole numbers, a few of them, one after the other: classes that were numbered.
    let numbered = |k: usize| {
        let levels: Option<Vec<i64>> = columns[k].levels.as_ref().and_then(|l| l.keys().map(|t| t.parse().ok()).collect());
        levels.is_some_and(|mut l| {
            l.sort_unstable();
            l.len() >= 2 && (l[0] == 0 || l[0] == 1) && l.windows(2).all(|w| w[1] == w[0] + 1)
        })
    };
    let candidates: Vec<usize> = (0..last).filter(|k| class(*k) && numbered(*k)).collect();
    match candidates[..] {
        [0, ..] => return as_class(0),
        [k] if columns.iter().enumerate().all(|(c, seen)| c == k || seen.fractions) => return as_class(k),
        _ => {}
    }
    if number(last) {
        return Ok(AnswerPlace { column: Some(last), is_class: false, file: None });
    }
    match (0..columns.len()).rev().find(|k| class(*k)) {
        Some(k) => as_class(k),
        None => Err(Failure::Input("no column looks like classes or like a number to be predicted; write `label` or `targets` by hand".into())),
    }
}
/// A file beside the table that holds its answers: a name that begins alike and says so, one column, and as many rows.
fn beside(path: &Path, survey: &Survey) -> Option<(PathBuf, Survey)> {
    let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().to_lowercase());
    let own = name(path)?;
    let stem: String = own.chars().take_while(|c| !matches!(c, '_' | '-' | '.')).collect();
    if stem.len() < 3 || own.contains("target") || own.contains("label") {
        return None;
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.filter_map(|e| e.ok().map(|e| e.path())).collect();
    found.sort();
    let says_so = |p: &PathBuf| name(p).is_some_and(|n| n != own && n.starts_with(&stem) && (n.contains("target") || n.contains("label")));
    found.into_iter().filter(says_so).find_map(|p| {
        let other = look(&p).ok()?.1;
        (other.columns.len() == 1 && other.rows == survey.rows).then_some((p, other))
    })
}
/// The name of a file that lies beside another.
fn beside_name(data: &str, file: &Path) -> String {
    let own = file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    Path::new(data).parent().map_or_else(|| own.clone(), |folder| folder.join(&own).to_string_lossy().into_owned())
}
/// The classes of a column in order.
fn sorted(seen: &Seen) -> Vec<String> {
    let mut names: Vec<String> = seen.levels.iter().flat_map(|l| l.keys().cloned()).collect();
    if names.iter().all(|n| n.parse::<f64>().is_ok()) {
        names.sort_by(|a, b| a.parse::<f64>().unwrap_or(0.0).total_cmp(&b.parse::<f64>().unwrap_or(0.0)));
    }
    names
}
