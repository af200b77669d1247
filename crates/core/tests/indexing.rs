//! `i`, `with_i` and `with_i_added` against NumPy's rule walked element by element, on drawn shapes, indices and dtypes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod indexed;
mod naive;
use adamant_core::*;
use indexed::{Item, Places, places};

const CASES: u64 = 1500;

/// Numbers that repeat from run to run.
struct Draw(u64, u32);
impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 += 1;
        (rng::element_bits([self.1, 11, 2, 0], self.0) as usize) % n.max(1)
    }
    fn number(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn bound(draw: &mut Draw, size: usize) -> Option<i64> {
    if draw.one_in(3) { None } else { Some(draw.number(-(size as i64) - 2, size as i64 + 2)) }
}
fn numbers(draw: &mut Draw, size: usize, common: &[usize]) -> Item {
    let mut own: Vec<usize> = common[draw.below(common.len() + 1)..].to_vec();
    for d in &mut own {
        *d = if draw.one_in(4) { 1 } else { *d };
    }
    if draw.one_in(40) {
        own.push(5);
    }
    let size = if draw.one_in(40) { size + 2 } else { size } as i64;
    let n: usize = own.iter().product();
    if size == 0 {
        return Item::Ints(vec![0], vec![]);
    }
    Item::Ints(own, (0..n).map(|_| draw.number(-size, size - 1)).collect())
}
fn items(draw: &mut Draw, shape: &[usize]) -> Vec<Item> {
    let (mut all, mut axis, dots) = (Vec::new(), 0, draw.one_in(2));
    let common: Vec<usize> = (0..1 + draw.below(2)).map(|_| draw.below(4)).collect();
    while axis < shape.len() && !draw.one_in(7) {
        if draw.one_in(7) && shape.len() < 5 {
            all.push(Item::New);
        }
        let size = shape[axis];
        match draw.below(10) {
            0 if dots => {
                // It stands for what is left: the items behind are for the last axes.
                axis += draw.below(shape.len() - axis + 1);
                all.push(Item::Ellipsis);
                let behind = shape.len() - axis;
                for k in 0..behind {
                    let item = if draw.one_in(2) { Item::Slice(None, None, false, 1) } else { numbers(draw, shape[axis + k], &common) };
                    all.push(item);
                }
                return all;
            }
            0..=3 => {
                let steps = if draw.one_in(20) { 8 } else { 7 };
                let step = [1, 1, 2, 3, -1, -2, -3, 0][draw.below(steps)];
                let end = bound(draw, size);
                all.push(Item::Slice(bound(draw, size), end, end.is_some() && draw.one_in(3), step));
            }
            4 | 5 => {
                let beyond = size == 0 || draw.one_in(20);
                all.push(Item::At(draw.number(-(size as i64), size as i64 - i64::from(!beyond))));
            }
            6..=8 => all.push(numbers(draw, size, &common)),
            _ => {
                let k = draw.below(shape.len() - axis + 1);
                let mut own = shape[axis..axis + k].to_vec();
                if k > 0 && draw.one_in(20) {
                    own[k - 1] += 1;
                }
                let n: usize = own.iter().product();
                all.push(Item::Mask(own, (0..n).map(|_| draw.one_in(2)).collect()));
                axis += k;
                continue;
            }
        }
        axis += 1;
    }
    if draw.one_in(30) {
        all.extend([Item::Ellipsis, Item::Ellipsis]);
    }
    if draw.one_in(30) {
        all.extend((0..shape.len() + 1).map(|_| Item::At(0)));
    }
    all
}

/// The item as a user writes it, with integers of a drawn dtype.
fn written(draw: &mut Draw, item: &Item) -> IndexItem {
    match item {
        Item::At(n) => IndexItem::At(*n as isize),
        Item::Ellipsis => Ellipsis.to_index_item(),
        Item::New => NewAxis.to_index_item(),
        Item::Slice(start, end, included, step) => {
            let range: IndexSlice = match (*start, *end, included) {
                (None, None, _) => (..).into(),
                (Some(a), None, _) => (a..).into(),
                (None, Some(b), false) => (..b).into(),
                (None, Some(b), true) => (..=b).into(),
                (Some(a), Some(b), false) => (a..b).into(),
                (Some(a), Some(b), true) => (a..=b).into(),
            };
            stepped(range, *step).to_index_item()
        }
        Item::Ints(shape, numbers) if shape.len() == 1 && draw.one_in(4) => numbers.clone().to_index_item(),
        Item::Ints(shape, numbers) => {
            let unsigned = numbers.iter().all(|&n| n >= 0);
            let dtypes = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8, DType::U32];
            let dtype = dtypes[draw.below(if unsigned { 6 } else { 4 })];
            Tensor::from_vec(numbers.clone(), shape.clone()).cast(dtype).to_index_item()
        }
        Item::Mask(shape, flags) => Tensor::from_vec(flags.clone(), shape.clone()).to_index_item(),
    }
}
fn counting(first: f64, step: f64, shape: &[usize], dtype: DType) -> Tensor {
    let n = shape.iter().product::<usize>();
    Tensor::from_vec((0..n).map(|k| first + step * k as f64).collect::<Vec<f64>>(), shape.to_vec()).cast(dtype)
}
fn values(what: &str, t: &Tensor) -> Vec<f64> {
    t.cast(DType::F64).to_vec::<f64>().unwrap_or_else(|e| panic!("{what}: {e}"))
}
/// The cast of the dtype, as a number.
fn through(dtype: DType, x: f64) -> f64 {
    if dtype == DType::Bool { f64::from(u8::from(x != 0.0)) } else { x }
}

