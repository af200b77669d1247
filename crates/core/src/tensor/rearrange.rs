//! `rearrange`: axes by names in one pattern, after einops (Rogozhnikov, "Einops: clear and reliable tensor manipulations with
//! Einstein-like notation", ICLR 2022), which `torch.func.rearrange` follows.
use super::{
    Tensor,
    compose::{Built, compose1, refuse},
};
use crate::{ErrorKind, Shape};

/// One axis of a side: the named axes that it is made of. None: an axis of size 1.
type AxisParts<'a> = Vec<&'a str>;
/// What stands for the axes that are not named.
const REST: &str = "...";

impl Tensor {
    /// The elements in another order of axes: `"left -> right"`, both sides the names of axes in their order. Names in parentheses are
    /// one axis, split on the left and joined on the right; `1` is an axis of size 1, `...` all axes that are not named. `sizes` gives
    /// those sizes that do not follow: of the parts of a split axis all but one.
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Tensor};
    /// # Device::reference().make_current();
    /// let images = Tensor::arange(0, 48, 1, DType::F32).reshape([2, 4, 6]);
    /// // Patches of 2 x 3 pixels.
    /// let patches = images.rearrange("b (h p) (w q) -> b (h w) (p q)", &[("p", 2), ("q", 3)]);
    /// assert_eq!(patches.dims::<3>()?, [2, 4, 6]);
    /// assert_eq!(patches.get(0).get(0).to_vec::<f32>()?, [0.0, 1.0, 2.0, 6.0, 7.0, 8.0]);
    /// assert_eq!(images.rearrange("b ... -> ... b 1", &[]).dims::<4>()?, [4, 6, 2, 1]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: a pattern that cannot be read, a name that is twice on a side or on one side only, a size that does not follow or does not fit.
    ///
    /// Source: `torch.func.rearrange`.
    #[track_caller]
    pub fn rearrange(&self, pattern: &str, sizes: &[(&str, usize)]) -> Tensor {
        compose1("rearrange", self, |x| {
            let Some((left, right)) = pattern.split_once("->") else { return refuse(format!("`{pattern}` has no `->`")) };
            let (left, right) = (side(left)?, side(right)?);
            let shape = x.meta().shape;
            let rest = shape.rank().saturating_sub(left.iter().filter(|parts| **parts != [REST]).count());
            let known = known(&left, &shape, rest, sizes)?;
            // Axes of the tensor with each part for itself, by name; those of `...` lie together and move as one.
            let names: Vec<&str> = left.iter().flatten().copied().collect();
            let wanted: Vec<&str> = right.iter().flatten().copied().collect();
            if let Some(name) = names.iter().find(|n| !wanted.contains(n)).or_else(|| wanted.iter().find(|n| !names.contains(n))) {
                return refuse(format!("`{name}` stands on one side of `{pattern}` only"));
            }
            let sizes_of = |name: &&str| known.iter().find(|k| k.0 == *name).map_or(Vec::new(), |k| k.1.clone());
            let first_of = |name: &str| names.iter().take_while(|n| **n != name).map(|n| sizes_of(n).len()).sum::<usize>();
            let apart: Vec<usize> = names.iter().flat_map(sizes_of).collect();
            let order: Vec<usize> = wanted.iter().flat_map(|n| (0..sizes_of(n).len()).map(|k| first_of(n) + k).collect::<Vec<_>>()).collect();
            let joined = right.iter().flat_map(|parts| if *parts == [REST] { sizes_of(&REST) } else { vec![parts.iter().flat_map(sizes_of).product()] });
            let out = Shape::new(&joined.collect::<Vec<usize>>())?;
            Ok(x.reshape(Shape::new(&apart)?).permute(order).reshape(out))
        })
    }
}
/// The axes of one side.
fn side(text: &str) -> Built<Vec<AxisParts<'_>>> {
    let (mut axes, mut group) = (Vec::new(), None::<AxisParts<'_>>);
    let mut seen: Vec<&str> = Vec::new();
    // Parentheses count as words.
    let words = text.split_whitespace().flat_map(|word| {
        word.split_inclusive(['(', ')']).flat_map(|part| {
            let name = part.trim_end_matches(['(', ')']);
            [name, &part[name.len()..]]
        })
    });
    for word in words.filter(|w| !w.is_empty()) {
        match (word, &mut group) {
            ("(", None) => group = Some(Vec::new()),
            (")", Some(_)) => axes.extend(group.take()),
            ("(", Some(_)) | (")", None) => return refuse(format!("parentheses of `{text}` do not match")),
            ("1", None) => axes.push(Vec::new()),
            ("1", Some(_)) => {}
            (REST, Some(_)) => return refuse("`...` stands for whole axes, not for parts of one"),
            (name, _) if name != REST && !name.chars().all(|c| c.is_alphanumeric() || c == '_') => return refuse(format!("`{name}` is no name of an axis")),
            (name, _) if seen.contains(&name) => return refuse(format!("`{name}` is twice in `{text}`")),
            (name, group) => {
                seen.push(name);
                match group {
                    Some(group) => group.push(name),
                    None => axes.push(vec![name]),
                }
            }
        }
    }
    if group.is_some() {
        return refuse(format!("parentheses of `{text}` do not match"));
    }
    Ok(axes)
}
/// The size of each name of the left side, and of `...` the sizes.
fn known<'a>(left: &[AxisParts<'a>], shape: &Shape, rest: usize, given: &[(&str, usize)]) -> Built<Vec<(&'a str, Vec<usize>)>> {
    let misfit = |expected: String| -> Built<Vec<(&'a str, Vec<usize>)>> { Err(ErrorKind::Shape { shape: *shape, expected }.into()) };
    let has_rest = left.iter().any(|parts| *parts == [REST]);
    let named = left.len() - has_rest as usize;
    if shape.rank() < named || (!has_rest && shape.rank() != named) {
        return misfit(format!("{named} axes, as the pattern has"));
    }
    let (mut known, mut axis) = (Vec::new(), 0);
    for parts in left {
        if *parts == [REST] {
            known.push((REST, shape[axis..axis + rest].to_vec()));
            axis += rest;
            continue;
        }
        let size = |name: &str| given.iter().find(|g| g.0 == name).map(|g| g.1);
        let product: usize = parts.iter().filter_map(|p| size(p)).product();
        let open: Vec<&&str> = parts.iter().filter(|p| size(p).is_none()).collect();
        let fits = if open.is_empty() { product == shape[axis] } else { product > 0 && shape[axis].is_multiple_of(product) };
        if open.len() > 1 {
            return refuse(format!("the sizes of {open:?} do not follow: give all but one"));
        }
        if !fits {
            return misfit(format!("axis {axis} of the parts {parts:?}, whose sizes given make {product}"));
        }
        known.extend(parts.iter().map(|&p| (p, vec![size(p).unwrap_or(shape[axis] / product.max(1))])));
        axis += 1;
    }
    Ok(known)
}
