//! The verbs that use what a run has made, and those that only look.
use crate::{device::DeviceOptions, out};
use adamant::DType;
use adamant::nn::CacheStorage;
#[cfg(feature = "profiling")]
use adamant::nn::Walk;
#[cfg(feature = "profiling")]
use adamant_train::analysis::{Analysis, ModelAnalyzer};
use adamant_train::{
    Document, EvaluateOptions, Failure,
    analysis::ArchitecturePicture,
    evaluate,
    folder::{number, text_of},
    report::ReportError,
    storage::{Operation, StorageError, check_output},
    trained::{Sampling, Task, Trained},
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Options of `eval`.
#[derive(Args)]
#[command(after_help = "Examples:\n  adamant eval runs/mnist-1 --data data/mnist\n  adamant eval runs/mnist-1 --data data/mnist --part valid --json")]
pub struct Eval {
    /// the run folder
    run: PathBuf,
    /// where the data lies; where the run had it, unless it is named
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// which part
    #[arg(long, value_enum, default_value = "test")]
    part: DataPart,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
/// A part of the data.
#[derive(Clone, Copy, ValueEnum)]
enum DataPart {
    Train,
    Valid,
    Test,
}
/// The folder of a run's data.
pub fn data_of(run: &Path, named: Option<&Path>) -> PathBuf {
    let kept = || -> Option<PathBuf> {
        let text = std::fs::read_to_string(run.join("environment.json")).ok()?;
        Some(serde_json::from_str::<Value>(&text).ok()?["data"].as_str()?.into())
    };
    named.map(Path::to_path_buf).or_else(kept).unwrap_or_default()
}
/// The folder of a description's data: its own, unless another is named.
pub fn data_beside(description: &Path, named: Option<&Path>) -> PathBuf {
    named.or_else(|| description.parent()).unwrap_or(Path::new("")).to_path_buf()
}
pub fn eval(o: &Eval) -> Result<(), Failure> {
    let device = o.device.open()?;
    let (result, classes) = device.scoped(|| {
        let trained = Trained::open(&o.run)?;
        let (objective, parts) = trained.data(&data_of(&o.run, o.data.as_deref()))?;
        let part = match o.part {
            DataPart::Train => &parts.train,
            DataPart::Test => &parts.test,
            DataPart::Valid => parts.valid.as_ref().ok_or_else(|| Failure::Usage("the run's data have no validation part".into()))?,
        };
        let options = EvaluateOptions { region: trained.region.clone(), ..parts.evaluation() };
        let result = evaluate(&trained.model, &objective, part, device, &options)?;
        Ok::<_, Failure>((result, trained.weights))
    })?;
    if o.json {
        let by_class = result.by_class.as_ref().map(|c| c.mean);
        let mut told = result.to_json();
        let rest = [
            ("seconds", number(result.seconds)),
            ("rows_per_second", number(result.rows_per_second())),
            ("classes", json!(result.classes)),
            ("confusion", json!(result.confusion)),
            ("macro", json!(by_class.map(|m| json!({ "precision": number(m.precision), "recall": number(m.recall), "f1": number(m.f1) })))),
            ("weights", json!(text_of(&classes))),
        ];
        told.extend(rest.map(|(name, value)| (name.to_string(), value)));
        out::line(Value::Object(told))?;
        return Ok(());
    }
    if let Some(a) = result.accuracy {
        out::line(format!("accuracy  {:.2} %", 100.0 * a))?;
    }
    if let Some(c) = &result.by_class {
        out::line(format!("macro F1  {:.4}", c.mean.f1))?;
    }
    if let Some(n) = &result.numbers {
        let r2 = n.r2.map_or_else(|| "-".to_string(), |v| format!("{v:.4}"));
        out::line(format!("MAE       {:.4}\nRMSE      {:.4}\nR²        {r2}", n.mae, n.rmse))?;
    }
    out::line(format!("loss      {:.4}\nrows      {} ({:.0} a second)\nweights   {}", result.loss, result.rows, result.rows_per_second(), classes.display()))?;
    Ok(())
}

/// Options of `predict`.
#[derive(Args)]
#[command(after_help = "Examples:\n  adamant predict runs/digits-1 new.csv\n  adamant predict runs/mnist-1 seven.png t10k-images-idx3-ubyte.gz --json")]
pub struct Predict {
    /// the run folder
    run: PathBuf,
    /// files of inputs, of the kind that the run's data have: CSV without the class, IDX images, images, npy
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// rows at once
    #[arg(long, default_value_t = 256)]
    batch: usize,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints one JSON document, with the probability of each class
    #[arg(long)]
    pub json: bool,
}
pub fn predict(o: &Predict) -> Result<(), Failure> {
    if o.batch == 0 {
        return Err(Failure::Usage("--batch takes a number from 1 on".into()));
    }
    let device = o.device.open()?;
    let mut all = Vec::new();
    device.scoped(|| {
        let trained = Trained::open(&o.run)?;
        for path in &o.inputs {
            let inputs = trained.inputs(path)?;
            inputs.notes().iter().for_each(out::note);
            inputs.left_out().iter().for_each(|bad| out::note(format!("left out: {bad}")));
            for batch in inputs.batches(o.batch) {
                let (rows, x) = batch?;
                // Inputs that the model does not take are the file's fault.
                let outputs = trained.answer(&x).map_err(|e| match e {
                    Failure::Run(text) => Failure::Input(format!("{}: {text}", path.display())),
                    other => other,
                })?;
                let answers = match &trained.task {
                    Task::Classes { .. } | Task::NextToken { .. } => outputs.softmax(-1),
                    Task::Numbers => outputs,
                };
                let width = answers.shape()?.last().copied().unwrap_or(1).max(1);
                let answers = answers.to_vec_as::<f64>()?;
                let each = answers.len() / width / rows.len().max(1);
                for (k, values) in answers.chunks(width).enumerate() {
                    // Of a sequence, each position is answered: they are counted on. Rows begin at 1, as where one is refused.
                    let row = if each == 1 { rows[k] } else { rows[0] * each + k };
                    all.push(one(&trained.task, path, row + 1, values, o.json)?);
                }
            }
        }
        Ok::<_, Failure>(())
    })?;
    if o.json {
        out::line(Value::from(all))?;
    }
    Ok(())
}
/// The answer to one input; printed at once where people read.
fn one(task: &Task, path: &Path, row: usize, values: &[f64], json: bool) -> Result<Value, Failure> {
    let best = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(k, _)| k);
    match task {
        Task::Classes { classes } => {
            let name = classes.get(best).cloned().unwrap_or_else(|| best.to_string());
            if !json {
                out::line(format!("{}:{row}  {name}  {:.2} %", path.display(), 100.0 * values[best]))?;
            }
            let each: serde_json::Map<String, Value> = classes.iter().cloned().zip(values.iter().copied().map(number)).collect();
            Ok(json!({ "file": text_of(path), "row": row, "class": name, "probability": number(values[best]), "probabilities": each }))
        }
        Task::NextToken { .. } | Task::Numbers => {
            if !json {
                out::line(format!("{}:{row}  {}", path.display(), values.iter().map(|v| format!("{v:.6}")).collect::<Vec<_>>().join(" ")))?;
            }
            Ok(json!({ "file": text_of(path), "row": row, "values": values.iter().copied().map(number).collect::<Vec<_>>() }))
        }
    }
}

/// Options of `generate`.
#[derive(Args)]
#[command(after_help = "Example:\n  adamant generate runs/chargpt-1 --prompt \"ROMEO:\" --tokens 400 --temperature 0.8")]
pub struct Generate {
    /// the run folder
    run: PathBuf,
    /// what the text begins with
    #[arg(long, default_value = "")]
    prompt: String,
    /// how many tokens are written
    #[arg(long, default_value_t = 500)]
    tokens: usize,
    /// 0 takes the most likely token, 1 draws as the model says
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// draws among so many of the most likely tokens only; 0: among all
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// where draws come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// keeps keys and values of what is known, and so computes each new token alone: as floats, or as codes of 8 or 4 bits
    #[arg(long, value_name = "STORAGE", value_parser = ["float", "int8", "int4"])]
    cache: Option<String>,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn generate(o: &Generate) -> Result<(), Failure> {
    let device = o.device.open()?;
    let sampling = Sampling { temperature: o.temperature, top_k: o.top_k, seed: o.seed, cache: o.cache.as_deref().and_then(CacheStorage::named) };
    let mut text = String::new();
    let mut told = if o.json { Ok(()) } else { out::piece(&o.prompt) };
    device.scoped(|| {
        Trained::open(&o.run)?.generate(&o.prompt, o.tokens, &sampling, &mut |piece| {
            text += piece;
            if !o.json && told.is_ok() {
                told = out::piece(piece);
            }
        })
    })?;
    told?;
    if o.json { out::line(json!({ "prompt": o.prompt, "text": text, "tokens": o.tokens, "seed": o.seed })) } else { out::write("\n") }
}

/// A model that only a description tells of.
#[derive(Args)]
pub struct DescribedModel {
    /// the description, in TOML
    pub config: PathBuf,
    /// shape (and dtype) of one input without the batch: 1,28,28 or 64:i64; asked of the data unless it is given
    #[arg(long, value_name = "SHAPE[:DTYPE]")]
    input: Option<String>,
    /// rows in a batch; the description's unless it is given
    #[arg(long)]
    pub batch: Option<usize>,
    /// where the data lies, instead of beside the description
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}
impl DescribedModel {
    /// The folder that the description's data lie in.
    pub fn data(&self) -> PathBuf {
        data_beside(&self.config, self.data.as_deref())
    }
    /// What `--input` says.
    ///
    /// # Errors
    /// Text that is no shape.
    pub fn input(&self) -> Result<Option<(Vec<usize>, DType)>, Failure> {
        self.input.as_deref().map(input_size).transpose()
    }
}

/// Options of `summary`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant summary examples/mnist/mnist.toml --input 1,28,28\n  adamant summary examples/chargpt/chargpt.toml --input 64:i64 --json\n  \
adamant summary examples/mnist/mnist.toml --input 1,28,28 --measure --picture mnist.svg"
)]
pub struct SummaryVerb {
    #[command(flatten)]
    described: DescribedModel,
    /// a value in place of the file's
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// runs the model as it answers, and tells for each layer its time, what holds it up, and what would help
    #[cfg(feature = "profiling")]
    #[arg(long)]
    measure: bool,
    /// how many forward passes are timed; nine, and more of short ones, unless it is given
    #[cfg(feature = "profiling")]
    #[arg(long, value_name = "N", requires = "measure")]
    passes: Option<usize>,
    #[cfg(feature = "profiling")]
    #[command(flatten)]
    device: DeviceOptions,
    /// draws the architecture into a file: .svg, .mmd (Mermaid) or .dot (Graphviz)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn summary(o: &SummaryVerb) -> Result<(), Failure> {
    #[cfg(feature = "profiling")]
    if !o.measure && o.device.is_given() {
        return Err(Failure::Usage("--device, --cpu and --threads are for --measure: else nothing runs".into()));
    }
    let draw = o.picture.as_deref().map(picture_of).transpose()?;
    let mut document = Document::read(&o.described.config)?;
    for assignment in &o.set {
        document.set(assignment)?;
    }
    let (data, input) = (o.described.data(), o.described.input()?);
    let found = adamant_train::summarise(&document, &data, input, o.described.batch).map_err(|e| match (e, &o.described.input) {
        (Failure::Run(text), Some(input)) => Failure::Usage(format!("--input {input}: {text}")),
        (other, _) => other,
    })?;
    if let (Some(path), Some(draw)) = (&o.picture, draw) {
        std::fs::write(path, draw(&found.picture)).map_err(|e| StorageError::of(Operation::Write, path, 0, &e))?;
    }
    #[cfg(feature = "profiling")]
    let measured = if o.measure { Some(measured(o, &document, &data)?) } else { None };
    let assumed: serde_json::Map<String, Value> = found.assumed.iter().map(|(word, n)| (word.to_string(), (*n).into())).collect();
    if o.json {
        let mut table = serde_json::to_value(&found.summary).map_err(|e| Failure::Run(e.to_string()))?;
        #[cfg(feature = "profiling")]
        if let Some(analysis) = &measured {
            let mut of = serde_json::to_value(analysis).map_err(|e| Failure::Run(e.to_string()))?;
            for (name, key) in [("rows", "layers"), ("timing", "timing"), ("roof", "roof"), ("memory", "memory"), ("picture", "picture")] {
                table[name] = of[key].take();
            }
            table["bottlenecks"] = serde_json::to_value(analysis.find_bottlenecks()).map_err(|e| Failure::Run(e.to_string()))?;
        }
        table["assumed"] = assumed.into();
        out::line(table)?;
    } else {
        for (word, n) in &assumed {
            out::note(format!("${word} follows from the data, which were not read; {n} is assumed"));
        }
        let style = crate::terminal::style();
        #[cfg(feature = "profiling")]
        if let Some(analysis) = &measured {
            return out::line(analysis.table(style));
        }
        out::line(found.summary.table(style))?;
    }
    Ok(())
}
/// How a picture is written into a file of this name.
fn picture_of(path: &Path) -> Result<fn(&ArchitecturePicture) -> String, Failure> {
    // Before the model is looked at: what cannot be written then was made for nothing.
    check_output(path)?;
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => Ok(ArchitecturePicture::document),
        Some("mmd") => Ok(ArchitecturePicture::mermaid),
        Some("dot") => Ok(ArchitecturePicture::dot),
        _ => Err(Failure::Usage(format!("--picture {}: a file that ends with .svg, .mmd or .dot", path.display()))),
    }
}
/// The model built, as it answers, and timed.
#[cfg(feature = "profiling")]
fn measured(o: &SummaryVerb, document: &Document, data: &Path) -> Result<Analysis, Failure> {
    if o.passes == Some(0) {
        return Err(Failure::Usage("--passes counts from 1".into()));
    }
    o.device.open()?.scoped(|| {
        let sample = adamant_train::sample(document, data, o.described.input()?)?;
        sample.model.eval();
        let batch = o.described.batch.unwrap_or(sample.batch);
        let x = crate::bench::inputs(&[&[batch], &*sample.input.0].concat(), sample.input.1)?;
        let analyzer = o.passes.map_or_else(ModelAnalyzer::new, |n| ModelAnalyzer::new().passes(n));
        Ok(analyzer.analyze(&sample.model, &x)?)
    })
}

