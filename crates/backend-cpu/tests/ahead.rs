//! Ops that are always read alone run as they are applied, and no other op does: what they give is the same, whatever is
//! guessed about the reader.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{schedule::take_stats, *};

/// How often an op is read alone before it runs ahead.
const SEEN: usize = 8;

fn on_device(f: impl FnOnce(Device)) {
    let device = Context::new(CpuBackend::builder().threads(1)).unwrap().device();
    device.scoped(|| f(device));
}
fn kernels() -> u64 {
    take_stats().kernels
}
/// Applies `f` and tells whether it ran before anybody read it.
fn runs_ahead(f: impl FnOnce() -> Tensor) -> (bool, Tensor) {
    kernels();
    let made = f();
    (kernels() != 0, made)
}
fn read_alone(f: impl Fn() -> Tensor) {
    for _ in 0..SEEN {
        f().materialize().unwrap();
    }
}
fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

#[test]
fn it_is_guessed_too_early_or_not_at_all() {
    on_device(|_| {
        let (x, y) = (tensor![1.0, 2.0, 3.0], tensor![10.0, 20.0, 30.0]);
        for k in 0..3 * SEEN {
            let (ahead, sum) = runs_ahead(|| &x + &y);
            assert_eq!(ahead, k >= SEEN, "the sum number {k}");
            assert_eq!(values(&sum), [11.0, 22.0, 33.0]);
        }
        // One kernel for each sum, whether it ran ahead or not; a window and its plan are counted for each as well.
        take_stats();
        read_alone(|| &x + &y);
        let stats = take_stats();
        assert_eq!((stats.kernels, stats.flushes, stats.hits, stats.misses), (SEEN as u64, SEEN as u64, SEEN as u64, 0));
    });
}
#[test]
fn kinds_are_mistaken_for_one_another() {
    on_device(|_| {
        let (x, y) = (tensor![1.0, 2.0, 3.0], tensor![10.0, 20.0, 30.0]);
        read_alone(|| &x + &y);
        assert!(runs_ahead(|| &x + &y).0);
        // Other numbers of the same kind.
        let (ahead, sum) = runs_ahead(|| &y + &x);
        assert!(ahead && values(&sum) == [11.0, 22.0, 33.0]);
        let (w, v) = (tensor![-1.0, 0.0, f32::NAN], tensor![f32::INFINITY, -0.0, 1.0]);
        let (ahead, sum) = runs_ahead(|| &w + &v);
        assert!(ahead && values(&sum)[0] == f32::INFINITY && values(&sum)[2].is_nan());
        // Another op, other sizes, other dtypes, one value twice, a broadcast: each is a kind of its own.
        let column = tensor![[1.0], [2.0], [3.0]];
        let int = tensor![1, 2, 3];
        for (what, made, expected) in [
            ("product", runs_ahead(|| &x * &y), vec![10.0, 40.0, 90.0]),
            ("one value", runs_ahead(|| &x + &x), vec![2.0, 4.0, 6.0]),
            ("broadcast", runs_ahead(|| &column + &tensor![10.0]), vec![11.0, 12.0, 13.0]),
            ("integers", runs_ahead(|| &int + &int), vec![2.0, 4.0, 6.0]),
            ("a number", runs_ahead(|| &x + 1.0), vec![2.0, 3.0, 4.0]),
        ] {
            assert!(!made.0, "{what} was taken for a sum");
            assert_eq!(values(&made.1.cast(DType::F32)), expected, "{what}");
        }
        // An input that lies otherwise is recorded, whose window moves it.
        let transposed = tensor![[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]].transpose(0, 1).narrow(0, 0, 1).reshape([3]);
        transposed.materialize().unwrap();
        let flipped = x.flip(0);
        flipped.materialize().unwrap();
        for lies in [&transposed, &flipped] {
            assert_eq!(values(&(lies + &y)).iter().sum::<f32>(), 66.0);
        }
        assert_eq!(values(&(&flipped + &y)), [13.0, 22.0, 31.0]);
    });
}
#[test]
fn an_argument_of_an_earlier_call_is_used() {
    on_device(|_| {
        let x = tensor![1.0, 2.0];
        for k in 0..4 * SEEN {
            assert_eq!(values(&(&x * k as f32)), [k as f32, 2.0 * k as f32]);
            assert_eq!(values(&(k as f64 - &x)), [k as f32 - 1.0, k as f32 - 2.0]);
        }
        // A whole number and a fraction are two programs for an integer tensor.
        let n = tensor![1, 2];
        for k in 0..4 * SEEN as i64 {
            assert_eq!((&n + k).to_vec::<i64>().unwrap(), [1 + k, 2 + k]);
        }
    });
}
#[test]
fn a_wrong_guess_is_repeated() {
    on_device(|_| {
        let x = tensor![1.0, 2.0];
        read_alone(|| x.exp());
        // The first that is used unread was made ahead in vain; the next are fused again.
        let chain = || {
            kernels();
            let y = x.exp() + 1.0;
            y.materialize().unwrap();
            (kernels(), values(&y))
        };
        let (first, made) = chain();
        assert_eq!(first, 2);
        for _ in 0..SEEN {
            assert_eq!(chain(), (1, made.clone()));
        }
        // Read alone anew, it is trusted anew; also where it goes on into another op after it was read.
        read_alone(|| x.exp());
        for _ in 0..3 {
            let (ahead, e) = runs_ahead(|| x.exp());
            e.materialize().unwrap();
            assert!(ahead);
            assert_eq!(values(&(&e + 1.0)), made);
        }
    });
}
#[test]
fn an_open_window_or_another_rule_is_overtaken() {
    on_device(|_| {
        let (x, y) = (tensor![1.0, 2.0], tensor![3.0, 4.0]);
        read_alone(|| &x + &y);
        // A window is open: the op joins it, and they are one kernel.
        let pending = &x * 7.0;
        let (ahead, sum) = runs_ahead(|| &x + &y);
        assert!(!ahead);
        assert_eq!(values(&(&pending + &sum)), [11.0, 20.0]);
        assert_eq!(kernels(), 1);
        assert!(runs_ahead(|| &x + &y).0);
        // What is captured is recorded.
        let f = compile(|t: &[Tensor]| Ok(vec![&t[0] + &t[1]]));
        for k in 0..3 {
            assert_eq!(values(&f.call(&[&x, &y]).unwrap()[0]), [4.0, 6.0], "call {k}");
        }
        let graph = graph::Graph::capture(x.device().unwrap(), &[], |_| Ok(vec![&x + &y])).unwrap();
        assert_eq!(graph.nodes.len(), 1);
        // An interceptor sees it.
        with_eager(true, || assert_eq!(values(&(&x + &y)), [4.0, 6.0]));
    });
}
#[test]
fn a_gradient_or_a_fault_is_lost() {
    on_device(|_| {
        let (x, y) = (tensor![1.0, 2.0].tracked(), tensor![3.0, 4.0].tracked());
        read_alone(|| &x * &y);
        let (ahead, product) = runs_ahead(|| &x * &y);
        assert!(ahead && product.is_tracked());
        product.materialize().unwrap();
        let grads = product.sum(..).backward().unwrap();
        assert_eq!((values(grads.get(&x).unwrap()), values(grads.get(&y).unwrap())), (vec![3.0, 4.0], vec![1.0, 2.0]));
        let (ahead, untracked) = no_grad(|| runs_ahead(|| &x * &y));
        assert!(ahead && !untracked.is_tracked());
        // Of second order, through leaves that a walk knows by number only.
        let grads = (&x * &y * &x).sum(..).backward_graph().unwrap();
        let second = grads.get(&x).unwrap().sum(..).backward().unwrap();
        assert_eq!((values(second.get(&x).unwrap()), values(second.get(&y).unwrap())), (vec![6.0, 8.0], vec![2.0, 4.0]));
        // What is computed from bad data says so at its reader.
        let (table, good, bad) = (tensor![1.0, 2.0], tensor![0i64, 1], tensor![0i64, 5]);
        let picked = |at: &Tensor| table.gather(0, at);
        let one = picked(&good);
        one.materialize().unwrap();
        read_alone(|| &one + &one);
        let spoiled = picked(&bad);
        assert!(spoiled.materialize().is_err());
        assert!(matches!((&spoiled + &spoiled).to_vec::<f32>().unwrap_err().kind(), ErrorKind::Index { index: 5, bound: 2, .. }));
        assert!(!runs_ahead(|| &one + &Tensor::failed(Error::new("test", ErrorKind::Argument("planted".into())))).0);
    });
}
#[test]
fn memory_that_cannot_be_had_fails_before_anybody_reads() {
    on_device(|device| {
        let x = Tensor::from_vec(vec![1.0f32; 1000], [1000]);
        read_alone(|| &x + &x);
        device.pool().set_cap(1);
        let mut held = Vec::new();
        let refused = loop {
            let (ahead, sum) = runs_ahead(|| &x + &x);
            if !ahead {
                break sum;
            }
            held.push(sum);
            assert!(held.len() < 100, "the cap is not kept");
        };
        let error = refused.materialize().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }) && error.op() == "add", "{error}");
        device.pool().set_cap(0);
        assert_eq!(values(&refused), vec![2.0; 1000]);
    });
}
