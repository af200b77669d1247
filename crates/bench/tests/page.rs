//! The report in a real browser: readable, complete, quiet, in light and dark, narrow and wide, with and without its script.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(dead_code, reason = "shared with the page of a training run, which uses more of it")]
#[path = "../../train/tests/browser/mod.rs"]
mod browser;

use adamant_bench::{
    Group,
    ceilings::Ceilings,
    machine::{Git, Load, Machine},
    merge::merge,
    record::{Case, Record, Settings, WorkUnit},
    render::{Format, table},
};
use browser::Browser;
use serde_json::json;
use std::time::SystemTime;

/// A record whose times follow from `speed` alone.
fn record(label: &str, isa: &str, speed: f64) -> Record {
    let case = |name: &str, unit: WorkUnit, amount: f64, ns: f64, intensity: f64| {
        let samples: Vec<f64> = (0..30).map(|k| ns / speed * (1.0 + 0.002 * ((k * 7) % 11) as f64)).collect();
        let case = Case { unit: Some(unit), amount: Some(amount), intensity: Some(intensity), worst_error: Some(0.2), ..Case::new(name, "adamant") };
        case.sampled(samples, vec![0.0; 30], 1)
    };
    let mut cases: Vec<Case> = [64, 256, 1024]
        .map(|n| {
            let flop = 2.0 * (n as f64).powi(3);
            case(&format!("gemm_f32_{n}"), WorkUnit::Flop, flop, flop / 180.0, n as f64 / 6.0)
        })
        .into();
    cases.push(case("ew_add_16m", WorkUnit::Bytes, 201e6, 6e6, 1.0 / 12.0));
    cases.push(Case { peak_growth_bytes: Some(21_300_000), ..case("train_mlp_b128", WorkUnit::Flop, 4e8, 3e6, 40.0) });
    cases.push(Case { error: Some("wrong result: element 7 is <b>1</b> instead of 2".into()), ..Case::new("softmax_4096x1024", "adamant") });
    cases.push(Case { error: Some("not there".into()), unsupported: true, ..Case::new("gemm_int8_1024", "adamant") });
    for family in ["add", "softmax", "matmul"] {
        for k in 0..9u32 {
            let n = 128 * 4u64.pow(k);
            let ns = 400.0 + 0.3 * n as f64;
            let sized = case(&format!("{family}/{n}"), WorkUnit::Bytes, 12.0 * n as f64, ns, 0.1);
            cases.push(Case { group: Group::Sizes, elements: Some(n), ..sized });
        }
    }
    let mut machine = Machine::here();
    machine.cpu = format!("{label} <script>document.title='broken'</script>");
    let settings = Settings {
        label: label.into(),
        device: "cpu".into(),
        device_name: label.into(),
        device_details: [("isa".to_string(), isa.to_string())].into(),
        threads: 2,
        budget_s: 1.0,
        precision: 0.002,
        small: false,
    };
    Record {
        command: vec!["bench".into(), "run".into()],
        machine,
        git: Some(Git { commit: "0123456789abcdef".into(), dirty: false }),
        load_before: Load::default(),
        load_after: Load::default(),
        ceilings: Some(Ceilings {
            threads: 2,
            gflops: [("avx2/f32".to_string(), 120.0 * speed), ("avx512/f32".to_string(), 240.0 * speed)].into(),
            copy_gbps: 42.0,
            triad_gbps: 40.0,
            handover_ns: 6000.0,
        }),
        cases,
        ..Record::begun(SystemTime::UNIX_EPOCH, settings)
    }
}

#[test]
fn a_page_that_a_browser_complains_of_or_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let html = table(&merge(&[record("server", "avx512", 1.3), record("laptop", "avx2", 0.6)]), Format::Html);
    assert!(html.len() < 300_000, "{} bytes", html.len());
    std::fs::write(&path, html).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    let mut grounds = Vec::new();
    for (size, width, height) in [("wide", 1280, 900), ("narrow", 390, 844)] {
        for scheme in ["light", "dark"] {
            browser.open(&path, width, height, scheme);
            browser.screenshot(&format!("bench-{size}-{scheme}"));
            let count = |browser: &mut Browser, selector: &str| browser.value(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap();
            // Two rooflines and three families.
            assert_eq!(count(&mut browser, "figure svg[role=img] > title"), 5);
            assert_eq!(count(&mut browser, "path.ceiling"), 2);
            assert_eq!(count(&mut browser, ".charts circle.dot > title"), 2 * 3 * 9);
            assert_eq!(browser.value("[...document.querySelectorAll('section')].map(s => s.querySelector('h2').textContent)[1]"), json!("Workloads"));
            assert!(browser.value("document.body.textContent").to_string().contains("wrong result: element 7 is <b>1</b>"));
            assert_eq!(browser.value("document.title"), json!("Benchmarks"));
            let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= width as u64, "{size}: the page is {wide} wide");
            // All that is drawn lies within its picture.
            let outside = browser.value(
                "[...document.querySelectorAll('circle.dot')].filter(c => c.cx.baseVal.value < 60 || c.cx.baseVal.value > 705 || c.cy.baseVal.value < 15 || c.cy.baseVal.value > 355).length",
            );
            assert_eq!(outside, json!(0));
            assert_eq!(browser.complaints(), Vec::<String>::new());
            assert_eq!(browser.files(), 1);
            grounds.push(browser.value("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector('path.line')).stroke"));
        }
    }
    assert!(grounds[0] != grounds[1] && grounds[0] == grounds[2] && grounds[1] == grounds[3], "{grounds:?}");
    // Search, sort, theme.
    let shown = "[...document.querySelectorAll('tbody tr')].filter(r => !r.hidden && r.closest('section').querySelector('input')).length";
    let all = browser.value(shown);
    browser.value("{ const i = document.querySelector('input[type=search]'); i.value = 'GEMM_F32'; i.dispatchEvent(new Event('input')); }");
    assert_eq!((all, browser.value(shown)), (json!(7 + 27), json!(3)));
    assert_eq!(browser.value("location.hash"), json!("#show=GEMM_F32"));
    browser.value("{ const i = document.querySelector('input[type=search]'); i.value = ''; i.dispatchEvent(new Event('input')); }");
    browser.value("document.querySelectorAll('thead th button')[1].click()");
    let first = "document.querySelector('table tbody tr th').textContent";
    assert_eq!(browser.value(first), json!("gemm_f32_64"));
    browser.value("document.querySelectorAll('thead th button')[1].click()");
    assert_eq!(browser.value("document.querySelector('thead th[aria-sort]').getAttribute('aria-sort')"), json!("descending"));
    let before = browser.value("getComputedStyle(document.body).backgroundColor");
    browser.value("document.getElementById('theme').click()");
    assert_ne!(before, browser.value("getComputedStyle(document.body).backgroundColor"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
