//! How parameters are shared out: which elements of which parameter belong to which rank, and where they lie where they travel.
//!
//! Parameters travel in units, a block of the model each. A unit is its parameters one behind the other; each rank has a block of it, all of one
//! length, whole chunks of 4,096 elements. Behind the last parameter there are zeros.
//!
//! ```text
//! unit:    [ weight ............................ | bias | weight .... ]
//! chunks:  |       |       |       |       |       |       |       |        |
//! blocks:  [ rank 0 ...... | rank 1 ...... | rank 2 ...... | rank 3 ...... ]
//! ```
//!
//! So what is gathered is the parameters themselves, without a copy, and a norm that is added up chunk by chunk, apart for each parameter,
//! has the same bits on any number of ranks.
//!
//! Must not know: groups, cells, what the numbers are.
use adamant_core::{DType, Result as Computed, Tensor};
use adamant_nn::Param;
use std::{collections::HashMap, ops::Range};

/// Elements of a unit whose squares are added up together, and at whose ends ranks meet.
pub(super) const CHUNK: usize = 4096;
/// A smaller block of the model travels with the next one.
const LEAST_UNIT: usize = 16 * CHUNK;

/// A parameter in its unit.
pub(super) struct PieceMember {
    pub param: Param,
    /// its first element in the unit
    pub from: usize,
    /// what each rank has of it
    pub pieces: Vec<Range<usize>>,
}
/// Parameters that travel together, of one dtype on one device.
pub(super) struct PieceUnit {
    pub members: Vec<PieceMember>,
    /// the elements of a block
    pub block: usize,
    /// of all blocks, less those of the members
    padding: usize,
}
/// All parameters, shared out among so many ranks.
pub(super) struct PieceLayout {
    pub rank: usize,
    pub units: Vec<PieceUnit>,
    /// by the parameter's id: its unit, and its place in it
    places: HashMap<usize, (usize, usize)>,
}
impl PieceLayout {
    /// Parameters in the order of the model, by their names. A unit is what has one path up to the first number in it, or up to the first dot.
    pub fn new(parameters: &[(String, Param)], rank: usize, ranks: usize) -> PieceLayout {
        let units: Vec<PieceUnit> = by_block(parameters).into_iter().map(|members| PieceUnit::new(members, ranks)).collect();
        let places = units.iter().enumerate().flat_map(|(u, unit)| unit.members.iter().enumerate().map(move |(k, m)| (m.param.id(), (u, k)))).collect();
        PieceLayout { rank, units, places }
    }
    /// The unit of a parameter, and its place there.
    pub fn place(&self, p: &Param) -> Option<(usize, usize)> {
        self.places.get(&p.id()).copied()
    }
    pub fn member(&self, p: &Param) -> Option<&PieceMember> {
        self.place(p).map(|(u, k)| &self.units[u].members[k])
    }
    /// What this rank has of a parameter.
    pub fn own(&self, p: &Param) -> Range<usize> {
        self.member(p).map_or(0..0, |m| m.pieces[self.rank].clone())
    }
}
impl PieceMember {
    /// A piece's first element in the unit.
    pub fn start(&self, piece: &Range<usize>) -> usize {
        self.from + piece.start
    }
}
impl PieceUnit {
    fn new(params: Vec<Param>, ranks: usize) -> PieceUnit {
        let ranks = ranks.max(1);
        let all: usize = params.iter().map(Param::elements).sum();
        let block = all.div_ceil(ranks).next_multiple_of(CHUNK);
        let mut from = 0;
        let member = |param: Param| {
            let (start, end) = (from, from + param.elements());
            from = end;
            let piece = |rank: usize| (rank * block).clamp(start, end) - start..((rank + 1) * block).clamp(start, end) - start;
            PieceMember { param, from: start, pieces: (0..ranks).map(piece).collect() }
        };
        PieceUnit { members: params.into_iter().map(member).collect(), block, padding: ranks * block - all }
    }
    /// The block of a rank, made of its pieces: `of` gives that of a member.
    pub fn block_of(&self, rank: usize, like: &Tensor, of: impl Fn(usize) -> Computed<Tensor>) -> Computed<Tensor> {
        let members = self.members.iter().enumerate().filter(|(_, m)| !m.pieces[rank].is_empty());
        let filled: usize = members.clone().map(|(_, m)| m.pieces[rank].len()).sum();
        padded(members.map(|(k, _)| of(k)).collect::<Computed<_>>()?, self.block - filled, like)
    }
    /// All blocks, of members as a whole, each of one axis.
    pub fn blocks(&self, flat: Vec<Tensor>) -> Computed<Tensor> {
        let Some(like) = flat.first().cloned() else { return Ok(Tensor::zeros([0])) };
        padded(flat, self.padding, &like)
    }
    /// A member's piece of a rank's block.
    pub fn piece(&self, k: usize, rank: usize, block: &Tensor) -> Tensor {
        let (m, piece) = (&self.members[k], &self.members[k].pieces[rank]);
        block.narrow(0, if piece.is_empty() { 0 } else { m.start(piece) - rank * self.block }, piece.len())
    }
    /// A member as a whole, a view of all blocks one behind the other; of one axis.
    pub fn whole(&self, k: usize, blocks: &Tensor) -> Tensor {
        let m = &self.members[k];
        blocks.narrow(0, m.from, m.param.elements())
    }
}
/// Joined, with so many zeros behind.
fn padded(mut parts: Vec<Tensor>, zeros: usize, like: &Tensor) -> Computed<Tensor> {
    if zeros > 0 {
        let meta = like.try_meta()?;
        parts.push(Tensor::full_on([zeros], 0, meta.dtype, meta.device));
    }
    Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0).ok()
}
/// Blocks of the model one behind the other, small ones together; each of one dtype on one device.
fn by_block(parameters: &[(String, Param)]) -> Vec<Vec<Param>> {
    let mut units: Vec<(&str, Vec<Param>, usize)> = Vec::new();
    for (name, p) in parameters {
        let block = block_name(name);
        let joins = |unit: &[Param]| unit.first().is_some_and(|first| (first.meta().dtype, first.meta().device) == (p.meta().dtype, p.meta().device));
        match units.last_mut() {
            Some((known, unit, elements)) if (*known == block || *elements < LEAST_UNIT) && joins(unit) => {
                unit.push(p.clone());
                (*known, *elements) = (block, *elements + p.elements());
            }
            _ => units.push((block, vec![p.clone()], p.elements())),
        }
    }
    units.into_iter().map(|(_, unit, _)| unit).collect()
}
fn block_name(path: &str) -> &str {
    let mut end = 0;
    for part in path.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            return &path[..end];
        }
        end += 1;
    }
    path.split('.').next().unwrap_or(path)
}
/// The chunks that some elements of a unit lie in.
pub(super) fn chunks(start: usize, elements: usize) -> usize {
    if elements == 0 { 0 } else { (start + elements).div_ceil(CHUNK) - start / CHUNK }
}
/// The sum of the squares of what lies in each chunk, of a tensor of one axis whose first element has this place in the unit; in the widest
/// float. Divided first by a number, where one is given.
pub(super) fn squares(flat: &Tensor, start: usize, by: Option<&Tensor>) -> Computed<Tensor> {
    let meta = flat.try_meta()?;
    let wide = if meta.dtype == DType::F64 { DType::F64 } else { meta.device.widest_float() };
    // Cut and shaped first: what is squared is nowhere in memory.
    let squares = |x: Tensor| by.map_or_else(|| x.clone(), |by| &x / by).cast(wide).square();
    let n = meta.shape.elements();
    // Up to the first end of a chunk, whole chunks, and what is left.
    let first = (start.next_multiple_of(CHUNK) - start).min(n);
    let whole = (n - first) / CHUNK;
    let last = n - first - whole * CHUNK;
    let some = |from: usize, n: usize| squares(flat.narrow(0, from, n)).sum(..).reshape([1]);
    let parts = [
        (first > 0).then(|| some(0, first)),
        (whole > 0).then(|| squares(flat.narrow(0, first, whole * CHUNK).reshape([whole, CHUNK])).sum(1)),
        (last > 0).then(|| some(first + whole * CHUNK, last)),
    ];
    match parts.iter().flatten().collect::<Vec<_>>()[..] {
        [] => squares(flat.clone()).ok(),
        [one] => one.clone().ok(),
        ref parts => Tensor::cat(parts, 0).ok(),
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    fn params(lengths: &[usize]) -> Vec<(String, Param)> {
        lengths.iter().enumerate().map(|(k, n)| (format!("layer.p{k}"), Param::new(&Tensor::zeros([*n])).unwrap())).collect()
    }
    /// Lengths around those of a chunk, and small ones.
    fn drawn(seed: usize) -> Vec<usize> {
        let lengths = [1, 10, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 77, 2];
        (0..1 + seed % 6).map(|k| lengths[(seed * 7 + k * (3 + seed % 4)) % lengths.len()]).collect()
    }
    #[test]
    fn every_element_has_one_rank_and_ranks_meet_at_chunks() {
        Device::reference().make_current();
        for seed in 0..60 {
            let lengths = drawn(seed);
            for ranks in 1..=9 {
                let layout = PieceLayout::new(&params(&lengths), 0, ranks);
                let unit = &layout.units[0];
                let mut of_rank = vec![0; ranks];
                let mut from = 0;
                for m in &unit.members {
                    assert_eq!(m.from, from);
                    let mut at = 0;
                    for (rank, piece) in m.pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                        assert_eq!(piece.start, at, "{lengths:?} on {ranks}");
                        assert!(piece.start == 0 || m.start(piece) % CHUNK == 0, "{lengths:?} on {ranks}: {piece:?}");
                        at = piece.end;
                        of_rank[rank] += piece.len();
                    }
                    assert_eq!(at, m.param.elements(), "{lengths:?} on {ranks}");
                    from += at;
                }
                let all: usize = lengths.iter().sum();
                let most = all.div_ceil(ranks) + CHUNK;
                assert!(of_rank.iter().all(|n| *n <= unit.block) && unit.block < most && all + unit.padding == ranks * unit.block, "{lengths:?} on {ranks}");
            }
        }
    }
    #[test]
    fn what_is_cut_into_blocks_comes_out_whole() {
        Device::reference().make_current();
        for seed in 0..40 {
            let lengths = drawn(seed);
            for ranks in 1..=5 {
                let layout = PieceLayout::new(&params(&lengths), 0, ranks);
                let unit = &layout.units[0];
                let flat: Vec<Tensor> =
                    lengths.iter().enumerate().map(|(k, n)| Tensor::from_vec((0..*n).map(|e| (k * 100_000 + e) as f32).collect(), [*n])).collect();
                let blocks = unit.blocks(flat.clone()).unwrap();
                assert_eq!(blocks.shape().unwrap()[0], ranks * unit.block);
                for (k, want) in flat.iter().enumerate() {
                    let want = want.to_vec::<f32>().unwrap();
                    assert_eq!(unit.whole(k, &blocks).to_vec::<f32>().unwrap(), want, "{lengths:?} on {ranks}");
                    for rank in 0..ranks {
                        let block = blocks.narrow(0, rank * unit.block, unit.block);
                        let of = unit.members[k].pieces[rank].clone();
                        assert_eq!(unit.piece(k, rank, &block).to_vec::<f32>().unwrap(), want[of], "{lengths:?} on {ranks}");
                    }
                }
                for rank in 0..ranks {
                    let piece = |k: usize| flat[k].narrow(0, unit.members[k].pieces[rank].start, unit.members[k].pieces[rank].len()).ok();
                    let made = unit.block_of(rank, &flat[0], piece).unwrap().to_vec::<f32>().unwrap();
                    assert_eq!(made, blocks.narrow(0, rank * unit.block, unit.block).to_vec::<f32>().unwrap(), "{lengths:?} on {ranks}");
                }
            }
        }
    }
    #[test]
    fn squares_of_pieces_are_those_of_the_whole() {
        Device::reference().make_current();
        for (n, start) in [(1, 0), (100, CHUNK - 7), (CHUNK, 0), (CHUNK + 5, 11), (4 * CHUNK, CHUNK), (4 * CHUNK + 1, 5 * CHUNK - 1), (2 * CHUNK, 77)] {
            let flat = Tensor::from_vec((0..n).map(|k| (k as f32 * 0.37).sin()).collect(), [n]);
            let whole = squares(&flat, start, None).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(whole.len(), chunks(start, n));
            // By hand, each chunk apart.
            let host: Vec<f64> = flat.to_vec::<f32>().unwrap().iter().map(|x| f64::from(*x).powi(2)).collect();
            let mut want = vec![0.0; whole.len()];
            host.iter().enumerate().for_each(|(k, x)| want[(start + k) / CHUNK - start / CHUNK] += x);
            assert!(whole.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-9 * b.max(1.0)), "{n} from {start}: {whole:?} {want:?}");
            let two = Tensor::full([1], 2.0, DType::F32);
            let halves = squares(&flat, start, Some(&two)).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(halves, squares(&(&flat / &two), start, None).unwrap().to_vec::<f64>().unwrap());
            let ends = (1..=n).filter(|k| (start + k) % CHUNK == 0).chain([0, n]);
            for cut in ends {
                let parts = [(flat.narrow(0, 0, cut), start), (flat.narrow(0, cut, n - cut), start + cut)];
                let joined: Vec<f64> = parts.iter().flat_map(|(p, at)| squares(p, *at, None).unwrap().to_vec::<f64>().unwrap()).collect();
                assert_eq!(joined, whole, "{n} from {start} cut at {cut}");
            }
        }
    }
    #[test]
    fn small_blocks_travel_together() {
        Device::reference().make_current();
        let param = |n: usize| Param::new(&Tensor::zeros([n])).unwrap();
        let of = |all: &[(&str, usize)]| -> Vec<usize> {
            let all: Vec<(String, Param)> = all.iter().map(|(name, n)| (name.to_string(), param(*n))).collect();
            by_block(&all).iter().map(Vec::len).collect()
        };
        assert_eq!(of(&[("a.0.w", LEAST_UNIT), ("a.0.b", 1), ("a.1.w", LEAST_UNIT)]), [2, 1]);
        assert_eq!(of(&[("a.0.w", 5), ("a.1.w", LEAST_UNIT), ("a.1.b", 9), ("b.w", 2)]), [3, 1]);
        assert_eq!(of(&[("a.w", 5), ("b.w", 5), ("c.w", 5)]), [3]);
    }
}
