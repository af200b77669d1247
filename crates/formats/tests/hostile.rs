//! Files made to hurt: each is refused with its name, without a panic, and without more memory than twice its size and a
//! mebibyte. Measured with an allocator that counts, one file at a time.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use adamant_core::{Device, Result};
use adamant_formats::{npy::Npy, safetensors::SafeTensors};
use peak_alloc::PeakAlloc;
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// What a reader may take beside twice the file.
const SLACK: usize = 1 << 20;

/// One test at a time, so that what is counted is its own.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    Device::reference().make_current();
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
/// A folder with one file whose contents change.
struct Scratch(tempfile::TempDir, PathBuf);
fn scratch(name: &str) -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    Scratch(folder, path)
}
impl Scratch {
    /// Reads all there is in a file of those bytes, within the bound.
    fn read(&self, bytes: &[u8], read: fn(&Path) -> Result<()>) -> Result<()> {
        let _folder = &self.0;
        std::fs::write(&self.1, bytes).unwrap();
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let result = read(&self.1);
        let peak = MEMORY.peak_usage().saturating_sub(before);
        assert!(peak <= 2 * bytes.len() + SLACK, "{} bytes took {peak} bytes of memory", bytes.len());
        result
    }
    fn refuse(&self, bytes: &[u8], read: fn(&Path) -> Result<()>, says: &str) {
        let error = self.read(bytes, read).expect_err(says).to_string();
        let name = self.1.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(says) && error.contains(name), "`{says}` is not in: {error}");
    }
    /// Every length it can be cut to, and every byte with one of its bits flipped: whatever comes out, no panic and no
    /// memory.
    fn damage(&self, good: &[u8], read: fn(&Path) -> Result<()>) -> usize {
        self.read(good, read).unwrap();
        let mut refused = 0;
        for len in 0..good.len() {
            assert!(self.read(&good[..len], read).is_err(), "cut to {len} bytes");
        }
        for byte in 0..good.len() {
            let mut bad = good.to_vec();
            bad[byte] ^= 1 << (byte % 8);
            refused += usize::from(self.read(&bad, read).is_err());
        }
        refused
    }
}
fn read_npy(path: &Path) -> Result<()> {
    Npy::open(path)?.elements().map(drop)
}
fn read_safetensors(path: &Path) -> Result<()> {
    let file = SafeTensors::open(path)?;
    file.names().iter().try_for_each(|name| file.meta(name).and_then(|_| file.bytes(name)).map(drop))
}
fn golden(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/numpy").join(name)).unwrap()
}

