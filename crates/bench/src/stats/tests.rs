//! Figures of SciPy 1.17.1: `mannwhitneyu(a, b, method="asymptotic")`, `wilcoxon(d, method="approx", correction=True)`,
//! `bootstrap((a, b), ..., method="percentile", n_resamples=20000)`.
use super::*;

const A: [f64; 10] = [12.1, 11.8, 12.4, 12.0, 11.9, 13.5, 12.2, 12.1, 11.7, 12.3];
const B: [f64; 10] = [12.6, 12.1, 12.9, 12.4, 12.2, 12.8, 12.7, 12.5, 12.4, 13.1];

fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-12 + 1e-9 * want.abs(), "{got} instead of {want}");
}
#[test]
fn a_test_that_gives_another_p_than_scipy() {
    near(mann_whitney(&A, &B), 0.015215911562173574);
    let (c, d) = ([1., 2., 2., 3., 3., 3., 4., 4., 5., 5., 5., 5.], [2., 3., 3., 4., 4., 4., 5., 5., 5., 6., 6.]);
    near(mann_whitney(&c, &d), 0.21822723868969407);
    near(signed_rank(&[0.5, 0.3, 0.5, 0.4, 0.3, -0.7, 0.5, 0.4, 0.7, 0.8]), 0.058181906576255854);
    near(signed_rank(&[0.5, -0.25, 0., 1., 1.5, -0.5, 0.75, 0., 2., 0.25, 0.25, -1., 3.]), 0.09899439425438585);
}
/// `2 * scipy.stats.t.sf(t, freedom)` and `ttest_1samp`.
#[test]
fn a_tail_of_student_that_is_not_scipys() {
    for (t, freedom, p) in
        [(2.0, 4.0, 0.11611652351681556), (11.0, 4.0, 0.00038817133849401416), (0.3, 7.0, 0.7728900504021342), (25.0, 2.0, 0.001596170211410334)]
    {
        near(student_tails(t, freedom), p);
    }
    near(student(&[0.03, 0.028, 0.035, 0.031, 0.027]), 2.6766607055743683e-05);
    assert_eq!([student(&[1.0]), student(&[]), student(&[0.0; 4]), student_tails(0.0, 3.0), student_tails(f64::INFINITY, 3.0)], [1.0, 1.0, 1.0, 1.0, 0.0]);
}
#[test]
fn samples_that_are_none_or_all_equal_and_differ_all_the_same() {
    assert_eq!([mann_whitney(&[], &[1.0]), mann_whitney(&[2.0; 5], &[2.0; 5]), signed_rank(&[]), signed_rank(&[0.0; 9])], [1.0; 4]);
    assert!(median(&[]).is_nan() && bootstrap_ratio(&[], &[1.0], false, 1).0.is_nan() && median_interval(&[]).0.is_nan());
    assert!(bootstrap_ratio(&[1.0, 2.0], &[1.0], true, 1).0.is_nan());
}
#[test]
fn an_interval_that_is_not_scipys() {
    let close = |(low, high): (f64, f64), want: (f64, f64)| {
        assert!((low - want.0).abs() < 0.006 * want.0 && (high - want.1).abs() < 0.006 * want.1, "{low} to {high} instead of {want:?}");
    };
    close(bootstrap_ratio(&A, &B, false, 7), (1.0121951219512193, 1.0669456066945606));
    close(bootstrap_ratio(&A, &B, true, 7), (1.032258064516129, 1.0450819672131149));
    close(bootstrap_median(&A, 7), (11.9, 12.3));
    assert_eq!(bootstrap_ratio(&A, &B, true, 7), bootstrap_ratio(&A, &B, true, 7));
}
#[test]
fn an_interval_of_the_order_that_misses_the_median_too_often() {
    let mut words = RandomWords::new(3);
    let (mut inside, trials) = (0, 2000);
    for _ in 0..trials {
        let mut samples: Vec<f64> = (0..40).map(|_| words.uniform() as f64).collect();
        samples.sort_by(f64::total_cmp);
        let (low, high) = median_interval(&samples);
        inside += usize::from(low <= 0.0 && 0.0 <= high);
    }
    assert!(inside as f64 / trials as f64 > 0.94, "{inside} of {trials}");
}
#[test]
fn a_correction_that_lets_too_much_pass() {
    // The example of Holm's paper's kind: sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, and never falling.
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (got, want) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        near(*got, want);
    }
    assert!(holm(&[]).is_empty());
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
}
#[test]
fn medians_of_few() {
    near(median(&A), 12.1);
    assert_eq!([median(&[3.0]), median(&[1.0, 2.0]), median_absolute_deviation(&[1.0, 2.0, 4.0, 9.0])], [3.0, 1.5, 1.5]);
    near(geometric_mean(&[2.0, 8.0]), 4.0);
}
