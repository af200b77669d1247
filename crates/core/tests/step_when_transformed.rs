//! A step under a predicate inside transforms: what it leaves in a cell is, for each example, what the plain step leaves, or one
//! value cannot hold it and the error says so; and no derivative flows through it. All pairs of what it may depend on.
mod naive;

use adamant_core::{
    Cell, Device, Result, Tensor, step_when,
    transform::{Cells, Vmap, grad, jvp, vmap_with},
};

const EXAMPLES: [f64; 3] = [-1.5, 0.5, 2.0];
const BEFORE: f64 = 3.0;

/// What the predicate is, and what is written: each the same for all examples or not.
#[derive(Clone, Copy, Debug)]
struct Case {
    when: When,
    own_value: bool,
    /// around it is another step, under this predicate
    outer: Option<When>,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Always,
    Never,
    /// where the example is positive
    Positive,
}
impl When {
    fn of(self, x: &Tensor, cell: &Cell) -> Tensor {
        match self {
            When::Always => cell.detached().gt(-1e9),
            When::Never => cell.detached().gt(1e9),
            When::Positive => x.gt(0.0),
        }
    }
    fn holds(self, x: f64) -> bool {
        self == When::Always || self == When::Positive && x > 0.0
    }
}
impl Case {
    fn all() -> impl Iterator<Item = Case> {
        let whens = [When::Always, When::Never, When::Positive];
        let outers = [None, Some(When::Always), Some(When::Never), Some(When::Positive)];
        let one = move |when| outers.into_iter().flat_map(move |outer| [false, true].map(|own_value| Case { when, own_value, outer }));
        whens.into_iter().flat_map(one)
    }
    /// Writes the cell under the predicates.
    fn step(self, x: &Tensor, cell: &Cell) -> Result<()> {
        let inner = || {
            step_when(|| {
                let old = cell.detached();
                // Two writes: the first value is no one's.
                cell.set(&(&old * 100.0))?;
                cell.set(&if self.own_value { &old + x.detach() } else { &old + 1.0 })?;
                Ok((self.when.of(x, cell), ()))
            })
        };
        match self.outer {
            None => inner(),
            Some(outer) => step_when(|| {
                inner()?;
                Ok((outer.of(x, cell), ()))
            }),
        }
    }
    /// The example's square times what the cell holds behind the step.
    fn run(self, x: &Tensor, cell: &Cell) -> Result<Tensor> {
        self.step(x, cell)?;
        Ok(x.square() * cell.detached())
    }
    /// What the cell holds then for an example, by arithmetic.
    fn left(self, x: f64) -> f64 {
        let writes = self.when.holds(x) && self.outer.is_none_or(|outer| outer.holds(x));
        if !writes {
            BEFORE
        } else if self.own_value {
            BEFORE + x
        } else {
            BEFORE + 1.0
        }
    }
    /// May examples leave different values? What is not written by a predicate that all share is still each example's own.
    fn differs(self) -> bool {
        self.own_value || self.when == When::Positive || self.outer == Some(When::Positive)
    }
}
fn scalar(x: f64) -> Tensor {
    Tensor::from_vec(vec![x], ())
}
fn number(t: &Tensor) -> Result<f64> {
    t.item::<f64>()
}
/// On two devices: one that plans, and the reference.
fn on_devices(check: impl Fn(Case) -> Result<()>) -> Result<()> {
    for device in [naive::device(64, usize::MAX), Device::reference()] {
        device.scoped(|| Case::all().try_for_each(&check))?;
    }
    Ok(())
}
fn cell() -> Result<Cell> {
    Cell::new(&scalar(BEFORE), false)
}

#[test]
fn an_example_keeps_what_another_one_wrote() -> Result<()> {
    on_devices(|case| {
        let stack = Tensor::from_vec(EXAMPLES.to_vec(), [3]);
        for (chunk, derived) in [(None, false), (None, true), (Some(2), false)] {
            let kept = cell()?;
            let one = |x: Tensor| if derived { Ok(grad(|x: Tensor| case.run(&x, &kept).unwrap())(x)) } else { case.run(&x, &kept) };
            let options = Vmap::default().cells(Cells::PerExample);
            let options = chunk.map_or(options.clone(), |n| options.clone().chunk_size(n));
            let y = vmap_with(one, options)(stack.clone())?.to_vec::<f64>()?;
            let want: Vec<f64> = EXAMPLES.iter().map(|&x| case.left(x) * if derived { 2.0 * x } else { x * x }).collect();
            assert_eq!(y, want, "{case:?}, chunks {chunk:?}, derived {derived}");
            // What all share is written, what is each example's own is gone with it.
            let left = if case.differs() { BEFORE } else { case.left(0.0) };
            assert_eq!(number(&kept.detached())?, left, "{case:?}");
        }
        Ok(())
    })
}
#[test]
fn one_cell_takes_what_differs_among_examples() -> Result<()> {
    on_devices(|case| {
        let kept = cell()?;
        let y = vmap_with(|x: Tensor| case.run(&x, &kept), Vmap::default())(Tensor::from_vec(EXAMPLES.to_vec(), [3]));
        if case.differs() {
            assert_eq!(y.unwrap_err().kind().word(), "transform", "{case:?}");
            assert_eq!(number(&kept.detached())?, BEFORE, "{case:?}: a step that failed has written");
        } else {
            assert_eq!(y?.to_vec::<f64>()?, EXAMPLES.map(|x| x * x * case.left(x)), "{case:?}");
            assert_eq!(number(&kept.detached())?, case.left(0.0), "{case:?}");
        }
        Ok(())
    })
}
#[test]
fn a_derivative_flows_through_a_predicate_or_a_cell() -> Result<()> {
    on_devices(|case| {
        for x in EXAMPLES {
            let left = case.left(x);
            let plain = cell()?;
            assert_eq!((number(&case.run(&scalar(x), &plain)?)?, number(&plain.detached())?), (x * x * left, left), "{case:?}");
            let pulled = cell()?;
            let g = grad(|x: Tensor| case.run(&x, &pulled).unwrap())(scalar(x));
            assert_eq!((number(&g)?, number(&pulled.detached())?), (2.0 * x * left, left), "{case:?} at {x}");
            let pushed = cell()?;
            let (y, moved) = jvp(|x: Tensor| case.run(&x, &pushed).unwrap(), scalar(x), scalar(1.0));
            assert_eq!((number(&y)?, number(&moved)?, number(&pushed.detached())?), (x * x * left, 2.0 * x * left, left), "{case:?} at {x}");
            let both = cell()?;
            let second = jvp(grad(|x: Tensor| case.run(&x, &both).unwrap()), scalar(x), scalar(1.0)).1;
            assert_eq!((number(&second)?, number(&both.detached())?), (2.0 * left, left), "{case:?} at {x}");
        }
        Ok(())
    })
}
#[test]
fn a_gradient_of_stacked_steps_is_another() -> Result<()> {
    on_devices(|case| {
        let kept = cell()?;
        let sum = |x: Tensor| vmap_with(|x: Tensor| case.run(&x, &kept), Vmap::default().cells(Cells::PerExample))(x).unwrap().sum(..);
        let g = grad(sum)(Tensor::from_vec(EXAMPLES.to_vec(), [3])).to_vec::<f64>()?;
        assert_eq!(g, EXAMPLES.map(|x| 2.0 * x * case.left(x)), "{case:?}");
        Ok(())
    })
}
