//! What ranks run on: hosts, the devices in them, and the links between.
//!
//! A link takes `alpha` seconds for a message and `1 / beta` for each of its bytes (Hockney 1994). Devices compute at most so many operations
//! and move at most so many bytes in a second (the roofline of Williams, Waterman and Patterson 2009). Where there are more ranks than devices,
//! those that have something to do share them alike.
//!
//! ```toml
//! hosts = 4                     # as many as ranks need, unless it is said
//! devices = 8                   # of a host: cores, sockets, cards; a rank has one, or shares them with the others
//! compute = { f32 = "200GFLOP/s", half = "400GFLOP/s" }     # of a device
//! bandwidth = "20GB/s"          # of a device's memory
//! memory = "16GiB"              # that a rank on a device of its own may have
//! launch = "0us"                # for each layer and pass, beside its work
//! crowding = 1.0                # how much longer work takes while all devices of the host are at work
//! switching = 1.0               # how much longer work takes of two ranks that share a device
//! collectives = "exchange"      # each rank to each; "two-level": within hosts, then between them
//!
//! [inside]                      # between ranks of a host
//! alpha = "2us"
//! beta = "8GB/s"
//! uses_devices = true           # does a rank's device carry what travels?
//!
//! [between]                     # from host to host; beta is that of a host
//! alpha = "20us"
//! beta = "1.25GB/s"
//! ```
//!
//! Must not know models.
use crate::quantity::QuantityUnit;
use adamant_train::{Document, Failure, config::Section};
use std::path::Path;

/// Hosts, their devices and their links.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCluster {
    /// how many hosts there are; none: as many as ranks need
    pub hosts: Option<usize>,
    /// devices of a host
    pub devices: usize,
    /// operations in a second of a device: of f32, and of 16 bits
    pub compute: ComputeRates,
    /// bytes in a second that a device moves
    pub bandwidth: f64,
    /// bytes that a rank on a device of its own may have
    pub memory: f64,
    /// seconds for each layer and pass beside its work
    pub launch: f64,
    /// how many times as long work takes while all devices of the host are at work
    pub crowding: f64,
    /// how many times as long, beside that, the work of two ranks takes that share a device
    pub switching: f64,
    /// how collectives go
    pub collectives: CollectivePaths,
    /// within a host
    pub inside: ClusterLink,
    /// between hosts
    pub between: ClusterLink,
}
/// Operations in a second, by what is computed in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputeRates {
    /// f32
    pub full: f64,
    /// 16 bits
    pub half: f64,
}
/// A link: α and β.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterLink {
    /// seconds for a message
    pub alpha: f64,
    /// bytes in a second
    pub beta: f64,
    /// does what travels take the time of the rank's device?
    pub uses_devices: bool,
}
/// Which way collectives go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectivePaths {
    /// each rank to each, as the engines `local` and `mpi` do by the tree
    Exchange,
    /// within each host, then between hosts, then within hosts again
    TwoLevel,
}
/// So much a rank may have where nobody says.
const MEMORY: f64 = 16.0 * 1073741824.0;

