//! Every public function under every transform, and that a wrong rule is found.
use adamant_conformance::{
    random::Random,
    registry::{Call, Entry, Function, entries},
    transforms::{Hole, TransformRow, TransformTable, TransformVerdict, Under, check, under},
};
use adamant_core::{
    Arg, Composite, Compound, DType, Device, Error, ErrorKind, Op, Outputs, Result, Tensor, TensorType, Types,
    composite::{Cotangents, RuleArgs, Saves},
    intercept::{self, Interceptor},
    op::{ReduceOp, View},
};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// Functions whose result's shape depends on data, or that look at data to decide.
const DATA_DEPENDENT: &[&str] = &[
    "Tensor::bincount",
    "Tensor::masked_select",
    "Tensor::nonzero",
    "Tensor::one_hot",
    "Tensor::repeat_interleave_by",
    "Tensor::unique",
    "Tensor::unique_consecutive",
];
/// How long a slice of the samples may take.
const BUDGET: Duration = Duration::from_secs(45);

/// All samples, or those that there is time for: drawn by lot, but first one of each function.
fn order(all: &[Entry], seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order: Vec<(bool, u64, usize)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (k, entry) in all.iter().enumerate() {
        order.push((!seen.insert(entry.name.clone()), random.bits(), k));
    }
    order.sort();
    order.into_iter().map(|(_, _, k)| k).collect()
}
/// `ADAMANT_TRANSFORMS=all` takes the time that all samples take.
#[test]
fn every_function_has_its_transforms_or_a_reason() {
    let all = entries();
    let begun = Instant::now();
    let whole = std::env::var_os("ADAMANT_TRANSFORMS").is_some();
    let order = order(&all, 1);
    let mut table = TransformTable::default();
    let mut done = 0;
    for &k in &order {
        if !whole && begun.elapsed() > BUDGET {
            break;
        }
        table.add(&all[k].name, check(Device::reference(), &all[k], 0x7A + k as u64, true));
        done += 1;
    }
    println!("{done} of {} samples of the registry\n{}", all.len(), table.markdown());
    let wrong = table.wrong();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let dependent: Vec<&str> = table.rows().filter(|(_, row)| row[1] == TransformVerdict::Hole(Hole::DataDependent)).map(|(name, _)| name.as_str()).collect();
    let unexpected: Vec<&&str> = dependent.iter().filter(|n| !DATA_DEPENDENT.contains(n)).collect();
    assert!(unexpected.is_empty(), "functions look at data: {unexpected:#?}");
}

