//! Einstein's sum convention: `einsum("bij,bjk->bik", &[&a, &b])`. Operands are contracted from left to right, each pair
//! as one batched matrix product, or as a product of elements where nothing is summed on both.
use super::{
    Tensor,
    compose::{Built, compose, refuse},
};
use crate::{ErrorKind, Shape, composite::wide::same_dtype};
use std::{borrow::Borrow, collections::BTreeMap};

/// A label: letters are 0..52, the axes of an ellipsis 100 and up, counted from its last.
type Label = usize;
const ELLIPSIS: Label = 100;

impl Tensor {
    /// Sums of products over labelled axes, as `torch.einsum`: letters, `...` for leading axes that broadcast, repeated
    /// letters for diagonals, and an output that may be left out (the letters that occur once, in order).
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// # Device::reference().make_current();
    /// let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[1.0, 0.0], [1.0, 1.0]]);
    /// assert_eq!(Tensor::einsum("ij,jk->ik", &[&a, &b]).to_vec::<f32>()?, [3.0, 2.0, 7.0, 4.0]);
    /// assert_eq!(Tensor::einsum("ii", &[&a]).item::<f32>()?, 5.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum<T: Borrow<Tensor>>(equation: &str, operands: &[T]) -> Tensor {
        let operands: Vec<&Tensor> = operands.iter().map(|t| t.borrow()).collect();
        compose("einsum", &operands, || {
            let (inputs, output) = parse(equation, &operands)?;
            let sizes = sizes(&inputs, &operands)?;
            if let Some(l) = output.iter().find(|l| !sizes.contains_key(l)) {
                return refuse(format!("output label {} of `{equation}` occurs in no operand", name(*l)));
            }
            // How many operands still to come (and the output) want each label.
            let wanted = |label: Label, from: usize| output.contains(&label) || inputs[from..].iter().any(|i| i.contains(&label));
            let mut terms = operands.iter().zip(&inputs).map(|(t, labels)| diagonals(t, labels, &sizes));
            let Some(first) = terms.next() else { return refuse("no operands") };
            let mut acc = first?;
            for (k, next) in terms.enumerate() {
                acc = contract(acc, next?, &sizes, &|l| wanted(l, k + 2))?;
            }
            finish(acc, &output, &sizes)
        })
    }
}

/// A tensor whose axes are labelled, each label once.
struct Term {
    tensor: Tensor,
    labels: Vec<Label>,
}

