//! The bytes of a file, inflated if it is gzipped, under limits.
use crate::Limits;
use flate2::bufread::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

const BUFFER: usize = 64 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file that is read from its beginning to its end.
pub(crate) struct Source {
    pub bytes: Box<dyn BufRead + Send>,
    /// how many bytes there are at most: the file's, or what it may inflate to
    pub most: u64,
}
/// Opens a file: gzipped if it begins as such, or if its name says so.
pub(crate) fn open(path: &Path, limits: &Limits) -> io::Result<Source> {
    let file = adamant_formats::regular::open(path)?;
    let len = file.metadata()?.len();
    let mut file = BufReader::with_capacity(BUFFER, file);
    let zipped = file.fill_buf()?.starts_with(&GZIP) || path.extension().is_some_and(|e| e == "gz");
    if !zipped {
        return Ok(Source { bytes: Box::new(file), most: len });
    }
    let most = limits.inflated(len);
    let inflated: Limited<MultiGzDecoder<BufReader<File>>> = Limited { source: MultiGzDecoder::new(file), left: most, most, len };
    Ok(Source { bytes: Box::new(BufReader::with_capacity(BUFFER, inflated)), most })
}

/// A reader that says so when there is more than it may give.
struct Limited<R> {
    source: R,
    left: u64,
    most: u64,
    len: u64,
}
impl<R: Read> Read for Limited<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !out.is_empty() {
            return match self.source.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other(format!(
                    "its {} bytes inflate to more than {}; if that is right, raise the limits `inflate_ratio` and `inflated_bytes`",
                    self.len, self.most
                ))),
            };
        }
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.source.read(&mut out[..most])?;
        self.left -= n as u64;
        Ok(n)
    }
}
