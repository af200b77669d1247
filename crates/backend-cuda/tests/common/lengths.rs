//! The memory of a training whose lengths are drawn: what one step of a small GPT takes, and in which order it is given up.

/// Numbers by a seed.
pub struct Lengths(pub u64);
impl Lengths {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    /// From 64 to 1,024.
    pub fn tokens(&mut self) -> u64 {
        64 + self.below(961)
    }
}
const LAYERS: usize = 4;
const BATCH: u64 = 4;
const WIDTH: u64 = 192;
const CLASSES: u64 = 512;

/// Bytes of the weights and of an optimizer's two moments, which stay.
pub fn weights() -> Vec<u64> {
    (0..LAYERS).flat_map(|_| [WIDTH * WIDTH * 48, WIDTH * 4, WIDTH * 4, WIDTH * 16]).flat_map(|bytes| [bytes; 3]).collect()
}
/// One step over so many tokens: each layer keeps something for the way back, and what only one op needs goes at once. `take` gives
/// what it took a number, by which `give` gives it up.
pub fn step(tokens: u64, mut take: impl FnMut(u64) -> usize, mut give: impl FnMut(usize)) {
    let row = BATCH * tokens * 4;
    let mut kept = Vec::new();
    let batch = [take(row), take(row)];
    let mut x = take(row * WIDTH);
    for _ in 0..LAYERS {
        let of_layer = [row, row * WIDTH, row * WIDTH * 3, row * WIDTH, row * WIDTH, row, row * WIDTH, row * WIDTH * 4, row * WIDTH * 4];
        let layer: Vec<usize> = of_layer.into_iter().map(&mut take).collect();
        let next = take(row * WIDTH);
        kept.push((x, layer));
        x = next;
    }
    let logits = take(row * CLASSES);
    let loss = take(4);
    let mut grad = take(row * CLASSES);
    give(logits);
    let mut grads = Vec::new();
    for (before, layer) in kept.into_iter().rev() {
        let wide = take(row * WIDTH * 4);
        grads.push(take(WIDTH * WIDTH * 48));
        give(grad);
        grad = take(row * WIDTH);
        give(wide);
        layer.into_iter().for_each(&mut give);
        give(before);
    }
    [grad, x, loss].into_iter().chain(batch).chain(grads).for_each(&mut give);
}
