//! As much of the zip format as NumPy's archives need: members stored or deflated, also beyond 4 GiB.
//! Source: PKWARE's APPNOTE.TXT 6.3.10 and RFC 1951.
//!
//! Strict where readers differ: the directory must end where its end record begins, members may not overlap, local
//! names must be the directory's, names are UTF-8 and differ; so that a file means one thing, to us and to others.
use flate2::{Crc, bufread::DeflateDecoder, write::DeflateEncoder};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
};

const LOCAL: u32 = 0x0403_4b50;
const ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Deflate makes at most 1032 bytes of one: a run of 258 takes two bits.
const MAX_RATIO: u64 = 1032;
/// Flags: names are UTF-8; lengths stand behind the data (the directory has them too).
const UTF8: u16 = 1 << 11;
const TRAILING: u16 = 1 << 3;
/// What a member takes at least beside its name and data: a local header and an entry in the directory.
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: u64 = 30;

/// A member as the directory describes it.
pub(crate) struct Member {
    pub name: String,
    deflated: bool,
    crc: u32,
    packed: u64,
    /// bytes when unpacked
    pub size: u64,
    offset: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
fn read_at(file: &mut fs::File, at: u64, len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|e| e.to_string())?;
    bytes.resize(len, 0);
    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes)).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// The members of an archive, by name.
pub(crate) fn members(file: &mut fs::File) -> Result<Vec<Member>, String> {
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let (count, size, start) = end_record(file, len)?;
    // Before anything is allocated: so many entries fit into it, and it into the file.
    if count.checked_mul(ENTRY_BYTES as u64).is_none_or(|least| least > size) {
        return Err(format!("a directory of {size} bytes does not hold {count} entries"));
    }
    let directory = read_at(file, start, usize::try_from(size).map_err(|e| e.to_string())?)?;
    let mut members = Vec::new();
    members.try_reserve_exact(count as usize).map_err(|e| e.to_string())?;
    let mut rest = &directory[..];
    for _ in 0..count {
        let (member, after) = entry(rest)?;
        members.push(member);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(format!("its directory goes on after {count} entries"));
    }
    // Members that share bytes make a small file endless (D. Fifield, "A better zip bomb", WOOT 2019).
    members.sort_unstable_by_key(|m| m.offset);
    let mut free = 0;
    for member in &members {
        let end = member.offset.checked_add(LOCAL_BYTES + member.name.len() as u64).and_then(|e| e.checked_add(member.packed));
        match end {
            Some(end) if member.offset >= free && end <= start => free = end,
            _ => return Err(format!("`{}` overlaps another member or the directory", crate::shown(&member.name))),
        }
    }
    members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(format!("two members have the name `{}`", crate::shown(&pair[0].name)));
    }
    Ok(members)
}
/// (entries, bytes, offset) of the directory.
fn end_record(file: &mut fs::File, len: u64) -> Result<(u64, u64, u64), String> {
    let tail_len = len.min(22 + 65_535 + 20);
    let tail = read_at(file, len - tail_len, tail_len as usize)?;
    let is_end = |at: &usize| u32_at(&tail, *at) == END && at + 22 + usize::from(u16_at(&tail, at + 20)) == tail.len();
    let at = (0..(tail.len() + 1).saturating_sub(22)).rev().find(is_end).ok_or("it is no zip file: the end of its directory is missing")?;
    if u16_at(&tail, at + 4) != 0 || u16_at(&tail, at + 6) != 0 || u16_at(&tail, at + 8) != u16_at(&tail, at + 10) {
        return Err("it is a part of a zip file in several parts".into());
    }
    let end_at = len - tail_len + at as u64;
    let (mut count, mut size, mut start) = (u64::from(u16_at(&tail, at + 10)), u64::from(u32_at(&tail, at + 12)), u64::from(u32_at(&tail, at + 16)));
    let mut end = end_at;
    if at >= 20 && u32_at(&tail, at - 20) == LOCATOR64 {
        end = u64_at(&tail, at - 20 + 8);
        if end_at.checked_sub(20 + 56).is_none_or(|last| end > last) {
            return Err("the end of its directory is missing".into());
        }
        let record = read_at(file, end, 56)?;
        if u32_at(&record, 0) != END64 {
            return Err("the end of its directory is missing".into());
        }
        (count, size, start) = (u64_at(&record, 32), u64_at(&record, 40), u64_at(&record, 48));
    }
    if start.checked_add(size) != Some(end) {
        return Err(format!("its directory of {size} bytes at {start} does not end at {end}"));
    }
    Ok((count, size, start))
}
/// The first entry of a directory, and what follows it.
fn entry(bytes: &[u8]) -> Result<(Member, &[u8]), String> {
    let cut = || "its directory is cut off".to_string();
    if bytes.len() < ENTRY_BYTES {
        return Err(cut());
    }
    if u32_at(bytes, 0) != ENTRY {
        return Err("its directory is damaged".into());
    }
    let (flags, method) = (u16_at(bytes, 8), u16_at(bytes, 10));
    let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(bytes, at)));
    let after = ENTRY_BYTES + name + extra + comment;
    let name_bytes = bytes.get(ENTRY_BYTES..ENTRY_BYTES + name).ok_or_else(cut)?;
    let extra = bytes.get(ENTRY_BYTES + name..ENTRY_BYTES + name + extra).ok_or_else(cut)?;
    let rest = bytes.get(after..).ok_or_else(cut)?;
    let name = std::str::from_utf8(name_bytes).map_err(|_| format!("the name `{}` is not UTF-8", crate::shown(name_bytes)))?;
    let of = |what: String| format!("member `{}`: {what}", crate::shown(name));
    if flags & !(UTF8 | TRAILING | 0b110) != 0 {
        return Err(of(format!("its flags are {flags:#06x}: encrypted, or of a kind that is not supported")));
    }
    if method != STORED && method != DEFLATED {
        return Err(of(format!("compression method {method} is not supported; stored and deflated are")));
    }
    let (mut packed, mut size, mut offset) = (u64::from(u32_at(bytes, 20)), u64::from(u32_at(bytes, 24)), u64::from(u32_at(bytes, 42)));
    let mut wide = extra_field(extra, 1).unwrap_or_default();
    for value in [&mut size, &mut packed, &mut offset] {
        if *value == u64::from(u32::MAX) {
            let (own, left) = wide.split_first_chunk::<8>().ok_or_else(|| of("a length beyond 4 GiB is missing".into()))?;
            *value = u64::from_le_bytes(*own);
            wide = left;
        }
    }
    if method == STORED && size != packed {
        return Err(of(format!("it is stored, but its lengths differ: {packed} and {size}")));
    }
    if size > packed.saturating_mul(MAX_RATIO) {
        return Err(of(format!("{packed} bytes cannot be inflated to {size}")));
    }
    Ok((Member { name: name.into(), deflated: method == DEFLATED, crc: u32_at(bytes, 16), packed, size, offset }, rest))
}
fn extra_field(mut extra: &[u8], id: u16) -> Option<&[u8]> {
    while extra.len() >= 4 {
        let (field, len) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let body = extra.get(4..4 + len)?;
        if field == id {
            return Some(body);
        }
        extra = &extra[4 + len..];
    }
    None
}