impl Default for PlannedCluster {
    /// What is assumed where nothing is known: hosts of eight devices, 200 GFLOP/s, 20 GB/s and 16 GiB each, shared memory within them and
    /// Ethernet of 10 Gbit/s between. As many hosts as ranks need.
    fn default() -> PlannedCluster {
        PlannedCluster {
            hosts: None,
            devices: 8,
            compute: ComputeRates { full: 200e9, half: 400e9 },
            bandwidth: 20e9,
            memory: MEMORY,
            launch: 0.0,
            crowding: 1.0,
            switching: 1.0,
            collectives: CollectivePaths::Exchange,
            inside: ClusterLink { alpha: 2e-6, beta: 8e9, uses_devices: true },
            between: ClusterLink { alpha: 20e-6, beta: 1.25e9, uses_devices: false },
        }
    }
}
impl PlannedCluster {
    /// Reads a file. What it does not say is as in [`PlannedCluster::default`].
    ///
    /// # Errors
    /// `Input`: it cannot be read, is no TOML, or a key is unknown, has no unit, or a value that makes no sense; with its line.
    pub fn read(path: &Path) -> Result<PlannedCluster, Failure> {
        PlannedCluster::of(&Document::read(path)?)
    }
    /// The same of a document that was read.
    ///
    /// # Errors
    /// As [`PlannedCluster::read`].
    pub fn of(document: &Document) -> Result<PlannedCluster, Failure> {
        let (s, usual) = (document.root()?, PlannedCluster::default());
        let count = |key: &'static str| match s.size(key)? {
            Some(0) => Err(s.wrong_key(key, "there is one at least")),
            n => Ok(n),
        };
        let (hosts, devices) = (count("hosts")?, count("devices")?.unwrap_or(usual.devices));
        let compute = match s.section("compute")? {
            None => usual.compute,
            Some(s) => {
                let full = positive(&s, "f32", QuantityUnit::FlopsPerSecond)?.unwrap_or(usual.compute.full);
                let half = positive(&s, "half", QuantityUnit::FlopsPerSecond)?.unwrap_or(full * usual.compute.half / usual.compute.full);
                s.finish()?;
                ComputeRates { full, half }
            }
        };
        let bandwidth = positive(&s, "bandwidth", QuantityUnit::BytesPerSecond)?.unwrap_or(usual.bandwidth);
        let memory = positive(&s, "memory", QuantityUnit::Bytes)?.unwrap_or(usual.memory);
        let launch = quantity(&s, "launch", QuantityUnit::Seconds)?.unwrap_or(usual.launch);
        let factor = |key: &'static str, usual: f64| match s.number(key)?.unwrap_or(usual) {
            factor if factor < 1.0 => Err(s.wrong_key(key, "it is 1 at least: work does not get faster while others work too")),
            factor => Ok(factor),
        };
        let (crowding, switching) = (factor("crowding", usual.crowding)?, factor("switching", usual.switching)?);
        let collectives = match s.text("collectives")? {
            None | Some("exchange") => CollectivePaths::Exchange,
            Some("two-level") => CollectivePaths::TwoLevel,
            Some(other) => return Err(s.wrong_key("collectives", format!("there is no `{other}`; there are exchange, two-level"))),
        };
        let inside = link(s.section("inside")?, usual.inside)?;
        let between = link(s.section("between")?, usual.between)?;
        s.finish()?;
        Ok(PlannedCluster { hosts, devices, compute, bandwidth, memory, launch, crowding, switching, collectives, inside, between })
    }
    /// How many of so many ranks are on a host, at most.
    pub fn ranks_of_host(&self, ranks: usize) -> usize {
        match self.hosts {
            Some(hosts) => ranks.div_ceil(hosts.max(1)),
            None => ranks.min(self.devices.max(1)),
        }
    }
    /// Bytes that each of so many ranks may have: those that share devices share their memory.
    pub fn memory_of_rank(&self, ranks: usize) -> f64 {
        let on_host = self.ranks_of_host(ranks).max(1);
        self.memory * (self.devices as f64 / on_host as f64).min(1.0)
    }
    /// Seconds for so many operations and bytes on a device of its own, without launches.
    pub fn seconds(&self, flops: f64, bytes: f64, half: bool) -> f64 {
        (flops / if half { self.compute.half } else { self.compute.full }).max(bytes / self.bandwidth)
    }
    /// How fast each of so many streams of work of a host goes on, of the speed that one alone has.
    pub fn speed(&self, streams: f64) -> f64 {
        let devices = self.devices as f64;
        let busy = streams.clamp(0.0, devices);
        let crowd = if self.devices > 1 { (busy - 1.0).max(0.0) / (devices - 1.0) } else { 0.0 };
        // Of two streams to a device a half changes hands with each turn, of four three quarters.
        let turns = 2.0 * (1.0 - devices / streams.max(devices));
        (devices / streams.max(devices)) / (1.0 + (self.crowding - 1.0) * crowd) / (1.0 + (self.switching - 1.0) * turns)
    }
    /// All of it in words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let (time, rate) = (QuantityUnit::Seconds, QuantityUnit::BytesPerSecond);
        let hosts = self.hosts.map_or("as many hosts as needed".into(), |n| if n == 1 { "one host".into() } else { format!("{n} hosts") });
        let flops = QuantityUnit::FlopsPerSecond;
        let link = |name: &str, l: &ClusterLink| {
            let who = if l.uses_devices { "carried by the ranks' devices" } else { "beside the ranks' work" };
            format!("{name}: {} a message, {}, {who}", time.show(l.alpha), rate.show(l.beta))
        };
        vec![
            format!(
                "{hosts} of {} devices, each {} (16 bits: {}), {}, {} of memory",
                self.devices,
                flops.show(self.compute.full),
                flops.show(self.compute.half),
                rate.show(self.bandwidth),
                QuantityUnit::Bytes.show(self.memory)
            ),
            link("within a host", &self.inside),
            link("between hosts", &self.between),
        ]
    }
}
fn link(section: Option<Section<'_>>, usual: ClusterLink) -> Result<ClusterLink, Failure> {
    let Some(s) = section else { return Ok(usual) };
    let alpha = quantity(&s, "alpha", QuantityUnit::Seconds)?.unwrap_or(usual.alpha);
    let beta = positive(&s, "beta", QuantityUnit::BytesPerSecond)?.unwrap_or(usual.beta);
    let uses_devices = s.flag("uses_devices")?.unwrap_or(usual.uses_devices);
    s.finish()?;
    Ok(ClusterLink { alpha, beta, uses_devices })
}
fn quantity(s: &Section<'_>, key: &'static str, unit: QuantityUnit) -> Result<Option<f64>, Failure> {
    if let Ok(Some(number)) = s.number(key) {
        return Err(s.wrong_key(key, format!("{number} is a number without a unit; write it as \"{}\"", unit.example())));
    }
    s.text(key)?.map(|text| unit.parse(text).map_err(|what| s.wrong_key(key, what))).transpose()
}
fn positive(s: &Section<'_>, key: &'static str, unit: QuantityUnit) -> Result<Option<f64>, Failure> {
    match quantity(s, key, unit)? {
        Some(0.0) => Err(s.wrong_key(key, "it is above 0")),
        value => Ok(value),
    }
}
