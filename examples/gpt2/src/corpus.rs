//! Tokens to learn from, and the rows of a batch. Rows follow from the seed and the batch's number alone, so a run that is gone on
//! with sees those that it would have seen.
use crate::options::{Options, TokenFormat, wrong};
use adamant::{Error, ErrorKind, Result, Tensor};
use std::path::Path;

/// The header of llm.c's files of tokens: 256 words of 32 bits, the first of which is this.
const LLMC: u32 = 20_240_520;
const LLMC_BYTES: usize = 1024;
/// Different tokens that are made up, and how many in all.
const MADE_UP: u64 = 251;
const MADE_UP_LENGTH: usize = 1 << 16;

/// Tokens as they lie in a file.
pub struct Corpus {
    bytes: Vec<u8>,
    width: usize,
}
impl Corpus {
    /// Of a file, or made up; each is below the vocabulary, and there are enough for a row and what follows it.
    ///
    /// # Errors
    /// `File`: it cannot be read, or holds no whole number of tokens. `Argument`: a token beyond the vocabulary, or too few of them.
    pub fn open(options: &Options) -> Result<Corpus> {
        let corpus = match &options.data {
            Some(path) => Corpus::read(path, options.token_format())?,
            None => Corpus::made_up(options.vocabulary),
        };
        if let Some((place, token)) = (0..corpus.len()).map(|k| (k, corpus.token(k))).find(|(_, token)| *token as usize >= options.vocabulary) {
            return wrong(format!("token {place} is {token}, and there are {} different ones", options.vocabulary), "see --format and --vocabulary");
        }
        if corpus.len() <= options.context {
            return wrong(format!("{} tokens are too few for rows of {} and what follows each", corpus.len(), options.context), "make --context smaller");
        }
        Ok(corpus)
    }
    fn read(path: &Path, format: TokenFormat) -> Result<Corpus> {
        let failed = |reason: String| Error::new("gpt2", ErrorKind::File { path: path.display().to_string(), reason });
        let mut bytes = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        let width = match format {
            TokenFormat::Bytes => 1,
            TokenFormat::U16 => 2,
            TokenFormat::U32 => 4,
        };
        if width > 1 && bytes.len() >= LLMC_BYTES && bytes.starts_with(&LLMC.to_le_bytes()) {
            bytes.drain(..LLMC_BYTES);
        }
        if !bytes.len().is_multiple_of(width) {
            return Err(failed(format!("{} bytes are no whole number of tokens of {width}", bytes.len())));
        }
        Ok(Corpus { bytes, width })
    }
    /// A token mostly follows from the one before it, so that there is something to learn; else it is drawn.
    fn made_up(vocabulary: usize) -> Corpus {
        let different = MADE_UP.min(vocabulary as u64);
        let mut token = 1 % different;
        let bytes = (0..MADE_UP_LENGTH as u64).map(|k| {
            let drawn = mixed(k);
            token = if drawn % 8 == 0 { (drawn >> 8) % different } else { (5 * token + 3) % different };
            // Below 251.
            token as u8
        });
        Corpus { bytes: bytes.collect(), width: 1 }
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }
    fn token(&self, k: usize) -> u32 {
        let bytes = self.bytes.get(k * self.width..(k + 1) * self.width).unwrap_or_default();
        bytes.iter().rev().fold(0, |token, byte| token << 8 | u32::from(*byte))
    }
    /// Rows `i64[batch, context]` and what follows each of their tokens, of the small batch of this number.
    pub fn batch(&self, options: &Options, number: u64) -> (Tensor, Tensor) {
        let (rows, context) = (options.batch, options.context);
        let begins = (0..rows as u64).map(|row| {
            let drawn = mixed(mixed(options.seed) ^ mixed(number.wrapping_mul(rows as u64).wrapping_add(row)));
            (drawn % (self.len() - context) as u64) as usize
        });
        let begins: Vec<usize> = begins.collect();
        let from = |ahead: usize| {
            let all: Vec<i64> = begins.iter().flat_map(|begin| (0..context).map(move |k| i64::from(self.token(begin + ahead + k)))).collect();
            Tensor::from_vec(all, [rows, context])
        };
        (from(0), from(1))
    }
}
/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a word from a word.
fn mixed(word: u64) -> u64 {
    let z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn options(more: &[&str]) -> Options {
        Options::parse_from(["gpt2", "--vocabulary", "300", "--context", "4", "--batch", "3"].iter().chain(more))
    }
    fn open(name: &str, bytes: &[u8], more: &[&str]) -> Result<Corpus> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Corpus::open(&options(&[&["--data", path.to_str().unwrap()], more].concat()))
    }
    /// The tokens 0, 7, 14, ... in so many bytes each.
    fn sevens(width: usize) -> Vec<u8> {
        (0..40u32).flat_map(|k| (7 * k).to_le_bytes()[..width].to_vec()).collect()
    }
    #[test]
    fn tokens_that_are_read_in_another_width_or_with_their_header() {
        let header = [&LLMC.to_le_bytes()[..], &[9; LLMC_BYTES - 4]].concat();
        let with_header = |width| [&header[..], &sevens(width)].concat();
        let text: Vec<u8> = (0..=255).collect();
        for (name, bytes, more) in [
            ("a.bin", sevens(2), &[][..]),
            ("a.bin", with_header(2), &[]),
            ("a.txt", sevens(2), &["--format", "u16"]),
            ("a.bin", sevens(4), &["--format", "u32"]),
            ("a.bin", with_header(4), &["--format", "u32"]),
        ] {
            let corpus = open(name, &bytes, more).unwrap();
            assert_eq!((corpus.len(), corpus.token(0), corpus.token(39)), (40, 0, 273), "{name} {more:?}");
        }
        let corpus = open("a.txt", &text, &[]).unwrap();
        assert_eq!((corpus.len(), corpus.token(200)), (256, 200));
    }
    #[test]
    fn a_file_that_cannot_be_learned_from() {
        for (bytes, more, kind, says) in [
            (&sevens(2)[..79], &[][..], "file", "no whole number of tokens"),
            (&sevens(2)[..8], &[], "argument", "4 tokens are too few"),
            (&sevens(2), &["--vocabulary", "273"], "argument", "token 39 is 273"),
        ] {
            let e = open("a.bin", bytes, more).err().unwrap();
            assert!(e.kind().word() == kind && e.to_string().contains(says), "{e}");
        }
        let e = Corpus::open(&options(&["--data", "nowhere.bin"])).err().unwrap();
        assert_eq!(e.kind().word(), "file", "{e}");
    }
    #[test]
    fn rows_that_are_not_followed_by_what_follows_or_come_again() {
        adamant::Device::reference().scoped(|| {
            let corpus = open("a.bin", &sevens(2), &[]).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for number in 0..200 {
                let (x, y) = corpus.batch(&options(&[]), number);
                let (x, y) = (x.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap());
                assert!(x.iter().zip(&y).all(|(a, b)| a + 7 == *b), "{x:?} {y:?}");
                assert!(y.iter().max() <= Some(&273));
                seen.extend(x.chunks(4).map(|row| row[0]));
            }
            // Every place is a beginning.
            assert_eq!(seen.len(), 36);
            let of = |seed: &str, number| corpus.batch(&options(&["--seed", seed]), number).0.to_vec::<i64>().unwrap();
            assert_eq!(of("1", 3), of("1", 3));
            assert_ne!(of("1", 3), of("2", 3));
        });
    }
}
