//! How much of a file is read before it is refused: what is small on the disk, or has no end, must not fill the memory.
use serde::{Deserialize, Serialize};

/// Limits of what is read from a file; beyond one the file is refused, and the error names the limit. All of them are far
/// above what data need; the `limits` of a description raises them.
///
/// ```
/// use adamant_data::Limits;
/// let limits = Limits { inflated_bytes: 100 << 30, inflate_ratio: 1032, ..Limits::default() };
/// assert!(limits.inflated(1 << 20) > Limits::default().inflated(1 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// bytes that a compressed file may inflate to, whatever its size: 8 GiB
    pub inflated_bytes: u64,
    /// how many times larger than itself a compressed file of more than 16 MiB inside may be: 100. Tables and pictures
    /// come to 3 to 30; a file that is nothing but one byte, to 1032
    pub inflate_ratio: u64,
    /// bytes of one record (a line, unless it holds quoted line ends): 16 MiB
    pub line_bytes: usize,
    /// bytes of one field: 1 MiB
    pub field_bytes: usize,
    /// fields of one record: 100,000
    pub fields: usize,
    /// records of one file: 2^31
    pub records: usize,
    /// numbers that are kept of one file: 2^33
    pub elements: usize,
    /// different texts of one column: 10,000
    pub levels: usize,
    /// bad records that are remembered, whatever the policy: 100,000
    pub bad_records: usize,
}
/// What any compressed file may inflate to.
const ALWAYS: u64 = 16 << 20;
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            inflated_bytes: 8 << 30,
            inflate_ratio: 100,
            line_bytes: 16 << 20,
            field_bytes: 1 << 20,
            fields: 100_000,
            records: 1 << 31,
            elements: 1 << 33,
            levels: 10_000,
            bad_records: 100_000,
        }
    }
}
impl Limits {
    /// What a compressed file of so many bytes may inflate to.
    pub fn inflated(&self, file: u64) -> u64 {
        file.saturating_mul(self.inflate_ratio).max(ALWAYS).min(self.inflated_bytes)
    }
}
