//! What a card says of itself: five cards, by the name of their architecture.
//!
//! Numbers are those that the cards report (`deviceQuery`, NVIDIA's tuning guides and data sheets); rates are those of the
//! data sheets and serve the virtual clock alone.

/// One card.
#[derive(Debug, Clone, PartialEq)]
pub struct CardProfile {
    /// The architecture, as NVRTC writes it.
    pub name: &'static str,
    /// The card, as the driver calls it.
    pub card: &'static str,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Bytes of memory, where nothing else is asked for.
    pub memory: u64,
    /// Multiprocessors.
    pub processors: u32,
    /// Threads that a multiprocessor holds.
    pub threads_of_processor: u32,
    /// Blocks that a multiprocessor holds.
    pub blocks_of_processor: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_of_processor: u32,
    /// Bytes of shared memory of a block that asked for more than 48 KiB.
    pub shared_of_block: u32,
    /// Bytes of the second cache.
    pub cache: u32,
    /// Clocks of the processors and of the memory, kHz.
    pub clocks: (u32, u32),
    /// Width of the memory's bus, bits.
    pub bus: u32,
    /// f32 operations for one of f64.
    pub single_to_double: u32,
    /// Engines that copy beside compute.
    pub copy_engines: u32,
    /// Memory with error correction.
    pub ecc: bool,
    /// Bytes a second: of memory, of the way to the host.
    pub rates: (f64, f64),
}

/// The cards.
pub const PROFILES: &[CardProfile] = &[
    CardProfile {
        name: "sm_70",
        card: "Tesla V100-SXM2-16GB",
        capability: (7, 0),
        memory: 16_935_682_048,
        processors: 80,
        threads_of_processor: 2048,
        blocks_of_processor: 32,
        shared_of_processor: 98_304,
        shared_of_block: 98_304,
        cache: 6_291_456,
        clocks: (1_530_000, 877_000),
        bus: 4096,
        single_to_double: 2,
        copy_engines: 6,
        ecc: true,
        rates: (898e9, 12e9),
    },
    CardProfile {
        name: "sm_75",
        card: "Tesla T4",
        capability: (7, 5),
        memory: 15_655_829_504,
        processors: 40,
        threads_of_processor: 1024,
        blocks_of_processor: 16,
        shared_of_processor: 65_536,
        shared_of_block: 65_536,
        cache: 4_194_304,
        clocks: (1_590_000, 5_001_000),
        bus: 256,
        single_to_double: 32,
        copy_engines: 3,
        ecc: true,
        rates: (320e9, 12e9),
    },
    CardProfile {
        name: "sm_80",
        card: "NVIDIA A100-SXM4-40GB",
        capability: (8, 0),
        memory: 42_297_786_368,
        processors: 108,
        threads_of_processor: 2048,
        blocks_of_processor: 32,
        shared_of_processor: 167_936,
        shared_of_block: 166_912,
        cache: 41_943_040,
        clocks: (1_410_000, 1_215_000),
        bus: 5120,
        single_to_double: 2,
        copy_engines: 3,
        ecc: true,
        rates: (1_555e9, 25e9),
    },
    CardProfile {
        name: "sm_90",
        card: "NVIDIA H100 80GB HBM3",
        capability: (9, 0),
        memory: 84_929_347_584,
        processors: 132,
        threads_of_processor: 2048,
        blocks_of_processor: 32,
        shared_of_processor: 233_472,
        shared_of_block: 232_448,
        cache: 52_428_800,
        clocks: (1_980_000, 2_619_000),
        bus: 5120,
        single_to_double: 2,
        copy_engines: 3,
        ecc: true,
        rates: (3_350e9, 55e9),
    },
    CardProfile {
        name: "sm_120",
        card: "NVIDIA GeForce RTX 5090",
        capability: (12, 0),
        memory: 33_668_988_928,
        processors: 170,
        threads_of_processor: 1536,
        blocks_of_processor: 24,
        shared_of_processor: 102_400,
        shared_of_block: 101_376,
        cache: 100_663_296,
        clocks: (2_407_000, 14_001_000),
        bus: 512,
        single_to_double: 64,
        copy_engines: 2,
        ecc: false,
        rates: (1_792e9, 55e9),
    },
];

