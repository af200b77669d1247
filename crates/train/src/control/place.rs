//! Elements of a tensor, as somebody names them: `0, 2:5, :`, an index or a range of each axis; axes that are not named are whole.
use adamant_core::{Result, Shape, Tensor};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The most axes that a place names.
const MOST_AXES: usize = 16;

/// An index, or a range from and to places that may count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AxisPlace {
    Index(i64),
    Range(Option<i64>, Option<i64>),
}
/// Elements of a tensor; see the module's documentation.
///
/// ```
/// use adamant_train::control::ElementPlace;
/// let place: ElementPlace = "0, -3:".parse()?;
/// assert_eq!(place.to_string(), "0, -3:");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ElementPlace(Vec<AxisPlace>);
/// Of each axis of a shape, where the elements begin and how many they are.
pub(crate) struct PlacedElements {
    shape: Shape,
    axes: Vec<(usize, usize)>,
}

impl FromStr for ElementPlace {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<ElementPlace, String> {
        let text = text.trim().trim_start_matches('[').trim_end_matches(']').trim();
        if text.is_empty() {
            return Ok(ElementPlace::default());
        }
        let axes: Vec<&str> = text.split(',').map(str::trim).collect();
        if axes.len() > MOST_AXES {
            return Err(format!("a place names at most {MOST_AXES} axes"));
        }
        axes.into_iter().map(axis_of).collect::<std::result::Result<_, _>>().map(ElementPlace)
    }
}
fn axis_of(text: &str) -> std::result::Result<AxisPlace, String> {
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("`{}` is no place: it is written as `0, 2:5, :`", crate::failure::shown(text)));
    let end = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
    match text.split_once(':') {
        None => number(text).map(AxisPlace::Index),
        Some((from, to)) => Ok(AxisPlace::Range(end(from)?, end(to)?)),
    }
}
impl TryFrom<String> for ElementPlace {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<ElementPlace, String> {
        text.parse()
    }
}
impl From<ElementPlace> for String {
    fn from(place: ElementPlace) -> String {
        place.to_string()
    }
}
impl fmt::Display for ElementPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, axis) in self.0.iter().enumerate() {
            f.write_str(if k > 0 { ", " } else { "" })?;
            match axis {
                AxisPlace::Index(at) => write!(f, "{at}")?,
                AxisPlace::Range(from, to) => {
                    from.iter().try_for_each(|at| write!(f, "{at}"))?;
                    f.write_str(":")?;
                    to.iter().try_for_each(|at| write!(f, "{at}"))?;
                }
            }
        }
        Ok(())
    }
}
impl ElementPlace {
    /// The elements in a tensor of this shape. Ranges end where the axis does; an index must be there.
    pub(crate) fn within(&self, shape: Shape) -> std::result::Result<PlacedElements, String> {
        if self.0.len() > shape.rank() {
            return Err(format!("`{self}` names {} axes, and the shape {:?} has {}", self.0.len(), &shape[..], shape.rank()));
        }
        let mut axes = Vec::with_capacity(shape.rank());
        for (k, size) in shape.iter().copied().enumerate() {
            let long = i64::try_from(size).unwrap_or(i64::MAX);
            let from_start = |at: i64| if at < 0 { at.saturating_add(long) } else { at };
            axes.push(match self.0.get(k).copied().unwrap_or(AxisPlace::Range(None, None)) {
                AxisPlace::Index(at) => match usize::try_from(from_start(at)) {
                    Ok(from) if from < size => (from, 1),
                    _ => return Err(format!("there is no element {at} on axis {k}, which has {size}")),
                },
                AxisPlace::Range(from, to) => {
                    let end = |at: Option<i64>, otherwise: usize| at.map_or(otherwise, |at| from_start(at).clamp(0, long) as usize);
                    let (from, to) = (end(from, 0), end(to, size));
                    (from, to.saturating_sub(from))
                }
            });
        }
        Ok(PlacedElements { shape, axes })
    }
}
impl PlacedElements {
    /// How many elements there are along each axis.
    pub fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|(_, count)| *count).collect()
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.axes.iter().map(|(_, count)| count).product()
    }
    /// The elements of a tensor, in row-major order.
    pub fn read(&self, x: &Tensor) -> Result<Vec<f64>> {
        let narrowed = self.axes.iter().enumerate().fold(x.detach(), |x, (axis, (from, count))| x.narrow(axis, *from, *count));
        narrowed.to_vec_as::<f64>()
    }
    /// Where they are, for a tensor that lies on the same device as `x`.
    pub fn mask(&self, x: &Tensor) -> Result<Tensor> {
        let mut mask = vec![false; self.shape.iter().product()];
        for (k, is_in) in mask.iter_mut().enumerate() {
            let mut rest = k;
            *is_in = true;
            for (size, (from, count)) in self.shape.iter().zip(&self.axes).rev() {
                *is_in &= (*from..from + count).contains(&(rest % size));
                rest /= size;
            }
        }
        Ok(Tensor::from_vec_on(mask, self.shape, x.device()?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use adamant_core::{Device, ToShape};

    /// What Python makes of the same place.
    fn indices(axis: AxisPlace, size: i64) -> Option<Vec<i64>> {
        let wrap = |at: i64| if at < 0 { at + size } else { at };
        match axis {
            AxisPlace::Index(at) => (0..size).contains(&wrap(at)).then(|| vec![wrap(at)]),
            AxisPlace::Range(from, to) => {
                let (from, to) = (from.map_or(0, wrap), to.map_or(size, wrap));
                Some((0..size).filter(|at| from <= *at && *at < to).collect())
            }
        }
    }
    #[test]
    fn a_place_that_names_other_elements_than_it_says() {
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        Device::reference().make_current();
        for _ in 0..500 {
            let shape: Vec<usize> = (0..draw(4)).map(|_| draw(5) as usize).collect();
            let mut at = || (draw(3) > 0).then(|| draw(15) as i64 - 7);
            let axes: Vec<AxisPlace> =
                shape.iter().map(|_| (at(), at(), at())).map(|(one, from, to)| one.map_or(AxisPlace::Range(from, to), AxisPlace::Index)).collect();
            let place = ElementPlace(axes.clone());
            assert_eq!(place.to_string().parse::<ElementPlace>().unwrap(), place, "{place}");
            let wanted: Option<Vec<Vec<i64>>> = axes.iter().zip(&shape).map(|(axis, size)| indices(*axis, *size as i64)).collect();
            let found = place.within(shape.clone().to_shape().unwrap());
            let Some(wanted) = wanted else {
                assert!(found.is_err(), "{place} in {shape:?}");
                continue;
            };
            let found = found.unwrap_or_else(|e| unreachable!("{place} in {shape:?}: {e}"));
            let count: usize = shape.iter().product();
            let x = Tensor::from_vec((0..count).map(|k| k as f64).collect(), shape.clone());
            let numbers = wanted
                .iter()
                .zip(&shape)
                .fold(vec![0i64], |so_far, (axis, size)| so_far.iter().flat_map(|before| axis.iter().map(move |at| before * *size as i64 + at)).collect());
            let numbers: Vec<f64> = numbers.into_iter().map(|k| k as f64).collect();
            assert_eq!(found.read(&x).unwrap(), numbers, "{place} in {shape:?}");
            let mask = found.mask(&x).unwrap().to_vec::<bool>().unwrap();
            assert_eq!(mask.iter().enumerate().filter(|(_, m)| **m).map(|(k, _)| k as f64).collect::<Vec<_>>(), numbers);
            assert_eq!(found.count(), numbers.len());
        }
        for bad in ["a", "1:2:3", "1.5", ",", "0,,1", "9999999999999999999999", &"0,".repeat(40)] {
            assert!(bad.parse::<ElementPlace>().is_err(), "{bad}");
        }
        assert!("0, 0".parse::<ElementPlace>().unwrap().within([3].to_shape().unwrap()).is_err());
    }
}
