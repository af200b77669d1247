//! Layers that are made in pieces. What they do, [`parallelize`](super::parallelize) does to a layer of an ordinary model.
use super::{ParallelStyle, Sharding, TensorOptions, styles::cut_over};
use adamant_core::{Result, Tensor, op::Group};
use adamant_nn::{Embedding, Linear, Module, Walk, Walker};

macro_rules! in_pieces {
    ($($(#[$doc:meta])* $name:ident over $layer:ident)*) => { $(
        $(#[$doc])*
        pub struct $name {
            layer: $layer,
            sharding: Sharding,
        }
        impl $name {
            #[track_caller]
            fn cut(layer: $layer, group: &Group, style: ParallelStyle, options: TensorOptions) -> Result<$name> {
                let sharding = cut_over(&layer, group, &[("", style)], options)?;
                Ok($name { layer, sharding })
            }
            /// The layer with this rank's pieces.
            pub fn layer(&self) -> &$layer {
                &self.layer
            }
            /// Which pieces these are.
            pub fn sharding(&self) -> &Sharding {
                &self.sharding
            }
        }
        /// Under the names of the layer. It is not copied.
        impl Walk for $name {
            fn walk(&self, walker: &mut Walker<'_>) {
                self.layer.walk(walker);
            }
        }
        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.layer.forward(x)
            }
        }
    )* };
}
in_pieces! {
    /// A `Linear` of which each rank computes some outputs: `[.., in]`, alike on all ranks, to `[.., out / ranks]`.
    ///
    /// ```
    /// use adamant_core::Tensor;
    /// use adamant_nn::{Linear, Module};
    /// use adamant_parallel::{Mesh, MeshAxis, tensor::ColumnLinear};
    /// # adamant_core::Device::reference().make_current();
    /// let mesh = Mesh::alone();
    /// let layer = ColumnLinear::new(Linear::new(4, 6)?, mesh.group(MeshAxis::Tensor))?;
    /// assert_eq!(layer.forward(&Tensor::ones([2, 4]))?.dims()?, [2, 6]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ColumnLinear over Linear
    /// A `Linear` of which each rank has some inputs: `[.., in / ranks]` to `[.., out]`, alike on all ranks. The bias is added once.
    ///
    /// ```
    /// use adamant_core::Tensor;
    /// use adamant_nn::{Linear, Module};
    /// use adamant_parallel::{Mesh, MeshAxis, tensor::RowLinear};
    /// # adamant_core::Device::reference().make_current();
    /// let mesh = Mesh::alone();
    /// let layer = RowLinear::new(Linear::new(4, 6)?, mesh.group(MeshAxis::Tensor))?;
    /// assert_eq!(layer.forward(&Tensor::ones([2, 4]))?.dims()?, [2, 6]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    RowLinear over Linear
    /// An `Embedding` of which each rank has some rows: ids to `[..ids, features]`, both alike on all ranks.
    ///
    /// ```
    /// use adamant_core::Tensor;
    /// use adamant_nn::{Embedding, Module};
    /// use adamant_parallel::{Mesh, MeshAxis, tensor::VocabularyEmbedding};
    /// # adamant_core::Device::reference().make_current();
    /// let mesh = Mesh::alone();
    /// let table = VocabularyEmbedding::new(Embedding::new(10, 4)?, mesh.group(MeshAxis::Tensor))?;
    /// assert_eq!(table.forward(&Tensor::from_slice(&[9i64, 0], [2]))?.dims()?, [2, 4]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    VocabularyEmbedding over Embedding
}
impl ColumnLinear {
    /// Of a layer that all ranks of a group have alike.
    ///
    /// # Errors
    /// Output features that the ranks do not divide.
    #[track_caller]
    pub fn new(layer: Linear, group: &Group) -> Result<ColumnLinear> {
        ColumnLinear::cut(layer, group, ParallelStyle::Column, TensorOptions::default())
    }
    /// The same with the outputs joined: `[.., out]` on every rank.
    ///
    /// # Errors
    /// As [`ColumnLinear::new`].
    #[track_caller]
    pub fn gathered(layer: Linear, group: &Group) -> Result<ColumnLinear> {
        ColumnLinear::cut(layer, group, ParallelStyle::ColumnGathered, TensorOptions::default())
    }
    /// The same behind what is cut along the sequence, which is gathered.
    ///
    /// # Errors
    /// As [`ColumnLinear::new`].
    #[track_caller]
    pub fn with(layer: Linear, group: &Group, options: TensorOptions) -> Result<ColumnLinear> {
        ColumnLinear::cut(layer, group, ParallelStyle::Column, options)
    }
}
impl RowLinear {
    /// Of a layer that all ranks of a group have alike.
    ///
    /// # Errors
    /// Input features that the ranks do not divide.
    #[track_caller]
    pub fn new(layer: Linear, group: &Group) -> Result<RowLinear> {
        RowLinear::with(layer, group, TensorOptions::default())
    }
    /// The same before what is cut along the sequence, which is scattered.
    ///
    /// # Errors
    /// As [`RowLinear::new`].
    #[track_caller]
    pub fn with(layer: Linear, group: &Group, options: TensorOptions) -> Result<RowLinear> {
        RowLinear::cut(layer, group, ParallelStyle::Row, options)
    }
}
impl VocabularyEmbedding {
    /// Of a table that all ranks of a group have alike.
    ///
    /// # Errors
    /// Fewer rows than ranks.
    #[track_caller]
    pub fn new(layer: Embedding, group: &Group) -> Result<VocabularyEmbedding> {
        VocabularyEmbedding::cut(layer, group, ParallelStyle::Vocabulary, TensorOptions::default())
    }
}
