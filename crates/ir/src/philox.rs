//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the bits of an element from the key
//! of a draw and the element's place alone, so that they are the same on every backend, fused or not.

/// Four words of bits for a counter under a key.
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let (mut k, mut c) = (key, counter);
    for round in 0..10 {
        if round > 0 {
            k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
        }
        let (p0, p1) = (0xD251_1F53u64 * c[0] as u64, 0xCD9E_8D57u64 * c[2] as u64);
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
    }
    c
}
/// The bits of element `index` under a key tensor's words `[seed lo, seed hi, stream, counter]`: word `index % 4` of
/// the block of counter `[index / 4 lo, index / 4 hi, stream, counter]`.
pub fn element_bits(key: [u32; 4], index: u64) -> u32 {
    let block = index / 4;
    philox([key[0], key[1]], [block as u32, (block >> 32) as u32, key[2], key[3]])[(index % 4) as usize]
}
