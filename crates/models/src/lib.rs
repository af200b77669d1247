//! Networks that others have trained: their parts under the names that torchvision and transformers give them, so that a file
//! written there is loaded by name ([`Weights`], [`FromFolder`]) and gives the same numbers here.
//!
//! A network is a struct of layers with a configuration of serde; what runs is `forward`. What names in files may look like
//! beside the network's own is data ([`Naming`]).
//!
//! Architecture invariant: composes layers of nn and reads files through formats; no backend, no gradient, no training.
#![forbid(unsafe_code)]

mod attend;
mod bert;
pub mod generate;
pub mod gguf;
mod gpt2;
mod load;
mod resnet;

pub use adamant_nn::{CacheStorage, KeyValueCache};
pub use attend::HiddenActivation;
pub use bert::{Bert, BertClassifier, BertConfig, BertInputs, BertMaskedLm, ProblemType};
pub use gpt2::{Gpt2, Gpt2Config, Gpt2Inputs, Gpt2LmHead};
pub use load::{FromFolder, LoadWeights, Naming, Weights};
pub use resnet::{ResNet, ResNetOptions, ResidualKind};
