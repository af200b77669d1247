//! Files that are not what was written: every changed bit and every cut is found and named, and the checkpoint before is
//! used. On real files, with the whole way from the folder to the tensors.
use super::{
    CaseDraw, TortureClaim, claim,
    subject::{newest, open, same, snapshot, told},
};
use adamant::formats::safetensors::SafeTensors;
use adamant_train::{
    checkpoint::{CheckpointError, Checkpoints},
    storage::Disk,
};
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// Two checkpoints, of which the newer one is damaged.
struct Victim {
    _place: tempfile::TempDir,
    checkpoints: Checkpoints,
    files: Vec<Original>,
}
struct Original {
    path: PathBuf,
    bytes: Vec<u8>,
    tensors: Vec<(String, Range<usize>)>,
}
impl Victim {
    fn new() -> Result<Victim, String> {
        let text = |e: std::io::Error| e.to_string();
        let place = tempfile::tempdir().map_err(text)?;
        let checkpoints = open(Disk, place.path())?;
        checkpoints.save(&snapshot(10, 0), None).map_err(|e| e.to_string())?;
        let saved = checkpoints.save(&snapshot(20, 0), None).map_err(|e| e.to_string())?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&saved.folder).map_err(text)? {
            let path = entry.map_err(text)?.path();
            let bytes = fs::read(&path).map_err(text)?;
            let tensors = if path.extension().is_some_and(|e| e == "safetensors") { tensors(&path)? } else { Vec::new() };
            files.push(Original { path, bytes, tensors });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Victim { _place: place, checkpoints, files })
    }
    /// A byte of the checkpoint, each as likely as any other.
    fn draw(&self, draw: &mut CaseDraw) -> (&Original, usize) {
        let all: usize = self.files.iter().map(|f| f.bytes.len()).sum();
        let mut at = draw.below(all as u64) as usize;
        for file in &self.files {
            if at < file.bytes.len() {
                return (file, at);
            }
            at -= file.bytes.len();
        }
        (&self.files[0], 0)
    }
    /// Puts other bytes in a file's place, and checks that they are noticed: the file is named, and the tensor if a bit
    /// at `at` is in one, with the offset where it begins; what comes back is the checkpoint before.
    fn noticed(&self, file: &Original, bytes: &[u8], at: usize, cut: bool) -> Result<(), String> {
        fs::write(&file.path, bytes).map_err(|e| e.to_string())?;
        let found = newest(&self.checkpoints);
        fs::write(&file.path, &file.bytes).map_err(|e| e.to_string())?;
        let found = found?;
        same(&found.snapshot, &snapshot(10, 0))?;
        let [warning] = &found.warnings[..] else { return Err(format!("{} warnings: {}", found.warnings.len(), told(&found.warnings))) };
        let CheckpointError::Damaged(damage) = &warning.error else { return Err(warning.to_string()) };
        let tensor = file.tensors.iter().find(|(_, range)| range.contains(&at));
        let offset_fits = match tensor {
            _ if cut => damage.offset as usize <= bytes.len(),
            Some((_, range)) => damage.offset as usize == range.start,
            None => damage.offset as usize <= at,
        };
        if damage.file != file.path || damage.tensor.as_ref() != tensor.map(|(name, _)| name) || !offset_fits {
            return Err(format!("told as: {warning}; tensor {:?}", tensor.map(|(name, _)| name)));
        }
        Ok(())
    }
}
/// The tensors of a file by their bytes, as the format's own reader sees them.
fn tensors(path: &Path) -> Result<Vec<(String, Range<usize>)>, String> {
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    let size = bytes.first_chunk::<8>().ok_or("too short")?;
    let start = 8 + u64::from_le_bytes(*size) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..start]).map_err(|e| e.to_string())?;
    let names = SafeTensors::open(path).map_err(|e| e.to_string())?.names();
    let place = |name: &String, k: usize| header[name]["data_offsets"][k].as_u64().map(|n| start + n as usize).ok_or("no offsets");
    names.into_iter().map(|name| Ok((name.clone(), place(&name, 0)?..place(&name, 1)?))).collect()
}

/// Bits that are flipped, one at a time.
pub fn flips(count: usize, seed: u64) -> TortureClaim {
    claim("a flipped bit of a checkpoint is noticed, its file and tensor named, and the one before is used", |claim| {
        let victim = Victim::new()?;
        let mut draw = CaseDraw(seed);
        for _ in 0..count {
            let (file, at) = victim.draw(&mut draw);
            let bit = draw.below(8);
            let mut bytes = file.bytes.clone();
            bytes[at] ^= 1 << bit;
            claim.count(victim.noticed(file, &bytes, at, false).map_err(|e| format!("bit {bit} of byte {at} of {}: {e}", file.path.display())));
        }
        claim.seen = serde_json::json!({ "files": victim.files.len(), "bytes": victim.files.iter().map(|f| f.bytes.len()).sum::<usize>() });
        same(&newest(&victim.checkpoints)?.snapshot, &snapshot(20, 0))
    })
}
/// Files that are cut off, one at a time.
pub fn cuts(count: usize, seed: u64) -> TortureClaim {
    claim("a file of a checkpoint that is cut off is noticed, with the tensor that is not all there, and the one before is used", |claim| {
        let victim = Victim::new()?;
        let mut draw = CaseDraw(seed ^ 0xC07);
        for _ in 0..count {
            let (file, len) = victim.draw(&mut draw);
            claim.count(victim.noticed(file, &file.bytes[..len], len, true).map_err(|e| format!("{} cut at {len}: {e}", file.path.display())));
        }
        same(&newest(&victim.checkpoints)?.snapshot, &snapshot(20, 0))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_flipped_bit_or_a_cut_that_nobody_notices() {
        for claim in [super::flips(200, 3), super::cuts(50, 3)] {
            assert!(claim.holds(), "{} of {}: {:?}", claim.held, claim.tried, claim.failures);
        }
    }
}
