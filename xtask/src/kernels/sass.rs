//! Machine code as `nvdisasm -c` lists it: instructions of each kernel, its loops, how much of the innermost is for the matrix unit,
//! and how wide it loads and stores.
use std::collections::{BTreeMap, BTreeSet};

/// The listing of one kernel.
#[derive(Default, Debug)]
pub struct KernelListing {
    instructions: Vec<String>,
    /// which instruction a label stands before
    labels: BTreeMap<String, usize>,
}
/// A loop with instructions of the matrix unit, the shortest of its kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixLoop {
    /// how many instructions it has
    pub length: usize,
    /// those of the matrix unit
    pub matrix: usize,
    /// different places of sums among them: a warp keeps 16 x 8 of each
    pub sums: usize,
    /// stores of registers to the block's memory: factors that were gathered, and not copied on their own
    pub stores: usize,
}
impl MatrixLoop {
    /// The share of the matrix unit.
    pub fn share(&self) -> f64 {
        self.matrix as f64 / self.length.max(1) as f64
    }
    /// Elements of the tile of four warps.
    pub fn tile(&self) -> usize {
        4 * 16 * 8 * self.sums
    }
}
/// All kernels of a listing, by name.
pub fn kernels(listing: &str) -> BTreeMap<String, KernelListing> {
    let mut all: BTreeMap<String, KernelListing> = BTreeMap::new();
    let mut current = String::new();
    for line in listing.lines() {
        if let Some(name) = line.strip_prefix(".text.").and_then(|l| l.strip_suffix(':')) {
            current = name.to_string();
            all.entry(current.clone()).or_default();
            continue;
        }
        let Some(kernel) = all.get_mut(&current) else { continue };
        if let Some(label) = line.strip_suffix(':').filter(|l| l.starts_with(".L")) {
            kernel.labels.insert(label.to_string(), kernel.instructions.len());
        } else if let Some((_, text)) = line.trim_start().strip_prefix("/*").and_then(|l| l.split_once("*/")) {
            let text = text.split(';').next().unwrap_or_default().trim();
            if !text.is_empty() {
                kernel.instructions.push(text.to_string());
            }
        }
    }
    all
}
/// The instruction without its predicate.
fn bare(instruction: &str) -> &str {
    if instruction.starts_with('@') { instruction.split_once(' ').map_or("", |(_, rest)| rest.trim_start()) } else { instruction }
}
/// Its first word without what it is of: `LDG` of `LDG.E.128`.
fn operation(instruction: &str) -> &str {
    bare(instruction).split([' ', '.']).next().unwrap_or_default()
}
fn is_matrix(instruction: &str) -> bool {
    matches!(operation(instruction), "HMMA" | "IMMA" | "DMMA" | "QMMA" | "OMMA" | "HGMMA" | "QGMMA")
}
impl KernelListing {
    /// Loops: from where a branch goes back to, to the branch.
    fn loops(&self) -> impl Iterator<Item = &[String]> {
        self.instructions.iter().enumerate().filter_map(|(end, instruction)| {
            if operation(instruction) != "BRA" {
                return None;
            }
            let label = instruction.split("`(").nth(1)?.split(')').next()?;
            let begin = *self.labels.get(label)?;
            (begin <= end).then(|| &self.instructions[begin..=end])
        })
    }
    /// The loop of the products, if it has one.
    pub fn matrix_loop(&self) -> Option<MatrixLoop> {
        let body = self.loops().filter(|l| l.iter().any(|i| is_matrix(i))).min_by_key(|l| l.len())?;
        let matrix: Vec<&str> = body.iter().filter(|i| is_matrix(i)).map(|i| bare(i)).collect();
        // The first operand is where the sums go.
        let sums: BTreeSet<&str> = matrix.iter().filter_map(|i| i.split_whitespace().nth(1)).collect();
        let stores = body.iter().filter(|i| operation(i) == "STS").count();
        Some(MatrixLoop { length: body.len(), matrix: matrix.len(), sums: sums.len(), stores })
    }
    /// Does it read elements at all? One load is that of the gate.
    pub fn reads(&self) -> bool {
        self.instructions.iter().filter(|i| operation(i) == "LDG").count() > 1
    }
    /// Loads from global memory of 16 bytes at once, and stores.
    pub fn widest(&self) -> [usize; 2] {
        ["LDG", "STG"].map(|of| {
            let is_wide = |i: &&String| operation(i) == of && bare(i).split(' ').next().is_some_and(|word| word.split('.').any(|w| w == "128"));
            self.instructions.iter().filter(is_wide).count()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cut from what nvdisasm 13.0 prints: a product whose loop copies, waits and multiplies, in an outer loop.
    const PRODUCT: &str = "
.text.kernel_a:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128 R8, desc[UR4][R2.64] ;
.L_x_2:
        /*0020*/                   DEPBAR.LE SB0, 0x1 ;
        /*0030*/                   LDSM.16.M88.4 R24, [R90] ;
        /*0040*/                   HMMA.16816.F32.BF16 R64, R24.reuse, R16, R64 ;
        /*0050*/                   HMMA.16816.F32.BF16 R60, R24, R18, R60 ;
        /*0060*/              @!P0 BRA `(.L_x_2) ;
        /*0070*/               @P1 BRA `(.L_x_1) ;
        /*0080*/               @P1 STG.E.128 desc[UR4][R6.64], R8 ;
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   BRA `(.L_x_3);
.text.kernel_b:
        /*0000*/                   LDG.E R8, desc[UR4][R2.64+0x128] ;
        /*0010*/                   STG.E.64 desc[UR4][R6.64], R8 ;
";

    #[test]
    fn the_innermost_loop_is_counted_and_each_kernel_by_itself() {
        let all = kernels(PRODUCT);
        assert_eq!(all["kernel_a"].matrix_loop(), Some(MatrixLoop { length: 5, matrix: 2, sums: 2, stores: 0 }));
        assert_eq!(all["kernel_a"].widest(), [1, 1]);
        assert_eq!((all["kernel_b"].matrix_loop(), all["kernel_b"].widest()), (None, [0, 0]));
        let twice = kernels(".text.kernel_c:\n/*0*/ LDG.E R8 ;\n/*1*/ LDG.E R9 ;\n");
        assert_eq!((all["kernel_a"].reads(), twice["kernel_c"].reads()), (false, true));
    }
    #[test]
    fn planted_faults_change_what_is_counted() {
        let of = |from: &str, to: &str| kernels(&PRODUCT.replacen(from, to, 1));
        // Instructions between: a lower share. The same sums twice: a smaller tile. A store of registers. Narrower pieces.
        let crowded = of("LDSM.16", "IADD3 R1, R1, R2, R3 ;\n        /*0031*/ LDSM.16");
        assert_eq!(crowded["kernel_a"].matrix_loop().map(|l| (l.length, l.matrix)), Some((6, 2)));
        let same = of("R60, R24, R18, R60", "R64, R24, R18, R64");
        assert_eq!(same["kernel_a"].matrix_loop().map(|l| l.tile()), Some(512));
        let gathered = of("LDSM.16.M88.4 R24, [R90]", "STS.128 [R90], R24");
        assert_eq!(gathered["kernel_a"].matrix_loop().map(|l| l.stores), Some(1));
        assert_eq!(of("STG.E.128", "STG.E.64")["kernel_a"].widest(), [1, 0]);
        let padded = of("LDSM.16", "NOP ;\n        /*0031*/ LDSM.16");
        assert_eq!(padded["kernel_a"].matrix_loop().map(|l| l.length), Some(6), "what does nothing is counted too");
        // The branch goes elsewhere: the outer loop is what is left.
        assert_eq!(of("@!P0 BRA `(.L_x_2)", "@!P0 BRA `(.L_x_3)")["kernel_a"].matrix_loop().map(|l| l.length), Some(7));
    }
}
