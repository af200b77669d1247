//! What the assembler says that each kernel takes, read from the compiler's log (`--ptxas-options=-v`): registers, the memory of a
//! block, and what was spilled, of the functions that a kernel calls too.
use std::collections::BTreeMap;

/// What one kernel takes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KernelUsage {
    /// of a thread
    pub registers: u32,
    /// bytes of the block's memory
    pub shared: u32,
    /// bytes written to and read from memory because registers ran out
    pub spills: u32,
    /// bytes of a thread's own memory: arrays that are indexed by what is not known, and calls
    pub stack: u32,
}
/// What the log says, by the kernels' names. A kernel of which it says nothing is not among them.
pub fn usage(log: &str) -> BTreeMap<String, KernelUsage> {
    let mut all = BTreeMap::new();
    // The kernel that is spoken of, and what its lines said so far. Functions that it calls have lines before its own or behind.
    let mut current: Option<String> = None;
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            current = rest.split('\'').next().map(String::from);
        }
        let Some(name) = &current else { continue };
        let numbers = |unit: &str| number_before(line, unit);
        let mut say = |f: &dyn Fn(&mut KernelUsage)| f(all.entry(name.clone()).or_default());
        if let (Some(stores), Some(loads)) = (numbers(" bytes spill stores"), numbers(" bytes spill loads")) {
            say(&|u| u.spills += stores + loads);
            if let Some(stack) = numbers(" bytes stack frame") {
                say(&|u| u.stack += stack);
            }
        }
        if let Some(registers) = numbers(" registers") {
            say(&|u| u.registers = registers);
            say(&|u| u.shared = numbers(" bytes smem").unwrap_or(0));
        }
    }
    // One that was begun and never told of its registers is not known.
    all.retain(|_, u| u.registers > 0);
    all
}
/// The number that stands before these words.
fn number_before(line: &str, words: &str) -> Option<u32> {
    let before = line.split(words).next().filter(|b| b.len() < line.len())?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC 13.0 says it of two kernels of which the second calls a function.
    const LOG: &str = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel_1' for 'sm_90a'
ptxas info    : Function properties for kernel_1
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 49152 bytes smem
ptxas info    : Compile time = 213.144 ms
ptxas info    : Compiling entry function 'kernel_2' for 'sm_90a'
ptxas info    : Function properties for kernel_2
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 16 bytes cumulative stack size
ptxas info    : Function properties for long_helper
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 32 bytes spill loads
";

    #[test]
    fn registers_memory_and_spills_are_told_apart() {
        let all = usage(LOG);
        assert_eq!(all["kernel_1"], KernelUsage { registers: 128, shared: 49152, spills: 0, stack: 0 });
        assert_eq!(all["kernel_2"], KernelUsage { registers: 40, shared: 0, spills: 44, stack: 24 });
        assert_eq!(all.len(), 2);
    }
    #[test]
    fn a_spill_that_is_planted_is_seen_and_a_kernel_that_nothing_is_said_of_is_missing() {
        let planted = LOG.replacen("0 bytes spill stores", "4 bytes spill stores", 1);
        assert_eq!(usage(&planted)["kernel_1"].spills, 4);
        let silent = LOG.replacen("Used 128 registers", "Used", 1);
        assert!(!usage(&silent).contains_key("kernel_1"));
        assert!(usage("").is_empty());
    }
}
