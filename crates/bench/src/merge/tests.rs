//! Columns that must be kept apart, and cells that must not show a time.
use super::*;
use crate::record::tests::example;

#[test]
fn two_machines_that_fall_into_one_column() {
    let (one, mut two) = (example("epyc"), example("epyc"));
    two.machine.microcode = Some("0xabc".into());
    let mut again = example("epyc");
    again.started = "2026-11-22T00:00:00Z".into();
    again.cases.truncate(1);
    again.cases[0] = again.cases[0].clone().sampled(vec![2000.0; 9], vec![0.0; 9], 1);
    let table = merge(&[again, one, two]);
    assert_eq!(table.columns.iter().map(|c| &*c.name).collect::<Vec<_>>(), ["adamant, cpu avx2 t2 @ epyc", "adamant, cpu avx2 t2 @ epyc #2"]);
    assert_eq!(table.rows.len(), 3);
    let cells: Vec<(Option<f64>, Option<usize>)> = table.rows[0].cells.iter().map(|c| c.as_ref().map(|c| (c.median_ns, c.rank)).unwrap()).collect();
    // The later record of the same machine replaces the earlier one.
    assert_eq!(cells[0], (Some(2000.0), Some(1)));
    assert_eq!(cells[1].1, Some(2));
    assert_eq!(table.columns[0].started, "2026-11-22T00:00:00Z");
}
#[test]
fn a_wrong_or_small_result_that_shows_a_time() {
    let mut small = example("x");
    small.settings.small = true;
    let table = merge(&[small]);
    for row in &table.rows {
        let cell = row.cells[0].as_ref().unwrap();
        assert!(cell.median_ns.is_none() && cell.of_roofline.is_none() && cell.error.is_some() && cell.rank.is_none());
    }
    let table = merge(&[example("x")]);
    let wrong = table.rows[2].cells[0].as_ref().unwrap();
    assert!(wrong.median_ns.is_none() && wrong.error.as_deref().unwrap().contains("wrong result"));
    assert!((table.rows[1].cells[0].as_ref().unwrap().of_roofline.unwrap() - 0.748).abs() < 0.01);
}
