//! Text for language models: a vocabulary, the tokens of a text, and windows of them with the token that follows each.
use crate::{BadRecord, Dataset, Description, Facts, Limits, Place, Target, dataset::row_of, file_error, wrong};
use adamant_core::{DType, Result, Shape, Tensor};
use std::{
    collections::{BTreeSet, HashMap},
    io::Read,
    path::Path,
    sync::Arc,
};

/// Bytes of text beyond which a file is refused: 4 GiB.
pub const MAX_BYTES: u64 = 4 << 30;

/// What a token stands for: a character or a byte. Cheap to clone.
///
/// ```
/// use adamant_data::Vocabulary;
///
/// let vocabulary = Vocabulary::characters("hello");
/// assert_eq!(vocabulary.text(), "ehlo");
/// assert_eq!(vocabulary.encode("hole")?, [1, 3, 2, 0]);
/// assert_eq!(vocabulary.decode(&[1, 0]), "he");
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// sorted; none for bytes
    characters: Option<Arc<[char]>>,
}
impl Vocabulary {
    /// The distinct characters of a text, sorted.
    pub fn characters(text: &str) -> Vocabulary {
        let distinct: BTreeSet<char> = text.chars().collect();
        Vocabulary { characters: Some(distinct.into_iter().collect()) }
    }
    /// All 256 bytes.
    pub fn bytes() -> Vocabulary {
        Vocabulary { characters: None }
    }
    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.characters.as_ref().map_or(256, |c| c.len())
    }
    /// No tokens?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Its characters in order: [`Vocabulary::characters`] of this text is the same vocabulary. Empty for bytes.
    pub fn text(&self) -> String {
        self.characters.iter().flat_map(|c| c.iter()).collect()
    }
    /// Is each token a byte?
    pub fn is_bytes(&self) -> bool {
        self.characters.is_none()
    }
    /// The tokens of a text.
    ///
    /// # Errors
    /// A character that is not in the vocabulary, with its position.
    #[track_caller]
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let _call = adamant_core::scope::call("encode");
        let Some(characters) = &self.characters else { return Ok(text.bytes().map(u32::from).collect()) };
        let place: HashMap<char, u32> = characters.iter().zip(0..).map(|(c, k)| (*c, k)).collect();
        // Most text is ASCII: one look instead of a hash.
        let ascii: [Option<u32>; 128] = std::array::from_fn(|c| place.get(&(c as u8 as char)).copied());
        let token = |(k, c): (usize, char)| {
            let token = if c.is_ascii() { ascii[c as usize] } else { place.get(&c).copied() };
            token.ok_or_else(|| wrong("encode", format!("character {k}, {c:?}, is not among the {} of the vocabulary", characters.len())))
        };
        text.chars().enumerate().map(token).collect()
    }
    /// The text of tokens that come one by one.
    pub fn decoder(&self) -> Decoder {
        Decoder { vocabulary: self.clone(), held: Vec::new() }
    }
    /// The text of some tokens. What is no token, or no UTF-8 among bytes, becomes the replacement character.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.characters {
            Some(characters) => tokens.iter().map(|t| characters.get(*t as usize).copied().unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
            None => {
                let bytes: Vec<u8> = tokens.iter().map(|t| u8::try_from(*t).unwrap_or(0xff)).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        }
    }
}

