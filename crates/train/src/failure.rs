//! How a run, or a command about one, can fail: the kind decides the exit code, the text is for a person.
use crate::{
    folder::text_of,
    storage::{Operation, StorageError},
};
use adamant_core::ErrorKind;
use serde_json::json;
use std::{fmt, path::PathBuf};

/// Why a run did not end well.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The command line asks for something that makes no sense.
    Usage(String),
    /// A file cannot be read, or its content makes no sense: a description, data, a checkpoint.
    Input(String),
    /// The device is not there, or was lost.
    Device(String),
    /// The run began and failed.
    Run(String),
    /// The loss or a gradient is no number any more.
    Diverged(String),
    /// The device or the machine has no memory left.
    Memory(String),
    /// The disk is full, or a file could not be written.
    Storage(StorageError),
    /// Another rank of the run is gone or has failed, or the ranks do not do the same.
    PeerLost(String),
    /// A signal ended the run; what it had learned is in the checkpoint.
    Interrupted {
        /// its number: SIGHUP is 1, SIGINT 2, SIGTERM 15, SIGXCPU 24
        signal: i32,
        /// steps done
        step: u64,
        /// where the state is
        checkpoint: Option<PathBuf>,
    },
}
impl Failure {
    /// The exit code of a command that ends so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Run(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Diverged(_) => 3,
            Failure::Input(_) => 4,
            Failure::Memory(_) => 5,
            Failure::Storage(_) => 6,
            Failure::PeerLost(_) => 7,
            Failure::Device(_) => 9,
            Failure::Interrupted { signal, .. } => 128u8.wrapping_add(*signal as u8),
        }
    }
    /// One word for machines.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Run(_) => "run",
            Failure::Usage(_) => "usage",
            Failure::Diverged(_) => "diverged",
            Failure::Input(_) => "input",
            Failure::Memory(_) => "memory",
            Failure::Storage(_) => "storage",
            Failure::PeerLost(_) => "peer_lost",
            Failure::Device(_) => "device",
            Failure::Interrupted { .. } => "interrupted",
        }
    }
    /// What a person could do about it, where that is known.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Failure::Diverged(_) => Some(
                "try a lower learning rate, a warm-up, or `clip = { kind = \"global_norm\" }`; `stability.handling_type = \"skip\"` passes over such steps",
            ),
            Failure::Memory(text) if text.contains("of memory are needed for") => Some("make that layer smaller, or train where there is more memory"),
            Failure::Memory(_) => Some("try a smaller `batch`, and `accumulate` to keep its effect"),
            Failure::Storage(e) if !e.is_full() => None,
            Failure::Storage(e) if e.op == Operation::Print => Some("free some space, or write somewhere else"),
            Failure::Storage(_) => Some("free some space and go on with `--resume auto`; `checkpoint.on_error = \"warn\"` trains on without"),
            Failure::Device(_) => Some("`adamant info` lists what this machine has"),
            Failure::PeerLost(_) => Some("what the other ranks say comes first; go on with `--resume auto`, on as many ranks as there are"),
            Failure::Interrupted { .. } => Some("go on with `--resume auto`"),
            Failure::Run(_) | Failure::Usage(_) | Failure::Input(_) => None,
        }
    }
    /// The failure as a JSON document: code, kind, message, help, context.
    pub fn to_json(&self) -> serde_json::Value {
        let context = match self {
            Failure::Interrupted { signal, step, checkpoint } => json!({ "signal": signal, "step": step, "checkpoint": checkpoint.as_deref().map(text_of) }),
            Failure::Storage(e) => e.to_json(),
            _ => json!({}),
        };
        json!({ "error": { "code": self.exit_code(), "kind": self.kind(), "message": self.to_string(), "help": self.help(), "context": context } })
    }
}
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text)
            | Failure::Input(text)
            | Failure::Device(text)
            | Failure::Run(text)
            | Failure::Diverged(text)
            | Failure::Memory(text)
            | Failure::PeerLost(text) => f.write_str(&cut(text, LONGEST)),
            Failure::Storage(e) => f.write_str(&cut(&e.to_string(), LONGEST)),
            Failure::Interrupted { signal, step, checkpoint } => {
                let name = match signal {
                    1 => "SIGHUP",
                    2 => "SIGINT",
                    15 => "SIGTERM",
                    24 => "SIGXCPU",
                    _ => "a signal",
                };
                write!(f, "interrupted by {name} after step {step}")?;
                match checkpoint {
                    Some(path) => write!(f, "; checkpoint in {}", path.display()),
                    None => write!(f, "; no checkpoint was written"),
                }
            }
        }
    }
}
/// The longest text of a failure, and the longest piece of a file in it, in characters.
const LONGEST: usize = 4000;
const PIECE: usize = 200;
/// A piece of a file as it stands in a message: what would move the cursor of a terminal or give it orders is written out,
/// and a long piece loses its middle.
pub(crate) fn shown(piece: &str) -> String {
    cut(piece, PIECE)
}
fn cut(text: &str, most: usize) -> String {
    let plain = |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
    let written = |part: &mut dyn Iterator<Item = char>| -> String {
        part.fold(String::new(), |mut line, c| {
            if plain(c) {
                line.push(c)
            } else {
                line.extend(c.escape_default())
            }
            line
        })
    };
    let length = text.chars().count();
    if length <= most {
        return written(&mut text.chars());
    }
    let half = most / 2;
    let (head, tail) = (written(&mut text.chars().take(half)), written(&mut text.chars().skip(length - half)));
    format!("{head} ... {} characters ... {tail}", length - 2 * half)
}
impl std::error::Error for Failure {}
/// The op, what is wrong, and in which layer of the description; the line of this crate's source that called it is left out.
pub(crate) fn in_words(error: &adamant_core::Error) -> String {
    let mut text = format!("{}: {}", error.op(), error.kind());
    let layer = error.scope();
    if !layer.is_empty() {
        text += &format!("; in layer {layer}");
    }
    if let Some(hint) = error.hint_text() {
        text += &format!(". Hint: {hint}");
    }
    text
}
impl From<adamant_core::Error> for Failure {
    fn from(error: adamant_core::Error) -> Failure {
        match error.kind() {
            // Op and source line are those of a reader in this crate: of no use to who gave the file.
            kind @ ErrorKind::File { .. } => Failure::Input(kind.to_string()),
            ErrorKind::PeerLost { .. } | ErrorKind::PeerFailed { .. } | ErrorKind::RanksDiffer { .. } => Failure::PeerLost(error.kind().to_string()),
            ErrorKind::EngineAbsent(_) => Failure::Device(error.kind().to_string()),
            ErrorKind::DeviceAbsent(_) => Failure::Device(in_words(&error)),
            ErrorKind::DeviceLost(_) => Failure::Device(in_words(&error)),
            ErrorKind::OutOfMemory { .. } => Failure::Memory(in_words(&error)),
            _ => Failure::Run(in_words(&error)),
        }
    }
}
