//! Attention and its cotangents by sums in f64 on the host, as the formula says, and how large the terms of each sum are together.
//! It knows nothing of kernels, and draws what is dropped by itself.

/// A mask that broadcasts over heads, queries and keys.
pub enum HostMask {
    Seen(Vec<bool>),
    Added(Vec<f64>),
}
/// What is computed of; matrices lie one after another, row by row.
pub struct Attended {
    pub heads: usize,
    pub shared: usize,
    pub queries: usize,
    pub keys: usize,
    pub features: usize,
    pub values: usize,
    pub scale: f64,
    pub causal: bool,
    /// the mask and its extents, each 1 or whole
    pub mask: Option<(HostMask, [usize; 3])>,
    pub dropout: f64,
    pub draws: [u32; 4],
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
    pub g: Vec<f64>,
    /// the cotangent of the logarithms
    pub of_lse: Option<Vec<f64>>,
}
/// A result, and of each element the sum of its terms' magnitudes.
pub struct Summed {
    pub result: Vec<f64>,
    pub magnitude: Vec<f64>,
}
impl Summed {
    fn zeros(n: usize) -> Summed {
        Summed { result: vec![0.0; n], magnitude: vec![0.0; n] }
    }
    /// Adds a row of `of` times a factor, of such a magnitude.
    fn add(&mut self, row: usize, (factor, magnitude): (f64, f64), of: &[f64]) {
        let at = row * of.len();
        for (k, x) in of.iter().enumerate() {
            self.result[at + k] += factor * x;
            self.magnitude[at + k] += magnitude * x.abs();
        }
    }
}
/// Output, logarithms, and the cotangents of queries, keys, values, and of a mask that is added.
pub struct HostAnswer {
    pub out: Summed,
    pub lse: Vec<f64>,
    pub cotangents: [Summed; 4],
}

/// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011: Philox of four words in ten rounds.
fn philox(draws: [u32; 4], n: u64) -> u32 {
    let mut key = [draws[0], draws[1]];
    let mut c = [(n >> 2) as u32, (n >> 34) as u32, draws[2], draws[3]];
    for _ in 0..10 {
        let [a, b] = [u64::from(c[0]) * 0xd251_1f53, u64::from(c[2]) * 0xcd9e_8d57];
        c = [(b >> 32) as u32 ^ c[1] ^ key[0], b as u32, (a >> 32) as u32 ^ c[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    c[(n & 3) as usize]
}
fn dot(a: &[f64], b: &[f64]) -> (f64, f64) {
    a.iter().zip(b).fold((0.0, 0.0), |(sum, all), (x, y)| (sum + x * y, all + (x * y).abs()))
}
impl Attended {
    /// Which element of the mask is a score's.
    fn place(&self, head: usize, query: usize, key: usize) -> usize {
        let extents = self.mask.as_ref().map_or([1; 3], |m| m.1);
        [head, query, key].iter().zip(extents).fold(0, |at, (k, n)| at * n + k % n)
    }
    fn hides(&self, head: usize, query: usize, key: usize) -> (bool, f64) {
        let order = self.causal && key > query;
        let place = self.place(head, query, key);
        match &self.mask {
            None => (order, 0.0),
            Some((HostMask::Seen(seen), _)) => (order || !seen[place], 0.0),
            Some((HostMask::Added(added), _)) => (order, added[place]),
        }
    }
    fn keep(&self, head: usize, query: usize, key: usize) -> f64 {
        if self.dropout == 0.0 {
            return 1.0;
        }
        let n = ((head * self.queries + query) * self.keys + key) as u64;
        let uniform = f64::from(philox(self.draws, n) >> 8) / f64::from(1 << 24);
        if uniform < self.dropout { 0.0 } else { 1.0 / (1.0 - self.dropout) }
    }
    /// The formula, and its derivative.
    pub fn answer(&self) -> HostAnswer {
        let (heads, queries, keys) = (self.heads, self.queries, self.keys);
        let mut out = Summed::zeros(heads * queries * self.values);
        let mut lse = Vec::with_capacity(heads * queries);
        let mut of_q = Summed::zeros(self.q.len());
        let (mut of_k, mut of_v) = (Summed::zeros(self.k.len()), Summed::zeros(self.v.len()));
        let mut of_mask = Summed::zeros(self.mask.as_ref().map_or(1, |m| m.1.iter().product()));
        fn row(m: &[f64], n: usize, columns: usize) -> &[f64] {
            &m[n * columns..][..columns]
        }
        for line in 0..heads * queries {
            let (head, query) = (line / queries, line % queries);
            let far = head / (heads / self.shared) * keys;
            let q = row(&self.q, line, self.features);
            let scores: Vec<f64> = (0..keys)
                .map(|key| match self.hides(head, query, key) {
                    (true, _) => f64::NEG_INFINITY,
                    (false, added) => self.scale * dot(q, row(&self.k, far + key, self.features)).0 + added,
                })
                .collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let base = if most == f64::NEG_INFINITY { 0.0 } else { most };
            let sum: f64 = scores.iter().map(|s| (s - base).exp()).sum();
            lse.push(base + sum.ln());
            let weights: Vec<f64> = scores.iter().map(|s| (s - base).exp() / if sum == 0.0 { 1.0 } else { sum }).collect();
            let g = row(&self.g, line, self.values);
            let (mut own, mut delta, mut all) = (vec![(0.0, 0.0); keys], 0.0, 0.0);
            for key in 0..keys {
                let (v, keep) = (row(&self.v, far + key, self.values), self.keep(head, query, key));
                let weight = weights[key] * keep;
                out.add(line, (weight, weight), v);
                of_v.add(far + key, (weight, weight), g);
                let (d, magnitude) = dot(g, v);
                own[key] = (d * keep, magnitude * keep);
                delta += weights[key] * own[key].0;
                all += weights[key] * own[key].1;
            }
            let of_lse = self.of_lse.as_ref().map_or(0.0, |of| of[line]);
            for key in 0..keys {
                let ds = weights[key] * (own[key].0 - delta + of_lse);
                let magnitude = weights[key] * (own[key].1 + all + of_lse.abs());
                of_mask.add(self.place(head, query, key), (ds, magnitude), &[1.0]);
                let (ds, magnitude) = (ds * self.scale, magnitude * self.scale.abs());
                of_q.add(line, (ds, magnitude), row(&self.k, far + key, self.features));
                of_k.add(far + key, (ds, magnitude), q);
            }
        }
        HostAnswer { out, lse, cotangents: [of_q, of_k, of_v, of_mask] }
    }
}