struct Case {
    what: String,
    shape: Vec<usize>,
    items: Vec<IndexItem>,
    dtype: DType,
}
fn drawn(k: u64, device: &str) -> (Case, std::result::Result<Places, &'static str>) {
    let mut draw = Draw(0, k as u32);
    let most = [3, 4, 2][draw.below(3)];
    let mut shape: Vec<usize> = (0..draw.below(5)).map(|_| 1 + draw.below(most)).collect();
    if !shape.is_empty() && draw.one_in(12) {
        shape[0] = 0;
    }
    let model = items(&mut draw, &shape);
    let dtype = [DType::F64, DType::F32, DType::F16, DType::I64, DType::I32, DType::U8, DType::Bool][draw.below(7)];
    let what = format!("case {k} on {device}: {dtype} {shape:?} at {model:?}");
    let answer = places(&shape, &model);
    let items = model.iter().map(|item| written(&mut draw, item)).collect();
    (Case { what, shape, items, dtype }, answer)
}
/// What is refused: with the word of what is wrong, or of something else that is.
fn check_refused(case: &Case, word: &str) {
    let x = counting(0.0, 1.0, &case.shape, case.dtype);
    let y = x.i(&case.items[..]);
    // A number in data is looked at where it is used.
    if word == "index" && y.shape().is_ok_and(|shape| shape.elements() == 0) {
        return;
    }
    for (op, t) in [("i", y), ("with_i", x.with_i(&case.items[..], 1)), ("with_i_added", x.with_i_added(&case.items[..], 1))] {
        let Err(error) = t.materialize() else { panic!("{}: {word} is wrong, and {op} says nothing", case.what) };
        assert!(matches!(error.kind().word(), "index" | "shape" | "argument"), "{}: {word}, not {error}", case.what);
        assert!(error.op() == op, "{}: {op} is not named: {error}", case.what);
    }
}
fn check_read(case: &Case, places: &Places) {
    let (what, dtype) = (&case.what, case.dtype);
    let x = counting(0.0, 1.0, &case.shape, dtype);
    let y = x.i(&case.items[..]);
    assert_eq!(y.shape().unwrap_or_else(|e| panic!("{what}: {e}")).to_vec(), places.shape, "{what}");
    assert_eq!(y.dtype().unwrap(), dtype, "{what}");
    let want: Vec<f64> = places.from.iter().map(|&k| through(dtype, k as f64)).collect();
    assert_eq!(values(what, &y), want, "{what}");
}
fn check_written(case: &Case, places: &Places) {
    let (what, dtype) = (&case.what, case.dtype);
    let x = counting(0.0, 1.0, &case.shape, dtype);
    let before = values(what, &x);
    let put = |value: &dyn Fn(usize) -> f64, adds: bool| {
        let mut want = before.clone();
        places.from.iter().enumerate().for_each(|(k, &at)| want[at] = through(dtype, value(k)) + if adds { want[at] } else { 0.0 });
        want
    };
    // Up to 7 elements differ in U8, too, after they were added.
    let new = counting(100.0, 1.0, &places.shape, dtype);
    let items = &case.items[..];
    if places.from.len() < 150 {
        assert_eq!(values(what, &x.with_i(items, &new)), put(&|k| 100.0 + k as f64, false), "writing {what}");
    }
    assert_eq!(values(what, &x.with_i(items, 1)), put(&|_| 1.0, false), "writing 1 to {what}");
    if dtype != DType::Bool {
        assert_eq!(values(what, &x.with_i_added(items, 1)), put(&|_| 1.0, true), "adding 1 to {what}");
    }
    // Values are broadcast, and may have axes of size 1 in front.
    if let Some(&last) = places.shape.last() {
        let row = counting(50.0, 1.0, &[1, 1, 1, last], dtype);
        let row = if places.shape.len() > 4 { row.reshape([last]) } else { row };
        assert_eq!(values(what, &x.with_i(items, &row)), put(&|k| 50.0 + (k % last.max(1)) as f64, false), "writing a row to {what}");
    }
}
fn check_gradients(case: &Case, places: &Places) {
    let (what, items) = (&case.what, &case.items[..]);
    let x = counting(0.0, 1.0, &case.shape, DType::F64).tracked();
    let gradient = |y: &Tensor, weights: &Tensor, of: &Tensor| {
        let grads = grad::backward_many(&[(y, weights)], false).unwrap_or_else(|e| panic!("{what}: {e}"));
        grads.get(of).map_or(vec![0.0; of.shape().unwrap().elements()], |g| values(what, g))
    };
    let mut scattered = vec![0.0; x.shape().unwrap().elements()];
    places.from.iter().enumerate().for_each(|(k, &at)| scattered[at] += 1.0 + k as f64);
    assert_eq!(gradient(&x.i(items), &counting(1.0, 1.0, &places.shape, DType::F64), &x), scattered, "gradient of {what}");
    // Nothing is seen of what was there. Each value has the gradient of its place, as in PyTorch, one that is written over too.
    let over = counting(1.0, 1.0, &case.shape, DType::F64);
    let new = counting(-1.0, -1.0, &places.shape, DType::F64).tracked();
    let of_x: Vec<f64> = (0..scattered.len()).map(|at| if places.from.contains(&at) { 0.0 } else { 1.0 + at as f64 }).collect();
    let of_new: Vec<f64> = places.from.iter().map(|&at| 1.0 + at as f64).collect();
    let y = x.with_i(items, &new);
    assert_eq!(gradient(&y, &over, &x), of_x, "gradient of what was there in {what}");
    assert_eq!(gradient(&y, &over, &new), of_new, "gradient of what is written to {what}");
    let y = x.with_i_added(items, &new);
    assert_eq!(gradient(&y, &over, &new), of_new, "gradient of what is added to {what}");
    assert_eq!(gradient(&y, &over, &x), values(what, &over), "gradient of what it is added to in {what}");
}
/// Tangents go where values go, and a stack of examples gives the stack of what each gives.
fn check_transforms(case: &Case, places: &Places) {
    let (what, items) = (&case.what, &case.items[..]);
    let (x, t) = (counting(0.0, 1.0, &case.shape, DType::F64), counting(7.0, -2.0, &case.shape, DType::F64));
    let (_, tangent) = transform::jvp(|x: Tensor| x.i(items), x.clone(), t.clone());
    assert_eq!(values(what, &tangent), places.from.iter().map(|&k| 7.0 - 2.0 * k as f64).collect::<Vec<_>>(), "tangent of {what}");
    let stack = Tensor::stack(&[x.clone(), t.clone()], 0);
    let each = |f: &dyn Fn(&Tensor) -> Tensor| [values(what, &f(&x)), values(what, &f(&t))].concat();
    assert_eq!(values(what, &transform::vmap(|x: Tensor| x.i(items))(stack.clone())), each(&|x| x.i(items)), "vmap of {what}");
    let put = |x: &Tensor| x.with_i(items, 3.0);
    assert_eq!(values(what, &transform::vmap(|x: Tensor| put(&x))(stack)), each(&put), "vmap of writing {what}");
}

