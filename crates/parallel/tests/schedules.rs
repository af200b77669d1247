//! Schedules of pipelines: no deadlock, what is in flight, how long stages wait; where layers are cut.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
use adamant_parallel::pipeline::{PipelineAction, PipelineCosts, PipelineSchedule, cut_by_cost, dry_run, pipeline_actions};
use std::collections::HashSet;

const EQUAL: PipelineCosts = PipelineCosts { forward: 1.0, backward: 1.0, transfer: 0.0, buffered: true };

fn schedules() -> Vec<PipelineSchedule> {
    let mut all = vec![PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward];
    all.extend((1..=4).map(|chunks| PipelineSchedule::Interleaved { chunks }));
    all
}
#[test]
fn no_lists_wait_for_each_other_and_all_is_done_once() {
    let mut cases = 0;
    for schedule in schedules() {
        for p in 1..=7 {
            for m in 1..=14 {
                let lists = pipeline_actions(schedule, p, m);
                if schedule.chunks() > 1 && m % p != 0 {
                    assert!(lists.unwrap_err().to_string().contains("no multiple"));
                    continue;
                }
                let lists = lists.unwrap();
                for (forward, backward, transfer) in [(1.0, 1.0, 0.0), (1.0, 2.0, 0.0), (1.0, 2.0, 0.5), (3.0, 1.0, 2.0)] {
                    for buffered in [false, true] {
                        dry_run(&lists, PipelineCosts { forward, backward, transfer, buffered }).unwrap_or_else(|e| panic!("{schedule} {p} {m}: {e}"));
                    }
                }
                for list in &lists {
                    let computed: Vec<PipelineAction> = list.iter().copied().filter(|a| a.computes()).collect();
                    let v = schedule.chunks();
                    assert_eq!((computed.len(), computed.iter().collect::<HashSet<_>>().len()), (2 * m * v, 2 * m * v));
                    // Of each chunk the micro-batches come back in order.
                    for own in 0..v {
                        let back: Vec<usize> = computed
                            .iter()
                            .filter_map(|a| if let PipelineAction::Backward { micro, chunk } = a { (*chunk == own).then_some(*micro) } else { None })
                            .collect();
                        assert_eq!(back, (0..m).collect::<Vec<_>>(), "{schedule} {p} {m}");
                    }
                }
                cases += 1;
            }
        }
    }
    assert!(cases > 250, "{cases}");
}
#[test]
fn micro_batches_in_flight_and_bubbles_are_what_the_papers_say() {
    for p in 1..=7usize {
        for m in 1..=14usize {
            for schedule in schedules() {
                let Ok(lists) = pipeline_actions(schedule, p, m) else { continue };
                let trace = dry_run(&lists, EQUAL).unwrap();
                let v = schedule.chunks();
                let want = (p - 1) as f64 / (v * m + p - 1) as f64;
                assert!((trace.bubble() - want).abs() < 1e-9, "{schedule} {p} {m}: {} and not {want}", trace.bubble());
                for stage in 0..p {
                    let most = trace.in_flight(stage);
                    match schedule {
                        PipelineSchedule::Gpipe => assert_eq!(most, m),
                        PipelineSchedule::OneForwardOneBackward | PipelineSchedule::Interleaved { chunks: 1 } => assert_eq!(most, m.min(p - stage)),
                        PipelineSchedule::Interleaved { chunks } => assert_eq!(most, (m * chunks).min(2 * (p - stage - 1) + (chunks - 1) * p + 1)),
                    }
                }
            }
        }
    }
}
#[test]
fn lists_that_do_not_go_together_are_named() {
    let swap = |schedule, stage: usize, a: usize, b: usize| {
        let mut lists = pipeline_actions(schedule, 3, 4).unwrap();
        lists[stage].swap(a, b);
        [true, false].map(|buffered| dry_run(&lists, PipelineCosts { buffered, ..EQUAL }).map(|_| ()).map_err(|e| e.to_string()))
    };
    // Of every swap of neighbours: either it changes nothing for the others, or it is told.
    let (mut told, mut fine) = (HashSet::new(), 0);
    for schedule in [PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward] {
        for stage in 0..3 {
            let n = pipeline_actions(schedule, 3, 4).unwrap()[stage].len();
            for k in 1..n {
                for made in swap(schedule, stage, k - 1, k) {
                    match made {
                        Ok(()) => fine += 1,
                        Err(e) => {
                            told.insert(
                                ["wait for each other", "without a forward pass", "; stage"]
                                    .into_iter()
                                    .find(|w| e.contains(w))
                                    .unwrap_or_else(|| panic!("{e}")),
                            );
                        }
                    }
                }
            }
        }
    }
    assert!(fine > 0 && told.len() >= 2, "{told:?}");
    for (text, schedule) in
        [("gpipe", PipelineSchedule::Gpipe), ("1f1b", PipelineSchedule::OneForwardOneBackward), ("interleaved:3", PipelineSchedule::Interleaved { chunks: 3 })]
    {
        assert_eq!((text.parse::<PipelineSchedule>().unwrap(), schedule.to_string().as_str()), (schedule, text));
    }
    assert!("2f2b".parse::<PipelineSchedule>().unwrap_err().to_string().contains("`2f2b` is no schedule"));
    for (p, m) in [(0, 1), (1, 0)] {
        assert!(pipeline_actions(PipelineSchedule::Gpipe, p, m).is_err());
    }
    assert!(pipeline_actions(PipelineSchedule::Interleaved { chunks: 0 }, 1, 1).is_err());
}
/// Against all cuts there are.
#[test]
fn the_cut_has_the_smallest_largest_stretch() {
    fn best(costs: &[f64], stretches: usize) -> f64 {
        if stretches == 1 {
            return costs.iter().sum();
        }
        (1..=costs.len() - (stretches - 1)).map(|k| costs[..k].iter().sum::<f64>().max(best(&costs[k..], stretches - 1))).fold(f64::INFINITY, f64::min)
    }
    let mut x = 7u64;
    for n in 1..=9 {
        for stretches in 1..=n {
            for _ in 0..8 {
                let costs: Vec<f64> = (0..n)
                    .map(|_| {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        ((x >> 33) % 10) as f64
                    })
                    .collect();
                let cut = cut_by_cost(&costs, stretches).unwrap();
                assert_eq!((cut.len(), cut[0].start, cut[stretches - 1].end), (stretches, 0, n));
                assert!(cut.windows(2).all(|w| w[0].end == w[1].start) && cut.iter().all(|r| !r.is_empty()));
                let most = cut.iter().map(|r| costs[r.clone()].iter().sum::<f64>()).fold(0.0, f64::max);
                assert_eq!(most, best(&costs, stretches), "{costs:?} in {stretches}");
            }
        }
    }
    assert!(cut_by_cost(&[1.0], 2).unwrap_err().to_string().contains("1 layers cannot be cut into 2"));
    assert!(cut_by_cost(&[1.0, f64::NAN], 2).unwrap_err().to_string().contains("layer 1 costs NaN"));
}
