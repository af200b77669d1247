//! Plots of values that axes, pictures and markup have trouble with.
use super::*;

fn series(points: Vec<(f64, f64)>) -> Series {
    Series { name: "train".into(), points, stroke: Stroke::Solid, colour: 0 }
}
fn plot(points: Vec<(f64, f64)>, log: bool) -> Plot {
    Plot { title: "Loss".into(), x_label: "step".into(), y_label: "loss".into(), log, series: vec![series(points)], marks: vec![] }
}

#[test]
fn ticks_that_are_not_round() {
    let ticks = |low: f64, high: f64, scale| -> Vec<String> {
        let axis = PlotAxis::new([low, high].into_iter(), scale, (0.0, 100.0), 5);
        axis.ticks().into_iter().map(|t| t.1).collect()
    };
    for (low, high, expected) in [
        (0.0, 1.0, "0 0.2 0.4 0.6 0.8 1"),
        (0.0, 700.0, "0 200 400 600"),
        (-1.0, 1.0, "-1 -0.5 0 0.5 1"),
        (1.0, 30_000.0, "10k 20k 30k"),
        (0.97, 0.99, "0.97 0.975 0.98 0.985 0.99"),
    ] {
        assert_eq!(ticks(low, high, Scale::Linear).join(" "), expected, "{low} {high}");
    }
    for (low, high, expected) in [(0.001, 1.0, "0.001 0.01 0.1 1"), (0.3, 4.0, "0.5 1 2"), (1e-12, 1.0, "1e-12 1e-9 1e-6 0.001 1"), (3.0, 4.0, "3 3.5 4")] {
        assert_eq!(ticks(low, high, Scale::Log).join(" "), expected, "{low} {high}");
    }
}
#[test]
fn numbers_that_lose_their_size() {
    for (value, expected) in [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.25, "0.25"),
        (0.001, "0.001"),
        (0.00015, "1.5e-4"),
        (1234.0, "1234"),
        (9999.9, "10k"),
        (140_000.0, "140k"),
        (999_999.0, "1M"),
        (1.5e9, "1.5G"),
        (-2.5e-7, "-2.5e-7"),
        (f64::NAN, "NaN"),
        (1e300, "1e300"),
    ] {
        assert_eq!(scale::number(value), expected, "{value:e}");
    }
}
#[test]
fn extreme_values_that_leave_the_picture() {
    let extremes = [0.0, -0.0, 1.0, -1.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 1e300, f64::NAN, f64::INFINITY];
    for a in extremes {
        for b in extremes {
            for log in [false, true] {
                let svg = plot(vec![(1.0, a), (2.0, b)], log).document();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{a:e} {b:e} {log}: {svg}");
            }
        }
    }
    assert!(plot(vec![], false).document().contains("no data"));
    assert!(plot(vec![(1.0, -1.0)], true).is_empty());
}
#[test]
fn a_peak_that_downsampling_loses() {
    let mut points: Vec<(f64, f64)> = (0..10_000).map(|k| (k as f64, (k as f64 / 300.0).sin())).collect();
    points[4321].1 = 9.0;
    let few = largest_triangles(&points, 500);
    assert_eq!(few.len(), 500);
    assert!(few.contains(&(4321.0, 9.0)));
    assert_eq!((few[0], few[499]), (points[0], points[9999]));
    assert!(few.windows(2).all(|w| w[0].0 < w[1].0) && few.iter().all(|p| points.contains(p)));
    for n in 0..10 {
        assert_eq!(largest_triangles(&points[..n], 4).len(), n.min(4), "{n}");
    }
}
#[test]
fn a_long_run_that_gives_a_large_picture_or_another_each_time() {
    let points: Vec<(f64, f64)> = (0..10_000).map(|k| (k as f64, 1.0 / (k + 1) as f64)).collect();
    let plot = plot(points, false);
    let svg = plot.document();
    assert!(svg.len() < 12_000, "{}", svg.len());
    assert_eq!(svg, plot.document());
}
#[test]
fn user_text_that_becomes_markup() {
    let hostile = "</title><script>alert(1)</script>\"'&\u{202e}\u{0}";
    let mut plot = plot(vec![(1.0, 1.0), (2.0, 2.0)], false);
    (plot.title, plot.x_label, plot.y_label) = (hostile.into(), hostile.into(), hostile.into());
    plot.series[0].name = hostile.into();
    plot.series.push(plot.series[0].clone());
    let svg = plot.document();
    assert!(!svg.contains("<script") && !svg.contains('\u{202e}') && !svg.contains('\u{0}'), "{svg}");
    assert_eq!(svg.matches("</title>").count(), 1);
}
#[test]
fn smoothing_that_pulls_towards_zero() {
    let flat: Vec<(f64, f64)> = (0..50).map(|k| (k as f64, 3.0)).collect();
    assert!(smooth(&flat, 20.0).iter().all(|p| (p.1 - 3.0).abs() < 1e-12));
    assert_eq!(smooth(&[(0.0, f64::NAN), (1.0, 2.0)], 10.0), [(1.0, 2.0)]);
    assert_eq!(smooth(&[(0.0, 1.0), (1.0, 2.0)], 1.0), [(0.0, 1.0), (1.0, 2.0)]);
}
#[test]
fn a_description_that_says_nothing() {
    let mut plot = plot(vec![(1.0, 2.5), (100.0, 0.5), (101.0, f64::NAN)], false);
    plot.marks.push(Mark { x: 50.0, kind: MarkKind::Resume });
    assert_eq!(
        plot.description(),
        "Line plot of loss against step. train: 2 points, from 2.5 at step 1 to 0.5 at 100; lowest 0.5, highest 2.5. 1 points cannot be drawn. Resumed 1 times."
    );
}