/// Bytes of shared memory of a block that asked for nothing.
pub(crate) const SHARED_UNASKED: u32 = 49_152;
/// Threads of a block, and of each of its directions.
pub(crate) const THREADS_OF_BLOCK: u32 = 1024;
pub(crate) const BLOCK: [u32; 3] = [1024, 1024, 64];
/// Blocks of a grid in each direction.
pub(crate) const GRID: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Registers of a block, and of a multiprocessor.
pub(crate) const REGISTERS: u32 = 65_536;
/// Pages of mapped memory.
pub(crate) const GRANULE: u64 = 2 << 20;
/// The attributes that the driver knows are numbered from 1 to this.
const LAST_ATTRIBUTE: i32 = 148;

impl CardProfile {
    /// The card of this name.
    pub fn named(name: &str) -> Option<&'static CardProfile> {
        PROFILES.iter().find(|p| p.name == name)
    }
    /// The architecture as one number: 90 for sm_90.
    pub fn architecture(&self) -> u32 {
        10 * self.capability.0 + self.capability.1
    }
    /// Attribute number `which` (`CUdevice_attribute`); none where there is no such attribute.
    pub(crate) fn attribute(&self, which: i32, device: usize) -> Option<i32> {
        let (major, minor) = self.capability;
        let value = match which {
            1..=3 => THREADS_OF_BLOCK,
            4 => BLOCK[2],
            5 => GRID[0],
            6 | 7 => GRID[1],
            8 => SHARED_UNASKED,
            9 => 65_536,
            10 => 32,
            11 => 0x7fff_ffff,
            12 | 82 => REGISTERS,
            13 => self.clocks.0,
            14 => 512,
            16 => self.processors,
            // Copies beside compute, mapped host memory, kernels side by side, one address space.
            15 | 19 | 31 | 41 => 1,
            // Textures: 1D, 2D, 3D, layered.
            21 | 22 | 69 => 131_072,
            23 => 65_536,
            24..=26 => 16_384,
            27 | 28 | 42 => 32_768,
            29 | 43 => 2_048,
            30 => 512,
            32 => u32::from(self.ecc),
            33 => 1 + device as u32,
            36 => self.clocks.1,
            37 => self.bus,
            38 => self.cache,
            39 => self.threads_of_processor,
            40 => self.copy_engines,
            51 => 32,
            75 => major,
            76 => minor,
            // Priorities of streams, both first caches, managed memory.
            78 | 79 | 80 | 83 => 1,
            81 => self.shared_of_processor,
            87 => self.single_to_double,
            // Managed memory at the same time, pre-emption, registered host memory by its own address.
            89..=91 => 1,
            93 | 122 | 94 | 123 => 1,
            95 | 99 | 102 | 103 => 1,
            97 => self.shared_of_block,
            106 => self.blocks_of_processor,
            107 | 110 | 116 => u32::from(major >= 8 && self.ecc),
            108 => {
                if major >= 8 {
                    self.cache / 16 * 10
                } else {
                    0
                }
            }
            109 => {
                if major >= 8 {
                    134_213_632
                } else {
                    0
                }
            }
            111 => {
                if major >= 8 {
                    1024
                } else {
                    0
                }
            }
            113 | 114 | 115 | 125 | 129 => 1,
            112 | 121 => 1,
            118 => 100,
            119 => 1,
            120 | 127 => u32::from(major >= 9),
            126 => {
                if major >= 9 {
                    4
                } else {
                    1
                }
            }
            // Neither where the host's memory is nor that there is no such place is known.
            131 | 134 => return Some(-1),
            _ if (1..=LAST_ATTRIBUTE).contains(&which) => 0,
            _ => return None,
        };
        Some(value as i32)
    }
    /// Blocks of a kernel that a multiprocessor holds at once: NVIDIA's `cuda_occupancy.h` without its registers, which only
    /// the assembler knows.
    pub(crate) fn resident_blocks(&self, threads: u32, shared: u32) -> u32 {
        let warps = threads.div_ceil(32);
        let by_warps = self.threads_of_processor / 32 / warps.max(1);
        let reserved = if self.capability.0 >= 8 { 1024 } else { 0 };
        let granule = if self.capability.0 >= 8 { 128 } else { 256 };
        let of_block = (shared + reserved).next_multiple_of(granule);
        let by_shared = self.shared_of_processor.checked_div(of_block).unwrap_or(u32::MAX);
        by_warps.min(by_shared).min(self.blocks_of_processor)
    }
}
