//! A headless Chromium over its DevTools protocol: just enough to open a page, press keys, and see what it complained of.
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tungstenite::{Message, WebSocket};

pub struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    calls: u64,
    events: Vec<Value>,
    /// where the page is from: what it asks there it does not ask elsewhere
    own: String,
    _profile: tempfile::TempDir,
}
impl Browser {
    /// `ADAMANT_CHROMIUM`, or the first Chromium that is found; without one it says so loudly.
    pub fn start() -> Option<Browser> {
        let named = std::env::var("ADAMANT_CHROMIUM").ok();
        let candidates: Vec<&str> = match &named {
            Some(name) => vec![name],
            None => vec!["chromium", "chromium-browser", "google-chrome"],
        };
        let profile = tempfile::tempdir().unwrap();
        let process = candidates.iter().find_map(|program| {
            let mut command = Command::new(program);
            command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--hide-scrollbars"]);
            command.arg("--remote-debugging-port=0").arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()
        });
        let Some(mut process) = process else {
            let why = format!("none of {candidates:?} can be started. Install chromium or set ADAMANT_CHROMIUM.");
            let _ = writeln!(std::io::stderr(), "\n*** NOT TESTED in a browser: {why} ***\n");
            return None;
        };
        // It says where it listens; what it says afterwards is read so that it never waits for a reader.
        let mut says = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = says.find_map(|line| line.strip_prefix("DevTools listening on ws://").map(str::to_string));
        let address = address.expect("the browser ended before it listened");
        std::thread::spawn(move || says.for_each(drop));
        let stream = TcpStream::connect(address.split('/').next().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (socket, _) = tungstenite::client(format!("ws://{address}"), stream).unwrap();
        let mut browser = Browser { process, socket, session: String::new(), calls: 0, events: Vec::new(), own: "file:".into(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let session = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = session["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }
    /// Calls a method and returns its result; events that come meanwhile are kept.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == json!(self.calls) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }
    fn receive(&mut self) -> Value {
        loop {
            let read = self.socket.read();
            // A signal of another test of this process.
            if matches!(&read, Err(tungstenite::Error::Io(e)) if e.kind() == std::io::ErrorKind::Interrupted) {
                continue;
            }
            if let Message::Text(text) = read.unwrap() {
                return serde_json::from_str(text.as_str()).unwrap();
            }
        }
    }
    /// Opens a file in a window of a size, in `light` or `dark`.
    pub fn open(&mut self, page: &Path, width: u32, height: u32, scheme: &str) {
        self.open_address(&format!("file://{}", page.display()), "file:", width, height, scheme);
    }
    /// Opens an address, and takes for its own what begins so.
    pub fn open_address(&mut self, address: &str, own: &str, width: u32, height: u32, scheme: &str) {
        self.own = own.to_string();
        self.call("Emulation.setDeviceMetricsOverride", json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }));
        self.call("Emulation.setEmulatedMedia", json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }));
        self.events.clear();
        self.call("Page.navigate", json!({ "url": address }));
        while !self.events.iter().any(|e| e["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }
    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }
    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }));
        }
    }
    /// Errors and warnings of the page, and requests that left it.
    pub fn complaints(&mut self) -> Vec<String> {
        // A round trip: what the page said before it is here.
        self.value("1");
        let text = |e: &Value| {
            let p = &e["params"];
            match e["method"].as_str()? {
                "Runtime.exceptionThrown" | "Log.entryAdded" => Some(p.to_string()),
                "Runtime.consoleAPICalled" if p["type"] == "error" || p["type"] == "warning" || p["type"] == "assert" => Some(p.to_string()),
                "Network.requestWillBeSent" => {
                    let url = p["request"]["url"].as_str()?;
                    // The page before may still call its own server when another one is opened.
                    let is_of_page = p["documentURL"].as_str().is_none_or(|page| page.starts_with(&self.own));
                    (is_of_page && !url.starts_with(&self.own) && !url.starts_with("data:")).then(|| format!("request of {url}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(text).collect()
    }
    /// How many files the page asked for, itself among them.
    pub fn files(&self) -> usize {
        let is_file = |e: &&Value| e["method"] == "Network.requestWillBeSent" && e["params"]["request"]["url"].as_str().is_some_and(|u| u.starts_with("file:"));
        self.events.iter().filter(is_file).count()
    }
    /// A picture of the whole page, into the folder that `ADAMANT_SCREENSHOTS` names, if it names one.
    pub fn screenshot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("ADAMANT_SCREENSHOTS") else { return };
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let shot = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true, "clip": clip }));
        let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }
}
impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
