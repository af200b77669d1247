//! What device memory keeps: bytes, their states, its limit, and which addresses are alive.
use super::*;

const MIB: u64 = 1 << 20;

fn fault(kind: MemoryFaultKind, address: u64) -> Result<(), MemoryFault> {
    Err(MemoryFault { kind, address })
}

#[test]
fn bytes_come_back_and_unwritten_ones_are_poison() {
    let memory = DeviceMemory::new(MIB);
    let address = memory.allocate(10).unwrap();
    assert_eq!(address % 256, 0);
    memory.write(address + 3, &[1, 2, 3]).unwrap();
    let mut read = [0u8; 10];
    memory.read(address, &mut read).unwrap();
    assert_eq!(read, [POISON, POISON, POISON, 1, 2, 3, POISON, POISON, POISON, POISON]);
    assert!(memory.is_written(address + 3, 3) && !memory.is_written(address + 2, 2) && !memory.is_written(address + 5, 2));
    memory.forget(address + 4, 1).unwrap();
    assert!(!memory.is_written(address + 3, 3) && memory.is_written(address + 5, 1));
}
#[test]
fn copies_carry_what_was_never_written_and_may_overlap() {
    let memory = DeviceMemory::new(MIB);
    let (a, b) = (memory.allocate(8).unwrap(), memory.allocate(8).unwrap());
    memory.write(a, &[1, 2, 3, 4]).unwrap();
    memory.write(b, &[9; 8]).unwrap();
    memory.copy(a + 2, b, 4).unwrap();
    let mut read = [0u8; 8];
    memory.read(b, &mut read).unwrap();
    assert_eq!(read, [3, 4, POISON, POISON, 9, 9, 9, 9]);
    memory.copy(b, b + 1, 2).unwrap();
    memory.read(b, &mut read).unwrap();
    assert_eq!(read, [3, 3, 4, POISON, 9, 9, 9, 9]);
}
#[test]
fn an_end_is_not_a_neighbour_and_what_was_freed_is_told_apart() {
    let memory = DeviceMemory::new(MIB);
    let a = memory.allocate(256).unwrap();
    let b = memory.allocate(256).unwrap();
    assert!(b >= a + 256 + GAP);
    let mut byte = [0u8];
    assert_eq!(memory.read(a + 256, &mut byte), fault(MemoryFaultKind::OutOfBounds, a + 256));
    assert_eq!(memory.write(a + 250, &[0; 7]), fault(MemoryFaultKind::OutOfBounds, a + 256));
    assert!(!memory.is_written(a + 250, 1), "a write that fails writes nothing");
    assert_eq!(memory.read(0, &mut byte), fault(MemoryFaultKind::OutOfBounds, 0));
    assert_eq!(memory.read(u64::MAX, &mut [0, 0]), fault(MemoryFaultKind::OutOfBounds, u64::MAX));
    memory.free(a).unwrap();
    assert_eq!(memory.read(a + 255, &mut byte), fault(MemoryFaultKind::UseAfterFree, a + 255));
    assert_eq!(memory.read(a + 256, &mut byte), fault(MemoryFaultKind::OutOfBounds, a + 256));
    assert_eq!(memory.free(a), Err(Stale { address: a }));
    assert_eq!(memory.free(b + 1), Err(Stale { address: b + 1 }));
    assert!(memory.allocate(256).unwrap() > b, "addresses are given once");
}
#[test]
fn the_limit_counts_what_is_alive() {
    let memory = DeviceMemory::new(1000);
    assert_eq!(memory.allocate(0), None);
    let a = memory.allocate(600).unwrap();
    assert_eq!(memory.allocate(401), None);
    assert_eq!(memory.allocate(u64::MAX), None);
    let b = memory.create(400).unwrap();
    assert_eq!(memory.in_use(), 1000);
    memory.free(a).unwrap();
    assert_eq!(memory.in_use(), 400);
    drop(b);
    assert_eq!((memory.in_use(), memory.limit()), (0, 1000));
    memory.set_limit(10);
    assert_eq!(memory.allocate(11), None);
}
#[test]
fn physical_memory_is_mapped_with_access_and_outlives_its_mapping() {
    let memory = DeviceMemory::new(16 * MIB);
    let range = memory.reserve(3 * MIB).unwrap();
    assert_eq!(range % GRANULARITY, 0);
    let physical = memory.create(GRANULARITY).unwrap();
    let other = memory.create(GRANULARITY).unwrap();
    assert_eq!(memory.write(range, &[1]), fault(MemoryFaultKind::OutOfBounds, range));
    memory.map(range, GRANULARITY, 0, &physical).unwrap();
    memory.map(range + GRANULARITY, GRANULARITY, 0, &other).unwrap();
    assert_eq!(memory.map(range + MIB, MIB, 0, &physical), Err(Stale { address: range + MIB }), "something is mapped there");
    assert_eq!(memory.map(range, 3 * GRANULARITY, 0, &physical), Err(Stale { address: range }), "the memory is shorter");
    assert_eq!(memory.write(range, &[1]), fault(MemoryFaultKind::NotAccessible, range));
    memory.set_access(range, 2 * GRANULARITY, true).unwrap();
    let seam = range + GRANULARITY - 2;
    memory.write(seam, &[1, 2, 3, 4]).unwrap();
    assert_eq!(memory.release_range(range), Err(Stale { address: range }));
    assert_eq!(memory.unmap(range, MIB), Err(Stale { address: range }), "a mapping goes as a whole");
    assert_eq!(memory.free(range), Err(Stale { address: range }), "what is mapped is not freed");
    memory.unmap(range, 2 * GRANULARITY).unwrap();
    assert_eq!(memory.write(seam, &[1]), fault(MemoryFaultKind::UseAfterFree, seam));
    memory.map(range + GRANULARITY, GRANULARITY, 0, &physical).unwrap();
    memory.set_access(range + GRANULARITY, GRANULARITY, true).unwrap();
    let mut read = [0u8; 2];
    memory.read(seam + GRANULARITY, &mut read).unwrap();
    assert_eq!(read, [1, 2], "contents stay with the memory");
    assert_eq!(memory.write(seam, &[1]), fault(MemoryFaultKind::UseAfterFree, seam));
    memory.unmap(range + GRANULARITY, GRANULARITY).unwrap();
    memory.release_range(range).unwrap();
    assert_eq!(memory.release_range(range), Err(Stale { address: range }));
    drop((physical, other));
    assert_eq!(memory.in_use(), 0);
}
