//! The report of a run: whole, half there, hostile, and in a real browser.
#![allow(clippy::unwrap_used, clippy::expect_used)]
mod browser;

use adamant_train::report;
use browser::Browser;
use serde_json::{Value, json};
use std::{f64::consts::E, fs, path::Path};

/// Numbers that look random and are the same each time.
fn noise(k: usize) -> f64 {
    let x = (k as f64 * 12.9898).sin() * 43758.5453;
    x - x.floor()
}
fn lines(values: impl Iterator<Item = Value>) -> String {
    values.map(|v| format!("{v}\n")).collect()
}
/// A run of digits as a trainer leaves it: `steps` lines of steps in 30 epochs, interrupted once.
fn run_folder(folder: &Path, steps: usize, name: &str, classes: &[String], layer: &str) {
    let put = |file: &str, text: String| fs::write(folder.join(file), text).unwrap();
    let per_epoch = steps / 30;
    let loss = |k: usize| 0.05 + 2.3 * E.powf(-(k as f64) / steps as f64 * 6.0) * (0.7 + 0.6 * noise(k));
    put("config.toml", format!("# {name}\nseed = 1\nepochs = 30\nbatch = 64\n\n[data]\nkind = \"idx\"\n\n[[model.layers]]\nkind = \"Linear\"\n"));
    let environment = json!({ "program": "adamant", "version": "0.1.0", "device": "cpu", "threads": 2, "cpu": "AMD EPYC 9B45", "isa": "avx512", "os": "linux",
        "arch": "x86_64", "rustc": null, "started": "2026-11-21T17:00:00Z", "command": ["adamant", "train", "digits.toml", "--set", "seed=1"], "config": name,
        "parameters": 139_658, "train_rows": 1440, "test_rows": 357, "seed": 1 });
    put("environment.json", environment.to_string());
    let mut metrics = Vec::new();
    for k in 1..=steps {
        let lr = 1e-3 * (1.0 + (std::f64::consts::PI * k as f64 / steps as f64).cos()) / 2.0 + 1e-6;
        let norm = if k == steps / 3 { Value::Null } else { json!(1.7 * loss(k) + noise(k + 7)) };
        metrics.push(json!({ "kind": "step", "step": k, "epoch": 1 + (k - 1) / per_epoch, "loss": loss(k), "lr": lr, "grad_norm": norm }));
        if k % per_epoch == 0 {
            let epoch = k / per_epoch;
            let norms: Vec<(String, Value)> = (0..8)
                .map(|l| {
                    let which = if l % 2 == 0 { "weight" } else { "bias" };
                    let value = if (l, epoch) == (3, 12) { Value::Null } else { json!(loss(k) * (1.0 + l as f64) * (0.5 + noise(l * 31 + epoch))) };
                    (format!("{}.{layer}.{which}", l / 2), value)
                })
                .collect();
            let valid = json!({ "loss": loss(k) * 1.1 + 0.02, "accuracy": 0.985 - 0.6 * E.powf(-(epoch as f64) / 4.0) + 0.004 * noise(epoch), "rows": 200 });
            let norms: serde_json::Map<String, Value> = norms.into_iter().collect();
            metrics.push(json!({ "kind": "epoch", "step": k, "epoch": epoch, "loss": loss(k), "lr": lr, "grad_norms": norms, "valid": valid }));
        }
    }
    metrics.push(json!({ "kind": "test", "step": steps, "epoch": 30, "loss": 0.0621, "accuracy": 0.9832, "rows": 357 }));
    put("metrics.jsonl", lines(metrics.into_iter()));
    let timing = (1..=steps).flat_map(|k| {
        let step = json!({ "kind": "step", "step": k, "seconds": 0.004 * k as f64, "rows_per_second": 4100.0 + 600.0 * noise(k), "loader_wait_seconds": 0.001,
            "rss_bytes": 52_428_800 + 40_000 * (k * 200 / steps).min(60) });
        let checkpoint = (k % (steps / 12) == 0).then(|| json!({ "kind": "checkpoint", "step": k, "stall_seconds": 0.0004, "write_seconds": 0.021 }));
        let resume = (k == steps / 2).then(|| json!({ "kind": "resume", "step": k }));
        [Some(step), checkpoint, resume].into_iter().flatten()
    });
    put("timing.jsonl", lines(timing));
    let n = classes.len();
    let confusion: Vec<Vec<u64>> =
        (0..n).map(|t| (0..n).map(|a| if a == t { 34 } else { (noise(t * 17 + a) * 1.2) as u64 * (1 + (t * a) as u64 % 4) }).collect()).collect();
    let digit = |shift: usize| -> Vec<u8> {
        (0..28 * 28)
            .map(|p| {
                let (x, y) = ((p % 28) as f64 - 14.0, (p / 28) as f64 - 14.0);
                let r = (x * x * (1.0 + shift as f64 * 0.1) + y * y * 0.5).sqrt();
                if (r - 7.0).abs() < 2.0 { (255.0 * (1.0 - (r - 7.0).abs() / 2.0)) as u8 } else { 0 }
            })
            .collect()
    };
    let worst: Vec<Value> = (0..12)
        .map(|k| {
            json!({ "index": 17 + 31 * k, "loss": 6.2 - 0.3 * k as f64, "target": classes[k % n], "answer": classes[(k * 3 + 1) % n],
        "probability": 0.002 + 0.004 * k as f64, "image": { "width": 28, "height": 28, "channels": 1, "pixels": digit(k) }, "text": null })
        })
        .collect();
    put(
        "evaluation.json",
        json!({ "loss": 0.0621, "accuracy": 0.9832, "rows": 357, "seconds": 0.02, "classes": classes, "confusion": confusion, "worst": worst }).to_string(),
    );
}
fn digits() -> Vec<String> {
    (0..10).map(|k| k.to_string()).collect()
}
fn page(folder: &Path) -> String {
    fs::read_to_string(report::write(folder).unwrap()).unwrap()
}

