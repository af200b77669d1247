//! Every function, over dtypes and lengths, against answers that each rank computes on its own.
use crate::data::{DTYPES, bytes, elements, floats, tree_sum};
use adamant_engine_mpi::MpiCommunicator;
use adamant_ir::{
    DType, Shape, TensorType,
    op::{CollectiveKind, RankUse, ReduceOp},
};
use adamant_runtime::communicator::{CollectiveCall, Communicator, ReductionTree, exchange_array, group};
use std::sync::Arc;

/// Lengths in elements: none, one, odd ones on both sides of what travels behind a header, several chunks, one that no rank count divides.
const LENGTHS: [usize; 8] = [0, 1, 3, 63, 1_025, 4_097, 70_001, 300_007];

/// A call of a kind on so many elements.
pub fn call(on: &dyn Communicator, kind: CollectiveKind, dtype: DType, n: usize) -> CollectiveCall {
    CollectiveCall::next(on, kind, TensorType { shape: Shape::new(&[n]).unwrap(), dtype }, None)
}
pub fn barrier(on: &dyn Communicator) -> Result<(), adamant_ir::ErrorKind> {
    let call = call(on, CollectiveKind::Barrier, DType::U8, 0);
    on.all_gather(&call, &[], &mut (0..on.size()).map(|_| &mut [][..]).collect::<Vec<_>>())
}
fn all_reduce_kind(parts: usize) -> CollectiveKind {
    CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: parts as u32, used: RankUse::Alike }
}