/// An npy file of a version with that dictionary and data.
fn npy(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
    let len = dictionary.len() as u32;
    let size = if version == 1 { len.to_le_bytes()[..2].to_vec() } else { len.to_le_bytes().to_vec() };
    [b"\x93NUMPY", &[version, 0][..], &size, dictionary.as_bytes(), data].concat()
}
fn dict(descr: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
}
#[test]
fn a_hostile_npy_file_that_is_taken() {
    let _alone = alone();
    let f4 = |shape: &str| npy(1, &dict("'<f4'", shape), &[0; 16]);
    let scratch = scratch("bad.npy");
    scratch.read(&f4("(4,)"), read_npy).unwrap();
    // As Python 2 and others wrote it.
    for good in [f4("(4L,)"), f4("( 2 , 2 )"), f4("(1,4)"), npy(1, "{\"shape\":(4,),\"descr\":\"<f4\",\"fortran_order\":True}", &[0; 16])] {
        scratch.read(&good, read_npy).unwrap();
    }
    let huge = "9".repeat(40);
    for (bytes, says) in [
        (vec![], "too short"),
        (b"\x93NUMPY".to_vec(), "too short"),
        (b"\x93NUMPX\x01\0\x02\0{}".to_vec(), "does not begin"),
        (npy(4, &dict("'<f4'", "(4,)"), &[0; 16]), "version 4.0"),
        ([b"\x93NUMPY\x01\x07", &f4("(4,)")[8..]].concat(), "version 1.7"),
        (b"\x93NUMPY\x01\0\xff\xff{".to_vec(), "cut off"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff{".to_vec(), "over the limit"),
        (b"\x93NUMPY\x03\0\x00\x00\x00\x80{".to_vec(), "over the limit"),
        // Products that overflow, or are larger than the file.
        (f4("(4294967296, 4294967296, 4)"), "larger than memory"),
        (f4("(9223372036854775807, 2)"), "larger than memory"),
        (f4("(0, 9223372036854775807, 9223372036854775807)"), "larger than memory"),
        (f4("(68719476736,)"), "needs 274877906944 bytes"),
        (f4(&format!("({huge},)")), "no size"),
        (f4("(5,)"), "needs 20 bytes of data, and there are 16"),
        (f4("(3,)"), "needs 12 bytes of data, and there are 16"),
        (f4("(0,)"), "needs 0 bytes of data"),
        (f4("(-4,)"), "no size"),
        (f4("(4.0,)"), "`)`"),
        (f4("(2**2,)"), "`)`"),
        (f4("4"), "`(`"),
        (f4("(4,"), "no size"),
        (f4("(1,1,1,1,1,1,1,1,4)"), "9 axes"),
        (f4(&format!("({})", "1,".repeat(20_000))), "20000 axes"),
        // Types that are not numbers, or not ours.
        (npy(1, &dict("'|O'", "(1,)"), &[0; 8]), "pickled"),
        (npy(1, &dict("'<c8'", "(2,)"), &[0; 16]), "`<c8`"),
        (npy(1, &dict("'<U4'", "(1,)"), &[0; 16]), "`<U4`"),
        (npy(1, &dict("'<M8[ns]'", "(2,)"), &[0; 16]), "`<M8[ns]`"),
        (npy(1, &dict("'|f4'", "(4,)"), &[0; 16]), "`|f4`"),
        (npy(1, &dict("'<f99999999999999999999'", "(4,)"), &[0; 16]), "not supported"),
        (npy(1, &dict("[('a', '<f4'), ('b', '<i4')]", "(2,)"), &[0; 16]), "structured"),
        (npy(1, &dict("'|b1'", "(16,)"), &[2; 16]), "no bool"),
        // Dictionaries that are not NumPy's.
        (npy(1, "{}\n", &[]), "no `descr`"),
        (npy(1, "{'descr': '<f4', 'shape': (4,)}", &[0; 16]), "no `fortran_order`"),
        (npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'shape': (1,)}", &[0; 16]), "`shape` twice"),
        (npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", &[0; 16]), "`x`"),
        (npy(1, "{'descr': '<f4', 'fortran_order': 1, 'shape': (4,)}", &[0; 16]), "`False`"),
        (npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} + exec('x')", &[0; 16]), "goes on"),
        (npy(1, "__import__('os').system('true')", &[0; 16]), "`{`"),
        (npy(1, "{'descr", &[0; 16]), "no end"),
        (npy(3, "{'descr': '<f4', 'größe': 1}", &[0; 16]), "not ASCII"),
        (npy(1, &"{".repeat(60_000), &[]), "no text"),
    ] {
        scratch.refuse(&bytes, read_npy, says);
    }
}
#[test]
fn an_npy_file_with_a_flipped_bit_or_cut_short_that_panics() {
    let _alone = alone();
    for name in ["f4.npy", "fortran.npy", "bool.npy", "v2.npy", "zero_d.npy", "big_endian.npy"] {
        let scratch = scratch(name);
        assert!(scratch.damage(&golden(name), read_npy) > 40, "{name}");
    }
}
#[test]
fn a_good_npy_file_that_takes_more_than_its_size_twice() {
    let _alone = alone();
    let scratch = scratch("big.npy");
    let n = 4 << 20;
    for (descr, size, order) in [("'<f4'", 4, "False"), ("'>f8'", 8, "True"), ("'|b1'", 1, "False"), ("'<i2'", 2, "True")] {
        let dictionary = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': (1024, {})}}\n", n / 1024 / size);
        scratch.read(&npy(1, &dictionary, &vec![1; n]), read_npy).unwrap();
    }
}

/// A safetensors file of that header and so many bytes of data.
fn safetensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}
#[test]
fn a_hostile_safetensors_file_that_is_taken() {
    let _alone = alone();
    let scratch = scratch("bad.safetensors");
    let one = |dtype: &str, shape: &str, range: &str, data: usize| {
        safetensors(&format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{range}}}}}"#), data)
    };
    let two = |b: &str, range: &str, data: usize| {
        safetensors(&format!(r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"{b}":{{"dtype":"F32","shape":[2],"data_offsets":{range}}}}}"#), data)
    };
    scratch.read(&one("F32", "[2]", "[0,8]", 8), read_safetensors).unwrap();
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    for (bytes, says) in [
        (vec![], "too few"),
        (vec![0; 7], "too few"),
        (u64::MAX.to_le_bytes().to_vec(), "does not fit"),
        ([&100_000_001u64.to_le_bytes()[..], &[b' '; 100]].concat(), "does not fit"),
        ([&100_000_000u64.to_le_bytes()[..], &[b' '; 100]].concat(), "does not fit"),
        (safetensors("", 0), "header"),
        (safetensors("[]", 0), "header"),
        (safetensors("{", 0), "header"),
        (safetensors("{\"a\": 1}", 0), "header"),
        (safetensors(&deep, 0), "header"),
        (safetensors("\u{feff}{}", 0), "header"),
        (safetensors("{} {}", 0), "header"),
        ([&4u64.to_le_bytes()[..], b"{\"\xff\xff"].concat(), "header"),
        (one("F99", "[2]", "[0,8]", 8), "header"),
        (one("F32", "[2]", "[0,8]", 7), "8 bytes of data, the file has 7"),
        (one("F32", "[2]", "[0,8]", 9), "8 bytes of data, the file has 9"),
        (one("F32", "[3]", "[0,8]", 8), "header"),
        (one("F32", "[2]", "[8,0]", 8), "header"),
        (one("F32", "[2]", "[4,12]", 12), "header"),
        (one("F32", "[-2]", "[0,8]", 8), "header"),
        (one("F32", "[2.0]", "[0,8]", 8), "header"),
        (one("F32", "[4294967296,4294967296,4]", "[0,0]", 0), "header"),
        (one("F32", "[18446744073709551615,2]", "[0,18446744073709551608]", 0), "header"),
        (one("F32", "[99999999999999999999]", "[0,8]", 8), "header"),
        (one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]", 8), "at most 8 axes"),
        (one("F32", "[0,9223372036854775807,9223372036854775807]", "[0,0]", 0), ""),
        (one("BOOL", "[2]", "[0,8]", 8), "header"),
        (two("a", "[8,16]", 16), "header"),
        (two("b", "[4,12]", 12), "header"),
        (two("b", "[0,8]", 8), "header"),
        (two("b", "[12,20]", 20), "header"),
        (safetensors(r#"{"__metadata__":{"a":1}}"#, 0), "header"),
        (safetensors(r#"{"__metadata__":[]}"#, 0), "header"),
    ] {
        scratch.refuse(&bytes, read_safetensors, says);
    }
}
#[test]
fn a_safetensors_file_with_a_flipped_bit_or_cut_short_that_panics() {
    let _alone = alone();
    let scratch = scratch("flip.safetensors");
    let header = r#"{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}"#;
    assert!(scratch.damage(&safetensors(header, 9), read_safetensors) > 60);
}

#[cfg(feature = "npz")]
mod npz {
    use super::*;
    use adamant_formats::npz::Npz;
    use flate2::{Compression, Crc, write::DeflateEncoder};
    use std::io::Write;

    fn read_npz(path: &Path) -> Result<()> {
        let file = Npz::open(path)?;
        file.names().iter().try_for_each(|name| file.elements(name).map(drop))
    }
    fn good() -> Vec<u8> {
        npy(1, &dict("'<f4'", "(4,)"), &[0; 16])
    }
    /// A member as it stands in both places of an archive; tests spoil single fields.
    #[derive(Clone)]
    struct Member {
        name: Vec<u8>,
        local_name: Vec<u8>,
        flags: u16,
        method: u16,
        crc: u32,
        packed: u32,
        size: u32,
        offset: Option<u32>,
        extra: Vec<u8>,
        data: Vec<u8>,
    }
    impl Member {
        fn stored(data: Vec<u8>) -> Member {
            let mut crc = Crc::new();
            crc.update(&data);
            let (name, len) = (b"a.npy".to_vec(), data.len() as u32);
            Member { local_name: name.clone(), name, flags: 0, method: 0, crc: crc.sum(), packed: len, size: len, offset: None, extra: vec![], data }
        }
        fn deflated(data: &[u8]) -> Member {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(data).unwrap();
            let packed = encoder.finish().unwrap();
            let plain = Member::stored(data.to_vec());
            Member { method: 8, packed: packed.len() as u32, data: packed, ..plain }
        }
        fn named(mut self, name: &[u8]) -> Member {
            (self.name, self.local_name) = (name.to_vec(), name.to_vec());
            self
        }
        fn with(mut self, spoil: impl FnOnce(&mut Member)) -> Member {
            spoil(&mut self);
            self
        }
    }
    /// (the members, the directory, the end record).
    fn parts(members: &[Member]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for m in members {
            let offset = m.offset.unwrap_or(file.len() as u32);
            let words = |to: &mut Vec<u8>, name: &[u8], extra: &[u8]| {
                [20, m.flags, m.method, 0, 0x21].iter().for_each(|w| to.extend(w.to_le_bytes()));
                [m.crc, m.packed, m.size].iter().for_each(|w| to.extend(w.to_le_bytes()));
                [name.len() as u16, extra.len() as u16].iter().for_each(|w| to.extend(w.to_le_bytes()));
            };
            file.extend(b"PK\x03\x04");
            words(&mut file, &m.local_name, &[]);
            file.extend([&m.local_name[..], &m.data].concat());
            directory.extend(b"PK\x01\x02\x14\0");
            words(&mut directory, &m.name, &m.extra);
            directory.extend([0; 10]);
            directory.extend(offset.to_le_bytes());
            directory.extend([&m.name[..], &m.extra].concat());
        }
        let count = members.len() as u16;
        let end = end(count, directory.len() as u32, file.len() as u32);
        (file, directory, end)
    }
    fn end(count: u16, size: u32, start: u32) -> Vec<u8> {
        [b"PK\x05\x06\0\0\0\0", &count.to_le_bytes()[..], &count.to_le_bytes(), &size.to_le_bytes(), &start.to_le_bytes(), &[0, 0]].concat()
    }
    fn zip(members: &[Member]) -> Vec<u8> {
        let (file, directory, end) = parts(members);
        [file, directory, end].concat()
    }
    /// The record for archives beyond 4 GiB, and where it is, before an end record that refers to it.
    fn end64(count: u64, size: u64, start: u64, at: u64) -> Vec<u8> {
        let mut bytes = [b"PK\x06\x06", &44u64.to_le_bytes()[..], &[45, 0, 45, 0], &[0; 8]].concat();
        [count, count, size, start].iter().for_each(|w| bytes.extend(w.to_le_bytes()));
        bytes.extend([b"PK\x06\x07", &0u32.to_le_bytes()[..], &at.to_le_bytes(), &1u32.to_le_bytes()].concat());
        bytes.extend(end(u16::MAX, u32::MAX, u32::MAX));
        bytes
    }
    #[test]
    fn a_hostile_npz_file_that_is_taken() {
        let _alone = alone();
        let scratch = scratch("bad.npz");
        let member = || Member::stored(good());
        let (file, directory, _) = parts(&[member()]);
        let (len, size) = (file.len() as u32, directory.len() as u32);
        let wide = |count, size, start, at| [&file[..], &directory, &end64(count, size, start, at)].concat();
        let at = u64::from(len + size);
        let own = zip(&[member()]);
        for good in [
            own.clone(),
            wide(1, u64::from(size), u64::from(len), at),
            zip(&[]),
            zip(&[Member::deflated(&good())]),
            [&own[..own.len() - 2], &[5, 0], b"notes"].concat(),
        ] {
            scratch.read(&good, read_npz).unwrap();
        }
        let bomb = npy(1, &dict("'|u1'", "(100000000,)"), &[]);
        let zeros = npy(1, &dict("'|u1'", "(1000000,)"), &vec![0; 1_000_000]);
        for (bytes, says) in [
            (vec![], "no zip file"),
            (b"PK\x05\x06".to_vec(), "no zip file"),
            (good(), "no zip file"),
            ([&own[..], b"more"].concat(), "no zip file"),
            ([b"#!/bin/sh\n", &own[..]].concat(), "does not end at"),
            // Directories that are not there, or larger than the file.
            ([&file[..], &directory, &end(2, size, len)].concat(), "2 entries"),
            ([&file[..], &directory, &end(0, size, len)].concat(), "goes on after 0 entries"),
            ([&file[..], &directory, &end(65_535, size, len)].concat(), "65535 entries"),
            ([&file[..], &directory, &end(1, u32::MAX, len)].concat(), "does not end at"),
            ([&file[..], &directory, &end(1, size, u32::MAX)].concat(), "does not end at"),
            ([&file[..], &directory[1..], &end(1, size - 1, len)].concat(), "damaged|cut off"),
            (wide(u64::MAX, u64::from(size), u64::from(len), at), "entries"),
            (wide(1 << 60, u64::from(size), u64::from(len), at), "entries"),
            (wide(1, u64::MAX, 1, at), "does not end at"),
            (wide(1, u64::from(size), u64::from(len), u64::MAX), "is missing"),
            (wide(1, u64::from(size), u64::from(len), at - 1), "is missing"),
            // Members that overlap, lie or hide.
            (zip(&[member(), member()]), "two members have the name `a.npy`"),
            (zip(&[member(), member().named(b"b.npy").with(|m| m.offset = Some(0))]), "overlaps"),
            (zip(&[member().with(|m| m.offset = Some(u32::MAX - 1))]), "overlaps"),
            (zip(&[member().with(|m| m.offset = Some(1))]), "overlaps"),
            (zip(&[member().with(|m| m.local_name = b"b.npy".to_vec())]), "another name"),
            (zip(&[member().named(b"a.txt")]), "`a.txt` is no npy file"),
            (zip(&[member().named(b"a.npy/")]), "no npy file"),
            (zip(&[member().named(b"\xff\xfe.npy")]), "not UTF-8"),
            (zip(&[member().with(|m| m.flags = 1)]), "encrypted"),
            (zip(&[member().with(|m| m.method = 12)]), "method 12"),
            (zip(&[member().with(|m| m.crc ^= 1)]), "checksum"),
            (zip(&[member().with(|m| m.data[80] ^= 1)]), "checksum"),
            (zip(&[member().with(|m| m.size += 1)]), "lengths differ"),
            (zip(&[member().with(|m| (m.size, m.packed) = (m.size + 1, m.packed + 1))]), "overlaps"),
            (zip(&[member().with(|m| (m.size, m.packed) = (m.size - 1, m.packed - 1))]), "16 bytes of data, and there are 15"),
            (zip(&[member().with(|m| (m.size, m.packed) = (u32::MAX, u32::MAX))]), "beyond 4 GiB"),
            (zip(&[member().with(|m| (m.size, m.packed, m.extra) = (u32::MAX, u32::MAX, [&[1, 0, 16, 0][..], &[0xff; 16]].concat()))]), "overlaps"),
            (zip(&[member().with(|m| m.packed = 0)]), "lengths differ"),
            // What is deflated and says that it is more, or less, than it is.
            (zip(&[Member::deflated(&good()).with(|m| m.size = u32::MAX - 1)]), "cannot be inflated"),
            (zip(&[Member::deflated(&bomb).with(|m| m.size = 100_000_000 + bomb.len() as u32)]), "cannot be inflated"),
            (zip(&[Member::deflated(&good()).with(|m| m.size += 4)]), "needs 16 bytes of data, and there are 20"),
            (zip(&[Member::deflated(&[good(), vec![0; 4]].concat()).with(|m| m.size -= 4)]), "not as long"),
            (zip(&[Member::deflated(&good()).with(|m| m.data[4] ^= 0x5a)]), "array `a`"),
            (zip(&[Member::deflated(&zeros[..zeros.len() - 500_000]).with(|m| m.size += 500_000)]), "ends before|cannot be inflated"),
            (zip(&[Member::stored(bomb.clone())]), "needs 100000000 bytes"),
            (zip(&[Member::stored(golden("object.npy"))]), "array `a`: it holds pickled"),
        ] {
            let says = says.split('|').find(|s| scratch.read(&bytes, read_npz).is_err_and(|e| e.to_string().contains(s))).unwrap_or(says);
            scratch.refuse(&bytes, read_npz, says);
        }
    }
    #[test]
    fn a_directory_of_many_members_that_takes_more_memory_than_the_file() {
        let _alone = alone();
        let members: Vec<Member> = (0..20_000).map(|k| Member::stored(good()).named(format!("{k:05}.npy").as_bytes())).collect();
        scratch("many.npz").read(&zip(&members), read_npz).unwrap();
        let empty: Vec<Member> = (0..60_000).map(|k| Member::stored(vec![]).named(format!("{k:05}.npy").as_bytes())).collect();
        scratch("many.npz").refuse(&zip(&empty), read_npz, "too short");
    }
    #[test]
    fn an_npz_file_with_a_flipped_bit_or_cut_short_that_panics() {
        let _alone = alone();
        let two = [Member::stored(good()), Member::deflated(&good()).named(b"b.npy")];
        assert!(scratch("flip.npz").damage(&zip(&two), read_npz) > 100);
    }
}
