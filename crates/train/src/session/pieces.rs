//! How parameters are shared out: which elements of which parameter belong to which rank, and where they lie where they travel.
//!
//! Parameters travel in units, one behind the other. A unit is cut into a stretch for each rank, about evenly, at the ends of parameters and
//! of chunks of them: so a norm that is added up chunk by chunk has the same bits on any number of ranks. On the way each rank's
//! stretch is a block; all blocks of a unit are as long as the longest, with zeros behind shorter ones.
//!
//! ```text
//! unit:   [ weight ............................ | bias | weight ........ ]
//! ranks:  [ 0 ................. | 1 .................. | 2 ............. ]
//! ```
//!
//! Must not know: groups, cells, what the numbers are.
use adamant_core::{DType, Result as Computed, Tensor};
use adamant_nn::Param;
use std::{collections::HashMap, ops::Range};

/// Elements of a parameter whose squares are added up together, and at whose ends ranks meet.
pub(super) const CHUNK: usize = 4096;

/// A parameter in its unit.
pub(super) struct PieceMember {
    pub param: Param,
    /// what each rank has of it
    pub pieces: Vec<Range<usize>>,
    /// where that lies in the rank's block
    at: Vec<usize>,
}
/// Parameters that travel together.
pub(super) struct PieceUnit {
    pub members: Vec<PieceMember>,
    /// the elements of a block
    pub block: usize,
    /// have all ranks as many elements? Then blocks one behind the other are the parameters one behind the other.
    is_even: bool,
}
/// All parameters, shared out among so many ranks.
pub(super) struct PieceLayout {
    pub rank: usize,
    pub units: Vec<PieceUnit>,
    /// by the parameter's id: its unit, and its place in it
    places: HashMap<usize, (usize, usize)>,
}
impl PieceLayout {
    pub fn new(units: Vec<Vec<Param>>, rank: usize, ranks: usize) -> PieceLayout {
        let units: Vec<PieceUnit> = units.into_iter().map(|members| PieceUnit::new(members, ranks)).collect();
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
impl PieceUnit {
    fn new(params: Vec<Param>, ranks: usize) -> PieceUnit {
        let ends: Vec<usize> = params
            .iter()
            .scan(0, |end, p| {
                *end += p.elements();
                Some(*end)
            })
            .collect();
        let all = ends.last().copied().unwrap_or(0);
        let bounds: Vec<usize> = (0..=ranks).map(|rank| cut(&ends, (all as u128 * rank as u128 / ranks.max(1) as u128) as usize)).collect();
        let lengths: Vec<usize> = bounds.windows(2).map(|b| b[1] - b[0]).collect();
        let block = lengths.iter().copied().max().unwrap_or(0);
        let member = |(param, end): (Param, &usize)| {
            let start = end - param.elements();
            let piece = |rank: usize| bounds[rank].clamp(start, *end) - start..bounds[rank + 1].clamp(start, *end) - start;
            let at = |rank: usize| if bounds[rank + 1] > start { start.saturating_sub(bounds[rank]).min(block) } else { 0 };
            PieceMember { param, pieces: (0..ranks).map(piece).collect(), at: (0..ranks).map(at).collect() }
        };
        let members = params.into_iter().zip(&ends).map(member).collect();
        PieceUnit { members, block, is_even: lengths.iter().all(|n| *n == block) }
    }
    /// The block of a rank, made of its pieces: `of` gives that of a member.
    pub fn block_of(&self, rank: usize, like: &Tensor, of: impl Fn(usize) -> Computed<Tensor>) -> Computed<Tensor> {
        let mut parts = Vec::new();
        let mut filled = 0;
        for (k, m) in self.members.iter().enumerate().filter(|(_, m)| !m.pieces[rank].is_empty()) {
            parts.push(of(k)?);
            filled += m.pieces[rank].len();
        }
        if filled < self.block {
            let meta = like.try_meta()?;
            parts.push(Tensor::full_on([self.block - filled], 0, meta.dtype, meta.device));
        }
        Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0).ok()
    }
    /// All blocks, of members as a whole, each of one axis.
    pub fn blocks(&self, flat: &[Tensor]) -> Computed<Tensor> {
        let Some(like) = flat.first() else { return Ok(Tensor::zeros([0])) };
        if self.is_even {
            return Tensor::cat(&flat.iter().collect::<Vec<_>>(), 0).ok();
        }
        let ranks = self.members.first().map_or(0, |m| m.pieces.len());
        let piece = |rank: usize, k: usize| {
            let of = &self.members[k].pieces[rank];
            flat[k].narrow(0, of.start, of.len()).ok()
        };
        let blocks: Vec<Tensor> = (0..ranks).map(|rank| self.block_of(rank, like, |k| piece(rank, k))).collect::<Computed<_>>()?;
        Tensor::cat(&blocks.iter().collect::<Vec<_>>(), 0).ok()
    }
    /// A member's piece of a rank's block.
    pub fn piece(&self, k: usize, rank: usize, block: &Tensor) -> Tensor {
        let m = &self.members[k];
        block.narrow(0, m.at[rank], m.pieces[rank].len())
    }
    /// A member as a whole, of all blocks one behind the other; of one axis, and a view where it can be.
    pub fn whole(&self, k: usize, blocks: &Tensor) -> Computed<Tensor> {
        let m = &self.members[k];
        // Stretches that lie one behind the other are one.
        let mut stretches: Vec<Range<usize>> = Vec::new();
        for (rank, piece) in m.pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
            let from = rank * self.block + m.at[rank];
            match stretches.last_mut() {
                Some(last) if last.end == from => last.end += piece.len(),
                _ => stretches.push(from..from + piece.len()),
            }
        }
        let parts: Vec<Tensor> = stretches.iter().map(|s| blocks.narrow(0, s.start, s.len())).collect();
        match &parts[..] {
            [] => blocks.narrow(0, 0, 0).ok(),
            [one] => one.clone().ok(),
            parts => Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0).ok(),
        }
    }
    /// A rank's block with another piece of a member in it.
    pub fn with_piece(&self, k: usize, rank: usize, (block, piece): (&Tensor, &Tensor)) -> Computed<Tensor> {
        let m = &self.members[k];
        let (from, n) = (m.at[rank], m.pieces[rank].len());
        let rest = self.block - from - n;
        Tensor::cat(&[&block.narrow(0, 0, from), piece, &block.narrow(0, from + n, rest)], 0).ok()
    }
}
/// The place nearest to one in a row of parameters, of which these are the ends, where ranks may meet.
fn cut(ends: &[usize], at: usize) -> usize {
    let member = ends.partition_point(|end| *end <= at);
    let Some(end) = ends.get(member) else { return ends.last().copied().unwrap_or(0) };
    let start = if member == 0 { 0 } else { ends[member - 1] };
    let chunks = (at - start + CHUNK / 2) / CHUNK;
    // The end is the nearer place where the last chunk is short.
    let snapped = start + chunks * CHUNK;
    if snapped >= *end || (end - at) < at.abs_diff(snapped) { *end } else { snapped }
}
/// The chunks of so many elements.
pub(super) fn chunks(elements: usize) -> usize {
    elements.div_ceil(CHUNK)
}
/// The sum of the squares of each chunk, of a tensor of one axis that begins with one; in the widest float.
pub(super) fn squares(flat: &Tensor) -> Computed<Tensor> {
    let meta = flat.try_meta()?;
    let wide = if meta.dtype == DType::F64 { DType::F64 } else { meta.device.widest_float() };
    let squares = flat.cast(wide).square();
    let (n, whole) = (meta.shape.elements(), meta.shape.elements() / CHUNK);
    let of_whole = squares.narrow(0, 0, whole * CHUNK).reshape([whole, CHUNK]).sum(1);
    let rest = squares.narrow(0, whole * CHUNK, n - whole * CHUNK).sum(..).reshape([1]);
    match (whole, n - whole * CHUNK) {
        (_, 0) => of_whole.ok(),
        (0, _) => rest.ok(),
        _ => Tensor::cat(&[&of_whole, &rest], 0).ok(),
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    fn params(lengths: &[usize]) -> Vec<Param> {
        lengths.iter().map(|n| Param::new(&Tensor::zeros([*n])).unwrap()).collect()
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
                let layout = PieceLayout::new(vec![params(&lengths)], 0, ranks);
                let unit = &layout.units[0];
                let mut of_rank = vec![0; ranks];
                for m in &unit.members {
                    let mut at = 0;
                    for (rank, piece) in m.pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                        assert_eq!(piece.start, at, "{lengths:?} on {ranks}");
                        assert!(piece.start % CHUNK == 0, "{lengths:?} on {ranks}: {piece:?}");
                        at = piece.end;
                        of_rank[rank] += piece.len();
                    }
                    assert_eq!(at, m.param.elements(), "{lengths:?} on {ranks}");
                }
                let all: usize = lengths.iter().sum();
                let most = all.div_ceil(ranks) + CHUNK;
                assert!(of_rank.iter().all(|n| *n <= most) && unit.block <= most, "{lengths:?} on {ranks}: {of_rank:?}");
            }
        }
    }
    #[test]
    fn what_is_cut_into_blocks_comes_out_whole() {
        Device::reference().make_current();
        for seed in 0..40 {
            let lengths = drawn(seed);
            for ranks in 1..=5 {
                let layout = PieceLayout::new(vec![params(&lengths)], 0, ranks);
                let unit = &layout.units[0];
                let flat: Vec<Tensor> =
                    lengths.iter().enumerate().map(|(k, n)| Tensor::from_vec((0..*n).map(|e| (k * 100_000 + e) as f32).collect(), [*n])).collect();
                let blocks = unit.blocks(&flat).unwrap();
                assert_eq!(blocks.shape().unwrap()[0], ranks * unit.block);
                for (k, want) in flat.iter().enumerate() {
                    let want = want.to_vec::<f32>().unwrap();
                    assert_eq!(unit.whole(k, &blocks).unwrap().to_vec::<f32>().unwrap(), want, "{lengths:?} on {ranks}");
                    for rank in 0..ranks {
                        let block = blocks.narrow(0, rank * unit.block, unit.block);
                        let of = unit.members[k].pieces[rank].clone();
                        assert_eq!(unit.piece(k, rank, &block).to_vec::<f32>().unwrap(), want[of.clone()], "{lengths:?} on {ranks}");
                        if !of.is_empty() {
                            let other = Tensor::full([of.len()], -1.0, DType::F32);
                            let with = unit.with_piece(k, rank, (&block, &other)).unwrap();
                            let (got, mut meant) = (with.to_vec::<f32>().unwrap(), block.to_vec::<f32>().unwrap());
                            let at = unit.members[k].at[rank];
                            meant[at..at + of.len()].fill(-1.0);
                            assert_eq!(got, meant);
                        }
                    }
                }
            }
        }
    }
    #[test]
    fn squares_of_pieces_are_those_of_the_whole() {
        Device::reference().make_current();
        for n in [1, 100, CHUNK, CHUNK + 5, 4 * CHUNK, 4 * CHUNK + 1] {
            let flat = Tensor::from_vec((0..n).map(|k| (k as f32 * 0.37).sin()).collect(), [n]);
            let whole = squares(&flat).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(whole.len(), chunks(n));
            for cut in (0..=n / CHUNK).map(|k| k * CHUNK) {
                let parts = [flat.narrow(0, 0, cut), flat.narrow(0, cut, n - cut)];
                let joined: Vec<f64> = parts.iter().flat_map(|p| squares(p).unwrap().to_vec::<f64>().unwrap()).collect();
                assert_eq!(joined, whole, "{n} cut at {cut}");
            }
        }
    }
}
