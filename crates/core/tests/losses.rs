//! Losses: gradients against differences, values by hand where an option changes them, refusals.
mod numeric;
use adamant_core::{functional::*, *};
use numeric::{check, tensor};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn word(t: Tensor) -> &'static str {
    t.materialize().map_or_else(|e| e.kind().word(), |()| "fine")
}
fn signs(n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|k| if k % 3 == 0 { -1.0 } else { 1.0 }).collect::<Vec<f64>>(), [n])
}

#[test]
fn gradients_of_losses_of_elements() -> Result<()> {
    on_reference(|| {
        let (a, b) = (tensor(&[2, 3], 1), tensor(&[2, 3], 2));
        let pair = [a.clone(), b.clone()];
        let p = [a.sigmoid(), b.sigmoid()];
        let w = tensor(&[3], 3).square();
        for r in [Reduction::None, Reduction::Mean, Reduction::Sum, Reduction::BatchMean] {
            check("mse", &pair, |x| mse_loss(&x[0], &x[1], r))?;
            check("kl_div", &[a.log_softmax(1), b.softmax(1)], |x| kl_div(&x[0], &x[1], false, r))?;
        }
        let r = Reduction::Sum;
        check("l1", &pair, |x| l1_loss(&x[0], &x[1], r))?;
        check("smooth_l1", &pair, |x| smooth_l1_loss(&x[0], &x[1], 0.3, r))?;
        check("huber", &pair, |x| huber_loss(&x[0], &x[1], 0.4, r))?;
        check("bce", &p, |x| binary_cross_entropy(&x[0], &x[1], Some(&w), r))?;
        check("bce_with_logits", &p, |x| binary_cross_entropy_with_logits(&x[0], &x[1], None, Some(&w), r))?;
        check("kl_div of logarithms", &pair, |x| kl_div(&x[0], &x[1], true, r))?;
        check("multilabel_soft_margin", &p, |x| multilabel_soft_margin_loss(&x[0], &x[1], Some(&w), r))?;
        let counts = [a.clone(), b.abs() * 3.0];
        check("poisson_nll", &counts, |x| poisson_nll_loss(&x[0], &x[1], &PoissonNllOptions { full: true, reduction: r, ..Default::default() }))?;
        let rates = [a.abs(), b.abs()];
        check("poisson_nll of rates", &rates, |x| poisson_nll_loss(&x[0], &x[1], &PoissonNllOptions { log_input: false, reduction: r, ..Default::default() }))?;
        check("gaussian_nll", &[a, b, tensor(&[2, 1], 3).abs() + 0.2], |x| gaussian_nll_loss(&x[0], &x[1], &x[2], true, 1e-6, r))
    })
}
#[test]
fn gradients_of_losses_of_pairs_and_classes() -> Result<()> {
    on_reference(|| {
        let (a, b, c) = (tensor(&[4, 3], 1), tensor(&[4, 3], 2), tensor(&[4, 3], 3));
        let y = signs(4);
        let r = Reduction::Mean;
        check("cosine_embedding", &[a.clone(), b.clone()], |x| cosine_embedding_loss(&x[0], &x[1], &y, -0.5, r))?;
        check("margin_ranking", &[tensor(&[4], 1), tensor(&[4], 2)], |x| margin_ranking_loss(&x[0], &x[1], &y, 0.5, r))?;
        check("hinge_embedding", &[tensor(&[4], 1)], |x| hinge_embedding_loss(&x[0], &y, 0.5, r))?;
        check("soft_margin", &[tensor(&[4], 1)], |x| soft_margin_loss(&x[0], &y, r))?;
        for (p, swap) in [(2.0, false), (1.0, true), (3.0, true)] {
            check("triplet_margin", &[a.clone(), b.clone(), c.clone()], |x| {
                triplet_margin_loss(&x[0], &x[1], &x[2], &TripletMarginOptions { p, swap, margin: 2.0, ..Default::default() })
            })?;
        }
        let t = Tensor::from_vec(vec![0i64, 2, 1, 2], [4]);
        let w = tensor(&[3], 5).square();
        for p in [1, 2] {
            check("multi_margin", std::slice::from_ref(&a), |x| {
                multi_margin_loss(&x[0], &t, &MultiMarginOptions { p, weight: Some(&w), ..Default::default() })
            })?;
        }
        let rows = Tensor::from_vec(vec![0i64, 2, -1, 1, -1, 0, 2, 1, 0, -1, 0, 1], [4, 3]);
        check("multilabel_margin", std::slice::from_ref(&a), |x| multilabel_margin_loss(&x[0], &rows, r))?;
        check("nll", std::slice::from_ref(&a), |x| nll_loss(&x[0], &t, &NllOptions { weight: Some(&w), ignore_index: 1, ..Default::default() }))
    })
}
#[test]
fn ctc_counts_every_alignment() -> Result<()> {
    on_reference(|| {
        // Two steps, target "1": the alignments are 1 1, 1 blank, blank 1.
        let lp = tensor(&[2, 1, 3], 1).log_softmax(2);
        let p = lp.exp().to_vec::<f64>()?;
        let lengths = |n: i64| Tensor::from_vec(vec![n], [1]);
        let loss = ctc_loss(&lp, &Tensor::from_vec(vec![1i64], [1, 1]), &lengths(2), &lengths(1), &CtcOptions::default()).item::<f64>()?;
        assert!((loss + (p[1] * p[4] + p[1] * p[3] + p[0] * p[4]).ln()).abs() < 1e-12, "{loss}");
        // Equal labels need a blank between them: "1 1" cannot be said in two steps.
        let double = Tensor::from_vec(vec![1i64, 1], [1, 2]);
        assert_eq!(ctc_loss(&lp, &double, &lengths(2), &lengths(2), &CtcOptions::default()).item::<f64>()?, f64::INFINITY);
        let forgiving = CtcOptions { zero_infinity: true, ..Default::default() };
        assert_eq!(ctc_loss(&lp, &double, &lengths(2), &lengths(2), &forgiving).item::<f64>()?, 0.0);
        // Nothing to say: blank blank.
        let empty =
            ctc_loss(&lp, &Tensor::from_vec(vec![1i64], [1, 1]), &lengths(2), &lengths(0), &CtcOptions { reduction: Reduction::Sum, ..Default::default() })
                .item::<f64>()?;
        assert!((empty + (p[0] * p[3]).ln()).abs() < 1e-12, "{empty}");
        Ok(())
    })
}
#[test]
fn ctc_gradient_reaches_the_logits_and_targets_may_be_joined() -> Result<()> {
    on_reference(|| {
        let targets = Tensor::from_vec(vec![1i64, 2, 2, 1, 0, 0], [2, 3]);
        let joined = Tensor::from_vec(vec![1i64, 2, 2, 1], [4]);
        let (inputs, lengths) = (Tensor::from_vec(vec![5i64, 4], [2]), Tensor::from_vec(vec![3i64, 1], [2]));
        let loss = |x: &Tensor, t: &Tensor| ctc_loss(&x.log_softmax(2), t, &inputs, &lengths, &CtcOptions::default());
        let x = tensor(&[5, 2, 3], 1);
        assert_eq!(loss(&x, &targets).item::<f64>()?, loss(&x, &joined).item::<f64>()?);
        check("ctc", &[x], |x| loss(&x[0], &targets))
    })
}
#[test]
fn losses_refuse_what_pytorch_refuses() {
    on_reference(|| {
        let (a, b) = (tensor(&[4, 3], 1), tensor(&[4, 3], 2));
        let t = Tensor::from_vec(vec![0i64, 3, 1, 2], [4]);
        let r = Reduction::Mean;
        assert_eq!(word(mse_loss(&a, &tensor(&[4, 2], 1), r)), "shape");
        // Each prediction beside each target, which is hardly meant; one side may be repeated.
        assert_eq!(word(mse_loss(&tensor(&[4, 1], 1), &tensor(&[4], 2), r)), "shape");
        assert!(mse_loss(&a, &tensor(&[3], 1), r).item::<f64>().is_ok());
        assert_eq!(word(huber_loss(&a, &b, 0.0, r)), "argument");
        assert_eq!(word(smooth_l1_loss(&a, &b, -1.0, r)), "argument");
        assert_eq!(word(nll_loss(&a, &t, &NllOptions::default())), "index");
        assert_eq!(word(multi_margin_loss(&a, &t, &MultiMarginOptions::default())), "index");
        assert_eq!(word(multi_margin_loss(&a, &t, &MultiMarginOptions { p: 3, ..Default::default() })), "argument");
        assert_eq!(word(nll_loss(&a, &a, &NllOptions::default())), "dtype");
        assert_eq!(word(cross_entropy(&a, &b, &CrossEntropyOptions { label_smoothing: 2.0, ..Default::default() })), "argument");
        assert_eq!(word(cosine_embedding_loss(&a, &tensor(&[4, 2], 1), &signs(4), 0.0, r)), "shape");
        assert_eq!("average".parse::<Reduction>().unwrap_err().kind().word(), "argument");
    });
}
#[test]
fn hard_logits_have_finite_losses() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec(vec![1e4f32, -1e4], [2]).tracked();
        let t = Tensor::from_vec(vec![0.0f32, 1.0], [2]);
        let y = binary_cross_entropy_with_logits(&x, &t, None, None, Reduction::Sum);
        assert_eq!(y.item::<f32>()?, 2e4);
        assert_eq!(y.backward()?.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![1.0, -1.0]));
        let p = Tensor::from_vec(vec![0.0f32, 1.0], [2]);
        assert_eq!(binary_cross_entropy(&p, &(1.0 - &p), None, Reduction::Mean).item::<f32>()?, 100.0);
        Ok(())
    })
}