/// A fault in what a function applies while a transform is at work: as if the transform's rule were wrong.
struct Tamper {
    under: Under,
    with: fn(&Op, Arg, &[&Tensor]) -> Option<Vec<Tensor>>,
}
impl Interceptor for Tamper {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let wrong = if under() == self.under { (self.with)(&op, arg, inputs) } else { None };
        wrong.map_or_else(|| next(op, arg, inputs), |w| w.into_iter().collect())
    }
}
fn tampered(name: &str, under: Under, with: fn(&Op, Arg, &[&Tensor]) -> Option<Vec<Tensor>>) -> Vec<TransformRow> {
    let all = entries();
    let these =
        all.iter().filter(|e| e.name == name && e.order >= 2 && e.dtypes.contains(&DType::F64) && e.inputs.iter().all(|i| i.shape.iter().all(|&d| d > 0)));
    these.map(|e| intercept::with(Arc::new(Tamper { under, with }), || check(Device::reference(), e, 3, true))).collect()
}
#[test]
fn a_wrong_rule_is_found() {
    type Fault = (&'static str, Under, fn(&Op, Arg, &[&Tensor]) -> Option<Vec<Tensor>>);
    let faults: &[Fault] = &[
        // Tangents.
        ("Tensor::square", Under::Forward, |op, _, x| matches!(op, Op::Unary(_)).then(|| vec![x[0] * x[0].detach()])),
        ("Tensor::mul", Under::Forward, |op, _, x| matches!(op, Op::Binary(_)).then(|| vec![x[0] * x[1].detach()])),
        ("Tensor::matmul", Under::Forward, |op, _, x| matches!(op, Op::Matmul).then(|| vec![x[0].detach().matmul(x[1])])),
        ("Tensor::cumsum", Under::Forward, |op, _, x| matches!(op, Op::Scan { .. }).then(|| vec![x[0].detach().cumsum(1) + (x[0] - x[0].detach())])),
        // The value itself.
        ("Tensor::exp", Under::Forward, |op, arg, x| matches!(op, Op::Unary(_)).then(|| vec![Tensor::apply(op.clone(), arg, x) * 1.0000001])),
        // Batching rules.
        ("Tensor::sum", Under::Stack, |op, arg, x| match op {
            Op::Reduce { op: ReduceOp::Sum, .. } => Some(vec![Tensor::apply(op.clone(), arg, &[&x[0].flip(0)]) + x[0].narrow(0, 0, 1).sum(..) * 1e-9]),
            _ => None,
        }),
        ("Tensor::matmul", Under::Stack, |op, _, x| matches!(op, Op::Matmul).then(|| vec![x[0].matmul(x[1]) * -1.0])),
        ("Tensor::flip", Under::Stack, |op, _, x| matches!(op, Op::View(View::Flip(_))).then(|| vec![x[0].clone()])),
        ("functional::conv2d", Under::Stack, |op, arg, x| matches!(op, Op::Composite(_)).then(|| vec![Tensor::apply(op.clone(), arg, x) + 1e-12])),
        // Third derivatives: the first two are right.
        ("Tensor::exp", Under::Third, |op, _, x| {
            matches!(op, Op::Unary(_)).then(|| {
                let c = x[0].detach();
                let d = x[0] - &c;
                vec![c.exp() * (1.0 + &d + d.square() * 0.5)]
            })
        }),
    ];
    for (k, (name, under, with)) in faults.iter().enumerate() {
        let place = match under {
            Under::Forward => 0,
            Under::Stack => 1,
            _ => 2,
        };
        let rows = tampered(name, *under, *with);
        let found = rows.iter().find_map(|row| if let TransformVerdict::Wrong(why) = &row[place] { Some(why.clone()) } else { None });
        match found {
            Some(why) => println!("{name} under {under:?}: {why}"),
            None => panic!("fault {k}, in {name} under {under:?}, was not found: {rows:?}"),
        }
        // Without the fault they are right.
        for row in tampered(name, *under, |_, _, _| None) {
            assert!(!row.iter().any(|v| matches!(v, TransformVerdict::Wrong(_))), "{name}: {row:?}");
        }
    }
}

/// A square whose rule is `factor` times the gradient.
#[derive(Debug)]
struct Square<const FACTOR: u8>;
impl<const FACTOR: u8> Composite for Square<FACTOR> {
    fn name(&self) -> &'static str {
        if FACTOR == 2 { "test.square" } else { "test.wrong_square" }
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(inputs.into())
    }
}
impl<const FACTOR: u8> Compound for Square<FACTOR> {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![&inputs[0] * &inputs[0]])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 1, outputs: 0 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let none = || Error::new(self.name(), ErrorKind::Internal("no cotangent".into()));
        let cotangent = args.cotangents[0].clone().ok_or_else(none)?;
        Ok([Some(cotangent * args.input(0)? * f64::from(FACTOR))].into_iter().collect())
    }
}
/// The tangent is the transposed rule: what is wrong in it is wrong in both, so the adjoint identity holds.
#[test]
fn a_rule_that_agrees_with_itself_is_found() {
    let right = entries().into_iter().find(|e| e.name == "Tensor::square" && e.inputs[0].shape == [2, 3]).unwrap();
    let verdict = |call: Call| {
        let entry = Entry { function: Function::Call(call), ..right.clone() };
        let [jvp, ..] = check(Device::reference(), &entry, 7, true);
        jvp
    };
    assert_eq!(verdict(|x| vec![Tensor::composite1(Square::<2>, &[&x[0]])]), TransformVerdict::Right);
    let TransformVerdict::Wrong(why) = verdict(|x| vec![Tensor::composite1(Square::<3>, &[&x[0]])]) else { panic!("a wrong rule was not found") };
    assert!(why.contains("differences give"), "{why}");
}
