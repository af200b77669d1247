//! Batches of sequences of different lengths: padded to one, or packed without the padding.
//!
//! Lengths are numbers of Rust's: they decide what is computed, so a compiled function is good for those it was captured with.
//!
//! Source: `torch.nn.utils.rnn`.
use adamant_core::{Error, ErrorKind, Result, Tensor};

/// Sequences in one tensor, time step by time step: `data` is `[sum of lengths, ..]`, first the first step of all sequences, then
/// the second of those that have one, the longest sequence first. A recurrent layer computes no padding of it.
#[derive(Clone, Debug)]
pub struct PackedSequence {
    /// the steps, `[sum of lengths, ..]`
    pub data: Tensor,
    /// how many sequences have a first step, a second, ..
    pub batch_sizes: Vec<usize>,
    /// which sequence stands first, second, .. ; `None`: they were sorted when they were packed
    pub sorted_indices: Option<Vec<usize>>,
}
impl PackedSequence {
    /// The lengths, in the order in which the sequences were given.
    pub fn lengths(&self) -> Vec<usize> {
        let count = self.batch_sizes.first().copied().unwrap_or(0);
        let mut lengths = vec![0; count];
        for (place, &sequence) in self.order().iter().enumerate() {
            if let Some(length) = lengths.get_mut(sequence) {
                *length = self.batch_sizes.iter().filter(|&&size| size > place).count();
            }
        }
        lengths
    }
    /// Which sequence stands at each place.
    fn order(&self) -> Vec<usize> {
        self.sorted_indices.clone().unwrap_or_else(|| (0..self.batch_sizes.first().copied().unwrap_or(0)).collect())
    }
    /// At which place each sequence stands: PyTorch's `unsorted_indices`.
    pub fn unsorted_indices(&self) -> Option<Vec<usize>> {
        let sorted = self.sorted_indices.as_ref()?;
        let mut places = vec![0; sorted.len()];
        for (place, &sequence) in sorted.iter().enumerate() {
            if let Some(at) = places.get_mut(sequence) {
                *at = place;
            }
        }
        Some(places)
    }
    /// Other numbers for the same steps.
    pub(crate) fn with(&self, data: Tensor) -> PackedSequence {
        PackedSequence { data, ..self.clone() }
    }
    /// States of the sequences, `[layers, batch, ..]`, in the order of the places.
    #[track_caller]
    pub(crate) fn sorted(&self, state: &Tensor) -> Result<Tensor> {
        permuted(state, self.sorted_indices.as_deref())
    }
    /// And back in the order of the sequences.
    #[track_caller]
    pub(crate) fn unsorted(&self, state: &Tensor) -> Result<Tensor> {
        permuted(state, self.unsorted_indices().as_deref())
    }
}
#[track_caller]
fn permuted(state: &Tensor, order: Option<&[usize]>) -> Result<Tensor> {
    match order {
        None => state.clone().ok(),
        Some(order) => state.index_select(1, &index(order, state)?).ok(),
    }
}
#[track_caller]
fn index(values: &[usize], like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec_on(values.iter().map(|&v| v as i64).collect::<Vec<i64>>(), [values.len()], like.device()?).ok()
}
#[track_caller]
fn refuse(op: &'static str, text: String) -> Error {
    Error::new(op, ErrorKind::Argument(text))
}

