//! Files of clusters: what they say counts, and what makes no sense is told with its line.
#![allow(clippy::unwrap_used)]

use adamant_plan::{CollectivePaths, PlannedCluster};
use adamant_train::{Document, Failure};

fn read(text: &str) -> Result<PlannedCluster, Failure> {
    PlannedCluster::of(&Document::parse("cluster.toml", text).unwrap())
}
#[test]
fn a_key_that_changes_nothing() {
    let usual = PlannedCluster::default();
    assert_eq!(read("").unwrap(), usual);
    for text in [
        "hosts = 3",
        "devices = 3",
        "bandwidth = \"3GB/s\"",
        "memory = \"3GiB\"",
        "launch = \"3us\"",
        "crowding = 1.5",
        "switching = 1.5",
        "collectives = \"two-level\"",
        "[compute]\nf32 = \"3GFLOP/s\"",
        "[compute]\nhalf = \"3GFLOP/s\"",
        "[inside]\nalpha = \"3us\"",
        "[inside]\nbeta = \"3GB/s\"",
        "[inside]\nuses_devices = false",
        "[between]\nalpha = \"3us\"",
        "[between]\nbeta = \"3GB/s\"",
        "[between]\nuses_devices = true",
    ] {
        assert_ne!(read(text).unwrap(), usual, "{text}");
    }
    let read = read("hosts = 4\ndevices = 2\nmemory = \"2GiB\"\ncollectives = \"two-level\"\n[between]\nalpha = \"100us\"\nbeta = \"200MB/s\"").unwrap();
    assert_eq!((read.hosts, read.devices, read.collectives), (Some(4), 2, CollectivePaths::TwoLevel));
    assert_eq!((read.between.alpha, read.between.beta, read.memory), (1e-4, 2e8, 2147483648.0));
    // Sixteen ranks on four hosts of two devices: two on each device, with half of its memory.
    assert_eq!((read.ranks_of_host(16), read.memory_of_rank(16)), (4, 1073741824.0));
}
#[test]
fn an_error_without_its_line_or_a_hint() {
    for (text, line, says) in [
        ("hosts = 2\ndevises = 8", 2, "did you mean `devices`?"),
        ("[inside]\nalfa = \"1us\"", 2, "did you mean `alpha`?"),
        ("[inside]\nalpha = 5", 2, "a number without a unit; write it as \"100us\""),
        ("[inside]\nalpha = \"5\"", 2, "without a unit"),
        ("[between]\n\nbeta = \"200MB\"", 3, "no unit of it; there are "),
        ("[between]\nbeta = \"-2MB/s\"", 2, "below 0"),
        ("[between]\nbeta = \"0MB/s\"", 2, "it is above 0"),
        ("memory = \"lots\"", 1, "does not begin with a number"),
        ("hosts = 0", 1, "there is one at least"),
        ("\ndevices = -1", 2, "devices"),
        ("crowding = 0.5", 1, "it is 1 at least"),
        ("switching = 0.5", 1, "it is 1 at least"),
        ("collectives = \"ring\"", 1, "there are exchange, two-level"),
        ("[compute]\nf64 = \"1GFLOP/s\"", 2, "unknown key `compute.f64`"),
        ("inside = 3", 1, "is a table"),
    ] {
        let failure = read(text).unwrap_err();
        assert!(matches!(failure, Failure::Input(_) | Failure::Usage(_)), "{failure:?}");
        let told = failure.to_string();
        assert!(told.contains(&format!("cluster.toml:{line}: ")) && told.contains(says), "{text}: {told}");
    }
}