/// Text from tokens that come one by one: of bytes, those of an unfinished character are held until it is whole.
///
/// ```
/// let mut decoder = adamant_data::Vocabulary::bytes().decoder();
/// assert_eq!([0xc3, 0xa9, 0x21].map(|byte| decoder.push(byte)), ["", "é", "!"]);
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    vocabulary: Vocabulary,
    held: Vec<u8>,
}
impl Decoder {
    /// The text that is whole with this token. What is no token, or no UTF-8 among bytes, becomes the replacement character.
    pub fn push(&mut self, token: u32) -> String {
        if !self.vocabulary.is_bytes() {
            return self.vocabulary.decode(&[token]);
        }
        self.held.push(u8::try_from(token).unwrap_or(0xff));
        let mut text = String::new();
        while let Err(e) = std::str::from_utf8(&self.held) {
            let Some(bad) = e.error_len() else { return text };
            text += &String::from_utf8_lossy(&self.held[..e.valid_up_to() + bad]);
            self.held.drain(..e.valid_up_to() + bad);
        }
        text += &String::from_utf8_lossy(&self.held);
        self.held.clear();
        text
    }
    /// What is left of a character that was never finished: the replacement character, or nothing.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// The tokens of a text. Cheap to clone.
///
/// ```
/// use adamant_data::{Dataset, Tokens};
/// # adamant_core::Device::reference().make_current();
///
/// let text = Tokens::characters("hello world");
/// let (train, valid) = text.split_tail(0.3)?;
/// assert_eq!((train.len(), valid.len()), (7, 4));
/// // A window at every place, for training in any order; one after the other, for evaluation.
/// assert_eq!((train.windows(4)?.len(), train.windows(2)?.stride(2)?.len()), (3, 3));
/// let (x, y) = train.windows(4)?.collate(vec![1])?;
/// assert_eq!(x.to_vec::<i64>()?, text.vocabulary().encode("ello")?.iter().map(|t| *t as i64).collect::<Vec<_>>());
/// assert_eq!(y.dims::<2>()?, [1, 4]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    path: Arc<Path>,
    vocabulary: Vocabulary,
    tokens: Arc<[u32]>,
    /// tokens that stand for bytes that are no UTF-8, and the first such byte of each
    bad: Arc<[(usize, usize)]>,
    start: usize,
    end: usize,
}
impl Tokens {
    /// A text by its characters.
    pub fn characters(text: &str) -> Tokens {
        let vocabulary = Vocabulary::characters(text);
        // Of its own text, every character is in it.
        let tokens = vocabulary.encode(text).unwrap_or_default();
        Tokens::of(Path::new("<memory>"), vocabulary, tokens)
    }
    /// A text by its bytes.
    pub fn bytes(bytes: &[u8]) -> Tokens {
        Tokens::of(Path::new("<memory>"), Vocabulary::bytes(), bytes.iter().map(|b| u32::from(*b)).collect())
    }
    /// A text by the tokens of a vocabulary that is there already, such as that of a trained model.
    ///
    /// # Errors
    /// As [`Vocabulary::encode`].
    #[track_caller]
    pub fn with_vocabulary(text: &str, vocabulary: &Vocabulary) -> Result<Tokens> {
        Ok(Tokens::of(Path::new("<memory>"), vocabulary.clone(), vocabulary.encode(text)?))
    }
    /// A file by its characters.
    ///
    /// # Errors
    /// `File`, if it cannot be read, is over [`MAX_BYTES`], or is no UTF-8.
    #[track_caller]
    pub fn read_characters(path: impl AsRef<Path>) -> Result<Tokens> {
        let _call = adamant_core::scope::call("read_text");
        let path = path.as_ref();
        let text = String::from_utf8(read(path)?).map_err(|e| file_error("read_text", path, e.utf8_error()))?;
        Ok(Tokens { path: path.into(), ..Tokens::characters(&text) })
    }
    /// A file by its characters, of which some may be damaged: a window that holds bytes that are no UTF-8 is a bad record.
    ///
    /// # Errors
    /// `File`, if it cannot be read, is over [`MAX_BYTES`], or has more such places than [`Limits::bad_records`].
    #[track_caller]
    pub fn read_characters_or_bad(path: impl AsRef<Path>) -> Result<Tokens> {
        let (path, limit) = (path.as_ref(), Limits::default().bad_records);
        let bytes = read(path)?;
        let (mut text, mut bad, mut at) = (String::new(), Vec::new(), 0);
        let mut characters = 0;
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            characters += chunk.valid().chars().count();
            at += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                bad.push((characters + bad.len(), at));
                at += chunk.invalid().len();
            }
            if bad.len() > limit {
                return Err(file_error("read_text", path, format!("more than {limit} places of it are no UTF-8; read it as bytes")));
            }
        }
        drop(bytes);
        let vocabulary = Vocabulary::characters(&text);
        let mut tokens = vocabulary.encode(&text)?;
        drop(text);
        // What stands at a bad place is never read.
        bad.iter().for_each(|(place, _)| tokens.insert(*place, 0));
        Ok(Tokens { bad: bad.into(), ..Tokens::of(path, vocabulary, tokens) })
    }
    /// A file by its bytes.
    ///
    /// # Errors
    /// `File`, if it cannot be read or is over [`MAX_BYTES`].
    #[track_caller]
    pub fn read_bytes(path: impl AsRef<Path>) -> Result<Tokens> {
        let path = path.as_ref();
        Ok(Tokens { path: path.into(), ..Tokens::bytes(&read(path)?) })
    }
    fn of(path: &Path, vocabulary: Vocabulary, tokens: Vec<u32>) -> Tokens {
        Tokens { path: path.into(), vocabulary, start: 0, end: tokens.len(), tokens: tokens.into(), bad: Arc::from([]) }
    }
    /// What the tokens stand for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }
    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[self.start..self.end]
    }
    /// How many tokens.
    pub fn len(&self) -> usize {
        self.end - self.start
    }
    /// No tokens?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// (the rest, the end): the first part has `floor(len * (1 - fraction))` tokens. Both share one vocabulary.
    ///
    /// # Errors
    /// A fraction that is not in 0 to 1.
    #[track_caller]
    pub fn split_tail(&self, fraction: f64) -> Result<(Tokens, Tokens)> {
        let cut = self.start + crate::subset::tail(self.len(), fraction)?;
        Ok((Tokens { end: cut, ..self.clone() }, Tokens { start: cut, ..self.clone() }))
    }
    /// Windows of `context` tokens, one at each place. A shuffling loader over them draws windows at random, each once in
    /// an epoch; [`crate::Order::Replacement`] draws them independently.
    ///
    /// # Errors
    /// A context of 0.
    #[track_caller]
    pub fn windows(&self, context: usize) -> Result<TokenWindows> {
        let _call = adamant_core::scope::call("windows");
        if context == 0 {
            return Err(wrong("windows", "a window has at least one token".into()));
        }
        Ok(TokenWindows { tokens: self.clone(), context, stride: 1 })
    }
}
#[track_caller]
fn read(path: &Path) -> Result<Vec<u8>> {
    let error = |e: std::io::Error| file_error("read_text", path, e);
    let mut bytes = Vec::new();
    crate::source::open(path, &Limits::default()).map_err(error)?.bytes.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(error)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(file_error("read_text", path, format!("it is over the limit of {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Windows of a text: inputs `i64[batch, context]`, and as targets the token after each, `i64[batch, context]`.
#[derive(Clone, Debug)]
pub struct TokenWindows {
    tokens: Tokens,
    context: usize,
    stride: usize,
}
impl TokenWindows {
    /// Only every `stride`-th window. With `stride` equal to the context, the windows lie one after the other and each
    /// token is predicted once; tokens at the end that fill no window are left out.
    ///
    /// # Errors
    /// A stride of 0.
    #[track_caller]
    pub fn stride(mut self, stride: usize) -> Result<TokenWindows> {
        if stride == 0 {
            return Err(wrong("windows", "a stride is at least 1".into()));
        }
        self.stride = stride;
        Ok(self)
    }
    /// The text.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }
    /// Tokens in a window.
    pub fn context(&self) -> usize {
        self.context
    }
}
impl Dataset for TokenWindows {
    type Record = usize;
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        // The last window ends one before the last token, which follows it.
        match self.tokens.len().checked_sub(self.context + 1) {
            Some(last) => last / self.stride + 1,
            None => 0,
        }
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        let index = row_of(self, index)?;
        let start = self.tokens.start + index * self.stride;
        let next = self.tokens.bad.partition_point(|(place, _)| *place < start);
        match self.tokens.bad.get(next) {
            // The token after the last one of the window is a target.
            Some((place, byte)) if *place <= start + self.context => Err(BadRecord::new(self.locate(index), format!("byte {byte} is no UTF-8"))),
            _ => Ok(index),
        }
    }
    fn collate(&self, records: Vec<usize>) -> Result<(Tensor, Tensor)> {
        let shape = [records.len(), self.context];
        let windows = |shift: usize| -> Result<Tensor> {
            let mut out = Vec::with_capacity(records.len() * self.context);
            for record in &records {
                let start = record * self.stride + shift;
                let window = self.tokens.tokens().get(start..start + self.context);
                let window = window.ok_or_else(|| wrong("windows", format!("there is no window {record} of {}", self.len())))?;
                out.extend(window.iter().map(|t| i64::from(*t)));
            }
            Tensor::from_vec(out, shape).ok()
        };
        Ok((windows(0)?, windows(1)?))
    }
    fn locate(&self, index: usize) -> Place {
        // By token; of bytes and of ASCII, that is the byte.
        let offset = self.tokens.start as u64 + index as u64 * self.stride as u64;
        Place { file: self.tokens.path.to_path_buf(), index, offset }
    }
    fn describe(&self) -> Description {
        let inputs = Shape::new(&[self.context]).ok().map(|shape| Facts { shape, dtype: DType::I64 });
        Description { inputs, targets: Some(Target::NextToken { vocabulary: self.tokens.vocabulary.len() }), target_scale: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    #[test]
    fn characters_that_change_on_the_way() {
        let text = "Zwölf Boxkämpfer\n\u{1F980} jagen";
        let tokens = Tokens::characters(text);
        assert_eq!(tokens.vocabulary().decode(tokens.tokens()), text);
        assert_eq!(Vocabulary::characters(&tokens.vocabulary().text()), *tokens.vocabulary());
        let bytes = Tokens::bytes(text.as_bytes());
        assert_eq!((bytes.vocabulary().decode(bytes.tokens()), bytes.vocabulary().len()), (text.to_string(), 256));
        let error = tokens.vocabulary().encode("ZQ").unwrap_err().to_string();
        assert!(error.contains("character 1, 'Q'"), "{error}");
        assert_eq!(tokens.vocabulary().decode(&[9999]), "\u{FFFD}");
        assert!(Tokens::characters("").windows(1).unwrap().is_empty());
    }
    #[test]
    fn a_character_that_falls_apart_between_tokens() {
        let text = "a\u{e9}\u{20ac}\u{1F980}z";
        let mut decoder = Vocabulary::bytes().decoder();
        let pieces: Vec<String> = text.bytes().map(|b| decoder.push(u32::from(b))).collect();
        assert_eq!((pieces.concat().as_str(), decoder.finish().as_str()), (text, ""));
        assert!(pieces.iter().all(|p| p.chars().count() <= 1));
        // What is cut off or no UTF-8 is told once, and what follows it is not lost.
        let mut decoder = Vocabulary::bytes().decoder();
        let pieces: String = [0xe2, 0x82, 0x41, 0xff, 0x42, 999, 0xf0].map(|b| decoder.push(b)).concat();
        assert_eq!((pieces.as_str(), decoder.finish().as_str()), ("\u{fffd}A\u{fffd}B\u{fffd}", "\u{fffd}"));
    }
    #[test]
    fn a_window_too_many_or_a_target_that_is_not_the_next_token() {
        Device::reference().make_current();
        let tokens = Tokens::bytes(&(0..20).collect::<Vec<u8>>());
        for (context, stride, starts) in
            [(4, 1, (0..16).collect::<Vec<i64>>()), (4, 4, vec![0, 4, 8, 12]), (19, 1, vec![0]), (20, 1, vec![]), (3, 8, vec![0, 8, 16])]
        {
            let windows = tokens.windows(context).unwrap().stride(stride).unwrap();
            assert_eq!(windows.len(), starts.len(), "{context} {stride}");
            for (k, start) in starts.iter().enumerate() {
                let (x, y) = windows.collate(vec![windows.read(k).unwrap()]).unwrap();
                let expected: Vec<i64> = (*start..start + context as i64).collect();
                assert_eq!(x.to_vec::<i64>().unwrap(), expected);
                assert_eq!(y.to_vec::<i64>().unwrap(), expected.iter().map(|t| t + 1).collect::<Vec<_>>());
            }
            assert!(windows.read(starts.len()).is_err() && windows.collate(vec![starts.len() + 20]).is_err());
        }
        assert!(tokens.windows(0).is_err() && tokens.windows(1).unwrap().stride(0).is_err());
    }
    #[test]
    fn a_tail_that_overlaps_the_rest() {
        let (train, valid) = Tokens::bytes(&[7; 1_115_394]).split_tail(0.1).unwrap();
        // As Python's int(0.9 * n) cuts.
        assert_eq!((train.len(), valid.len()), (1_003_854, 111_540));
        let (a, b) = Tokens::characters("abcdefghij").split_tail(0.25).unwrap();
        assert_eq!(a.vocabulary().decode(a.tokens()) + &b.vocabulary().decode(b.tokens()), "abcdefghij");
        let (c, _) = b.split_tail(0.5).unwrap();
        assert_eq!(c.vocabulary().decode(c.tokens()), "h");
    }
    #[test]
    fn a_file_that_is_no_text_and_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.txt");
        std::fs::write(&path, b"ok \xff").unwrap();
        let error = Tokens::read_characters(&path).unwrap_err().to_string();
        assert!(error.contains("x.txt") && error.contains("index 3"), "{error}");
        assert_eq!(Tokens::read_bytes(&path).unwrap().tokens(), [111, 107, 32, 255]);
        assert!(Tokens::read_characters(folder.path().join("none")).is_err());
        // Or only the windows are bad that hold such a place: of "a?bcdef?", those of 2 tokens and a target around both.
        std::fs::write(&path, b"a\xffbcd\xc3\xa9f\xe2\x82").unwrap();
        let tokens = Tokens::read_characters_or_bad(&path).unwrap();
        let windows = tokens.windows(2).unwrap();
        let bad: Vec<usize> = (0..windows.len()).filter(|k| windows.read(*k).is_err()).collect();
        assert_eq!((tokens.len(), tokens.vocabulary().text().as_str(), bad), (8, "abcdf\u{e9}", vec![0, 1, 5]));
        assert!(windows.read(0).unwrap_err().reason.contains("byte 1 is no UTF-8") && windows.read(5).unwrap_err().reason.contains("byte 8"));
        let (_, tail) = tokens.split_tail(0.5).unwrap();
        let tail = tail.windows(1).unwrap();
        assert_eq!((0..tail.len()).filter(|k| tail.read(*k).is_err()).collect::<Vec<_>>(), [2]);
    }
}
