//! Rows about looking at a run from outside: its figures for Prometheus and its alerts, its page in a browser, its screen in a terminal.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted};
use crate::workspace;
use serde_json::Value;
use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

// The tests' own: here it is a check's affair to fail.
#[allow(clippy::unwrap_used, clippy::expect_used, dead_code)]
#[path = "../../../crates/train/tests/browser/mod.rs"]
mod browser;
use browser::Browser;

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "B0.09",
        target: "/metrics is read by a parser of the text format, and its figures are those of the run's files; a rule's alert is written once for each time it is met",
        cost: CheckCost::Cheap,
        check: scraped,
        plants: &[
            plant("a loss that is not the run's", "figures"),
            plant("a figure of no kind", "text format"),
            plant("an alert that nobody wrote", "alerts"),
            plant("a page without its token", "served"),
        ],
    },
    RowCheck {
        id: "B2.15",
        target: "one page with eight panels and seven traces, fed by a real run: a value of its files stands in the DOM; nothing is asked elsewhere, nothing complained of",
        cost: CheckCost::Cheap,
        check: paged,
        plants: &[plant("a value that is not the run's", "known value"), plant("a ninth panel", "eight panels"), plant("a picture from elsewhere", "offline")],
    },
    RowCheck {
        id: "B3.18",
        target: "train --tui draws the run's figures on the terminal while it lasts, leaves the terminal as it was, and the run is the same",
        cost: CheckCost::Cheap,
        check: drawn,
        plants: &[
            plant("a screen without the loss", "figures"),
            plant("a terminal that is left drawn on", "left as it was"),
            plant("another seed", "the same run"),
        ],
    },
];
const PATIENCE: Duration = Duration::from_secs(60);

