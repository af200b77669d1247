//! The page of a run, on the real program: who is let in, what it is told, and what it asks of the run.

use super::{
    Wrong, adamant, command, err, folder,
    signals::{goes_on, long, send, until},
};
use serde_json::{Value, json};
use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

/// How long something is waited for: what takes longer is not going to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page that is served.
pub(super) struct Page {
    child: Child,
    pub port: u64,
    token: String,
    pub address: String,
}
impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
/// What was answered: the status, the head, the body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}
impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| unreachable!("{e}: {}", self.body))
    }
}
impl Page {
    pub fn of(folder: &Path, run: &str, more: &[&str]) -> Page {
        let mut child = command(folder, &[&["debug", run, "--json"], more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|e| unreachable!("{e}: {line}"));
        let text = |name: &str| told[name].as_str().unwrap().to_string();
        Page { child, port: told["port"].as_u64().unwrap(), token: text("token"), address: text("address") }
    }
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port as u16)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
    /// A request, with these lines of its head and none that are not given.
    fn raw(&self, first: &str, lines: &[String], body: &str) -> Answer {
        let mut stream = self.connect();
        let head: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        // Who refuses need not read the whole body.
        let _ = stream.write_all(format!("{first} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_string() }
    }
    fn ask(&self, first: &str, body: &str) -> Answer {
        self.raw(first, &[format!("Host: 127.0.0.1:{}", self.port), format!("Authorization: Bearer {}", self.token)], body)
    }
    fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "")
    }
    fn control(&self, line: &str) -> Value {
        self.ask("POST /api/control", line).json()
    }
    fn stream(&self) -> EventLines {
        let mut stream = self.connect();
        let head = format!("GET /api/events?token={} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n", self.token, self.port);
        stream.write_all(head.as_bytes()).unwrap();
        EventLines(BufReader::new(stream))
    }
}
impl Page {
    /// Waits for an event, on as many streams as that takes, as a browser does: one that falls behind ends.
    fn sees(&self, file: &str, is_it: impl Fn(&str, &Value) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(lines) = self.stream().until(file, &is_it) {
                return lines;
            }
        }
        unreachable!("what is waited for in {file} does not come")
    }
}
/// A stream of events, as it comes.
struct EventLines(BufReader<TcpStream>);
impl EventLines {
    /// The next event: its name and data; none where the stream has ended, or nothing but its marks of life comes.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut name, begun) = (String::new(), Instant::now());
        while begun.elapsed() < PATIENCE {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", of)) => name = of.to_string(),
                Some(("data", data)) => return Some((name, serde_json::from_str(data).unwrap_or_else(|e| unreachable!("{e}: {data:.200}")))),
                _ => {}
            }
        }
        None
    }
    /// All lines of a file up to an event that is looked for; none where the stream ends before it.
    fn until(&mut self, file: &str, is_it: impl Fn(&str, &Value) -> bool) -> Option<Vec<Value>> {
        let (mut lines, begun) = (Vec::new(), Instant::now());
        while begun.elapsed() < PATIENCE {
            let (name, data) = self.next()?;
            if name == file {
                lines.extend(data.as_array().unwrap().iter().cloned());
            }
            if is_it(&name, &data) {
                return Some(lines);
            }
        }
        None
    }
    fn whole(&mut self, file: &str) -> Vec<Value> {
        self.until(file, |name, _| name == "whole").unwrap()
    }
}
/// A run that has ended, in the folder.
fn ended(folder: &Path, set: &[&str]) {
    let output = adamant(folder, &[&["train", "run.toml", "--quiet", "--run", "run"], set].concat());
    assert!(output.status.success(), "{}", err(&output));
}
pub(super) fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_page_that_lets_somebody_in_who_may_not() {
    let folder = folder();
    ended(folder.path(), &[]);
    let page = Page::of(folder.path(), "run", &[]);
    let (port, token) = (page.port, page.token.as_str());
    let mut wrong = Wrong::default();
    let host = |name: &str| format!("Host: {name}:{port}");
    let bearer = format!("Authorization: Bearer {token}");
    let origin = |of: &str| format!("Origin: {of}");
    let own = host("127.0.0.1");
    let of_token = |token: &str| format!("GET /?token={token}");
    let cases: [(&str, String, Vec<String>, u16); 18] = [
        ("the address", of_token(token), vec![own.clone()], 200),
        ("a bearer", "GET /".into(), vec![own.clone(), bearer.clone()], 200),
        ("localhost", of_token(token), vec![host("localhost")], 200),
        ("IPv6", of_token(token), vec![host("[::1]")], 200),
        ("its own origin", of_token(token), vec![own.clone(), origin(&format!("http://127.0.0.1:{port}"))], 200),
        ("no token", "GET /".into(), vec![own.clone()], 401),
        ("half a token", of_token(&token[..32]), vec![own.clone()], 401),
        ("a longer token", of_token(&format!("{token}0")), vec![own.clone()], 401),
        ("another token", of_token(&"0".repeat(64)), vec![own.clone()], 401),
        ("an empty token", of_token(""), vec![own.clone()], 401),
        ("another name", of_token(token), vec![host("elsewhere")], 403),
        ("a name that ends so", of_token(token), vec![host("x.127.0.0.1")], 403),
        ("another port", of_token(token), vec!["Host: 127.0.0.1:1".into()], 403),
        ("no port", of_token(token), vec!["Host: 127.0.0.1".into()], 403),
        ("two names", of_token(token), vec![own.clone(), host("elsewhere")], 403),
        ("another origin", of_token(token), vec![own.clone(), origin(&format!("http://{}", "elsewhere"))], 403),
        ("no origin at all", of_token(token), vec![own.clone(), origin("null")], 403),
        ("another of its names", of_token(token), vec![own.clone(), origin(&format!("http://localhost:{port}"))], 403),
    ];
    for (case, first, lines, status) in &cases {
        let answer = page.raw(first, lines, "");
        wrong.unless(answer.status == *status, || format!("{case}: {} and not {status}: {:.200}", answer.status, answer.body));
        wrong.unless(*status == 200 || !answer.body.contains("<script"), || format!("{case}: {}", answer.body));
        for line in
            ["cache-control: no-store", "referrer-policy: no-referrer", "x-content-type-options: nosniff", "content-security-policy: default-src 'none'"]
        {
            wrong.unless(answer.head.contains(line), || format!("{case}: without {line}: {}", answer.head));
        }
    }
    for path in ["/metrics", "/api/state", "/api/events", "/api/profile?id=1", "/api/doctor"] {
        let answer = page.raw(&format!("GET {path}"), std::slice::from_ref(&own), "");
        wrong.unless(answer.status == 401, || format!("{path}: {}", answer.status));
    }
    let asked = page.raw("POST /api/control", std::slice::from_ref(&own), "{\"do\": \"stop\"}");
    wrong.unless(asked.status == 401, || asked.status.to_string());
    let whole = page.get("/");
    wrong.unless(!whole.head.contains("unsafe") && whole.head.contains("connect-src 'self'"), || whole.head.clone());
    wrong.unless(page.ask("POST /api/control", &"x".repeat(5000)).status == 413, || "a body without bound".into());
    // Nobody reaches it but this machine, by its own address.
    let listens = fs::read_to_string("/proc/net/tcp").unwrap();
    let at = format!("0100007F:{port:04X} 00000000:0000 0A");
    wrong.unless(listens.contains(&at) && listens.matches(&format!(":{port:04X} 00000000:0000 0A")).count() == 1, || listens.clone());
}
#[test]
fn a_port_or_a_folder_that_is_refused_without_a_word() {
    let folder = folder();
    let at = folder.path();
    ended(at, &[]);
    fs::create_dir(at.join("empty")).unwrap();
    let mut wrong = Wrong::default();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (case, arguments, code, says) in [
        ("a taken port", &["run", "--port", &port][..], 2, "another program has it"),
        ("port 0", &["run", "--port", "0"], 2, "0 is not in 1..=65535"),
        ("a port beyond all", &["run", "--port", "65536"], 2, "65536 is not in 1..=65535"),
        ("no port", &["run", "--port", "x"], 2, "--port"),
        ("nowhere", &["nowhere"], 4, "nowhere: there is no such run"),
        ("no run", &["empty"], 4, "neither config.toml nor metrics.jsonl"),
        ("no folder", &["run.toml"], 4, "run.toml: there is no such run"),
    ] {
        wrong.ends(case, &adamant(at, &[&["debug"], arguments].concat()), code, says);
    }
    // Ctrl-C is the end that is meant.
    for signal in ["INT", "TERM"] {
        let mut page = Page::of(at, "run", &["--gradients", "--step"]);
        wrong.unless(page.get("/").body.contains("data-panels=\"gradients debugger\""), || "the panels that were asked for".into());
        send(&page.child, signal);
        let status = page.child.wait().unwrap();
        wrong.unless(status.success(), || format!("{signal}: {status}"));
    }
}
#[test]
fn a_line_that_does_not_reach_the_page() {
    let folder = folder();
    let at = folder.path();
    ended(at, &["--set", "stability.look_every=2", "--set", "log_every=1"]);
    let metrics = at.join("run/metrics.jsonl");
    let page = Page::of(at, "run", &[]);
    let before = fs::read_to_string(&metrics).unwrap();
    // What was there before the page is.
    let mut stream = page.stream();
    let sent: Vec<Value> = before.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stream.whole("metrics"), sent);
    // One that is torn comes when it is whole, once; what is no line does not come.
    append(&metrics, b"{\"kind\":\"step\",\"step\":900,");
    append(&metrics, b"\"loss\":0.125}\nno json\n{\"kind\":\"step\",\"step\":901,\"loss\":0.25}\n");
    let came = stream.until("metrics", |_, data| data.to_string().contains("\"step\":901")).unwrap();
    assert_eq!(came, [json!({ "kind": "step", "step": 900, "loss": 0.125 }), json!({ "kind": "step", "step": 901, "loss": 0.25 })]);
    append(&at.join("run/incidents.jsonl"), b"{\"step\":5,\"origin\":null}\n");
    assert_eq!(stream.until("incidents", |name, _| name == "incidents").unwrap(), [json!({ "step": 5, "origin": null })]);
    fs::write(at.join("run/failure.json"), "{\"error\":{\"kind\":\"run\"}}").unwrap();
    assert!(stream.until("metrics", |name, data| name == "document" && data["name"] == "failure.json").is_some());
    // The run is cut back: the stream begins anew with what stands there now, and so does one that is opened.
    fs::write(&metrics, "{\"kind\":\"step\",\"step\":1,\"loss\":7.5}\n").unwrap();
    assert!(stream.until("metrics", |name, _| name == "begin").is_some());
    for mut stream in [stream, page.stream()] {
        assert_eq!(stream.whole("metrics"), [json!({ "kind": "step", "step": 1, "loss": 7.5 })]);
    }
    // Streams are bounded, and who leaves makes place.
    let mut streams: Vec<EventLines> = (0..16).map(|_| page.stream()).collect();
    streams.iter_mut().for_each(|stream| drop(stream.whole("metrics")));
    assert_eq!(page.get("/api/events").status, 503);
    drop(streams);
    let begun = Instant::now();
    while page.get("/api/state").json()["step"]["loss"] != 7.5 || page.stream().next().is_none() {
        assert!(begun.elapsed() < PATIENCE);
    }
}
/// Names, labels and a number in each line, as the text format has them.
fn figures(text: &str) -> Vec<(String, String, f64)> {
    let figure = |line: &str| {
        let (name, rest) = line.split_once('{').unwrap_or_else(|| unreachable!("{line}"));
        let (labels, value) = rest.rsplit_once("} ").unwrap_or_else(|| unreachable!("{line}"));
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
        (name.to_string(), labels.to_string(), value.parse().unwrap_or_else(|e| unreachable!("{e}: {line}")))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(figure).collect()
}
#[test]
fn figures_that_prometheus_cannot_read() {
    let folder = folder();
    let at = folder.path();
    ended(at, &["--set", "log_every=1", "--set", "data.valid=0.25"]);
    let page = Page::of(at, "run", &[]);
    let Answer { status, head, body: text } = page.get("/metrics");
    assert!(status == 200 && head.contains("text/plain; version=0.0.4"), "{head}");
    let figures = figures(&text);
    let metrics = fs::read_to_string(at.join("run/metrics.jsonl")).unwrap();
    let last: Value = metrics.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).rfind(|line| line["kind"] == "step").unwrap();
    let of = |name: &str| figures.iter().find(|(n, ..)| n == name).unwrap_or_else(|| unreachable!("{name}: {text}"));
    for (name, field) in
        [("adamant_step", "step"), ("adamant_epoch", "epoch"), ("adamant_loss", "loss"), ("adamant_learning_rate", "lr"), ("adamant_grad_norm", "grad_norm")]
    {
        assert_eq!(Some(of(name).2), last[field].as_f64(), "{name}");
    }
    assert!(of("adamant_up").2 == 0.0 && of("adamant_resident_bytes").2 > 1e6 && of("adamant_rows_per_second").2 > 0.0 && of("adamant_incidents").2 == 0.0);
    assert!(figures.iter().any(|(name, labels, _)| name == "adamant_valid" && labels.contains("metric=\"accuracy\"")) && of("adamant_step").1 == "run=\"run\"");
    for (name, ..) in &figures {
        assert!(text.contains(&format!("# TYPE {name} gauge")) && text.contains(&format!("# HELP {name} ")), "{name}");
    }
}
#[test]
fn a_page_that_changes_a_run_or_ends_with_it() {
    let folder = folder();
    let at = folder.path();
    let mut wrong = Wrong::default();
    let mut run = long(at, "run").arg("--quiet").spawn().unwrap();
    until(&mut run, at, "run", 20);
    let page = Page::of(at, "run", &[]);
    let state = |state: &'static str| move |name: &str, data: &Value| name == "status" && data["state"] == state;
    page.sees("metrics", state("training"));
    let done = page.control("{\"do\": \"profile\"}");
    wrong.unless(done["ok"] == true && done["profile"] == "run/profiles.jsonl", || done.to_string());
    let recorded = page.sees("profiles", |name, _| name == "profiles");
    let [head] = recorded.as_slice() else { unreachable!("{recorded:?}") };
    wrong.unless(head["step"].as_u64() == done["step"].as_u64().map(|step| step + 1), || format!("{head} after {done}"));
    let whole = page.get(&format!("/api/profile?id={}", head["id"])).json();
    wrong.unless(whole["kernels"].as_array().map(Vec::len) == head["kernels"].as_u64().map(|n| n as usize) && whole["look"].is_object(), || whole.to_string());
    wrong.unless(page.get("/api/profile?id=999").status == 404 && page.get("/api/profile?id=x").status == 404, || "a step that there is not".into());
    let done = page.control("{\"do\": \"checkpoint\"}");
    wrong.unless(done["checkpoint"].as_str().is_some_and(|path| at.join(path).is_dir()), || done.to_string());
    wrong.unless(page.control("{\"do\": \"pause\"}")["ok"] == true, || "it is not paused".into());
    page.sees("metrics", state("paused"));
    wrong.unless(page.control("{\"do\": \"resume\"}")["ok"] == true, || "it does not go on".into());
    page.sees("metrics", state("training"));
    for (line, says) in [
        ("", "no JSON"),
        ("{\"do\": \"dance\"}", "`dance` is nothing that a run can be asked for"),
        ("{\"do\": \"rate\", \"factor\": 0}", "a rate cannot be multiplied by 0"),
        ("\u{0}\u{1}", "no JSON"),
    ] {
        let answer = page.control(line);
        wrong.unless(answer["ok"] == false && answer["error"].as_str().is_some_and(|e| e.contains(says)), || format!("{line}: {answer}"));
    }
    let found = page.get("/api/doctor").json();
    wrong.unless(found["ok"] == true && found["diagnosis"]["findings"].is_array(), || found.to_string());
    // The page is killed with a request under way: the run goes on, and what came of it is what comes of any.
    let mut half = page.connect();
    let head =
        format!("POST /api/control?token={} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 20\r\n\r\n{{\"do\": \"checkpoint\"}}", page.token, page.port);
    half.write_all(head.as_bytes()).unwrap();
    drop(page);
    let lines = fs::read_to_string(at.join("run/metrics.jsonl")).unwrap().lines().count();
    until(&mut run, at, "run", lines + 20);
    // One that looks when the run ends says so, and what is asked is told to be in vain.
    let page = Page::of(at, "run", &[]);
    page.sees("metrics", state("training"));
    send(&run, "TERM");
    wrong.unless(run.wait_with_output().unwrap().status.code() == Some(143), || "the run".into());
    page.sees("metrics", state("not running"));
    let answer = page.control("{\"do\": \"checkpoint\"}");
    wrong.unless(answer["error"].as_str().is_some_and(|e| e.contains("the run is not running")), || answer.to_string());
    goes_on(at, "run");
}
#[test]
fn a_damaged_run_that_ends_the_page() {
    let folder = folder();
    let at = folder.path();
    ended(at, &[]);
    let page = Page::of(at, "run", &[]);
    let mut seed = 7u64;
    let mut random = |n: usize| -> Vec<u8> {
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as u8
        };
        (0..n).map(|_| next()).collect()
    };
    let odd = [
        "{\"kind\":\"layers\",\"step\":\"x\",\"layers\":7,\"parameters\":{\"a\":1},\"batch\":null}",
        "{\"kind\":\"step\",\"step\":-1,\"loss\":\"x\",\"bad_steps\":[1]}",
        "{\"kind\":{\"a\":1},\"step\":1e300}",
        "{\"kernels\":{\"0\":1},\"names\":3,\"columns\":null}",
        "{}",
    ];
    let deep = format!("{}\n", "[".repeat(100_000));
    for name in ["metrics", "timing", "incidents", "profiles"] {
        let path = at.join(format!("run/{name}.jsonl"));
        append(&path, &random(300_000));
        append(&path, b"\n");
        append(&path, odd.join("\n").as_bytes());
        append(&path, format!("\n{deep}").as_bytes());
        append(&path, &[b"{\"kind\":\"layers\",\"x\":\"".to_vec(), vec![b'y'; 30 << 20], b"\"}\n".to_vec()].concat());
        (0..40).for_each(|step| append(&path, format!("{{\"kind\":\"layers\",\"step\":{step},\"x\":\"{}\"}}\n", "z".repeat(2 << 20)).as_bytes()));
        append(&path, format!("{{\"kind\":\"step\",\"step\":77,\"of\":\"{name}\"}}\n").as_bytes());
    }
    for name in ["failure", "result", "environment", "architecture"] {
        fs::write(at.join(format!("run/{name}.json")), random(2 << 20)).unwrap();
    }
    let begun = Instant::now();
    while page.get("/api/state").json()["step"]["of"] != "metrics" || page.get("/api/state").json()["timing"]["of"] != "timing" {
        assert!(begun.elapsed() < PATIENCE, "{}", page.get("/api/state").body);
    }
    let told = loop {
        let mut stream = page.stream();
        if let Some(lines) = stream.until("profiles", |name, _| name == "whole")
            && lines.last().is_some_and(|head| head["step"] == 77)
        {
            break lines;
        }
        assert!(begun.elapsed() < PATIENCE);
    };
    assert!(told.len() <= 9, "{}", told.len());
    for path in ["/", "/metrics", "/api/doctor", &format!("/api/profile?id={}", told[0]["id"])] {
        assert_eq!(page.get(path).status, 200, "{path}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", page.child.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse::<u64>().ok()).unwrap();
    assert!(most < 400 << 10, "{most} KiB");
    // A folder that is gone is no end either.
    fs::remove_dir_all(at.join("run")).unwrap();
    assert_eq!(page.get("/").status, 200);
}
