//! What is fast and has a plain twin: each can be off, for a reason that is told.
use parking_lot::RwLock;

/// A fast way to do what can be done plainly. A new one gets a name here and a check in `selftest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FastPath {
    /// products by the library; else by kernels of ours
    LibraryProducts,
    /// products of f32 with factors cut to TF32; else with whole factors
    Tf32Products,
    /// what is added behind sums by the library; else by a Map
    BiasEpilogue,
    /// ReLU behind sums by the library; else by a Map
    ReluEpilogue,
    /// GELU behind sums of 16 bits by the library; else by a Map
    GeluEpilogue,
    /// GELU behind sums of f32 by the library; else by a Map
    WideGeluEpilogue,
    /// products of 16 bits by the matrix unit; else by single elements
    UnitProducts,
    /// attention of 16 bits by the matrix unit; else by single elements
    UnitAttention,
    /// convolutions of 16 bits by the matrix unit; else by single elements
    UnitConvolutions,
    /// tensors in mapped pages; else in pieces of the driver's
    MappedPages,
    /// plans as graphs of the driver's; else launch by launch
    Graphs,
}
impl FastPath {
    /// What stands on another comes behind it.
    pub const ALL: [FastPath; 11] = [
        FastPath::LibraryProducts,
        FastPath::Tf32Products,
        FastPath::BiasEpilogue,
        FastPath::ReluEpilogue,
        FastPath::GeluEpilogue,
        FastPath::WideGeluEpilogue,
        FastPath::UnitProducts,
        FastPath::UnitAttention,
        FastPath::UnitConvolutions,
        FastPath::MappedPages,
        FastPath::Graphs,
    ];

    /// For people, and where the outcome of the self-test is kept.
    pub fn name(self) -> &'static str {
        match self {
            FastPath::LibraryProducts => "products of cuBLASLt",
            FastPath::Tf32Products => "TF32",
            FastPath::BiasEpilogue => "biases of cuBLASLt",
            FastPath::ReluEpilogue => "ReLU of cuBLASLt",
            FastPath::GeluEpilogue => "GELU of cuBLASLt",
            FastPath::WideGeluEpilogue => "GELU of f32 of cuBLASLt",
            FastPath::UnitProducts => "products of tensor cores",
            FastPath::UnitAttention => "attention of tensor cores",
            FastPath::UnitConvolutions => "convolutions of tensor cores",
            FastPath::MappedPages => "mapped pages",
            FastPath::Graphs => "graphs",
        }
    }
    fn named(name: &str) -> Option<FastPath> {
        FastPath::ALL.into_iter().find(|path| path.name() == name)
    }
}
/// Those that are off, with why.
#[derive(Default, Debug)]
pub(crate) struct PathsOff(RwLock<Vec<(FastPath, String)>>);
impl Clone for PathsOff {
    fn clone(&self) -> PathsOff {
        PathsOff(RwLock::new(self.0.read().clone()))
    }
}
impl PathsOff {
    pub fn is_on(&self, path: FastPath) -> bool {
        !self.0.read().iter().any(|(off, _)| *off == path)
    }
    pub fn put_off(&self, path: FastPath, why: &str) {
        if self.is_on(path) {
            self.0.write().push((path, why.replace('\n', " ")));
        }
    }
    pub fn all(&self) -> Vec<(FastPath, String)> {
        self.0.read().clone()
    }
    /// A line each.
    pub fn to_text(&self) -> String {
        self.all().iter().map(|(path, why)| format!("{}\t{why}\n", path.name())).collect()
    }
    /// What [`PathsOff::to_text`] wrote; none where it is something else.
    pub fn from_text(text: &str) -> Option<PathsOff> {
        let line = |line: &str| line.split_once('\t').and_then(|(name, why)| Some((FastPath::named(name)?, why.to_string())));
        text.lines().map(line).collect::<Option<Vec<_>>>().map(|off| PathsOff(RwLock::new(off)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let off = PathsOff::default();
        assert_eq!(PathsOff::from_text(&off.to_text()).map(|read| read.all()), Some(Vec::new()));
        for path in FastPath::ALL {
            off.put_off(path, "1 is 2\nand more");
            off.put_off(path, "not told again");
            assert!(!off.is_on(path));
        }
        assert_eq!(PathsOff::from_text(&off.to_text()).map(|read| read.all()), Some(FastPath::ALL.map(|path| (path, "1 is 2 and more".to_string())).to_vec()));
        for damaged in ["mapped pages", "a path of another version\twhy\n", "\t\n"] {
            assert!(PathsOff::from_text(damaged).is_none(), "{damaged:?}");
        }
    }
}