/// `1,28,28` or `64:i64`.
pub fn input_size(text: &str) -> Result<(Vec<usize>, DType), Failure> {
    let refuse = |what: String| Failure::Usage(format!("--input {text}: {what}; write 1,28,28 or 64:i64"));
    let (sizes, dtype) = text.split_once(':').unwrap_or((text, "f32"));
    let sizes: Vec<usize> = sizes.split(',').map(|s| s.trim().parse().map_err(|_| refuse(format!("`{s}` is no size")))).collect::<Result<_, _>>()?;
    adamant::Shape::new(&sizes).map_err(|kind| refuse(kind.to_string()))?;
    Ok((sizes, dtype.parse().map_err(|_| refuse(format!("`{dtype}` is no dtype")))?))
}

/// Options of `info`.
#[derive(Args)]
#[command(after_help = "Example:\n  adamant info --json")]
pub struct Info {
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn info(o: &Info) -> Result<(), Failure> {
    out::line(crate::info::info(o.json))?;
    Ok(())
}

/// Options of `report`.
#[derive(Args)]
#[command(after_help = "Example:\n  adamant report runs/mnist-1")]
pub struct ReportVerb {
    /// the run folder
    run: PathBuf,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn report(o: &ReportVerb) -> Result<(), Failure> {
    let path = adamant_train::report::write(&o.run).map_err(|e| match e {
        ReportError::Write { path, source } => StorageError::of(Operation::Write, &path, 0, &source).into(),
        other => Failure::Input(other.to_string()),
    })?;
    if o.json {
        out::line(json!({ "report": text_of(&path) }))?
    } else {
        out::line(path.display())?
    }
    Ok(())
}

/// Options of `suggest`.
#[derive(Args)]
#[command(after_help = "Example:\n  adamant suggest --params 50000")]
pub struct Suggest {
    /// elements of all parameters
    #[arg(long, value_name = "N")]
    params: usize,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn suggest(o: &Suggest) -> Result<(), Failure> {
    let s = adamant_train::suggest::suggest(o.params);
    if o.json {
        out::line(json!({ "batch": s.batch, "lr": s.lr }))?
    } else {
        out::line(format!("batch {}, lr {}", s.batch, s.lr))?
    }
    Ok(())
}