fn name(label: Label) -> String {
    match label {
        0..26 => ((b'a' + label as u8) as char).to_string(),
        26..52 => ((b'A' + (label - 26) as u8) as char).to_string(),
        _ => "...".into(),
    }
}
/// The labels of each operand and of the output.
fn parse(equation: &str, operands: &[&Tensor]) -> Built<(Vec<Vec<Label>>, Vec<Label>)> {
    let (left, right) = match equation.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (equation, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != operands.len() {
        return refuse(format!("`{equation}` names {} operands, but {} were given", terms.len(), operands.len()));
    }
    let mut inputs = Vec::new();
    for (k, (term, t)) in terms.iter().zip(operands).enumerate() {
        let rank = t.rank();
        let (letters, dots) = letters(equation, term)?;
        let named = letters.len();
        let spare = rank.checked_sub(named).filter(|&s| s == 0 || dots.is_some());
        let Some(spare) = spare else {
            return Err(ErrorKind::Shape { shape: t.meta().shape, expected: format!("operand {k} of `{equation}` to have {named} axes") }.into());
        };
        let mut labels = letters;
        if let Some(at) = dots {
            labels.splice(at..at, (0..spare).rev().map(|d| ELLIPSIS + d));
        }
        inputs.push(labels);
    }
    let widest = inputs.iter().flatten().filter(|&&l| l >= ELLIPSIS).map(|l| l - ELLIPSIS + 1).max().unwrap_or(0);
    let leading = (0..widest).rev().map(|d| ELLIPSIS + d);
    let output = match right {
        Some(right) => {
            let (mut labels, dots) = letters(equation, right)?;
            if let Some(l) = labels.iter().enumerate().find(|(k, l)| labels[..*k].contains(l)) {
                return refuse(format!("output label {} of `{equation}` occurs twice", name(*l.1)));
            }
            if let Some(at) = dots {
                labels.splice(at..at, leading);
            }
            labels
        }
        None => {
            let mut count: BTreeMap<Label, usize> = BTreeMap::new();
            for &l in inputs.iter().flatten().filter(|&&l| l < ELLIPSIS) {
                *count.entry(l).or_default() += 1;
            }
            // Alphabetical as characters: capitals come first.
            let mut once: Vec<Label> = count.into_iter().filter(|(_, n)| *n == 1).map(|(l, _)| l).collect();
            once.sort_by_key(|&l| if l < 26 { l + 26 } else { l - 26 });
            leading.chain(once).collect()
        }
    };
    Ok((inputs, output))
}
/// The letters of a term, and where its ellipsis stands among them.
fn letters(equation: &str, term: &str) -> Built<(Vec<Label>, Option<usize>)> {
    let (mut labels, mut dots) = (Vec::new(), None);
    let mut rest = term.trim();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            if dots.replace(labels.len()).is_some() {
                return refuse(format!("`{equation}` has two ellipses in one term"));
            }
            rest = after;
            continue;
        }
        match c {
            'a'..='z' => labels.push(c as usize - 'a' as usize),
            'A'..='Z' => labels.push(c as usize - 'A' as usize + 26),
            c if c.is_whitespace() => {}
            c => return refuse(format!("`{c}` in `{equation}` is no label; labels are letters")),
        }
        rest = &rest[c.len_utf8()..];
    }
    Ok((labels, dots))
}
/// The size of each label; sizes of 1 broadcast.
fn sizes(inputs: &[Vec<Label>], operands: &[&Tensor]) -> Built<BTreeMap<Label, usize>> {
    let mut sizes: BTreeMap<Label, (usize, usize, usize)> = BTreeMap::new();
    for (k, (labels, t)) in inputs.iter().zip(operands).enumerate() {
        let shape = t.meta().shape;
        for (axis, &l) in labels.iter().enumerate() {
            match sizes.get(&l) {
                Some(&(n, other, at)) if n != shape[axis] && n != 1 && shape[axis] != 1 => {
                    return Err(ErrorKind::ShapeMismatch {
                        left: operands[other].meta().shape,
                        right: shape,
                        axes: Some((at, axis)),
                        expected: "axes of one label must have one size",
                    }
                    .into());
                }
                Some(&(n, ..)) if n != 1 || shape[axis] == 1 => {}
                _ => {
                    sizes.insert(l, (shape[axis], k, axis));
                }
            }
        }
    }
    Ok(sizes.into_iter().map(|(l, (n, ..))| (l, n)).collect())
}
/// Repeated labels as diagonals; axes of size 1 whose label is larger elsewhere are dropped, so that they broadcast.
fn diagonals(t: &Tensor, labels: &[Label], sizes: &BTreeMap<Label, usize>) -> Built<Term> {
    let (mut tensor, mut labels) = (t.clone(), labels.to_vec());
    let mut k = 0;
    while k < labels.len() {
        if let Some(j) = labels[..k].iter().position(|l| *l == labels[k]) {
            let shape = tensor.try_meta()?.shape;
            if shape[j] != shape[k] {
                return Err(ErrorKind::Shape { shape, expected: format!("axes {j} and {k}, both labelled {}, to have one size", name(labels[k])) }.into());
            }
            tensor = tensor.diagonal(0, j, k);
            let label = labels.remove(k);
            labels.remove(j);
            labels.push(label);
            k = 0;
        } else {
            k += 1;
        }
    }
    let shape = tensor.try_meta()?.shape;
    let narrow: Vec<usize> = (0..labels.len()).filter(|&a| shape[a] == 1 && sizes[&labels[a]] != 1).collect();
    let labels = labels.iter().enumerate().filter(|(a, _)| !narrow.contains(a)).map(|(_, l)| *l).collect();
    Ok(Term { tensor: tensor.squeeze(narrow), labels })
}
/// Sums away the labels that nobody wants.
fn sum_out(term: Term, wanted: &dyn Fn(Label) -> bool) -> Term {
    let gone: Vec<usize> = (0..term.labels.len()).filter(|&a| !wanted(term.labels[a])).collect();
    if gone.is_empty() {
        return term;
    }
    let labels = term.labels.iter().copied().filter(|&l| wanted(l)).collect();
    // A sum of integers widens to i64; the product that follows stays in the operands' dtype.
    let dtype = term.tensor.meta().dtype;
    Term { tensor: term.tensor.sum(gone).cast(dtype), labels }
}
fn contract(a: Term, b: Term, sizes: &BTreeMap<Label, usize>, wanted: &dyn Fn(Label) -> bool) -> Built<Term> {
    let a = sum_out(a, &|l| wanted(l) || b.labels.contains(&l));
    let b = sum_out(b, &|l| wanted(l) || a.labels.contains(&l));
    let both = |l: &Label| a.labels.contains(l) && b.labels.contains(l);
    let batch: Vec<Label> = a.labels.iter().copied().filter(|l| both(l) && wanted(*l)).collect();
    let summed: Vec<Label> = a.labels.iter().copied().filter(|l| both(l) && !wanted(*l)).collect();
    let left: Vec<Label> = a.labels.iter().copied().filter(|l| !both(l)).collect();
    let right: Vec<Label> = b.labels.iter().copied().filter(|l| !both(l)).collect();
    let size = |labels: &[Label]| labels.iter().map(|l| sizes[l]).product::<usize>();
    let order = |t: &Term, parts: [&[Label]; 3]| {
        let axes: Vec<usize> = parts.concat().iter().filter_map(|l| t.labels.iter().position(|m| m == l)).collect();
        t.tensor.permute(axes)
    };
    let labels = [&batch[..], &left, &right].concat();
    let dims: Vec<usize> = labels.iter().map(|l| sizes[l]).collect();
    let out = Shape::new(&dims)?;
    let (n, m, k, p) = (size(&batch), size(&left), size(&summed), size(&right));
    if summed.is_empty() {
        let x = order(&a, [&batch, &left, &[]]).reshape([n, m, 1]);
        return Ok(Term { tensor: (x * order(&b, [&batch, &right, &[]]).reshape([n, 1, p])).reshape(out), labels });
    }
    // What is contracted has one dtype, as a product of matrices has.
    same_dtype(&a.tensor.meta(), &b.tensor.meta())?;
    if left.is_empty() && right.is_empty() {
        // Nothing to multiply as matrices: a product of elements, and its sum.
        let x = order(&a, [&batch, &left, &summed]).reshape([n, m, 1, k]);
        let y = order(&b, [&batch, &right, &summed]).reshape([n, 1, p, k]);
        let dtype = x.meta().dtype;
        return Ok(Term { tensor: (x * y).sum(-1).cast(dtype).reshape(out), labels });
    }
    let x = order(&a, [&batch, &left, &summed]);
    let y = order(&b, [&batch, &summed, &right]);
    let product = if batch.is_empty() { x.reshape([m, k]).matmul(y.reshape([k, p])) } else { x.reshape([n, m, k]).matmul(y.reshape([n, k, p])) };
    Ok(Term { tensor: product.reshape(out), labels })
}
/// The last sums, the axes in the order of the output, and those that only broadcast expanded.
fn finish(term: Term, output: &[Label], sizes: &BTreeMap<Label, usize>) -> Built<Tensor> {
    let term = sum_out(term, &|l| output.contains(&l));
    let axes: Vec<usize> = output.iter().filter_map(|l| term.labels.iter().position(|m| m == l)).collect();
    let sorted = term.tensor.permute(axes);
    let dims: Vec<usize> = output.iter().map(|l| sizes[l]).collect();
    let own: Vec<usize> = output.iter().map(|l| if term.labels.contains(l) { sizes[l] } else { 1 }).collect();
    Ok(sorted.reshape(Shape::new(&own)?).expand(Shape::new(&dims)?))
}
