//! TensorBoard event files: what a run measures, in the form that TensorBoard reads.
//!
//! [`EventWriter`] turns each measurement into a protobuf `Event` and appends it to one file as a TFRecord: length
//! (u64), masked CRC-32C of the length, the message, masked CRC-32C of the message, all little-endian. [`read`] is the
//! way back, and refuses every byte that was changed.
//!
//! Invariant: a file is only ever appended to, record by record, and each start of a run writes a file of its own. A
//! resumed run says from which step on what was written before is lost ([`EventWriter::resume`]); TensorBoard drops it.
//!
//! Sources: TensorFlow's `tfrecord` format and its `event.proto`, `summary.proto`, `tensor.proto`.
use crate::folder::Lines;
use crc::{CRC_32_ISCSI, Crc};
use prost::Message;
use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

mod messages;
use messages::{Event, EventWhat, Histogram, PluginData, SessionLog, Summary, SummaryMetadata, TensorProto, TensorShape, Value, ValueMeasured};

/// The longest record that [`read`] takes, in bytes.
pub const MAX_RECORD: usize = 64 << 20;
/// Bytes that are gathered before they are written.
const BUFFER: usize = 8 << 10;
/// Buckets of a histogram.
const BUCKETS: usize = 30;
static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Appends measurements to an event file.
///
/// ```
/// # let folder = std::env::temp_dir().join("adamant-doc-events");
/// use adamant_train::events::{self, EventWriter, Payload};
/// let mut writer = EventWriter::create(&folder)?;
/// writer.scalar("train/loss", 10, 0.25)?;
/// writer.flush()?;
/// let records = events::read(writer.path())?;
/// assert_eq!(records[1].payload, Payload::Scalar { tag: "train/loss".into(), value: 0.25 });
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct EventWriter {
    file: Lines,
}
impl EventWriter {
    /// A new file `events.out.tfevents.<seconds>.<host>.<pid>` in `folder`, which is made where it is missing.
    ///
    /// # Errors
    /// The folder or the file cannot be made or written.
    pub fn create(folder: &Path) -> io::Result<EventWriter> {
        EventWriter::start(folder, None)
    }
    /// As [`EventWriter::create`], for a run that goes on: what older files in the folder hold of `purge_step` and
    /// later steps is lost work, and TensorBoard drops it. A run resumed from a checkpoint of step n passes n + 1.
    ///
    /// # Errors
    /// As [`EventWriter::create`].
    pub fn resume(folder: &Path, purge_step: u64) -> io::Result<EventWriter> {
        EventWriter::start(folder, Some(purge_step))
    }
    fn start(folder: &Path, purge_step: Option<u64>) -> io::Result<EventWriter> {
        std::fs::create_dir_all(folder)?;
        let (file, path) = new_file(folder)?;
        let mut writer = EventWriter { file: Lines::new(file, path) };
        writer.event(0, EventWhat::FileVersion("brain.Event:2".into()))?;
        if let Some(step) = purge_step {
            const START: i32 = 1;
            writer.event(step, EventWhat::SessionLog(SessionLog { status: START }))?;
        }
        writer.flush()?;
        Ok(writer)
    }
    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
    /// Bytes that were not handed to the operating system yet.
    pub fn waiting(&self) -> usize {
        self.file.waiting()
    }
    /// A number at a step. It is stored as f32, as TensorBoard wants it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f64) -> io::Result<()> {
        self.summary(tag, step, ValueMeasured::SimpleValue(value as f32), None)
    }
    /// A text at a step; TensorBoard shows it as Markdown.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn text(&mut self, tag: &str, step: u64, text: &str) -> io::Result<()> {
        const STRING: i32 = 7;
        let tensor = TensorProto { dtype: STRING, shape: Some(TensorShape {}), string_val: vec![text.as_bytes().to_vec()] };
        self.summary(tag, step, ValueMeasured::Tensor(tensor), Some("text"))
    }
    /// The distribution of some numbers at a step, in 30 buckets of equal width. Numbers that are not finite have no
    /// place in it and are left out.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn histogram(&mut self, tag: &str, step: u64, values: &[f64]) -> io::Result<()> {
        self.summary(tag, step, ValueMeasured::Histogram(buckets(values)), None)
    }
    /// Hands everything to the operating system.
    ///
    /// # Errors
    /// The file cannot be written; what it lacks is tried again with the next call.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(io::Error::other)
    }
    fn summary(&mut self, tag: &str, step: u64, measured: ValueMeasured, plugin: Option<&str>) -> io::Result<()> {
        let metadata = plugin.map(|name| SummaryMetadata { plugin_data: Some(PluginData { plugin_name: name.into() }) });
        let value = Value { tag: tag.into(), metadata, measured: Some(measured) };
        self.event(step, EventWhat::Summary(Summary { value: vec![value] }))
    }
    fn event(&mut self, step: u64, what: EventWhat) -> io::Result<()> {
        let wall_time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        let message = Event { wall_time, step: i64::try_from(step).unwrap_or(i64::MAX), what: Some(what) }.encode_to_vec();
        let length = (message.len() as u64).to_le_bytes();
        let record = [&length[..], &masked(&length).to_le_bytes(), &message, &masked(&message).to_le_bytes()].concat();
        self.file.add(&record).map_err(io::Error::other)?;
        if self.file.waiting() > BUFFER { self.flush() } else { Ok(()) }
    }
}

/// What was not flushed is written at last, as well as it goes.
impl Drop for EventWriter {
    fn drop(&mut self) {
        let _ = self.file.flush();
    }
}

