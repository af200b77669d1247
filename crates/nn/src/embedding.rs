//! Tables of rows looked up by integers.
use crate::{Module, Param, Site, cache::open_step, init, site::LayerFacts};
use adamant_core::{Error, ErrorKind, Result, Tensor, tensor::BagMode};

/// A table of rows: ids of any shape to `[..ids, embedding_dim]`. It starts standard normal.
#[derive(Clone, Module)]
pub struct Embedding {
    site: Site,
    /// `[num_embeddings, embedding_dim]`
    pub weight: Param,
    padding_idx: Option<usize>,
}
impl Embedding {
    /// Without a padding row.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<Embedding> {
        Embedding::with(num_embeddings, embedding_dim, None)
    }
    /// With a row that starts as zeros and is not trained.
    ///
    /// # Errors
    /// A padding row outside the table.
    #[track_caller]
    pub fn with(num_embeddings: usize, embedding_dim: usize, padding_idx: Option<usize>) -> Result<Embedding> {
        let weight = Param::new(&table(num_embeddings, embedding_dim, padding_idx)?)?;
        let facts = LayerFacts { padding_idx, ..LayerFacts::default() };
        Ok(Embedding { site: Site::with_facts("Embedding", facts), weight, padding_idx })
    }
}
#[track_caller]
fn table(rows: usize, width: usize, padding_idx: Option<usize>) -> Result<Tensor> {
    let drawn = init::normal([rows, width], 0.0, 1.0)?;
    match padding_idx {
        None => Ok(drawn),
        Some(row) if row < rows => init::without_row(drawn, row),
        Some(row) => Err(Error::new("embedding", ErrorKind::Argument(format!("padding_idx {row} is outside a table of {rows} rows")))),
    }
}
impl Module for Embedding {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[ids])?;
        let ids = call.input(0, ids);
        // A piece of a table may be without the row; who has cut it sees to it.
        let padding_idx = self.padding_idx.filter(|row| *row < self.weight.meta().shape[0]);
        let y = self.weight.embedding(ids, padding_idx).ok()?;
        call.end(y)
    }
}

/// A learned vector for each position, added to the input: `[.., length, features]` to the same shape, for lengths of at most
/// `max_length` (Radford et al. 2018). It starts standard normal, as [`Embedding`].
#[derive(Clone, Module)]
pub struct PositionEmbedding {
    site: Site,
    /// `[max_length, features]`
    pub weight: Param,
}
impl PositionEmbedding {
    /// For sequences of at most `max_length`.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(max_length: usize, features: usize) -> Result<PositionEmbedding> {
        Ok(PositionEmbedding { site: Site::with_hooks("PositionEmbedding"), weight: Param::new(&init::normal([max_length, features], 0.0, 1.0)?)? })
    }
}
impl Module for PositionEmbedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let shape = x.shape()?;
        // Behind the tokens of a cache.
        let past = open_step(|step| step.past()).unwrap_or(0);
        let length = self.weight.meta().shape[0].saturating_sub(past);
        if shape.rank() < 2 || shape[shape.rank() - 2] > length {
            let before = if past > 0 { format!(", behind {past} tokens") } else { String::new() };
            return Err(Error::new(
                "position_embedding",
                ErrorKind::Shape { shape, expected: format!("[.., length, features] with a length of at most {length}{before}") },
            ));
        }
        let y = (x + self.weight.get().narrow(0, past, shape[shape.rank() - 2])).ok()?;
        call.end(y)
    }
}

/// Rows of a table combined by bags: ids `[bags, n]` to `[bags, embedding_dim]`.
#[derive(Clone, Module)]
pub struct EmbeddingBag {
    site: Site,
    /// `[num_embeddings, embedding_dim]`
    pub weight: Param,
    #[module(skip)]
    mode: BagMode,
}
impl EmbeddingBag {
    /// Combines by the mean.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Result<EmbeddingBag> {
        EmbeddingBag::with(num_embeddings, embedding_dim, BagMode::Mean)
    }
    /// Combines by a mode.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(num_embeddings: usize, embedding_dim: usize, mode: BagMode) -> Result<EmbeddingBag> {
        Ok(EmbeddingBag { site: Site::with_hooks("EmbeddingBag"), weight: Param::new(&table(num_embeddings, embedding_dim, None)?)?, mode })
    }
    /// Bags of different lengths: ids `[n]`, of which bag b has those from `offsets[b]` up to the next offset.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_offsets(&self, ids: &Tensor, offsets: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[ids, offsets])?;
        let (ids, offsets) = (call.input(0, ids), call.input(1, offsets));
        let y = self.weight.get().embedding_bag(ids, Some(offsets), self.mode).ok()?;
        call.end(y)
    }
}
impl Module for EmbeddingBag {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[ids])?;
        let ids = call.input(0, ids);
        let y = self.weight.get().embedding_bag(ids, None, self.mode).ok()?;
        call.end(y)
    }
}
