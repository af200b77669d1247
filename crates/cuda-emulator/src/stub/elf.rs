//! The bytes of a shared object for x86-64 whose functions jump through one table of addresses.
//!
//! Two segments: what is read and run (headers, symbols, their hash table, code), and what is written (the dynamic section
//! and the table). No sections, no relocations: whoever loads it has nothing to patch. The layout is that of the System V
//! ABI, "Object Files" and "Dynamic Linking", with its AMD64 supplement.

/// Segments begin at pages; larger ones than usual do no harm.
const PAGE: usize = 0x1000;
/// Bytes of one function: a landing pad for indirect calls, the jump, and traps up to the next.
const STEP: usize = 16;
/// Bytes of the file's header, of one program header, of one symbol, of one entry of the dynamic section.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SYMBOL: usize = 24;
const DYNAMIC: usize = 16;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_STACK: u32 = 0x6474_e551;
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;

/// Where the parts stand; addresses are offsets in the file.
struct ElfPlaces {
    symbols: usize,
    strings: usize,
    hash: usize,
    code: usize,
    end_of_code: usize,
    dynamic: usize,
    table: usize,
    end: usize,
}
/// The number of entries of the dynamic section.
const ENTRIES: usize = 7;

/// An object called `soname` that exports `functions` and `table`, one word for each function.
pub(super) fn shared_object(soname: &str, functions: &[&str], table: &str) -> Vec<u8> {
    let mut strings = Strings(vec![0]);
    let soname_at = strings.add(soname);
    let names: Vec<u32> = functions.iter().chain([&table]).map(|f| strings.add(f)).collect();
    let count = names.len() + 1;
    let symbols = HEADER + 4 * PROGRAM_HEADER;
    let strings_at = symbols + count * SYMBOL;
    let hash = (strings_at + strings.0.len()).next_multiple_of(8);
    let code = (hash + 4 * (2 + count + count)).next_multiple_of(STEP);
    let end_of_code = code + functions.len() * STEP;
    let dynamic = end_of_code.next_multiple_of(PAGE);
    let table_at = dynamic + ENTRIES * DYNAMIC;
    let places = ElfPlaces { symbols, strings: strings_at, hash, code, end_of_code, dynamic, table: table_at, end: table_at + 8 * functions.len() };

    let mut file = headers(&places);
    // Symbols: none, the functions, the table.
    file.extend([0; SYMBOL]);
    for (k, name) in names.iter().enumerate() {
        let function = k < functions.len();
        let (kind, at, size) = if function { (2, places.code + k * STEP, STEP) } else { (1, places.table, 8 * functions.len()) };
        file.extend(name.to_le_bytes());
        // Global; visible; of some section, which is all that a loader asks.
        file.extend([1 << 4 | kind, 0, 1, 0]);
        file.extend((at as u64).to_le_bytes());
        file.extend((size as u64).to_le_bytes());
    }
    file.extend(&strings.0);
    file.resize(places.hash, 0);
    let all: Vec<&str> = functions.iter().copied().chain([table]).collect();
    for word in hash_table(&all) {
        file.extend(word.to_le_bytes());
    }
    file.resize(places.code, 0);
    for k in 0..functions.len() {
        // endbr64; jmp [rip + offset]
        let after = places.code + k * STEP + 10;
        file.extend([0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25]);
        file.extend(((places.table + 8 * k - after) as u32).to_le_bytes());
        file.extend([0xcc; STEP - 10]);
    }
    file.resize(places.dynamic, 0);
    // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME, DT_NULL
    let entries = [(4, places.hash), (5, places.strings), (6, places.symbols), (10, strings.0.len()), (11, SYMBOL), (14, soname_at as usize), (0, 0)];
    for (tag, value) in entries {
        file.extend((tag as u64).to_le_bytes());
        file.extend((value as u64).to_le_bytes());
    }
    file.resize(places.end, 0);
    file
}

/// The file's header and its program headers.
fn headers(places: &ElfPlaces) -> Vec<u8> {
    let mut file = Vec::new();
    // 64 bits, little endian, version 1, System V.
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // A shared object for x86-64.
    file.extend(3_u16.to_le_bytes());
    file.extend(62_u16.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    // No entry point; program headers follow; no sections; no flags.
    for word in [0_u64, HEADER as u64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [HEADER, PROGRAM_HEADER, 4, 64, 0, 0] {
        file.extend((half as u16).to_le_bytes());
    }
    let written = places.end - places.dynamic;
    let segments = [
        (PT_LOAD, READ | EXECUTE, 0, places.end_of_code, PAGE),
        (PT_LOAD, READ | WRITE, places.dynamic, written, PAGE),
        (PT_DYNAMIC, READ | WRITE, places.dynamic, ENTRIES * DYNAMIC, 8),
        // Or stacks would have to be executable.
        (PT_GNU_STACK, READ | WRITE, 0, 0, 16),
    ];
    for (kind, flags, at, bytes, alignment) in segments {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in [at, at, at, bytes, bytes, alignment] {
            file.extend((word as u64).to_le_bytes());
        }
    }
    file
}

/// A table of strings that end with zero.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(text.bytes());
        self.0.push(0);
        at
    }
}

/// Buckets and chains over the symbols: number 0 is none, the others are `names` in order.
fn hash_table(names: &[&str]) -> Vec<u32> {
    let count = names.len() + 1;
    let mut buckets = vec![0_u32; count];
    let mut chains = vec![0_u32; count];
    for (k, name) in names.iter().enumerate() {
        let bucket = hash(name) as usize % count;
        if let (Some(bucket), Some(chain)) = (buckets.get_mut(bucket), chains.get_mut(k + 1)) {
            *chain = *bucket;
            *bucket = k as u32 + 1;
        }
    }
    [count as u32, count as u32].into_iter().chain(buckets).chain(chains).collect()
}
/// The System V ABI's hash of a symbol's name.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |h, byte| {
        let h = (h << 4).wrapping_add(u32::from(byte));
        let top = h & 0xf000_0000;
        (h ^ top >> 24) & !top
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_the_abi_says() {
        // Worked by hand from the ABI's text.
        for (name, expected) in [("", 0), ("a", 0x61), ("ab", 0x672), ("printf", 0x077905a6)] {
            assert_eq!(hash(name), expected, "{name}");
        }
    }
    #[test]
    fn every_name_is_found_through_the_hash_table() {
        let names: Vec<String> = (0..200).map(|k| format!("symbol{}", k * 7919)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let words = hash_table(&names);
        let count = words[0] as usize;
        for (k, name) in names.iter().enumerate() {
            let mut at = words[2 + hash(name) as usize % count];
            while at != 0 && at as usize != k + 1 {
                at = words[2 + count + at as usize];
            }
            assert_eq!(at as usize, k + 1, "{name}");
        }
    }
}