/// A run's description, with a table beside it.
fn description(folder: &Path) -> Result<(), Box<dyn Error>> {
    let row = |k: usize| (0..16).map(|c| format!("{}", (k * 31 + c * 17) % 97)).collect::<Vec<_>>().join(",") + &format!(",{}\n", k % 10);
    fs::write(folder.join("table.csv"), (0..300).map(row).collect::<String>())?;
    let text = r#"
seed = 3
epochs = 3
batch = 16
log_every = 5
clip = { kind = "global_norm", max_norm = 0.5 }
[data]
kind = "csv"
path = "table.csv"
label = 16
classes = 10
divisor = 97.0
test = { modulo = 10, equals = 0 }
[model]
layers = [
    { kind = "Linear", in_features = 16, out_features = 32 },
    { kind = "ReLU" },
    { name = "head", kind = "Linear", in_features = 32, out_features = 10 },
]
[optimizer]
kind = "Adam"
lr = 1e-3
[stability]
look_every = 10
[alerts]
[[alerts.rule]]
name = "far along"
metric = "train/epoch_loss"
when = "> 0"
every = 1
"#;
    Ok(fs::write(folder.join("net.toml"), text)?)
}
fn command(program: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("ADAMANT_DEVICE", "cpu").stdin(Stdio::null());
    command
}
/// A run that has ended.
fn trained(program: &Path, folder: &Path, run: &str, more: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let output = command(program, folder, &[&["train", "net.toml", "--quiet", "--run", run], more].concat()).output()?;
    match output.status.success() {
        true => Ok(folder.join(run)),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}
fn lines(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    fs::read_to_string(path)?.lines().map(|line| serde_json::from_str(line).map_err(Into::into)).collect()
}
/// A page that is served.
struct ServedPage {
    child: Child,
    told: Value,
}
impl Drop for ServedPage {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
impl ServedPage {
    fn of(program: &Path, folder: &Path, run: &str) -> Result<ServedPage, Box<dyn Error>> {
        let mut child = command(program, folder, &["debug", run, "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
        let mut page = ServedPage { child, told: Value::Null };
        page.told = serde_json::from_str(&line)?;
        Ok(page)
    }
    fn text(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap_or_default()
    }
    /// The status and the body of an answer.
    fn get(&self, path: &str) -> Result<(u64, String), Box<dyn Error>> {
        let port = self.told["port"].as_u64().ok_or("no port")?;
        let token = if planted("a page without its token") { "x" } else { self.text("token") };
        let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(port)?))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
        Ok((head.split(' ').nth(1).ok_or("no status")?.parse()?, body.to_string()))
    }
}
/// Samples of the text format: name, labels, value. None: something in it is not of the format.
fn samples(text: &str) -> Option<Vec<(String, Vec<(String, String)>, f64)>> {
    let is_name = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let (mut all, mut kinds) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            match (words.next()?, words.next()?, words.next()?) {
                ("HELP", name, _) if is_name(name) => {}
                ("TYPE", name, kind) if is_name(name) && ["gauge", "counter"].contains(&kind) => kinds.push(name.to_string()),
                _ => return None,
            }
            continue;
        }
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            loop {
                let (label, of) = rest.split_once("=\"")?;
                let mut value = String::new();
                let mut letters = of.char_indices();
                let behind = loop {
                    match letters.next()? {
                        (at, '"') => break at + 1,
                        (_, '\\') => match letters.next()?.1 {
                            'n' => value.push('\n'),
                            c @ ('\\' | '"') => value.push(c),
                            _ => return None,
                        },
                        (_, c) => value.push(c),
                    }
                };
                labels.push((is_name(label).then(|| label.to_string())?, value));
                rest = &of[behind..];
                match (rest.strip_prefix(','), rest.strip_prefix('}')) {
                    (Some(more), _) => rest = more,
                    (None, Some(over)) => {
                        rest = over;
                        break;
                    }
                    (None, None) => return None,
                }
            }
        }
        if !is_name(name) || !kinds.iter().any(|kind| kind == name) {
            return None;
        }
        all.push((name.to_string(), labels, rest.strip_prefix(' ')?.parse().ok()?));
    }
    Some(all)
}
fn scraped() -> Checked {
    let (program, place) = (workspace::program()?, tempfile::tempdir()?);
    description(place.path())?;
    let run = trained(&program, place.path(), "run", &[])?;
    let metrics = lines(&run.join("metrics.jsonl"))?;
    let last = |kind: &str| metrics.iter().rev().find(|line| line["kind"] == kind).cloned().unwrap_or_default();
    let (step, epochs) = (last("step"), metrics.iter().filter(|line| line["kind"] == "epoch").count());
    let mut alerts = lines(&run.join("alerts.jsonl"))?;
    if planted("an alert that nobody wrote") {
        alerts.pop();
    }
    let page = ServedPage::of(&program, place.path(), "run")?;
    let (status, mut text) = page.get("/metrics")?;
    if planted("a loss that is not the run's") {
        text = text.replace("adamant_loss{", "adamant_lost{").replace("TYPE adamant_loss ", "TYPE adamant_lost ");
    }
    if planted("a figure of no kind") {
        text = text.replace("# TYPE adamant_step gauge\n", "");
    }
    let read = samples(&text);
    let figure = |name: &str| read.iter().flatten().find(|(of, ..)| of == name).map(|(.., value)| *value);
    let pairs = [
        ("adamant_step", "step"),
        ("adamant_loss", "loss"),
        ("adamant_learning_rate", "lr"),
        ("adamant_grad_norm", "grad_norm"),
        ("adamant_stability_score", "stability_score"),
    ];
    let same = pairs.iter().filter(|(name, field)| figure(name).is_some() && figure(name) == step[*field].as_f64()).count();
    let told = alerts.iter().filter(|line| line["rule"] == "far along" && line["metric"] == "train/epoch_loss").count();
    let parts = [
        ("served", status == 200),
        ("text format", read.is_some() || status != 200),
        ("figures", same == pairs.len() || read.is_none() || status != 200),
        ("alerts", told == epochs && epochs == 3),
    ];
    Ok(Seen::all(
        &parts,
        format!("{} samples, {same} of {} figures as in metrics.jsonl, {told} alerts in {epochs} epochs", read.map_or(0, |all| all.len()), pairs.len()),
    ))
}
/// Waits until an expression is true in the page; whether it came to be.
fn comes(browser: &mut Browser, expression: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if browser.value(expression) == true {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}
fn paged() -> Checked {
    let (program, place) = (workspace::program()?, tempfile::tempdir()?);
    description(place.path())?;
    let Some(mut browser) = Browser::start() else {
        return Ok(Seen::new(true, "no browser").lacking([Lacking::new("the page in a browser", "install chromium, or name one in ADAMANT_CHROMIUM")]));
    };
    // A step is recorded: the traces show it.
    let mut training =
        command(&program, place.path(), &["train", "net.toml", "--quiet", "--run", "run", "--paused", "--set", "epochs=20"]).stderr(Stdio::null()).spawn()?;
    let socket = place.path().join("run").join(adamant_train::control::SOCKET);
    let begun = Instant::now();
    while !socket.exists() && training.try_wait()?.is_none() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    for asked in ["profile", "resume"] {
        command(&program, place.path(), &["control", "run", asked]).output()?;
    }
    training.wait()?;
    let metrics = lines(&place.path().join("run/metrics.jsonl"))?;
    let mut loss = metrics.iter().rev().find(|line| line["kind"] == "step").and_then(|line| line["loss"].as_f64()).ok_or("no step was logged")?;
    if planted("a value that is not the run's") {
        loss *= 1.5;
    }
    let page = ServedPage::of(&program, place.path(), "run")?;
    let own = if planted("a picture from elsewhere") { "http://127.0.0.1:1/".to_string() } else { format!("http://127.0.0.1:{}/", page.told["port"]) };
    browser.open_address(page.text("address"), &own, 1280, 800, "light");
    let known = comes(&mut browser, &format!("document.querySelector('#overview')?.innerText.includes(Number({loss}).toPrecision(4)) === true"));
    let wanted = if planted("a ninth panel") { 9 } else { 8 };
    let filled = "[...document.querySelectorAll('#panels > section')].filter((panel) => panel.querySelector('.body')?.innerText.length > 40).length";
    let panels = comes(&mut browser, &format!("{filled} === {wanted}"));
    let mut views = 0;
    for view in ["basic", "box", "gantt", "heat", "stacked", "horizontal", "thresholds"] {
        browser.value(&format!("document.querySelector('[data-view={view}]')?.click()"));
        let shown = format!(
            "document.querySelector('#trace .view')?.dataset.shown === '{view}' && document.querySelectorAll('#trace .view :is(tbody tr, svg rect)').length > 2"
        );
        views += usize::from(comes(&mut browser, &shown));
    }
    let complaints = browser.complaints();
    let parts = [("known value", known), ("eight panels", panels), ("seven traces", views == 7), ("offline", complaints.is_empty())];
    Ok(Seen::all(
        &parts,
        format!(
            "the run's loss {loss:.4} in the DOM: {known}; {} panels with content; {views} of 7 traces; {} complaints",
            browser.value(filled),
            complaints.len()
        ),
    ))
}
/// What a program writes to a terminal of its own.
fn on_a_terminal(program: &Path, folder: &Path, line: &str) -> Result<Option<String>, Box<dyn Error>> {
    let typescript = folder.join("typescript");
    let mut command = command(Path::new("script"), folder, &["--quiet", "--return", "--flush", "--command"]);
    command.arg(format!("stty rows 40 columns 120; '{}' {line}", program.display())).arg(&typescript);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").stdout(Stdio::null()).stderr(Stdio::null());
    let status = match command.status() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        status => status?,
    };
    let text = String::from_utf8_lossy(&fs::read(&typescript)?).into_owned();
    if status.success() { Ok(Some(text)) } else { Err(format!("{status}: {text}").into()) }
}
fn drawn() -> Checked {
    let (program, place) = (workspace::program()?, tempfile::tempdir()?);
    description(place.path())?;
    let more: &[&str] = if planted("another seed") { &["--set", "seed=4"] } else { &[] };
    let plain = trained(&program, place.path(), "plain", more)?;
    let Some(mut text) = on_a_terminal(&program, place.path(), "train net.toml --tui --run shown")? else {
        return Ok(Seen::new(true, "no terminal").lacking([Lacking::new("the screen in a terminal", "install `script` of util-linux")]));
    };
    if planted("a screen without the loss") {
        text = text.replace("oss", "...");
    }
    if planted("a terminal that is left drawn on") {
        text = text.replace("\u{1b}[?1049l", "");
    }
    let file = |run: &Path, name: &str| fs::read(run.join(name));
    let shown = place.path().join("shown");
    let same = file(&plain, "weights.safetensors")? == file(&shown, "weights.safetensors")? && file(&plain, "metrics.jsonl")? == file(&shown, "metrics.jsonl")?;
    let words = ["oss", "epoch", "step"].iter().filter(|word| text.to_lowercase().contains(**word)).count();
    let (entered, left) = (text.matches("\u{1b}[?1049h").count(), text.matches("\u{1b}[?1049l").count());
    let parts = [("figures", words == 3), ("left as it was", entered > 0 && entered == left), ("the same run", same)];
    Ok(Seen::all(
        &parts,
        format!("{} bytes on the screen, which was taken {entered} times and given back {left} times; weights and metrics as without it: {same}", text.len()),
    ))
}