#[test]
fn a_long_run_whose_report_is_large_or_another_each_time() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path(), 10_000, "digits", &digits(), "hidden");
    let html = page(folder.path());
    assert!(html.len() < 400_000, "{} bytes", html.len());
    assert_eq!(html, page(folder.path()));
    for (file, has) in [("loss.svg", "cross"), ("metric.svg", "Accuracy")] {
        let svg = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>") && (svg.contains(has) || file == "loss.svg"), "{file}");
    }
    for wanted in [
        "98.32<small> %",
        "0.0621",
        "on 357 rows",
        "139.7k",
        "avx512",
        "taken for",
        "data:image/png;base64,",
        "Resumed 1 time from step 5000",
        "12 checkpoints",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    for outside in ["http://", "https://", "src=\"//", "@import", "url("] {
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
    }
}
#[test]
fn a_largest_run_that_outgrows_a_megabyte() {
    let folder = tempfile::tempdir().unwrap();
    let classes: Vec<String> = (0..64).map(|k| format!("class number {k}")).collect();
    run_folder(folder.path(), 30_000, "large", &classes, "a_layer_with_a_long_name");
    let html = page(folder.path());
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}
#[test]
fn a_half_run_that_gives_no_report_or_hides_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path(), 600, "digits", &digits(), "hidden");
    let at = |file: &str| folder.path().join(file);
    fs::remove_file(at("evaluation.json")).unwrap();
    // Killed while it wrote: no test line, and the last line is cut.
    let metrics = fs::read_to_string(at("metrics.jsonl")).unwrap();
    let cut = metrics.lines().take(300).collect::<Vec<_>>().join("\n");
    fs::write(at("metrics.jsonl"), &cut[..cut.len() - 30]).unwrap();
    let html = page(folder.path());
    for wanted in ["evaluation.json is not there", "the last line of metrics.jsonl is torn off", "not finished", "Validation accuracy", "plot-loss-title"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    fs::write(at("metrics.jsonl"), "{}\nrubbish\n{\"kind\":\"step\",\"step\":1,\"loss\":null}\n{\"kind\":\"dance\"}\n").unwrap();
    fs::write(at("evaluation.json"), "{\"confusion\": [[1], [2, 3]], \"worst\": [{}]}").unwrap();
    fs::write(at("environment.json"), "[").unwrap();
    let html = page(folder.path());
    for wanted in ["2 lines of metrics.jsonl cannot be read, the first is line 1", "environment.json cannot be read", "not square"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    // Each file alone, and each one missing.
    for file in ["config.toml", "environment.json", "metrics.jsonl", "timing.jsonl", "evaluation.json"] {
        run_folder(folder.path(), 60, "digits", &digits(), "hidden");
        fs::remove_file(at(file)).unwrap();
        assert!(page(folder.path()).contains(&format!("{file} is not there")), "{file}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(report::write(empty.path()).unwrap_err().to_string().contains("is no run folder"));
    assert!(report::write(&empty.path().join("nowhere")).is_err());
}
#[test]
fn steps_that_were_done_twice_and_are_drawn_twice() {
    let folder = tempfile::tempdir().unwrap();
    let step = |k: u64, loss: f64| json!({ "kind": "step", "step": k, "epoch": 1, "loss": loss, "lr": 0.1 });
    // Step 3 was lost and is done again.
    fs::write(folder.path().join("metrics.jsonl"), lines([step(1, 9.0), step(2, 8.0), step(3, 77.0), step(3, 7.0), step(4, 6.0)].into_iter())).unwrap();
    let html = page(folder.path());
    assert!(html.contains("train: 4 points, from 9 at step 1 to 6 at 4; lowest 6, highest 9."), "{html}");
}

#[test]
fn a_resume_that_is_lost_behind_a_torn_line_and_layers_in_the_order_of_letters() {
    let folder = tempfile::tempdir().unwrap();
    let norms = json!({ "10.weight": 1.0, "2.weight": 2.0, "2.bias": 3.0 });
    let metrics = json!({ "kind": "epoch", "step": 9, "epoch": 1, "loss": 1.0, "lr": 0.1, "grad_norms": norms });
    fs::write(folder.path().join("metrics.jsonl"), lines([metrics].into_iter())).unwrap();
    fs::write(folder.path().join("timing.jsonl"), "{\"kind\":\"step\",\"st{\"kind\":\"resume\",\"seconds\":0.1,\"step\":7}\n").unwrap();
    let html = page(folder.path());
    assert!(html.contains("Resumed 1 time from step 7."), "{html}");
    let at = |name: &str| html.find(&format!("<bdi>{name}</bdi>")).unwrap();
    assert!(at("2.bias") < at("2.weight") && at("2.weight") < at("10.weight"));
}

const HOSTILE: &str = "</script></title></bdi><script>window.hacked=1</script><img src=x onerror=\"window.hacked=2\">'\"`&\u{202e}rtl שלום\u{2028}\u{0007}";
fn hostile(folder: &Path) {
    let classes: Vec<String> = (0..3).map(|k| format!("{k}{HOSTILE}")).collect();
    run_folder(folder, 60, HOSTILE, &classes, HOSTILE);
    let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    let mut environment: Value = serde_json::from_str(&text("environment.json")).unwrap();
    for key in ["device", "cpu", "isa", "started", HOSTILE] {
        environment[key] = json!(HOSTILE);
    }
    environment["command"] = json!([HOSTILE, HOSTILE]);
    fs::write(folder.join("environment.json"), environment.to_string()).unwrap();
    let mut evaluation: Value = serde_json::from_str(&text("evaluation.json")).unwrap();
    evaluation["worst"][0]["text"] = json!(HOSTILE);
    evaluation["worst"][1]["image"]["width"] = json!(usize::MAX);
    fs::write(folder.join("evaluation.json"), evaluation.to_string()).unwrap();
}
#[test]
fn user_text_that_becomes_markup() {
    let folder = tempfile::tempdir().unwrap();
    hostile(folder.path());
    let html = page(folder.path());
    assert!(!html.contains("<script>window") && !html.contains("<img src=x") && !html.contains('\u{202e}') && !html.contains('\u{7}'));
    assert_eq!(html.matches("</script>").count(), 2);
}

#[test]
fn a_page_that_a_browser_complains_of_or_that_cannot_be_used() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    run_folder(folder.path(), 10_000, "digits", &digits(), "hidden");
    let path = report::write(folder.path()).unwrap();
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        for (size, width, height) in [("desktop", 1280, 900), ("phone", 400, 800)] {
            browser.open(&path, width, height, scheme);
            browser.screenshot(&format!("{size}-{scheme}"));
            let count = |browser: &mut Browser, selector: &str| browser.value(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap();
            assert_eq!(count(&mut browser, "figure svg[role=img] > title"), 6);
            assert_eq!(count(&mut browser, ".confusion tbody tr"), 10);
            let drawn = browser.value("[...document.querySelectorAll('figure path.line')].filter(p => p.getTotalLength() > 200).length").as_u64().unwrap();
            assert!(drawn >= 9, "{drawn} lines are drawn");
            assert_eq!(browser.value("[...document.images].every(i => i.complete && i.naturalWidth == 28 && i.alt)"), json!(true));
            let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= u64::from(width), "the page is {wide} wide in a window of {width}");
            let cut = "[...document.querySelectorAll('.confusion th,.confusion td')].filter(c => c.getBoundingClientRect().right > innerWidth).length";
            assert_eq!(browser.value(cut), json!(0), "cells of the confusion matrix lie outside of a window of {width}");
            // By keyboard: the end of the loss curve.
            browser.value("document.querySelector('figure').focus()");
            browser.press("End");
            let read = browser.value("document.querySelector('figure output').textContent").to_string();
            assert!(read.contains("step 10000") && read.contains("validation"), "{read}");
            assert_eq!(browser.complaints(), Vec::<String>::new());
            assert_eq!(browser.files(), 1);
            grounds.push(browser.value("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('path.line.solid')).stroke"));
        }
    }
    assert!(grounds[0] == grounds[1] && grounds[2] == grounds[3] && grounds[0] != grounds[2], "{grounds:?}");
    // The button turns dark into light, whatever the system wants.
    browser.value("document.getElementById('theme').click()");
    assert_eq!(
        browser.value("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('path.line.solid')).stroke"),
        grounds[0]
    );
    // What has no name is nothing to a screen reader.
    let nameless = "[...document.querySelectorAll('section,figure,svg[role=img],button,[role=region]')].filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.querySelector('figcaption') || e.textContent.trim())).length";
    assert_eq!(browser.value(nameless), json!(0));
    let unresolved = "[...document.querySelectorAll('[aria-labelledby],[aria-describedby]')].flatMap(e => ((e.getAttribute('aria-labelledby')||'') + ' ' + (e.getAttribute('aria-describedby')||'')).trim().split(/ +/)).filter(id => !document.getElementById(id)).length";
    assert_eq!(browser.value(unresolved), json!(0));
    for file in ["loss.svg", "metric.svg"] {
        browser.open(&folder.path().join(file), 700, 400, "dark");
        browser.screenshot(file);
        assert!(browser.value("document.querySelectorAll('path.line').length").as_u64().unwrap() >= 1, "{file}");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}
#[test]
fn a_hostile_run_that_acts_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    hostile(folder.path());
    let path = report::write(folder.path()).unwrap();
    browser.open(&path, 1280, 900, "light");
    browser.screenshot("hostile");
    assert_eq!(
        browser.value("window.hacked === undefined && document.scripts.length === 2 && document.querySelectorAll('[onerror]').length === 0"),
        json!(true)
    );
    let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
    assert!(wide <= 1280, "a long name makes the page {wide} wide");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // A run that was interrupted at once.
    let torn = tempfile::tempdir().unwrap();
    fs::write(torn.path().join("metrics.jsonl"), "{\"kind\":\"step\",\"step\":1,\"epoch\":1,\"loss\":2.3,\"lr\":0.1}\n{\"kind\":\"st").unwrap();
    let path = report::write(torn.path()).unwrap();
    browser.open(&path, 1280, 900, "light");
    browser.screenshot("torn");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
