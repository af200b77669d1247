//! The page of a run in a real browser: all of it has something to show, nothing of it complains or asks elsewhere, and what a run says stays text.

use super::{
    browser::Browser,
    debug::{Page, append},
    folder,
    signals::{long, send, until},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(180);
const PANELS: [&str; 8] = ["trace", "costs", "gradients", "neurons", "anomalies", "debugger", "resources", "tensors"];
const VIEWS: [&str; 7] = ["basic", "box", "gantt", "heat", "stacked", "horizontal", "thresholds"];
/// What would act if it were taken for markup.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn open(browser: &mut Browser, page: &Page, (width, height): (u32, u32), scheme: &str) {
    browser.open_address(&page.address, &format!("http://127.0.0.1:{}/", page.port), width, height, scheme);
}
/// Waits until an expression is true in the page.
fn wait(browser: &mut Browser, expression: &str) {
    let begun = Instant::now();
    while browser.value(expression) != true {
        let page = || "document.body.innerText.slice(0, 3000)";
        assert!(begun.elapsed() < PATIENCE, "{expression} does not come: {}", browser.value(page()));
        std::thread::sleep(Duration::from_millis(50));
    }
}
fn click(browser: &mut Browser, selector: &str) {
    wait(browser, &format!("!!document.querySelector('{selector}:not(:disabled)')"));
    browser.value(&format!("document.querySelector('{selector}').click()"));
}
/// Each panel has content, each view of the trace something drawn, and nobody complains.
fn check_content(browser: &mut Browser) {
    wait(browser, "!!document.querySelector('#trace .view')");
    for panel in PANELS {
        let text = browser.value(&format!("document.querySelector('#{panel} .body').innerText"));
        let parts = browser.value(&format!("document.querySelectorAll('#{panel} :is(table tbody tr, svg, .facts, form)').length"));
        let text = text.as_str().unwrap_or_default();
        assert!(text.len() > 80 && parts.as_u64() > Some(0) && !text.contains("cannot show"), "{panel}: {parts} {text:.400}");
    }
    for view in VIEWS {
        click(browser, &format!("[data-view={view}]"));
        wait(browser, &format!("document.querySelector('#trace .view')?.dataset.shown === '{view}'"));
        let drawn = browser.value("document.querySelectorAll('#trace .view :is(tbody tr, svg rect)').length");
        assert!(drawn.as_u64() > Some(2), "{view}: {drawn}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
/// The debugger's panel, with answers of a run that is stopped in its hands: what it asks, and how it shows what comes.
fn debugged(browser: &mut Browser) {
    browser.value(
        r#"window.asked = []; window.realFetch = window.fetch; window.fetch = async (path, options) => {
            const request = JSON.parse(options.body);
            window.asked.push(options.body);
            const answers = {
                break: { ok: true, breakpoint: 1, step: 4 }, next: { ok: true, step: 4 }, set: { ok: true, step: 4, elements: 1 },
                where: { ok: true, step: 4, in_step: 5, stopped: true, breakpoint: 1, phase: "forward", op: "matmul", layer: "<b>head", line: "x.rs:3", number: 7, shows: "results",
                    values: [{ name: "out.0", shape: [2, 3], dtype: "f32" }, { name: "<i>in.0", shape: [], dtype: "f16" }], breakpoints: [{ breakpoint: 1, layer: "head*", when: "absmax > 1e4" }] },
                look: { ok: true, elements: 6, nan: 0, inf: "inf", least: -1.5, most: 2, mean: 0.25, std: 1, absmax: 2, zeros: 0, histogram: { least: -1.5, most: 2, counts: [1, 2, 3] } },
                slice: { ok: true, shape: [2, 2], values: [[0.5, "NaN"], [1234.5, -2]] },
            };
            return new Response(JSON.stringify(answers[request.do] ?? { ok: false, error: "no" }));
        }; 0"#,
    );
    let send = |browser: &mut Browser, form: &str, fields: &[(&str, &str)]| {
        let fill: String = fields.iter().map(|(name, value)| format!("form.elements.namedItem({name:?}).value = {value:?};")).collect();
        browser.value(&format!("(() => {{ const form = document.querySelector('form[aria-label=\"{form}\"]'); {fill} form.requestSubmit(); }})()"));
    };
    let asked = |browser: &mut Browser, line: &str| wait(browser, &format!("window.asked.includes({line:?})"));
    send(browser, "A breakpoint", &[("layer", "head*"), ("phase", "forward"), ("when", "absmax > 1e4")]);
    asked(browser, r#"{"do":"break","layer":"head*","phase":"forward","when":"absmax > 1e4"}"#);
    wait(browser, "document.querySelector('#debugger').innerText.includes('<b>head') && document.querySelector('#debugger').innerText.includes('<i>in.0')");
    click(browser, "#debugger button.link");
    asked(browser, r#"{"do":"look","of":"out.0"}"#);
    wait(browser, "document.querySelectorAll('#debugger svg rect').length === 3 && document.querySelector('#slice-of').value === 'out.0'");
    send(browser, "Values of a slice", &[("at", "0:2, :")]);
    asked(browser, r#"{"do":"slice","of":"out.0","at":"0:2, :"}"#);
    wait(browser, "['0.5000', 'NaN', '1235', '-2'].every((of) => [...document.querySelectorAll('#debugger td')].some((cell) => cell.textContent === of))");
    browser.screenshot("debug-stopped");
    send(browser, "Set a value", &[("at", "0, 1"), ("value", "1.5")]);
    asked(browser, r#"{"do":"set","of":"out.0","at":"0, 1","value":1.5}"#);
    browser.value("[...document.querySelectorAll('#debugger button')].find((of) => of.textContent === 'Next layer').click()");
    asked(browser, r#"{"do":"next","of":"layer"}"#);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.value("window.fetch = window.realFetch; 0");
}
/// A run that was asked for a recorded step through its page, and has ended.
fn recorded(at: &Path, browser: &mut Browser) {
    // The reference device has no kernels; on the CPU a run must be longer to live until a browser has come.
    let mut run =
        long(at, "run").env("ADAMANT_DEVICE", "cpu").args(["--quiet", "--set", "stability.look_every=200", "--set", "epochs=3000000"]).spawn().unwrap();
    until(&mut run, at, "run", 100);
    let page = Page::of(at, "run", &[]);
    open(browser, &page, (1280, 800), "light");
    wait(browser, "document.querySelector('#state').textContent === 'training'");
    assert_eq!(browser.value("!!document.querySelector('#trace .empty')"), true, "nothing was recorded");
    click(browser, "#do-profile");
    check_content(browser);
    // What changes the run is asked twice, and is not done where it is not meant.
    click(browser, "#do-rate");
    wait(browser, "document.querySelector('#sure').open");
    click(browser, "#sure-no");
    wait(browser, "document.querySelector('#said').textContent === 'Nothing was asked for.'");
    click(browser, "#do-pause");
    wait(browser, "document.querySelector('#state').textContent === 'paused' && document.querySelector('#do-pause').textContent === 'Resume'");
    // The console says what the run answers, and what it refuses.
    let send_line = |browser: &mut Browser, line: &str| {
        browser.value(&format!(
            "(() => {{ const form = document.querySelector('.console-line'); form.elements.line.value = {line:?}; form.requestSubmit(); }})()"
        ));
    };
    send_line(browser, "{\"do\": \"dance\"}");
    wait(browser, "document.querySelector('.console').textContent.includes('`dance` is nothing that a run can be asked for')");
    send_line(browser, "{\"do\": \"checkpoint\"}");
    wait(browser, "document.querySelector('.console .answered')?.textContent.includes('checkpoints/step-') === true");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    click(browser, "#do-pause");
    wait(browser, "document.querySelector('#state').textContent === 'training'");
    debugged(browser);
    send(&run, "TERM");
    wait(browser, "document.querySelector('#state').textContent === 'not running' && document.querySelector('#do-pause').disabled");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(143));
    assert!(!fs::read_to_string(at.join("run/metrics.jsonl")).unwrap().contains("\"kind\":\"control\""));
}
/// Adds to the run what tries to be markup, wherever a run has words.
fn spoil(run: &Path) {
    let profiles = fs::read_to_string(run.join("profiles.jsonl")).unwrap();
    let mut profile: Value = serde_json::from_str(profiles.lines().next().unwrap()).unwrap();
    for words in ["names", "kinds", "layers", "phases_of"] {
        profile[words].as_array_mut().unwrap().iter_mut().for_each(|word| *word = format!("{HOSTILE}{}", word.as_str().unwrap()).into());
    }
    let step = profile["step"].as_u64().unwrap() + 1;
    profile["step"] = step.into();
    let mut look = profile["look"].take();
    look["layers"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|layer| (layer["layer"], layer["op"], layer["dead"]) = (HOSTILE.into(), HOSTILE.into(), 0.75.into()));
    look["parameters"].as_array_mut().unwrap().iter_mut().for_each(|p| p["parameter"] = HOSTILE.into());
    let (layers, parameters) = (look["layers"].clone(), look["parameters"].clone());
    profile["look"] = look;
    append(&run.join("profiles.jsonl"), format!("{profile}\n").as_bytes());
    let line = json!({ "kind": "layers", "step": 9_000_000, "epoch": 1, "loss": 0.5, "rows": [3], "batch": [], "layers": layers, "parameters": parameters });
    append(&run.join("metrics.jsonl"), format!("{line}\n{{\"kind\":\"layers\",\"step\":{{}},\"layers\":7,\"parameters\":\"x\"}}\n").as_bytes());
    let op = json!({ "op": HOSTILE, "called": HOSTILE, "layer": HOSTILE, "file": HOSTILE, "line": 3, "phase": HOSTILE });
    let incident = json!({ "step": 41, "epoch": 2, "handling": HOSTILE, "origin": { "kind": HOSTILE, "phase": "forward", "op": op, "place": HOSTILE, "at": [1, 2],
        "growth": 3.5, "inputs": [{ "elements": 4, "non_finite": 0, "least": -1.0, "most": 1.0 }], "chain": [op] }, "records": [{ "file": HOSTILE, "index": 7, "finite": false }] });
    append(&run.join("incidents.jsonl"), format!("{incident}\n").as_bytes());
    append(&run.join("timing.jsonl"), format!("{}\n", json!({ "kind": "op_by_op", "step": 1, "reason": HOSTILE })).as_bytes());
    fs::write(run.join("failure.json"), json!({ "error": { "kind": HOSTILE, "message": HOSTILE }, "step": 42 }).to_string()).unwrap();
}

#[test]
fn a_page_that_a_browser_complains_of_or_that_shows_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = folder();
    let at = folder.path();
    let model = super::RUN
        .replace("[model]\nlayers = [", "[model]\nlayers = [{ name = \"first\", kind = \"Linear\", in_features = 2, out_features = 2 }, { kind = \"ReLU\" }, ");
    fs::write(at.join("run.toml"), model).unwrap();
    recorded(at, &mut browser);
    // Of an ended run, in both schemes and two windows.
    let page = Page::of(at, "run", &[]);
    for (size, scheme) in [((1280, 800), "light"), ((1280, 800), "dark"), ((800, 600), "light"), ((800, 600), "dark")] {
        open(&mut browser, &page, size, scheme);
        check_content(&mut browser);
        let wide = browser.value("document.documentElement.scrollWidth <= window.innerWidth");
        assert_eq!(wide, true, "{size:?}: the page is wider than its window");
        browser.screenshot(&format!("debug-{scheme}-{}", size.0));
    }
    for view in VIEWS {
        click(&mut browser, &format!("[data-view={view}]"));
        wait(&mut browser, &format!("document.querySelector('#trace .view')?.dataset.shown === '{view}'"));
        browser.screenshot(&format!("debug-view-{view}"));
    }
    // A line that comes is there without the page being loaded anew; so are those that were there.
    let known = fs::read_to_string(at.join("run/metrics.jsonl")).unwrap();
    let last: Value = known.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).rfind(|line| line["kind"] == "step").unwrap();
    let facts = "[...document.querySelectorAll('#overview .facts dd')].map((of) => of.textContent)";
    wait(&mut browser, &format!("{facts}.includes('{}')", last["step"]));
    browser.value("window.sameDocument = 1; window.alert = () => { window.acted = 1; }");
    assert_eq!(browser.value(&format!("{facts}.includes('0.4242')")), false);
    append(&at.join("run/metrics.jsonl"), b"{\"kind\":\"step\",\"step\":8000000,\"epoch\":3,\"loss\":0.42421,\"lr\":0.1,\"grad_norm\":2.5}\n");
    wait(&mut browser, &format!("window.sameDocument === 1 && {facts}.includes('0.4242') && {facts}.includes('8000000')"));
    spoil(&at.join("run"));
    wait(
        &mut browser,
        "window.sameDocument === 1 && document.querySelector('#tensors').textContent.includes('<img src=x') && document.querySelector('#anomalies .alarm') !== null",
    );
    check_content(&mut browser);
    assert_eq!(browser.value("document.querySelectorAll('img').length + (window.acted ?? 0)"), 0);
    for panel in ["trace", "costs", "gradients", "neurons", "anomalies", "resources", "tensors"] {
        let text = browser.value(&format!("document.querySelector('#{panel}').textContent.includes('onerror')"));
        assert_eq!(text, true, "{panel}: what the run says is not there as text");
    }
    browser.screenshot("debug-spoiled");
    // Keys alone.
    let shown = "[...document.querySelectorAll('.panel')].filter((of) => !of.hidden).map((of) => of.id).join()";
    for (key, panels) in [("3", "gradients"), ("8", "tensors"), ("0", &PANELS.join(",")[..])] {
        browser.value("document.activeElement.blur()");
        browser.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key }));
        browser.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
        wait(&mut browser, &format!("{shown} === '{panels}'"));
    }
    let nameless = browser.value("[...document.querySelectorAll('button, input, select, .scroll')].filter((of) => !(of.textContent || of.getAttribute('aria-label') || of.labels?.length)).length");
    assert_eq!(nameless, 0, "what can be used has no name");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    drop(page);
    // The panels that were asked for.
    let page = Page::of(at, "run", &["--dead-neurons", "--anomalies"]);
    open(&mut browser, &page, (1280, 800), "dark");
    wait(&mut browser, &format!("{shown} === 'neurons,anomalies'"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
