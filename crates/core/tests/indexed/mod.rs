//! NumPy's rule of indexing, element by element over vectors, written from the rule; it knows nothing of tensors. An integer
//! beside tensors is taken first, as in PyTorch.

/// One item of an index.
#[derive(Clone, Debug)]
pub enum Item {
    At(i64),
    /// start, end, whether the end is part of it, step
    Slice(Option<i64>, Option<i64>, bool, i64),
    Ellipsis,
    New,
    Ints(Vec<usize>, Vec<i64>),
    Mask(Vec<usize>, Vec<bool>),
}
/// What is read: a shape, and where in row-major order each of its elements comes from.
pub struct Places {
    pub shape: Vec<usize>,
    pub from: Vec<usize>,
}
/// An axis of the result before the tensors' axes are joined.
enum Slot {
    /// elements of an axis of the source
    Run(usize, Vec<usize>),
    New,
    /// numbers with a shape, along an axis of the source; none for a mask without axes
    Picked(Option<usize>, Vec<usize>, Vec<usize>),
}

/// All coordinates of a shape in row-major order.
pub fn coordinates(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in shape {
        all = all.into_iter().flat_map(|c: Vec<usize>| (0..size).map(move |k| [&c[..], &[k]].concat())).collect();
    }
    all
}
fn offset(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |sum, (k, size)| sum * size + k)
}
fn counted(n: i64, size: usize) -> Result<usize, &'static str> {
    let at = if n < 0 { n + size as i64 } else { n };
    if at < 0 || at >= size as i64 { Err("index") } else { Ok(at as usize) }
}
/// The elements of a slice, walked one by one. Where the walk starts is pulled onto the axis; it ends at the end or off the axis.
fn walk(start: Option<i64>, end: Option<i64>, included: bool, step: i64, size: usize) -> Result<Vec<usize>, &'static str> {
    let size = size as i64;
    let from_end = |n: i64| if n < 0 { n + size } else { n };
    let end = end.map(from_end);
    let mut at = match start.map(from_end) {
        _ if step == 0 => return Err("argument"),
        None => {
            if step > 0 {
                0
            } else {
                size - 1
            }
        }
        Some(n) if step > 0 => n.max(0),
        Some(n) => n.min(size - 1),
    };
    let mut seen = Vec::new();
    while (0..size).contains(&at) {
        let over = end.is_some_and(|end| if step > 0 { at > end } else { at < end } || (at == end && !included));
        if over {
            break;
        }
        seen.push(at as usize);
        at += step;
    }
    Ok(seen)
}
fn axes_of(item: &Item) -> usize {
    match item {
        Item::Ellipsis | Item::New => 0,
        Item::Mask(shape, _) => shape.len(),
        _ => 1,
    }
}
/// The shape that the numbers of all tensors broadcast to.
fn broadcast(slots: &[Slot]) -> Result<Option<Vec<usize>>, &'static str> {
    let mut common: Option<Vec<usize>> = None;
    for slot in slots {
        let Slot::Picked(_, shape, _) = slot else { continue };
        let mut known = common.unwrap_or_default();
        while known.len() < shape.len() {
            known.insert(0, 1);
        }
        let lead = known.len() - shape.len();
        for (k, &size) in shape.iter().enumerate() {
            match known[lead + k] {
                1 => known[lead + k] = size,
                other if size != 1 && size != other => return Err("shape"),
                _ => {}
            }
        }
        common = Some(known);
    }
    Ok(common)
}
/// What an index reads of a shape, or the word of what is wrong with it.
pub fn places(shape: &[usize], items: &[Item]) -> Result<Places, &'static str> {
    let named: usize = items.iter().map(axes_of).sum();
    if named > shape.len() {
        return Err("shape");
    }
    if items.iter().filter(|item| matches!(item, Item::Ellipsis)).count() > 1 {
        return Err("argument");
    }
    let (mut slots, mut fixed, mut axis) = (Vec::new(), vec![0; shape.len()], 0);
    let whole = |axis: usize| Slot::Run(axis, (0..shape[axis]).collect());
    for item in items {
        match item {
            Item::Ellipsis => slots.extend((axis..axis + shape.len() - named).map(whole)),
            Item::New => slots.push(Slot::New),
            Item::At(n) => fixed[axis] = counted(*n, shape[axis])?,
            Item::Slice(start, end, included, step) => slots.push(Slot::Run(axis, walk(*start, *end, *included, *step, shape[axis])?)),
            Item::Ints(own, numbers) if own.is_empty() => fixed[axis] = counted(numbers[0], shape[axis])?,
            Item::Ints(own, numbers) => {
                let numbers = numbers.iter().map(|&n| counted(n, shape[axis])).collect::<Result<Vec<_>, _>>()?;
                slots.push(Slot::Picked(Some(axis), own.clone(), numbers));
            }
            Item::Mask(own, flags) => {
                if shape[axis..axis + own.len()] != own[..] {
                    return Err("shape");
                }
                let hits: Vec<Vec<usize>> = coordinates(own).into_iter().zip(flags).filter(|(_, flag)| **flag).map(|(c, _)| c).collect();
                if own.is_empty() {
                    slots.push(Slot::Picked(None, vec![hits.len()], vec![0; hits.len()]));
                }
                for k in 0..own.len() {
                    slots.push(Slot::Picked(Some(axis + k), vec![hits.len()], hits.iter().map(|c| c[k]).collect()));
                }
            }
        }
        axis += if matches!(item, Item::Ellipsis) { shape.len() - named } else { axes_of(item) };
    }
    slots.extend((axis..shape.len()).map(whole));
    read(shape, &slots, fixed)
}
fn read(shape: &[usize], slots: &[Slot], fixed: Vec<usize>) -> Result<Places, &'static str> {
    let common = broadcast(slots)?;
    let picked: Vec<usize> = (0..slots.len()).filter(|&k| matches!(slots[k], Slot::Picked(..))).collect();
    let together = picked.windows(2).all(|pair| pair[1] == pair[0] + 1);
    // Where the tensors' axes go: the number of the slot before which they stand.
    let place = if together { picked.first().copied() } else { Some(0) };
    let (mut sizes, mut group, mut axis_of) = (Vec::new(), 0, vec![None; slots.len()]);
    for (k, slot) in slots.iter().enumerate() {
        if Some(k) == place
            && let Some(common) = &common
        {
            group = sizes.len();
            sizes.extend(common);
        }
        match slot {
            Slot::Run(_, run) => {
                axis_of[k] = Some(sizes.len());
                sizes.push(run.len());
            }
            Slot::New => sizes.push(1),
            Slot::Picked(..) => {}
        }
    }
    let rank = common.map_or(0, |common| common.len());
    let from = coordinates(&sizes).into_iter().map(|at| {
        let mut source = fixed.clone();
        for (k, slot) in slots.iter().enumerate() {
            match slot {
                Slot::Run(axis, run) => source[*axis] = axis_of[k].map_or(0, |own| run[at[own]]),
                Slot::New => {}
                Slot::Picked(axis, own, numbers) => {
                    let of_group = &at[group..group + rank];
                    let of_own: Vec<usize> = own.iter().zip(&of_group[rank - own.len()..]).map(|(&size, &k)| if size == 1 { 0 } else { k }).collect();
                    if let Some(axis) = axis {
                        source[*axis] = numbers[offset(&of_own, own)];
                    }
                }
            }
        }
        offset(&source, shape)
    });
    Ok(Places { from: from.collect(), shape: sizes })
}
