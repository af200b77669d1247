//! The page of a history in a real browser, and what the verb does with what is no history.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(dead_code, reason = "shared with the page of a training run, which uses more of it")]
#[path = "../../train/tests/browser/mod.rs"]
mod browser;

use adamant_bench::{
    ceilings::Ceilings,
    history::History,
    machine::Git,
    merge::merge,
    record::{Case, Record, Settings, WorkUnit},
    render::history::{csv, page},
};
use browser::Browser;
use serde_json::json;
use std::time::{Duration, SystemTime};

/// A run of `cases` workloads, of which the first becomes slower by a fifth with run 20 and the second is wrong in run 3.
fn record(run: u64, label: &str, cases: usize) -> Record {
    let case = |k: usize| {
        let name = if k == 2 { "<script>document.title='broken'</script>".into() } else { format!("workload_{k}") };
        let case = Case { unit: Some(WorkUnit::Bytes), amount: Some(1e6), intensity: Some(0.1 + k as f64), ..Case::new(name, "adamant") };
        if k == 1 && run == 3 {
            return Case { error: Some("wrong result: <i>1</i>".into()), ..case };
        }
        let factor = if k == 0 && run >= 20 { 1.2 } else { 1.0 };
        let noise = 1.0 + 0.004 * ((run * 7 + k as u64 * 3) % 11) as f64 / 11.0;
        case.sampled((0..9).map(|s| 123_456.0 * (k + 1) as f64 * factor * noise * (1.0 + 0.001 * s as f64)).collect(), vec![0.0; 9], 1)
    };
    let settings = Settings {
        label: label.into(),
        device: "cpu".into(),
        device_name: label.into(),
        device_details: [("isa".to_string(), "avx2".to_string())].into(),
        threads: 2,
        budget_s: 1.0,
        precision: 0.002,
        small: false,
    };
    Record {
        command: vec!["bench".into(), "run".into()],
        git: Some(Git { commit: format!("{run:012x}ffff"), dirty: false }),
        ceilings: Some(Ceilings { threads: 2, gflops: [("avx2/f32".to_string(), 120.0)].into(), copy_gbps: 42.0, triad_gbps: 40.0, handover_ns: 6000.0 }),
        cases: (0..cases).map(case).collect(),
        ..Record::begun(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400 * (20_000 + run)), settings)
    }
}
fn history(runs: u64, cases: usize) -> (History, Vec<Record>) {
    let records: Vec<Record> = (0..runs).flat_map(|k| [record(k, "server", cases), record(k, "laptop", cases)]).collect();
    let tags = [(format!("{:012x}ffff", 25), vec!["v0.2".to_string()])].into();
    (History::of(&records, &tags), records)
}

#[test]
fn a_history_that_a_browser_complains_of_or_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.html");
    let (history, records) = history(30, 4);
    std::fs::write(&path, page(&history, &merge(&records))).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    let count = |browser: &mut Browser, selector: &str| browser.value(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap();
    for (size, width, height) in [("wide", 1280, 900), ("narrow", 390, 844)] {
        for scheme in ["light", "dark"] {
            browser.open(&path, width, height, scheme);
            browser.screenshot(&format!("history-{size}-{scheme}"));
            // Four lines on each machine, of which one changed, and the rooflines of both.
            assert_eq!((count(&mut browser, "figure.case"), count(&mut browser, "g.change"), count(&mut browser, ".changes tbody tr")), (8, 2, 2));
            assert_eq!(count(&mut browser, "path.ceiling"), 2);
            assert_eq!(browser.value("document.title"), json!("History of benchmarks"));
            let text = browser.value("document.body.textContent").to_string();
            for part in ["+20.0 %", "wrong result: <i>1</i>", "000000000014", "v0.2", "2026-01-01"] {
                assert!(text.contains(part) || part.starts_with("2026") && text.contains("2024-"), "{part}");
            }
            let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= width as u64, "{size}: the page is {wide} wide");
            assert_eq!(browser.complaints(), Vec::<String>::new());
            assert_eq!(browser.files(), 1);
        }
    }
    let shown = "[...document.querySelectorAll('figure.case')].filter(f => !f.hidden).length";
    // The filter, and its address in a new page.
    browser.value(
        "{ const i = document.querySelector('input[type=search]'); i.value = 'WORKLOAD_1 server'; i.dispatchEvent(new Event('input', { bubbles: true })); }",
    );
    assert_eq!((browser.value(shown), browser.value("location.hash")), (json!(1), json!("#show=WORKLOAD_1+server")));
    browser.value("{ location.hash = '#changed=1&column=' + encodeURIComponent(document.querySelectorAll('option')[1].value); }");
    browser.value("new Promise(done => setTimeout(done, 100))");
    assert_eq!(browser.value(shown), json!(1));
    browser.value("{ location.hash = '#show=%E0%A4%A&column=none'; }");
    browser.value("new Promise(done => setTimeout(done, 100))");
    browser.value("{ location.hash = '#'; }");
    browser.value("new Promise(done => setTimeout(done, 100))");
    assert_eq!(browser.value(shown), json!(8));
    // What is saved has all points, and the arrow keys say which run is where.
    let lines = browser.value("csv().trim().split('\\r\\n')");
    assert_eq!(lines.as_array().unwrap().len(), 1 + 2 * 4 * 30);
    assert_eq!(lines[0], json!("workload,column,run,started,commit,median_ns,low_ns,high_ns,error"));
    assert_eq!(browser.value("shown()[0].median_ns"), json!(123_950));
    browser.value("document.querySelector('figure.case').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' }))");
    let said = browser.value("document.querySelector('figure.case output').textContent").to_string();
    assert!(said.contains("00000000001c") && said.contains("run 57"), "{said}");
    browser.screenshot("history-cursor");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
#[test]
fn a_page_of_ten_thousand_points_that_is_large() {
    let (history, records) = history(50, 100);
    let text = page(&history, &merge(&records[records.len() - 2..]));
    assert_eq!(csv(&history).lines().count(), 1 + 10_000);
    assert!(text.len() < 1_500_000, "{} bytes", text.len());
}