/// What is inside a member. At the end it is told whether it was all there ([`Unpacked::finish`]).
pub(crate) struct Unpacked<'a> {
    source: Source<'a>,
    crc: Crc,
    expected: u32,
    left: u64,
}
enum Source<'a> {
    Stored(std::io::Take<BufReader<&'a mut fs::File>>),
    Deflated(DeflateDecoder<std::io::Take<BufReader<&'a mut fs::File>>>),
}
impl Read for Unpacked<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = match &mut self.source {
            Source::Stored(s) => s.read(&mut out[..most])?,
            Source::Deflated(s) => s.read(&mut out[..most])?,
        };
        self.crc.update(&out[..n]);
        self.left -= n as u64;
        Ok(n)
    }
}
impl Unpacked<'_> {
    /// Has everything been read, was it as long as declared, and is its checksum right?
    pub fn finish(mut self) -> Result<(), String> {
        let more = match &mut self.source {
            Source::Stored(s) => s.limit() > 0,
            Source::Deflated(s) => s.read(&mut [0]).map_err(|e| e.to_string())? > 0 || !s.get_mut().fill_buf().map_err(|e| e.to_string())?.is_empty(),
        };
        if self.left > 0 || more {
            return Err("it is not as long as the archive declares".into());
        }
        if self.crc.sum() != self.expected {
            return Err(format!("its checksum is {:08x}, and the archive says {:08x}", self.crc.sum(), self.expected));
        }
        Ok(())
    }
}
/// Opens a member.
pub(crate) fn unpack<'a>(file: &'a mut fs::File, member: &Member) -> Result<Unpacked<'a>, String> {
    let local = read_at(file, member.offset, LOCAL_BYTES as usize)?;
    let (name, extra) = (usize::from(u16_at(&local, 26)), u64::from(u16_at(&local, 28)));
    let method = if member.deflated { DEFLATED } else { STORED };
    if u32_at(&local, 0) != LOCAL || u16_at(&local, 8) != method {
        return Err("its local header is not what the directory says".into());
    }
    if name != member.name.len() || read_at(file, member.offset + LOCAL_BYTES, name)? != member.name.as_bytes() {
        return Err("its local header has another name".into());
    }
    let start = member.offset + LOCAL_BYTES + name as u64 + extra;
    file.seek(SeekFrom::Start(start)).map_err(|e| e.to_string())?;
    let packed = BufReader::with_capacity(64 << 10, file).take(member.packed);
    let source = if member.deflated { Source::Deflated(DeflateDecoder::new(packed)) } else { Source::Stored(packed) };
    Ok(Unpacked { source, crc: Crc::new(), expected: member.crc, left: member.size })
}