#[test]
fn drawn_indices_follow_the_rule() {
    let mut seen = [0usize; 3];
    for (name, device) in [("reference", Device::reference()), ("loops", naive::device(64, 1 << 30))] {
        for k in 0..CASES {
            device.scoped(|| {
                let (case, answer) = drawn(k, name);
                let places = match answer {
                    Err(word) => {
                        seen[0] += 1;
                        return check_refused(&case, word);
                    }
                    Ok(places) => places,
                };
                seen[1] += usize::from(case.items.iter().any(|item| matches!(item, IndexItem::Tensor(_) | IndexItem::List(_))));
                seen[2] += 1;
                check_read(&case, &places);
                check_written(&case, &places);
                if k % 2 == 0 {
                    check_gradients(&case, &places);
                }
                if k % 5 == 0 {
                    check_transforms(&case, &places);
                }
            });
        }
    }
    assert!(seen[0] > 200 && seen[1] > 1000 && seen[2] > 2000, "refused, with tensors, good: {seen:?}");
}

/// The same place, read and filled.
fn same(what: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.shape().unwrap_or_else(|e| panic!("{what}: {e}")), want.shape().unwrap(), "{what}");
    assert_eq!(values(what, got), values(what, want), "{what}");
}
#[test]
#[allow(clippy::reversed_empty_ranges, reason = "an end below 0 counts from the end")]
fn each_form_of_an_item_is_the_place_it_says() {
    Device::reference().scoped(|| {
        let x = counting(0.0, 1.0, &[4, 5, 6], DType::I64);
        let k = 1usize;
        let ids = Tensor::from_vec(vec![0i64, -1], 2);
        let forms: &[(&str, Tensor, Tensor)] = &[
            ("nothing", x.i(()), x.clone()),
            ("an empty list of items", x.i(index![]), x.clone()),
            ("usize", x.i(k), x.narrow(0, 1, 1).squeeze(0)),
            ("u8", x.i(3u8), x.narrow(0, 3, 1).squeeze(0)),
            ("beyond isize", x.i(..u64::MAX), x.clone()),
            ("from", x.i(1..), x.narrow(0, 1, 3)),
            ("to", x.i(..-1), x.narrow(0, 0, 3)),
            ("to and with", x.i(..=-1), x.clone()),
            ("to and with 0 backwards", x.i(stepped(..=0, -1)), x.flip(0)),
            ("from to", x.i(1..-1), x.narrow(0, 1, 2)),
            ("from to and with", x.i(-3..=2), x.narrow(0, 1, 2)),
            ("empty", x.i(3..1), x.narrow(0, 0, 0)),
            ("of usize", x.i((k.., ..k)), x.narrow(0, 1, 3).narrow(1, 0, 1)),
            ("a step longer than the axis", x.i(stepped(1.., i64::MAX)), x.narrow(0, 1, 1)),
            ("the lowest step", x.i(stepped(.., i64::MIN)), x.narrow(0, 3, 1)),
            ("array", x.i([0, -1]), x.i(&ids)),
            ("vector", x.i(vec![0usize, 3]), x.i(&ids)),
            ("slice", x.i(&[0i32, 3][..]), x.i(&ids)),
            ("owned tensor", x.i((.., ids.clone())), x.index_select(1, &Tensor::from_vec(vec![0i64, 4], 2))),
            ("items", x.i(vec![Ellipsis.to_index_item(), 0.to_index_item()]), x.narrow(2, 0, 1).squeeze(2)),
            ("eight", x.i((NewAxis, 0, NewAxis, 1, NewAxis, 2, NewAxis, Ellipsis)), x.i((0, 1, 2)).reshape([1, 1, 1, 1])),
            ("macro", x.i(index![1.., ..., None]), x.narrow(0, 1, 3).unsqueeze(-1)),
            ("macro, steps", x.i(index![..; -2, 1..-1; k + 1, ..]), x.i((stepped(.., -2), stepped(1..-1, 2)))),
            ("macro, a tensor and a comma behind", x.i(index![..., &ids,]), x.i((Ellipsis, &ids))),
            ("macro, expressions", x.i(index![k - 1, [0, 1], -k.min(1).cast_signed()]), x.i((0, [0, 1], -1))),
        ];
        for (what, got, want) in forms {
            same(what, got, want);
        }
    });
}
#[test]
fn a_lone_mask_is_filled_while_a_graph_is_captured() {
    naive::device(2048, usize::MAX).scoped(|| {
        let x = counting(0.0, 1.0, &[2, 3], DType::F32);
        let fill = compile(|x: &[Tensor]| Ok(vec![x[0].with_i(&x[0].gt(2.0), -1.0)]));
        let read = compile(|x: &[Tensor]| Ok(vec![x[0].i(&x[0].gt(2.0)).ok()?]));
        assert_eq!(values("captured", &fill.call(&[&x]).unwrap()[0]), [0.0, 1.0, 2.0, -1.0, -1.0, -1.0]);
        assert_eq!(read.call(&[&x]).err().map(|e| e.kind().word()), Some("capture"));
    });
}
#[test]
fn a_cell_is_written_at_a_place() {
    Device::reference().scoped(|| {
        let cell = Cell::new(&Tensor::zeros([2, 2]), true).unwrap();
        cell.set_i((0, ..), 3.0).unwrap();
        cell.set_i(index![.., -1], Tensor::ones([2])).unwrap();
        assert_eq!(values("cell", &cell.detached()), [3.0, 1.0, 0.0, 1.0]);
        assert!(cell.set_i(2, 0.0).is_err() && cell.version() == 2);
    });
}
