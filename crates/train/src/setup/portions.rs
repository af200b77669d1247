//! How few rows a layer gets to see where ranks share a step: a batch is cut into parts, and in a pipeline each part into micro-batches. What that makes
//! impossible is said before the first step, and not by the layer in the middle of an epoch.
use super::Setup;
use crate::{
    Document, Failure, model,
    recipe::MeshRecipe,
    session::{StepSharing, ZeroStage},
};
use adamant_core::op::rank_parts;
use adamant_data::Dataset;

/// What is cut, and into what.
pub(crate) struct StepPortions<'a> {
    pub sharing: &'a StepSharing,
    pub mesh: Option<&'a MeshRecipe>,
    /// steps of the run
    pub steps: u64,
    /// do batch norms see the rows of all ranks?
    pub joins_norms: bool,
}
/// Rows of the parts that batches are cut into; `goes_round`: is there a last batch, with what is left over?
pub(super) fn part_sizes(rows: usize, batch: usize, parts: usize, goes_round: bool) -> Vec<usize> {
    let last = if goes_round && rows > batch { rows % batch } else { 0 };
    let of = |n: usize| [n / parts, n.div_ceil(parts)];
    let mut sizes: Vec<usize> = [rows.min(batch), last].into_iter().flat_map(of).filter(|n| *n > 0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
impl StepPortions<'_> {
    /// Rows of the smallest batch that a layer learns from.
    fn fewest(&self, rows: usize, batch: usize, accumulate: usize) -> usize {
        let goes_round = self.steps.saturating_mul(accumulate as u64) > (rows / batch.max(1)) as u64;
        let of = |n: usize| match self.mesh.filter(|mesh| mesh.pipelines() > 1) {
            Some(mesh) => (n / mesh.micro_batches_of(n)).max(1),
            None => n,
        };
        part_sizes(rows, batch, self.sharing.parts, goes_round).into_iter().map(of).min().unwrap_or(1)
    }
    /// Refuses what so few rows cannot be learned from.
    ///
    /// # Errors
    /// `Usage`: with `zero = 3` a rank without rows; a layer that wants more rows than the smallest part has.
    pub fn are_enough(&self, document: &Document, setup: &Setup) -> Result<(), Failure> {
        let root = document.root()?;
        let section = root.section("distributed")?;
        let wrong = |key: &str, told: String| match &section {
            Some(section) if section.has(key) => section.wrong_key(key, told),
            _ => root.wrong(format!("`distributed.{key}`: {told}")),
        };
        let (rows, batch, StepSharing { group, parts, zero, .. }) = (setup.parts.train.len(), setup.batch, self.sharing);
        let (ranks, first) = (group.size as usize, rows.min(batch));
        let has_rows = |rank: usize| rank_parts(*parts, rank, ranks).any(|part| !rank_parts(first, part, *parts).is_empty());
        if let Some(rank) = (0..ranks).find(|rank| *zero == ZeroStage::Parameters && !has_rows(*rank)) {
            let told = format!("with 3 each rank has rows in the first batch, and rank {rank} has none of its {first} (`shards = {parts}`)");
            return Err(wrong("zero", format!("{told}: a larger `batch`, fewer shards, or `zero = 2`")));
        }
        let fewest = self.fewest(rows, batch, setup.accumulate);
        let Some(facts) = setup.parts.train.describe().inputs.filter(|_| fewest < first && !self.joins_norms) else { return Ok(()) };
        let root_now = setup.document.root()?;
        let layers = root_now.need("model", root_now.section("model")?)?;
        let Err(why) = model::shapes(&layers, &facts.shape, facts.dtype, fewest, &setup.precision) else { return Ok(()) };
        let in_pipeline = self.mesh.filter(|mesh| mesh.pipelines() > 1 && fewest < part_sizes(rows, batch, *parts, true).first().copied().unwrap_or(0));
        let (key, what) = match in_pipeline {
            Some(_) => ("micro_batches", "a micro-batch"),
            None => ("shards", "a part of a step"),
        };
        let told = format!("{what} has {fewest} row{} (`batch = {batch}`, `shards = {parts}`)", if fewest == 1 { "" } else { "s" });
        Err(wrong(key, format!("{told}, and {why}: a larger `batch`, or fewer `{key}`")))
    }
}
#[cfg(test)]
mod tests {
    use super::part_sizes;

    #[test]
    fn parts_with_other_rows() {
        for (rows, batch, parts) in [(10, 4, 2), (12, 4, 2), (3, 8, 2), (16, 8, 4), (17, 8, 4), (9, 9, 4), (9, 4, 8)] {
            for goes_round in [true, false] {
                let whole = if rows < batch { vec![rows] } else { vec![batch; rows / batch] };
                let all = whole.into_iter().chain((goes_round && rows > batch && rows % batch > 0).then_some(rows % batch));
                let mut want: Vec<usize> =
                    all.flat_map(|n| (0..parts).map(move |k| adamant_core::op::rank_parts(n, k, parts).len())).filter(|n| *n > 0).collect();
                want.sort_unstable();
                want.dedup();
                assert_eq!(part_sizes(rows, batch, parts, goes_round), want, "{rows} rows, batches of {batch}, {parts} parts");
            }
        }
    }
}