/// Writes an archive, one member after the other. The same members give the same bytes.
pub(crate) struct ZipWriter<W: Write> {
    to: W,
    at: u64,
    directory: Vec<u8>,
    count: u64,
}
/// 1 January 1980, the first day of the format.
const DATE: u16 = 0x21;
impl<W: Write> ZipWriter<W> {
    pub fn new(to: W) -> ZipWriter<W> {
        ZipWriter { to, at: 0, directory: Vec::new(), count: 0 }
    }
    /// Adds a member.
    pub fn add(&mut self, name: &str, parts: &[&[u8]], deflate: bool) -> std::io::Result<()> {
        let mut crc = Crc::new();
        parts.iter().for_each(|part| crc.update(part));
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let deflated = if deflate {
            let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            parts.iter().try_for_each(|part| encoder.write_all(part))?;
            Some(encoder.finish()?)
        } else {
            None
        };
        let packed = deflated.as_ref().map_or(size, |d| d.len() as u64);
        let length = u16::try_from(name.len()).map_err(|_| std::io::Error::other(format!("a name of {} bytes is too long", name.len())))?;
        let limit = u64::from(u32::MAX);
        let wide_sizes = size >= limit || packed >= limit;
        let narrow = |value: u64, wide: bool| if wide { u32::MAX } else { value as u32 };
        let mut common = Vec::new();
        let need: u16 = if wide_sizes || self.at >= limit { 45 } else { 20 };
        for word in [need, if name.is_ascii() { 0 } else { UTF8 }, if deflate { DEFLATED } else { STORED }, 0, DATE] {
            common.extend(word.to_le_bytes());
        }
        for word in [crc.sum(), narrow(packed, wide_sizes), narrow(size, wide_sizes)] {
            common.extend(word.to_le_bytes());
        }
        common.extend(length.to_le_bytes());
        let sizes = if wide_sizes { [size.to_le_bytes(), packed.to_le_bytes()].concat() } else { Vec::new() };
        let field = |body: &[u8]| if body.is_empty() { Vec::new() } else { [&[1, 0][..], &(body.len() as u16).to_le_bytes(), body].concat() };
        let local_extra = field(&sizes);
        let wide_offset = self.at >= limit;
        let extra = field(&if wide_offset { [&sizes[..], &self.at.to_le_bytes()].concat() } else { sizes });

        // The entry of the directory: the same fields, then those that only it has.
        self.directory.extend(ENTRY.to_le_bytes());
        self.directory.extend(need.to_le_bytes());
        self.directory.extend(&common);
        self.directory.extend((extra.len() as u16).to_le_bytes());
        self.directory.extend([0; 10]);
        self.directory.extend(narrow(self.at, wide_offset).to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.directory.extend(&extra);

        let local = [&LOCAL.to_le_bytes()[..], &common, &(local_extra.len() as u16).to_le_bytes(), name.as_bytes(), &local_extra].concat();
        self.to.write_all(&local)?;
        match &deflated {
            Some(bytes) => self.to.write_all(bytes)?,
            None => parts.iter().try_for_each(|part| self.to.write_all(part))?,
        }
        self.at += local.len() as u64 + packed;
        self.count += 1;
        Ok(())
    }
    /// Writes the directory.
    pub fn finish(mut self) -> std::io::Result<()> {
        let (start, size) = (self.at, self.directory.len() as u64);
        self.to.write_all(&self.directory)?;
        let wide = self.count >= u64::from(u16::MAX) || start >= u64::from(u32::MAX) || size >= u64::from(u32::MAX);
        if wide {
            let mut end = END64.to_le_bytes().to_vec();
            end.extend(44u64.to_le_bytes());
            end.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            [self.count, self.count, size, start].iter().for_each(|v| end.extend(v.to_le_bytes()));
            end.extend(LOCATOR64.to_le_bytes());
            end.extend(0u32.to_le_bytes());
            end.extend((start + size).to_le_bytes());
            end.extend(1u32.to_le_bytes());
            self.to.write_all(&end)?;
        }
        let count = self.count.min(u64::from(u16::MAX)) as u16;
        let mut end = END.to_le_bytes().to_vec();
        end.extend([0; 4]);
        end.extend(count.to_le_bytes());
        end.extend(count.to_le_bytes());
        end.extend((size.min(u64::from(u32::MAX)) as u32).to_le_bytes());
        end.extend((start.min(u64::from(u32::MAX)) as u32).to_le_bytes());
        end.extend([0; 2]);
        self.to.write_all(&end)
    }
}
