//! What a kernel's machine code must be: within the architecture's limits, nothing spilled, the matrix unit busy, wide pieces.
use super::{
    sass::{KernelListing, MatrixLoop},
    usage::KernelUsage,
};

/// Registers that a thread can have, and that a block's threads share on every architecture from 7.5 on; a warp's are given in
/// pieces of 256 (CUDA C++ Programming Guide, compute capabilities).
const OF_THREAD: u32 = 255;
const OF_BLOCK: u32 = 65_536;
const OF_WARP_PIECE: u32 = 256;
/// Bytes that a block has without asking.
const SHARED: u32 = 48 << 10;
/// The least shares of the matrix unit, and the least tile of four warps.
const IN_PRODUCTS: f64 = 0.30;
const IN_ATTENTION: f64 = 0.15;
const TILE: usize = 64 * 64;

/// A text as its skeleton wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedText {
    /// the kernel's name
    pub name: String,
    pub family: String,
    /// where it came from: a call and its dtype, or the number of a random graph
    pub origin: String,
    pub text: String,
    /// a Map over elements that lie side by side, which must move 16 bytes at once
    pub is_dense: bool,
}
impl JudgedText {
    /// Threads of a block.
    pub fn threads(&self) -> Option<u32> {
        self.text.rsplit("__launch_bounds__(").next().filter(|rest| rest.len() < self.text.len())?.split([')', ',']).next()?.parse().ok()
    }
    pub fn is_attention(&self) -> bool {
        self.family.contains("attention")
    }
    /// Is its loop held to no share? Of a product of which a factor does not lie in whole pieces of 16 bytes and is gathered element by
    /// element.
    pub fn is_apart(&self, found: &MatrixLoop) -> bool {
        !self.is_attention() && found.stores > 0
    }
    /// Does it call the matrix unit?
    pub fn multiplies(&self) -> bool {
        self.text.contains("mma.sync")
    }
    /// Pieces of 16 bytes that it takes and puts, by its calls `adm_take_2<8>(...)`.
    pub fn pieces(&self) -> [usize; 2] {
        ["adm_take_", "adm_put_"].map(|call| {
            let bytes = |rest: &str| {
                let (size, rest) = rest.split_once('<')?;
                let (count, rest) = rest.split_once('>')?;
                rest.starts_with("(b").then(|| Some(size.parse::<usize>().ok()? * count.parse::<usize>().ok()?))?
            };
            self.text.split(call).skip(1).filter_map(bytes).map(|bytes| bytes / 16).sum()
        })
    }
}
/// What is wrong with a kernel by what the assembler says of it; nothing where it says nothing is wrong, too.
pub fn by_usage(looked: &JudgedText, usage: Option<&KernelUsage>) -> Vec<String> {
    let (Some(usage), Some(threads)) = (usage, looked.threads()) else { return vec!["the assembler says nothing of it".into()] };
    let mut wrong = Vec::new();
    if usage.spills > 0 {
        wrong.push(format!("{} bytes spilled", usage.spills));
    }
    if usage.registers > OF_THREAD {
        wrong.push(format!("{} registers of a thread", usage.registers));
    }
    let of_block = (usage.registers * 32).next_multiple_of(OF_WARP_PIECE) * threads.div_ceil(32);
    if of_block > OF_BLOCK {
        wrong.push(format!("{of_block} registers of a block"));
    }
    if usage.shared > SHARED {
        wrong.push(format!("{} bytes of a block's memory", usage.shared));
    }
    wrong
}
/// What is wrong with a kernel by its machine code.
pub fn by_code(looked: &JudgedText, listing: Option<&KernelListing>) -> Vec<String> {
    let Some(listing) = listing else { return vec!["it is not in the listing".into()] };
    let mut wrong = Vec::new();
    if looked.multiplies() {
        wrong.extend(by_loop(looked, listing.matrix_loop()));
    }
    let ([take, put], [loads, stores]) = (looked.pieces(), listing.widest());
    if looked.is_dense && (take == 0 || put == 0) {
        wrong.push("a dense Map that does not move 16 bytes at once".into());
    }
    // A result may depend on no element: `x < x`.
    if (loads < take && listing.reads()) || stores < put {
        wrong.push(format!("{loads} loads and {stores} stores of 128 bits where it has {take} and {put} such pieces"));
    }
    wrong
}
fn by_loop(looked: &JudgedText, found: Option<MatrixLoop>) -> Vec<String> {
    let Some(found) = found else { return vec!["no loop with the matrix unit".into()] };
    let mut wrong = Vec::new();
    let least = if looked.is_attention() { IN_ATTENTION } else { IN_PRODUCTS };
    if !looked.is_apart(&found) && found.share() < least {
        wrong.push(format!(
            "{} of {} instructions of the inner loop are the matrix unit's, {:.1} %: at least {:.0} %",
            found.matrix,
            found.length,
            100.0 * found.share(),
            100.0 * least
        ));
    }
    if found.tile() < TILE {
        wrong.push(format!("a tile of {} elements for four warps: at least 64 x 64", found.tile()));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::{super::sass, *};

    fn looked(family: &str, text: &str) -> JudgedText {
        JudgedText { name: "kernel_a".into(), family: family.into(), origin: String::new(), text: text.into(), is_dense: false }
    }
    #[test]
    fn limits_are_held() {
        let text = "__launch_bounds__(128) void __global__ __launch_bounds__(256) void kernel_a(";
        let by = |registers, shared, spills| by_usage(&looked("map", text), Some(&KernelUsage { registers, shared, spills, stack: 0 }));
        assert!(by(255, 48 << 10, 0).is_empty());
        assert!(by(128, 48 << 10, 0).is_empty());
        assert_eq!(by(128, 48 << 10, 4), ["4 bytes spilled"]);
        assert_eq!(by(128, (48 << 10) + 1, 0), ["49153 bytes of a block's memory"]);
        assert_eq!(by(256, 0, 0), ["256 registers of a thread"]);
        assert_eq!(by_usage(&looked("map", text), None), ["the assembler says nothing of it"]);
        let of_many = looked("map", "__launch_bounds__(512) void");
        assert_eq!(by_usage(&of_many, Some(&KernelUsage { registers: 129, ..KernelUsage::default() })), ["69632 registers of a block"]);
        assert_eq!(looked("map", "void").threads(), None);
    }
    #[test]
    fn a_loop_with_too_little_of_the_matrix_unit_or_too_small_a_tile_is_told() {
        let found = |length, sums, stores| Some(MatrixLoop { length, matrix: 16, sums, stores });
        let (product, attention) = (looked("matmul", ""), looked("adamant.attention", ""));
        assert!(by_loop(&product, found(53, 8, 0)).is_empty());
        assert_eq!(by_loop(&product, found(54, 8, 0)).len(), 1);
        assert_eq!(by_loop(&product, found(53, 7, 0)).len(), 1);
        assert!(by_loop(&product, found(540, 8, 4)).is_empty(), "gathered");
        assert!(by_loop(&attention, found(106, 8, 4)).is_empty());
        assert_eq!(by_loop(&attention, found(107, 8, 4)).len(), 1);
        assert_eq!(by_loop(&product, None).len(), 1);
    }
    #[test]
    fn a_dense_map_must_be_wide_in_its_text_and_in_its_code() {
        let text = "template <int N> static inline void adm_take_4(const void *b) {} adm_take_4<4>(b1, x, taken0); adm_put_8<4>(b2, x, made0);";
        let mut map = looked("map", text);
        assert_eq!(map.pieces(), [1, 2]);
        let code =
            |wide: &str| sass::kernels(&format!(".text.kernel_a:\n/*0*/ LDG.E.128 R1 ;\n/*1*/ STG.E.128 R1 ;\n/*2*/ STG.E{wide} R1 ;\n")).remove("kernel_a");
        assert!(by_code(&map, code(".128").as_ref()).is_empty());
        assert_eq!(by_code(&map, code(".64").as_ref()), ["1 loads and 1 stores of 128 bits where it has 1 and 2 such pieces"]);
        let other = |load: &str| {
            sass::kernels(&format!(".text.kernel_a:\n/*0*/ LDG.E R1 ;\n/*1*/ {load} R1 ;\n/*1*/ STG.E.128 R1 ;\n/*2*/ STG.E.128 R1 ;\n")).remove("kernel_a")
        };
        assert_eq!((by_code(&map, other("LDG.E").as_ref()).len(), by_code(&map, other("LD.E").as_ref()).len()), (1, 0));
        assert_eq!(by_code(&map, None), ["it is not in the listing"]);
        (map.text, map.is_dense) = (String::new(), true);
        assert_eq!(by_code(&map, code(".128").as_ref()), ["a dense Map that does not move 16 bytes at once"]);
    }
}
