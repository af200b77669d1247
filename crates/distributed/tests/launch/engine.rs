//! Ranks that find each other by what a launcher told them, in the engine of one host.
use super::*;
use adamant_distributed::place::{RankPlace, open_group};
use adamant_runtime::{
    DType, Shape, TensorType,
    communicator::{CollectiveCall, engine_named},
    op::CollectiveKind,
};

/// This is no test: it is a rank of the next ones.
#[test]
fn rank() {
    let Ok(end) = std::env::var("ADAMANT_TEST_RANK") else { return };
    let place = RankPlace::from_environment().unwrap();
    let group = open_group(&place).unwrap();
    let gather = || {
        let call = CollectiveCall::next(&*group, CollectiveKind::Barrier, TensorType { shape: Shape::new(&[1]).unwrap(), dtype: DType::U8 }, None);
        let mut blocks = vec![[0u8; 1]; group.size()];
        let mut to: Vec<&mut [u8]> = blocks.iter_mut().map(|block| &mut block[..]).collect();
        group.all_gather(&call, &[place.rank as u8], &mut to).map(|()| blocks.concat())
    };
    println!("\ngathered {:?} in epoch {} by {}", gather().unwrap(), place.epoch, group.engine());
    if place.rank == 1 && place.epoch == 0 && end == "killed" {
        let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    }
    if let Err(error) = gather() {
        eprintln!("\nerror: {error}");
        std::process::exit(7);
    }
}
fn ranks(count: usize, end: &str) -> Option<LaunchPlan> {
    if engine_named("local").is_err() {
        eprintln!("SKIPPED: engine local is not linked");
        return None;
    }
    let mut plan = LaunchPlan::new(count, std::env::current_exe().unwrap());
    plan.arguments = ["--exact", "engine::rank", "--nocapture"].map(Into::into).to_vec();
    plan.environment = vec![("ADAMANT_TEST_RANK".into(), end.into())];
    plan.restart_delay = Duration::from_millis(1);
    Some(plan)
}
#[test]
fn ranks_that_do_not_find_each_other() {
    for count in [1, 2, 5] {
        let Some(plan) = ranks(count, "well") else { return };
        let (ended, kept) = job(&plan);
        assert_eq!((ended.code, ended.starts), (0, 1), "{:?} {:?}", ended.cause, kept.notes.lock());
        let engine = if count == 1 { "none" } else { "local" };
        let want = format!("gathered {:?} in epoch 0 by {engine}", (0..count as u8).collect::<Vec<_>>());
        (0..count).for_each(|rank| assert!(kept.of(rank).contains(&want), "rank {rank}: {:?}", kept.of(rank)));
    }
}
#[test]
fn a_rank_that_is_killed_ends_the_job_or_starts_it_again() {
    let Some(mut plan) = ranks(3, "killed") else { return };
    let (ended, kept) = job(&plan);
    assert_eq!((ended.code, ended.starts), (0, 2), "{:?}", ended.cause);
    assert!(kept.notes.lock()[0].starts_with("rank 1 failed first: signal 9"), "{:?}", kept.notes.lock());
    for rank in 0..3 {
        assert!((0..2).all(|epoch| kept.of(rank).contains(&format!("gathered [0, 1, 2] in epoch {epoch} by local"))), "{:?}", kept.of(rank));
    }
    // The survivors have seen it and said so before they were asked to end.
    plan.max_restarts = 0;
    let (ended, kept) = job(&plan);
    let cause = ended.cause.unwrap();
    assert_eq!((ended.code, cause.rank, cause.exit), (137, Some(1), RankExit::Signal(9)));
    for rank in [0, 2] {
        let said = kept.lines.lock().iter().any(|(r, stream, line)| *r == Some(rank) && *stream == RankStream::Err && line.starts_with(b"error: "));
        assert!(said, "rank {rank} says nothing: {:?}", kept.lines.lock());
    }
}
