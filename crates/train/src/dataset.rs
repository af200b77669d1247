//! What is learned from: features and a class for each row, split into a training part and a test part.
use crate::{Failure, config::Section};
use adamant_core::{Device, Result, Tensor};
use adamant_data::{Permutation, Table};
use std::path::Path;

/// Rows of one part.
#[derive(Clone, Debug, Default)]
pub struct Part {
    features: Features,
    labels: Vec<i64>,
}
#[derive(Clone, Debug)]
enum Features {
    /// rows of `width` numbers
    Numbers { width: usize, values: Vec<f32> },
    /// one token for each row
    Tokens(Vec<i64>),
}
impl Default for Features {
    fn default() -> Features {
        Features::Tokens(Vec::new())
    }
}
impl Part {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }
    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
    /// Features and labels of some rows, on a device.
    ///
    /// # Errors
    /// No memory.
    pub fn batch(&self, rows: &[usize], device: Device) -> Result<(Tensor, Tensor)> {
        let x = match &self.features {
            Features::Numbers { width, values } => {
                let picked: Vec<f32> = rows.iter().flat_map(|r| values[r * width..(r + 1) * width].iter().copied()).collect();
                Tensor::from_vec_on(picked, [rows.len(), *width], device)
            }
            Features::Tokens(tokens) => Tensor::from_vec_on(rows.iter().map(|r| tokens[*r]).collect::<Vec<_>>(), rows.len(), device),
        };
        let y = Tensor::from_vec_on(rows.iter().map(|r| self.labels[*r]).collect::<Vec<_>>(), rows.len(), device);
        Ok((x.ok()?, y.ok()?))
    }
}
/// Both parts.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// what the model learns from
    pub train: Part,
    /// what it is judged by, once, after training
    pub test: Part,
}
impl Dataset {
    /// The data of a section: `csv` (numbers with a class in one column) or `permutation` (each of so many tokens is
    /// followed by one other, to be learned by heart). Paths are relative to `folder`.
    ///
    /// # Errors
    /// `Usage` for what makes no sense, `Input` for a file that cannot be read.
    pub fn of(s: Section<'_>, folder: &Path) -> std::result::Result<Dataset, Failure> {
        let dataset = match s.kind(&["csv", "permutation"])? {
            "csv" => csv(&s, folder)?,
            _ => tokens(&s)?,
        };
        s.finish()?;
        Ok(dataset)
    }
}
/// Row i belongs to the test part if (i / divide) mod modulo = equals.
fn split(s: &Section<'_>) -> std::result::Result<impl Fn(usize) -> bool + use<>, Failure> {
    let rule = s.need("test", s.section("test")?)?;
    let divide = rule.size("divide")?.unwrap_or(1);
    let modulo = rule.need("modulo", rule.size("modulo")?)?;
    let equals = rule.need("equals", rule.size("equals")?)?;
    if divide == 0 || equals >= modulo {
        return Err(rule.wrong("a test part is (row / divide) mod modulo = equals, with divide at least 1 and equals below modulo"));
    }
    rule.finish()?;
    Ok(move |row: usize| row / divide % modulo == equals)
}
fn csv(s: &Section<'_>, folder: &Path) -> std::result::Result<Dataset, Failure> {
    let path = folder.join(s.need("path", s.text("path")?)?);
    let label = s.need("label", s.size("label")?)?;
    let classes = s.need("classes", s.size("classes")?)?;
    let divisor = s.number("divisor")?.unwrap_or(1.0);
    let is_test = split(s)?;
    let table = Table::read_csv(&path)?;
    if label >= table.width() {
        return Err(s.wrong_key("label", format!("there is no column {label} among {}", table.width())));
    }
    let mut dataset = Dataset::default();
    for row in 0..table.len() {
        let part = if is_test(row) { &mut dataset.test } else { &mut dataset.train };
        let numbers = table.row(row);
        let class = numbers[label];
        if class < 0.0 || class.fract() != 0.0 || class >= classes as f32 {
            return Err(Failure::Input(format!("{}: row {}: {class} is none of {classes} classes", path.display(), row + 1)));
        }
        part.labels.push(class as i64);
        if let Features::Tokens(_) = part.features {
            part.features = Features::Numbers { width: table.width() - 1, values: Vec::new() };
        }
        if let Features::Numbers { values, .. } = &mut part.features {
            values.extend(numbers.iter().enumerate().filter(|(k, _)| *k != label).map(|(_, v)| v / divisor as f32));
        }
    }
    Ok(dataset)
}
fn tokens(s: &Section<'_>) -> std::result::Result<Dataset, Failure> {
    let classes = s.need("classes", s.size("classes")?)?;
    let rows = s.need("rows", s.size("rows")?)?;
    let seed = s.size("seed")?.unwrap_or(0) as u64;
    if classes == 0 {
        return Err(s.wrong_key("classes", "at least one is needed"));
    }
    let next: Vec<u64> = Permutation::new(classes as u64, seed, 0).iter().collect();
    let part = |tokens: Vec<usize>| Part {
        labels: tokens.iter().map(|t| next[*t] as i64).collect(),
        features: Features::Tokens(tokens.into_iter().map(|t| t as i64).collect()),
    };
    // What is tested is what was to be learned by heart: every token once.
    Ok(Dataset { train: part((0..rows).map(|k| k % classes).collect()), test: part((0..classes).collect()) })
}
