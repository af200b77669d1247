//! What it costs when ranks exchange something, by the way that it goes (Thakur, Rabenseifner and Gropp 2005): `exchange`, each rank to each
//! of the group, as the tree's all-to-all and all-gather do; `two-level`, by a tree of messages within each host, then between hosts.
//!
//! Must not know what is exchanged.
use crate::cluster::{ClusterLink, CollectivePaths, PlannedCluster};

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// a sum that all get: a reduce-scatter and an all-gather
    AllReduce,
    /// a sum of which each gets a piece
    ReduceScatter,
    /// all get all pieces
    AllGather,
}
/// Ranks that exchange something, as they lie on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeGroup {
    /// how many
    pub size: usize,
    /// how many of them are on one host
    pub on_host: usize,
    /// how many such groups a host has ranks of, which do the same at the same time
    pub beside: usize,
}
/// What an exchange takes.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ExchangeCost {
    /// seconds beside the ranks' work
    pub free: f64,
    /// seconds of a rank's device
    pub carried: f64,
    /// bytes that leave a rank
    pub bytes: f64,
}
impl ExchangeCost {
    /// How long it takes alone.
    pub fn seconds(&self) -> f64 {
        self.free + self.carried
    }
    fn over(link: &ClusterLink, messages: f64, bytes: f64) -> ExchangeCost {
        let seconds = messages * link.alpha + bytes / link.beta;
        let (free, carried) = if link.uses_devices { (0.0, seconds) } else { (seconds, 0.0) };
        ExchangeCost { free, carried, bytes: 0.0 }
    }
    fn and(self, other: ExchangeCost) -> ExchangeCost {
        ExchangeCost { free: self.free + other.free, carried: self.carried + other.carried, bytes: self.bytes + other.bytes }
    }
}
impl ExchangeGroup {
    /// Of `size` ranks that are `stride` apart, where so many ranks are on a host.
    pub fn strided(size: usize, stride: usize, ranks_of_host: usize) -> ExchangeGroup {
        let (stride, of_host) = (stride.max(1), ranks_of_host.max(1));
        let on_host = (of_host / stride).clamp(1, size.max(1));
        ExchangeGroup { size, on_host, beside: (of_host / on_host).max(1) }
    }
    /// What it costs that all of them exchange a tensor of so many bytes, all pieces together.
    pub fn cost(&self, kind: ExchangeKind, bytes: f64, cluster: &PlannedCluster) -> ExchangeCost {
        if self.size <= 1 {
            return ExchangeCost::default();
        }
        let phases = if kind == ExchangeKind::AllReduce { 2.0 } else { 1.0 };
        let (n, k) = (self.size as f64, self.on_host as f64);
        let hosts = (n / k).ceil();
        let (inside, between) = match cluster.collectives {
            CollectivePaths::Exchange => {
                let inside = ExchangeCost::over(&cluster.inside, phases * (k - 1.0), phases * (k - 1.0) / n * bytes);
                // What all ranks of a host send goes through its one link.
                let of_host = self.beside as f64 * k * (n - k) / n * bytes;
                (inside, ExchangeCost::over(&cluster.between, phases * (n - k), phases * of_host))
            }
            CollectivePaths::TwoLevel => {
                let inside = ExchangeCost::over(&cluster.inside, phases * k.log2().ceil(), phases * (k - 1.0) / k * bytes);
                let of_host = self.beside as f64 * (hosts - 1.0) / hosts * bytes;
                (inside, ExchangeCost::over(&cluster.between, phases * hosts.log2().ceil(), phases * of_host))
            }
        };
        let all = if hosts > 1.0 { inside.and(between) } else { inside };
        ExchangeCost { bytes: phases * (n - 1.0) / n * bytes, ..all }
    }
}
/// What it costs to send so many bytes to the rank `stride` further on.
pub fn send_cost(bytes: f64, stride: usize, ranks_of_host: usize, cluster: &PlannedCluster) -> ExchangeCost {
    // Those that lie between go beyond the host at the same time.
    let cost = match stride < ranks_of_host {
        true => ExchangeCost::over(&cluster.inside, 1.0, bytes),
        false => ExchangeCost::over(&cluster.between, 1.0, bytes * ranks_of_host.max(1) as f64),
    };
    ExchangeCost { bytes, ..cost }
}