/// TFRecord's masked CRC: a CRC of data that holds CRCs is weak, so it is rotated and shifted.
fn masked(bytes: &[u8]) -> u32 {
    CRC.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
/// A file that nobody has: two starts within one second get numbers at the end of their names.
fn new_file(folder: &Path) -> io::Result<(File, PathBuf)> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let host: String = gethostname::gethostname().to_string_lossy().chars().take(64).map(plain).collect();
    let name = format!("events.out.tfevents.{seconds:010}.{host}.{}", std::process::id());
    for again in 0u32.. {
        let path = folder.join(if again == 0 { name.clone() } else { format!("{name}.{again}") });
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, name))
}
fn buckets(values: &[f64]) -> Histogram {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (min, max) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    if min > max {
        return Histogram::default();
    }
    // One value has no width: it stands in a bucket of its own.
    let width = if max > min { (max - min) / BUCKETS as f64 } else { 1.0 };
    let mut bucket = vec![0.0; BUCKETS];
    for v in finite() {
        bucket[(((v - min) / width) as usize).min(BUCKETS - 1)] += 1.0;
    }
    let bucket_limit = (1..=BUCKETS).map(|k| if k == BUCKETS && max > min { max } else { min + k as f64 * width }).collect();
    Histogram { min, max, num: finite().count() as f64, sum: finite().sum(), sum_squares: finite().map(|v| v * v).sum(), bucket_limit, bucket }
}

/// One record of an event file.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// seconds since 1970
    pub wall_time: f64,
    /// the step
    pub step: i64,
    /// what was measured
    pub payload: Payload,
}
/// What a record holds.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Payload {
    /// the first record of a file: the version of the format
    Version(String),
    /// a run goes on: older records from this one's step on are lost
    Purge,
    /// a number
    Scalar {
        /// its name
        tag: String,
        /// its value
        value: f32,
    },
    /// a text
    Text {
        /// its name
        tag: String,
        /// the text
        text: String,
    },
    /// a distribution
    Histogram {
        /// its name
        tag: String,
        /// how many numbers
        count: f64,
        /// the smallest and the largest
        range: (f64, f64),
        /// numbers in each bucket
        buckets: Vec<f64>,
    },
    /// something that this program does not write
    Other,
}

/// Reads the records of an event file.
///
/// # Errors
/// `InvalidData` with the offset: a record that is cut off, longer than [`MAX_RECORD`], changed, or no event.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let bytes = std::fs::read(path)?;
    let wrong = |at: usize, what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: record at byte {at}: {what}", path.display()));
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let field = |from: usize, length: usize| bytes.get(from..from.checked_add(length)?);
        let word = |from: usize| field(from, 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let header = field(at, 8).ok_or_else(|| wrong(at, "the file ends inside its length"))?;
        if word(at + 8).ok_or_else(|| wrong(at, "the file ends inside its length"))? != masked(header) {
            return Err(wrong(at, "the checksum of its length is wrong"));
        }
        let length = header.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let length = usize::try_from(length).ok().filter(|&n| n <= MAX_RECORD).ok_or_else(|| wrong(at, "it is too long"))?;
        let message = field(at + 12, length).ok_or_else(|| wrong(at, "the file ends inside it"))?;
        if word(at + 12 + length).ok_or_else(|| wrong(at, "the file ends inside its checksum"))? != masked(message) {
            return Err(wrong(at, "its checksum is wrong"));
        }
        let event = Event::decode(message).map_err(|e| wrong(at, &format!("it is no event: {e}")))?;
        let (wall_time, step) = (event.wall_time, event.step);
        records.extend(payloads(event.what).into_iter().map(|payload| Record { wall_time, step, payload }));
        at += length + 16;
    }
    Ok(records)
}
fn payloads(what: Option<EventWhat>) -> Vec<Payload> {
    match what {
        Some(EventWhat::FileVersion(version)) => vec![Payload::Version(version)],
        Some(EventWhat::SessionLog(log)) if log.status == 1 => vec![Payload::Purge],
        Some(EventWhat::Summary(summary)) => summary.value.into_iter().map(payload).collect(),
        _ => vec![Payload::Other],
    }
}
fn payload(value: Value) -> Payload {
    let tag = value.tag;
    match value.measured {
        Some(ValueMeasured::SimpleValue(value)) => Payload::Scalar { tag, value },
        Some(ValueMeasured::Histogram(h)) => Payload::Histogram { tag, count: h.num, range: (h.min, h.max), buckets: h.bucket },
        Some(ValueMeasured::Tensor(t)) => {
            Payload::Text { tag, text: t.string_val.first().map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default() }
        }
        None => Payload::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_that_is_not_the_formats() {
        // Test vector of RFC 3720, B.4: 32 bytes of zeros.
        assert_eq!(CRC.checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
    #[test]
    fn a_value_that_lies_outside_all_buckets() {
        let h = buckets(&[-3.0, f64::NAN, 1.0, f64::INFINITY, 7.5, 7.5]);
        assert_eq!((h.num, h.min, h.max, h.sum), (4.0, -3.0, 7.5, 13.0));
        assert_eq!(h.bucket.iter().sum::<f64>(), 4.0);
        assert_eq!(h.bucket_limit.last(), Some(&7.5));
        assert_eq!(buckets(&[2.0, 2.0]).bucket.iter().sum::<f64>(), 2.0);
        assert_eq!(buckets(&[f64::NAN]).num, 0.0);
    }
}
