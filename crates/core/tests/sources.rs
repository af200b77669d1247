//! Cells whose value lies elsewhere: what is computed of them has the bits and the gradients of cells that hold it, and nothing of a read
//! is kept until the walk back.
use adamant_core::{
    Cell, CellSource, DType, Device, Result, Tensor, compile,
    grad::{checkpoint, saved_bytes},
    step,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The value in two halves of axis 0, flat; and how often it was asked for.
struct Halves {
    halves: [Cell; 2],
    reads: AtomicUsize,
}
impl CellSource for Halves {
    fn read(&self, cell: &Cell) -> Result<Tensor> {
        self.reads.fetch_add(1, Relaxed);
        Tensor::cat(&[&self.halves[0].detached(), &self.halves[1].detached()], 0).reshape(cell.meta().shape).ok()
    }
    fn write(&self, _: &Cell, value: &Tensor) -> Result<()> {
        let flat = value.reshape([-1]);
        let n = flat.shape()?[0];
        self.halves[0].set(&flat.narrow(0, 0, n / 2))?;
        self.halves[1].set(&flat.narrow(0, n / 2, n - n / 2))
    }
}
fn numbers(seed: usize, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n).map(|k| ((k * 17 + seed * 7) as f64 * 0.618_033_988_749).fract() as f32 - 0.5).collect(), shape)
}
/// A cell that holds its value, and one of the same value that does not.
fn twins(seed: usize, shape: &[usize]) -> Result<(Cell, Cell, Arc<Halves>)> {
    let value = numbers(seed, shape);
    let (own, away) = (Cell::new(&value, true)?, Cell::new(&value, true)?);
    let flat = value.reshape([-1]);
    let n: usize = shape.iter().product();
    let half = |from: usize, n: usize| Cell::new(&flat.narrow(0, from, n), false);
    let source = Arc::new(Halves { halves: [half(0, n / 2)?, half(n / 2, n - n / 2)?], reads: AtomicUsize::new(0) });
    away.give_up(source.clone())?;
    Ok((own, away, source))
}
type Model = fn(&Tensor, &Cell) -> Result<Tensor>;
/// What a rule saves: the value, a view of it, a cast, a view of a cast, nothing; once and twice; in a stretch that is computed again.
const MODELS: [(&str, Model); 8] = [
    ("product", |x, w| Ok(x.matmul(&w.get()))),
    ("transposed", |x, w| Ok(x.matmul(&w.get().mt()))),
    ("square", |x, w| Ok(x * w.get().square())),
    ("cast", |x, w| Ok((x.cast(DType::BF16).matmul(&w.get().cast(DType::BF16))).cast(DType::F32))),
    ("view of a cast", |x, w| Ok((x.cast(DType::F64).matmul(&w.get().cast(DType::F64).mt())).cast(DType::F32))),
    ("sum", |x, w| Ok(x + w.get())),
    ("twice", |x, w| Ok(x.matmul(&w.get()).tanh().matmul(&w.get()))),
    ("checkpoint", |x, w| {
        let w = w.clone();
        checkpoint(&[x], move |x| Ok(x[0].matmul(&w.get()).tanh()))
    }),
];
fn bits(t: &Tensor) -> Vec<u32> {
    t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn gradients_are_those_of_a_cell_that_holds_its_value() {
    Device::reference().make_current();
    for (name, model) in MODELS {
        let (own, away, source) = twins(3, &[4, 4]).unwrap();
        let loss = |cell: &Cell| (model(&numbers(1, &[4, 4]), cell).unwrap() * numbers(2, &[4, 4])).sum(..);
        let (want, got) = (loss(&own), loss(&away));
        assert_eq!(bits(&want), bits(&got), "{name}");
        let forward = source.reads.load(Relaxed);
        let (want, got) = (want.backward().unwrap(), got.backward().unwrap());
        assert_eq!(bits(want.of(&own).unwrap()), bits(got.of(&away).unwrap()), "{name}");
        // Read again where the rule needs it, and only there.
        let again = source.reads.load(Relaxed) - forward;
        assert_eq!(again, [1, 1, 1, 1, 1, 0, 2, 2][MODELS.iter().position(|m| m.0 == name).unwrap()], "{name}");
    }
}
#[test]
fn nothing_of_a_read_is_kept_for_the_walk_back() {
    Device::reference().make_current();
    let (own, away, _) = twins(3, &[64, 64]).unwrap();
    let (x, weight) = (numbers(1, &[1, 64]).tracked(), 64 * 64 * 4);
    let saved = |cell: &Cell| {
        let y = x.matmul(&cell.get()).tanh();
        y.materialize().unwrap();
        saved_bytes(&y)
    };
    // The one that holds its value is held by its cell, not by the tape.
    let (held, elsewhere) = (saved(&own), saved(&away));
    assert!(elsewhere < weight && held < weight, "{held} and {elsewhere} bytes, the weight has {weight}");
}
#[test]
fn what_is_written_goes_to_the_source() {
    Device::reference().make_current();
    let (_, away, source) = twins(5, &[2, 3]).unwrap();
    let new = numbers(6, &[2, 3]);
    away.set(&new).unwrap();
    assert_eq!(bits(&source.halves[0].detached()), bits(&new)[..3]);
    // Taken back with the step.
    let failed: Result<()> = step(|| {
        away.set(&numbers(7, &[2, 3]))?;
        assert_eq!(bits(&away.detached()), bits(&numbers(7, &[2, 3])));
        Err(adamant_core::Error::new("test", adamant_core::ErrorKind::Argument("taken back".into())))
    });
    failed.unwrap_err();
    assert_eq!(bits(&away.detached()), bits(&new));
    away.take_back().unwrap();
    assert!(!away.is_given_up());
    assert_eq!(bits(&away.detached()), bits(&new));
    let reads = source.reads.load(Relaxed);
    assert_eq!(bits(&away.detached()), bits(&new));
    assert_eq!(source.reads.load(Relaxed), reads, "it is asked for what the cell holds");
}
#[test]
fn a_captured_step_follows_what_the_source_reads() {
    Device::reference().make_current();
    let (own, away, _) = twins(8, &[4, 4]).unwrap();
    let of = |cell: Cell| compile(move |x: &[Tensor]| Ok(vec![x[0].matmul(&cell.get()).square().sum(..)]));
    let (plain, elsewhere) = (of(own.clone()), of(away.clone()));
    for round in 0..4 {
        let x = numbers(round, &[2, 4]);
        assert_eq!(bits(&plain.call(&[&x]).unwrap()[0]), bits(&elsewhere.call(&[&x]).unwrap()[0]), "round {round}");
        let next = numbers(10 + round, &[4, 4]);
        own.set(&next).unwrap();
        away.set(&next).unwrap();
    }
}
#[test]
fn a_value_changes_its_place_outside_of_steps() {
    Device::reference().make_current();
    let (own, away, source) = twins(9, &[2, 2]).unwrap();
    let refused = step(|| own.give_up(source.clone())).unwrap_err().to_string();
    assert!(refused.contains("outside of steps"), "{refused}");
    let refused = step(|| away.take_back()).unwrap_err().to_string();
    assert!(refused.contains("outside of steps"), "{refused}");
    // A source that gives something else is told.
    let wrong = Cell::new(&numbers(1, &[3, 1]), true).unwrap();
    struct Other;
    impl CellSource for Other {
        fn read(&self, _: &Cell) -> Result<Tensor> {
            Ok(Tensor::zeros([2, 2]))
        }
        fn write(&self, _: &Cell, _: &Tensor) -> Result<()> {
            Ok(())
        }
    }
    wrong.give_up(Arc::new(Other)).unwrap();
    let told = wrong.get().to_vec::<f32>().unwrap_err().to_string();
    assert!(told.contains("gives f32 [2, 2]"), "{told}");
}