/// On which side of a sequence the padding stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PaddingSide {
    /// before it
    Left,
    /// behind it
    #[default]
    Right,
}
/// Sequences `[length, ..]` padded to the longest: `[longest, batch, ..]`, or `[batch, longest, ..]` with `batch_first`.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{PaddingSide, pad_sequence};
/// # adamant_core::Device::reference().make_current();
/// let padded = pad_sequence(&[Tensor::ones([2]), Tensor::ones([3])], true, 0.0, PaddingSide::Right)?;
/// assert_eq!(padded.to_vec::<f32>()?, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// No sequences; one without axes, or whose other axes differ.
///
/// Source: `torch.nn.utils.rnn.pad_sequence`.
#[track_caller]
pub fn pad_sequence(sequences: &[Tensor], batch_first: bool, padding_value: f64, side: PaddingSide) -> Result<Tensor> {
    let mut longest = 0;
    for s in sequences {
        let shape = s.shape()?;
        let Some(length) = shape.first() else {
            return Err(Error::new("pad_sequence", ErrorKind::Shape { shape, expected: "[length, ..]".into() }));
        };
        longest = longest.max(*length);
    }
    if sequences.is_empty() {
        return Err(refuse("pad_sequence", "there are no sequences".into()));
    }
    let mut padded = Vec::with_capacity(sequences.len());
    for s in sequences {
        let shape = s.shape()?;
        let missing = (longest - shape[0]) as isize;
        let mut widths = vec![0isize; 2 * shape.rank()];
        let at = 2 * shape.rank() - if side == PaddingSide::Left { 2 } else { 1 };
        widths[at] = missing;
        padded.push(if missing == 0 { s.clone() } else { s.pad_constant(widths, padding_value) });
    }
    Tensor::stack(&padded, if batch_first { 0 } else { 1 }).ok()
}
/// Padded sequences without the padding. `enforce_sorted`: they stand with the longest first, which is checked; else they are
/// sorted here, and what comes out of a recurrent layer is in the given order again.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::pack_padded_sequence;
/// # adamant_core::Device::reference().make_current();
/// let padded = Tensor::from_slice(&[1.0f32, 2.0, 0.0, 3.0, 4.0, 5.0], [2, 3]);
/// let packed = pack_padded_sequence(&padded, &[2, 3], true, false)?;
/// assert_eq!(packed.data.to_vec::<f32>()?, [3.0, 1.0, 4.0, 2.0, 5.0]);
/// assert_eq!(packed.batch_sizes, [2, 2, 1]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Fewer than two axes; another number of lengths than sequences; a length of 0, or beyond the time axis; lengths that are not sorted,
/// where that is enforced.
///
/// Source: `torch.nn.utils.rnn.pack_padded_sequence`.
#[track_caller]
pub fn pack_padded_sequence(input: &Tensor, lengths: &[usize], batch_first: bool, enforce_sorted: bool) -> Result<PackedSequence> {
    const OP: &str = "pack_padded_sequence";
    let shape = input.shape()?;
    if shape.rank() < 2 {
        return Err(Error::new(OP, ErrorKind::Shape { shape, expected: "[time, batch, ..] (or batch first)".into() }));
    }
    let (time, batch) = if batch_first { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
    if lengths.len() != batch || batch == 0 {
        return Err(refuse(OP, format!("{} lengths for {batch} sequences", lengths.len())));
    }
    if let Some((k, length)) = lengths.iter().enumerate().find(|(_, length)| !(1..=time).contains(*length)) {
        return Err(refuse(OP, format!("sequence {k} has length {length}: from 1 to {time}, the steps there are, is needed")));
    }
    let mut order: Vec<usize> = (0..batch).collect();
    if enforce_sorted {
        if let Some(k) = lengths.windows(2).position(|pair| pair[0] < pair[1]) {
            let text = format!("sequence {} is longer than the one before it, of length {}", k + 1, lengths[k]);
            return Err(refuse(OP, text).hint("enforce_sorted: false sorts them"));
        }
    } else {
        order.sort_by_key(|&k| std::cmp::Reverse(lengths[k]));
    }
    let longest = order.first().map_or(0, |&k| lengths[k]);
    let (mut rows, mut batch_sizes) = (Vec::new(), Vec::with_capacity(longest));
    for t in 0..longest {
        let before = rows.len();
        let there = order.iter().filter(|&&k| lengths[k] > t);
        rows.extend(there.map(|&k| if batch_first { k * time + t } else { t * batch + k }));
        batch_sizes.push(rows.len() - before);
    }
    let mut flat = shape[1..].to_vec();
    flat[0] = time * batch;
    let data = input.reshape(flat).index_select(0, &index(&rows, input)?).ok()?;
    Ok(PackedSequence { data, batch_sizes, sorted_indices: if enforce_sorted { None } else { Some(order) } })
}
/// Packed sequences padded again, in the order in which they were given, and their lengths. `total_length`: steps to pad to, more
/// than the longest has; `None`: as many.
///
/// # Errors
/// A `total_length` below the longest; sizes that are not those of the data.
///
/// Source: `torch.nn.utils.rnn.pad_packed_sequence`.
#[track_caller]
pub fn pad_packed_sequence(packed: &PackedSequence, batch_first: bool, padding_value: f64, total_length: Option<usize>) -> Result<(Tensor, Vec<usize>)> {
    const OP: &str = "pad_packed_sequence";
    let (shape, longest) = (packed.data.shape()?, packed.batch_sizes.len());
    let total: usize = packed.batch_sizes.iter().sum();
    if shape.first() != Some(&total) {
        return Err(Error::new(OP, ErrorKind::Shape { shape, expected: format!("{total} steps, as the batch sizes say") }));
    }
    let time = total_length.unwrap_or(longest);
    if time < longest {
        return Err(refuse(OP, format!("total_length {time} is less than the longest sequence, {longest}")));
    }
    let lengths = packed.lengths();
    let places = packed.unsorted_indices().unwrap_or_else(|| (0..lengths.len()).collect());
    let starts: Vec<usize> = packed.batch_sizes.iter().scan(0, |sum, size| Some(std::mem::replace(sum, *sum + size))).collect();
    // The row behind the last is padding.
    let row = |t: usize, k: usize| if t < lengths[k] { starts[t] + places[k] } else { total };
    let batch = lengths.len();
    let rows: Vec<usize> = if batch_first {
        (0..batch).flat_map(|k| (0..time).map(move |t| (t, k))).map(|(t, k)| row(t, k)).collect()
    } else {
        (0..time).flat_map(|t| (0..batch).map(move |k| (t, k))).map(|(t, k)| row(t, k)).collect()
    };
    let mut one = shape.to_vec();
    one[0] = 1;
    let padding = Tensor::full_on(one, padding_value, packed.data.dtype()?, packed.data.device()?);
    let with_padding = Tensor::cat(&[&packed.data, &padding], 0);
    let mut dims = if batch_first { vec![batch, time] } else { vec![time, batch] };
    dims.extend_from_slice(&shape[1..]);
    Ok((with_padding.index_select(0, &index(&rows, &packed.data)?).reshape(dims).ok()?, lengths))
}
/// Sequences `[length, ..]` packed: padded, and without the padding.
///
/// # Errors
/// As [`pad_sequence`] and [`pack_padded_sequence`].
///
/// Source: `torch.nn.utils.rnn.pack_sequence`.
#[track_caller]
pub fn pack_sequence(sequences: &[Tensor], enforce_sorted: bool) -> Result<PackedSequence> {
    let lengths = sequences.iter().map(|s| Ok(s.shape()?.first().copied().unwrap_or(0))).collect::<Result<Vec<usize>>>()?;
    pack_padded_sequence(&pad_sequence(sequences, false, 0.0, PaddingSide::Right)?, &lengths, false, enforce_sorted)
}
/// Padded sequences one by one, without the padding behind them.
///
/// # Errors
/// Fewer than two axes; another number of lengths than sequences; a length beyond the time axis.
///
/// Source: `torch.nn.utils.rnn.unpad_sequence`.
#[track_caller]
pub fn unpad_sequence(padded: &Tensor, lengths: &[usize], batch_first: bool) -> Result<Vec<Tensor>> {
    let shape = padded.shape()?;
    if shape.rank() < 2 {
        return Err(Error::new("unpad_sequence", ErrorKind::Shape { shape, expected: "[time, batch, ..] (or batch first)".into() }));
    }
    let batch = shape[usize::from(!batch_first)];
    if lengths.len() != batch {
        return Err(refuse("unpad_sequence", format!("{} lengths for {batch} sequences", lengths.len())));
    }
    let one = |(k, &length): (usize, &usize)| padded.select(usize::from(!batch_first) as isize, k).narrow(0, 0, length).ok();
    lengths.iter().enumerate().map(one).collect()
}
/// Packed sequences one by one, in the order in which they were given.
///
/// # Errors
/// As [`pad_packed_sequence`].
///
/// Source: `torch.nn.utils.rnn.unpack_sequence`.
#[track_caller]
pub fn unpack_sequence(packed: &PackedSequence) -> Result<Vec<Tensor>> {
    let (padded, lengths) = pad_packed_sequence(packed, true, 0.0, None)?;
    unpad_sequence(&padded, &lengths, true)
}
