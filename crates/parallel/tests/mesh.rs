//! Meshes: who stands where, and who is in which group.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::op::RankUse;
use adamant_parallel::{Mesh, MeshAxis, MeshShape, collective};
use ranks::{all, each};

fn shapes(ranks: usize) -> Vec<MeshShape> {
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let mut shapes = Vec::new();
    for data in divisors(ranks) {
        for pipeline in divisors(ranks / data) {
            for tensor in divisors(ranks / data / pipeline) {
                shapes.push(MeshShape { data, pipeline, tensor, expert: ranks / data / pipeline / tensor });
            }
        }
    }
    shapes
}
#[test]
fn every_mesh_numbers_its_ranks_and_each_group_has_who_differs_along_its_axis() {
    for ranks in [1, 2, 3, 4, 6, 8] {
        for shape in shapes(ranks) {
            let told = all(ranks, |group| {
                let mesh = Mesh::new(group, shape)?;
                assert_eq!(mesh.rank_at(mesh.place())?, group.rank as usize);
                assert_eq!(mesh.place_of(group.rank as usize)?, mesh.place());
                let place = mesh.place();
                let [data, pipeline, tensor, expert] = place;
                assert_eq!(group.rank as usize, ((data * shape.pipeline + pipeline) * shape.tensor + tensor) * shape.expert + expert);
                let members = |group: &adamant_core::op::Group| -> adamant_core::Result<Vec<usize>> {
                    let own = adamant_core::Tensor::from_slice(&[mesh.world().rank as i64], [1]);
                    Ok(collective::all_gather(&own, 0, group, RankUse::Alike).to_vec::<i64>()?.into_iter().map(|r| r as usize).collect())
                };
                for axis in MeshAxis::ALL {
                    let want = (0..mesh.size(axis)).map(|k| {
                        let mut other = place;
                        other[axis as usize] = k;
                        mesh.rank_at(other)
                    });
                    assert_eq!(members(mesh.group(axis))?, want.collect::<adamant_core::Result<Vec<_>>>()?, "{mesh} along {axis}");
                    assert_eq!((mesh.group(axis).rank as usize, mesh.group(axis).size as usize), (mesh.coordinate(axis), mesh.size(axis)));
                }
                assert_eq!(members(mesh.replicas())?.len(), shape.data * shape.expert);
                Ok(mesh.to_string())
            });
            assert!(told.iter().enumerate().all(|(rank, told)| told.contains(&format!("rank {rank} of {ranks}"))), "{told:?}");
        }
    }
}
#[test]
fn sizes_that_do_not_multiply_up_are_named() {
    for (shape, told) in [
        (MeshShape { data: 2, tensor: 2, ..Default::default() }, "data 2 × tensor 2 is 4 ranks, and the group has 3"),
        (MeshShape { pipeline: 0, ..Default::default() }, "no ranks along the axis pipeline"),
        (MeshShape { data: usize::MAX, tensor: 2, ..Default::default() }, "ranks, and the group has 3"),
    ] {
        for made in each(3, |group| Ok(Mesh::new(group, shape).unwrap_err().to_string())) {
            assert!(made.as_ref().unwrap().contains(told), "{made:?}");
        }
    }
    let mesh = Mesh::alone();
    assert!(mesh.rank_at([0, 1, 0, 0]).unwrap_err().to_string().contains("pipeline 1 is beyond"));
    assert!(mesh.place_of(1).unwrap_err().to_string().contains("no rank 1 among 1"));
    assert_eq!(mesh.to_string(), "one rank (rank 0 of 1)");
}