pub fn all(on: &Arc<MpiCommunicator>) {
    moved(&**on, 1);
    for dtype in DTYPES {
        for n in LENGTHS {
            added_up(&**on, dtype, n);
        }
    }
    fast(on);
    by_exchange(on);
}
/// What moves bytes: gathered, swapped, broadcast, sent in a ring and to oneself over others.
pub fn moved(on: &dyn Communicator, salt: u64) {
    let (rank, size) = (on.rank(), on.size());
    let seed = |what: u64, from: usize, to: usize| salt.wrapping_mul(1 << 40) + (what << 16) + ((from as u64) << 8) + to as u64;
    for (i, n) in LENGTHS.into_iter().enumerate() {
        let what = i as u64 * 8;
        // Blocks of different lengths, some empty.
        let length = |r: usize| if (r + i) % 3 == 2 { 0 } else { n + 13 * r };
        let mut got: Vec<Vec<u8>> = (0..size).map(|r| vec![0xee; length(r)]).collect();
        let mut blocks: Vec<&mut [u8]> = got.iter_mut().map(Vec::as_mut_slice).collect();
        let gather = call(on, CollectiveKind::AllGather { used: RankUse::Alike }, DType::U8, n);
        on.all_gather(&gather, &bytes(seed(what, rank, 0), length(rank)), &mut blocks).unwrap();
        (0..size).for_each(|r| assert!(got[r] == bytes(seed(what, r, 0), length(r)), "all_gather of {n}: rank {r}'s block on rank {rank}"));

        let length = |from: usize, to: usize| if (from + to + i) % 4 == 3 { 0 } else { n + 5 * from + 11 * to };
        let given: Vec<Vec<u8>> = (0..size).map(|to| bytes(seed(what + 1, rank, to), length(rank, to))).collect();
        let mut got: Vec<Vec<u8>> = (0..size).map(|from| vec![0xee; length(from, rank)]).collect();
        let mut blocks: Vec<&mut [u8]> = got.iter_mut().map(Vec::as_mut_slice).collect();
        let given: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
        on.all_to_all(&call(on, CollectiveKind::AllToAll, DType::U8, n), &given, &mut blocks).unwrap();
        (0..size).for_each(|r| assert!(got[r] == bytes(seed(what + 1, r, rank), length(r, rank)), "all_to_all of {n}: rank {r}'s block on rank {rank}"));

        for root in 0..size {
            let expected = bytes(seed(what + 2, root, 0), n);
            let mut got = if rank == root { expected.clone() } else { vec![0xee; n] };
            on.broadcast(&call(on, CollectiveKind::Broadcast { root, used: RankUse::Alike }, DType::U8, n), root, &mut got).unwrap();
            assert!(got == expected, "broadcast of {n} from rank {root} on rank {rank}");
        }
        if size > 1 {
            // Twice, and both before anything is received: order, and sends that nobody has fetched yet.
            let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
            for k in 0..2 {
                on.send(&call(on, CollectiveKind::Send { to: next }, DType::U8, n + k), next, &bytes(seed(what + 3 + k as u64, rank, next), n + k)).unwrap();
            }
            for k in 0..2 {
                let mut got = vec![0xee; n + k];
                on.receive(&call(on, CollectiveKind::Receive { from: before }, DType::U8, n + k), before, &mut got).unwrap();
                assert!(got == bytes(seed(what + 3 + k as u64, before, rank), n + k), "{} bytes from rank {before} on rank {rank}", n + k);
            }
        }
        barrier(on).unwrap();
    }
}
/// Sums along the tree, of as many parts as ranks and of more; scattered sums; maxima.
fn added_up(on: &dyn Communicator, dtype: DType, n: usize) {
    let (rank, size) = (on.rank(), on.size());
    let parts_of = |rank: usize, parts: usize| (parts * rank / size)..(parts * (rank + 1) / size);
    for parts in [size, 2 * size + 1, 8.max(size)] {
        let part = |p: usize| elements(dtype, 1000 * n as u64 + p as u64, n);
        let tree = ReductionTree { reduce: ReduceOp::Sum, dtype, parts, size };
        let nodes = tree.nodes(rank);
        assert_eq!((nodes.first().map(|n| n.start), nodes.last().map(|n| n.end)), (Some(parts_of(rank, parts).start), Some(parts_of(rank, parts).end)));
        let own: Vec<u8> = nodes.iter().flat_map(|node| tree_sum(dtype, &part, node.start, node.end)).collect();
        let mut sum = vec![0xee; n * dtype.size()];
        on.all_reduce(&call(on, all_reduce_kind(parts), dtype, n), &tree, &own, &mut sum).unwrap();
        assert!(sum == tree_sum(dtype, &part, 0, parts), "all_reduce of {parts} parts of {dtype} [{n}] on rank {rank} of {size}");
    }
    let whole = |r: usize| elements(dtype, 77 + 1000 * n as u64 + r as u64, n * size);
    let mut block = vec![0xee; n * dtype.size()];
    let scatter = call(on, CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 }, dtype, n);
    on.reduce_scatter(&scatter, &ReductionTree::of_ranks(ReduceOp::Sum, dtype, size), &whole(rank), &mut block).unwrap();
    let expected = tree_sum(dtype, &whole, 0, size);
    assert!(block == expected[rank * n * dtype.size()..][..n * dtype.size()], "reduce_scatter of {dtype} [{n}] on rank {rank} of {size}");

    if dtype == DType::I32 {
        let part = |r: usize| elements(dtype, 5 + r as u64, n);
        let mut largest = vec![0xee; n * 4];
        let tree = ReductionTree::of_ranks(ReduceOp::Max, dtype, size);
        on.all_reduce(&call(on, all_reduce_kind(0), dtype, n), &tree, &part(rank), &mut largest).unwrap();
        let read = |bytes: &[u8]| -> Vec<i32> { bytes.chunks(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect() };
        let all: Vec<Vec<i32>> = (0..size).map(|r| read(&part(r))).collect();
        let expected: Vec<i32> = (0..n).map(|i| (0..size).map(|r| all[r][i]).max().unwrap()).collect();
        assert_eq!(read(&largest), expected, "the largest of rank {rank}");
    }
}
/// MPI's own sum: integers to the bit, floats to rounding; none of what is shorter, and of maxima.
fn fast(on: &Arc<MpiCommunicator>) {
    let (rank, size) = (on.rank(), on.size());
    for dtype in DTYPES {
        for n in LENGTHS {
            let part = |r: usize| elements(dtype, 31 + 1000 * n as u64 + r as u64, n);
            let mut sum = vec![0xee; n * dtype.size()];
            let kind = all_reduce_kind(0);
            let done = on.all_reduce_fast(&call(&**on, kind, dtype, n), ReduceOp::Sum, dtype, &part(rank), &mut sum);
            if dtype.size() < 4 {
                assert!(done.is_none(), "{dtype} is not for MPI to add");
                continue;
            }
            done.unwrap().unwrap();
            let expected = tree_sum(dtype, &part, 0, size);
            let close = floats(dtype, &sum).iter().zip(floats(dtype, &expected)).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
            let same = if floats(dtype, &expected).is_empty() { sum == expected } else { close };
            assert!(same, "MPI's sum of {dtype} [{n}] on rank {rank} of {size}");
        }
    }
    let mut sum = [0; 4];
    assert!(on.all_reduce_fast(&call(&**on, all_reduce_kind(0), DType::F32, 1), ReduceOp::Max, DType::F32, &[0; 4], &mut sum).is_none());
}
/// As ops ask: shapes and blocks by `exchange`.
fn by_exchange(on: &Arc<MpiCommunicator>) {
    let (rank, size) = (on.rank(), on.size());
    let group = group(&(on.clone() as Arc<dyn Communicator>));
    let own: Vec<f32> = (0..size * 2).map(|i| (rank * 100 + i) as f32).collect();
    let array = adamant_ir::HostArray::from_bytes(Shape::new(&[size * 2]).unwrap(), DType::F32, &own.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>());
    let run = |kind| {
        let bytes = exchange_array(kind, &group, &array, None).unwrap().to_bytes();
        bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect::<Vec<f32>>()
    };
    let of = |r: usize, i: usize| (r * 100 + i) as f32;
    let gathered: Vec<f32> = (0..size).flat_map(|r| (0..size * 2).map(move |i| of(r, i))).collect();
    assert_eq!(run(CollectiveKind::AllGather { used: RankUse::Alike }), gathered);
    let swapped: Vec<f32> = (0..size).flat_map(|r| (0..2).map(move |i| of(r, rank * 2 + i))).collect();
    assert_eq!(run(CollectiveKind::AllToAll), swapped);
    let summed: Vec<f32> = (0..size * 2).map(|i| (0..size).map(|r| of(r, i)).sum()).collect();
    assert_eq!(run(all_reduce_kind(0)), summed);
    assert_eq!(run(CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 }), summed[rank * 2..rank * 2 + 2]);
    assert_eq!(run(CollectiveKind::Broadcast { root: size - 1, used: RankUse::Alike }), (0..size * 2).map(|i| of(size - 1, i)).collect::<Vec<_>>());
    assert_eq!(run(CollectiveKind::Barrier), own);
}
