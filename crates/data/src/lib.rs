//! Data for training: data sets, and a loader that reads them ahead in a seeded order.
//!
//! The way of a batch: a number of a batch -> the indices of its records ([`Order`], [`Permutation`]: computed, not
//! stored) -> workers, each of which reads one batch at a time, record by record ([`Dataset::read`]) -> a window of
//! batches that are ready or being made, at most `workers * prefetch_factor` -> the next batch in order
//! ([`DataLoader::next_batch`]). Where a loader stands is a handful of numbers ([`LoaderState`]); it goes on from there
//! at once. Records that are damaged, panic or hang are named and dealt with by a [`Policy`].
//!
//! Data sets: [`Rows`] and [`TensorDataset`] in memory, [`Labelled`] pairs of inputs and targets, [`Table`] of numbers from
//! CSV, tables of numbers and texts ([`Frame`]) as their [`Columns`] say, [`Idx`] files, [`ImageFolder`], text as characters or bytes ([`Tokens`]), files mapped into memory ([`MmapRecords`]),
//! and parts of any of them ([`Subset`]), one behind the other ([`ConcatDataset`]) or side by side ([`StackDataset`]). What can only be
//! read through is an [`IterableDataset`] with a loader of its own ([`IterableLoader`]).
//!
//! Which records come is an [`Order`], a [`Sampler`] or a [`BatchOrder`]; all of them are computed from (epoch, position), so a loader
//! resumes at once. What is drawn for a record comes from its [`Draw`] in [`Dataset::read_at`], the transforms of images
//! ([`Transform`], [`Transformed`]) too.
//!
//! Architecture invariant: rows are host memory until they become a batch; this crate knows no layer and no backend.
#![forbid(unsafe_code)]

mod augment;
mod columns;
mod csv;
mod dataset;
mod draws;
mod frame;
mod idx;
mod images;
mod iterable;
mod limits;
mod loader;
mod mapped;
mod order;
mod permutation;
mod pinned;
mod prepared;
mod rows;
mod sampler;
mod samples;
mod sets;
mod source;
mod strategy;
mod subset;
mod table;
mod text;
mod transform;

pub use adamant_formats::shown;
pub use augment::{Augment, Augmented};
pub use columns::{Answer, Becomes, Column, Columns, Habit, Missing, ScaleBy, TargetScale, learn, learn_classes};
pub use csv::{CsvOptions, Delimiter, Head, Seen, Survey};
pub use dataset::{AnyDataset, AnyRecord, BadRecord, Cause, Dataset, Description, Draw, Examples, Facts, Numbered, Place, Target, examples};
pub use draws::DrawRng;
pub use frame::{Frame, FrameFile, FrameOptions, Kind};
pub use idx::Idx;
pub use images::{ImageFolder, ImageOptions, is_image, read_image};
pub use iterable::{ChainDataset, IterableDataset, IterableLoader, IterableLoaderBuilder, IterableState, Records, ShuffledStream, StreamPass};
pub use limits::Limits;
#[cfg(feature = "stream")]
pub use loader::BatchStream;
pub use loader::{DataLoader, DataLoaderBuilder, Epoch, LoaderState, Policy};
pub use mapped::MmapRecords;
pub use order::Order;
pub use permutation::{Permutation, create_batches};
pub use pinned::{PinBatch, PinnedBatches};
pub use prepared::{FrameAnswers, FrameInputs, FrameSet};
pub use rows::{Labelled, Rows, Scale, TensorDataset};
pub use sampler::{
    BatchOrder, BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, fingerprint as sampler_fingerprint,
};
pub use samples::{in_batches, split_samples, stack_samples};
pub use sets::{Collated, ConcatDataset, JoinBatches, StackDataset};
pub use strategy::{DataStrategy, StreamShuffle, adaptive_batch_size, shuffle_stream};
pub use subset::{Pick, Subset, random_split, split_by_rule, split_tail};
pub use table::Table;
pub use text::{Decoder, TokenWindows, Tokens, Vocabulary};
pub use transform::{
    Affine, CenterCrop, ColorJitter, Compose, Grayscale, Image, Interpolate, Normalize, Pad, PadMode, RandAugment, RandomAffine, RandomApply, RandomCrop,
    RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomResizedCrop, RandomRotation, RandomVerticalFlip, Resize, Transform, Transformed,
};

use adamant_core::{Error, ErrorKind};
use std::path::Path;

/// An argument that makes no sense.
#[track_caller]
pub(crate) fn wrong(op: &'static str, what: String) -> Error {
    Error::new(op, ErrorKind::Argument(what))
}
/// A file that cannot be used.
#[track_caller]
pub(crate) fn file_error(op: &'static str, path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::new(op, ErrorKind::File { path: path.display().to_string(), reason: adamant_formats::shown_reason(reason.to_string()) })
}
