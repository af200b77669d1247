//! Predictions against what is known in closed form, and against each other: what is faster must not be said to be slower. Models and clusters
//! are drawn from seeds; the formulas here are written down apart from the crate.
#![allow(clippy::unwrap_used)]

use adamant_parallel::{
    MeshShape,
    pipeline::{PipelineCosts, PipelineSchedule, dry_run, pipeline_actions},
};
use adamant_plan::{
    ClusterLink, CollectivePaths, ComputeRates, ExchangeGroup, ExchangeKind, Infeasible, LayerLoad, LayerPiece, MeshStrategy, PlanScaling, PlannedCluster,
    RunLoad, StageAct, StepForecast, forecast, memory, plan, programs,
};
use adamant_train::{Document, GradientCompression};

/// Numbers that follow from a seed.
struct Draw(u64);
impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn of(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
    /// From 10^a to 10^b.
    fn between(&mut self, a: f64, b: f64) -> f64 {
        10f64.powf(a + (b - a) * self.of(1000) as f64 / 1000.0)
    }
}
fn draw(seed: u64) -> Draw {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    (0..8).for_each(|_| {
        draw.next();
    });
    draw
}
fn layer(block: usize, parameters: f64, flops: f64) -> LayerLoad {
    LayerLoad { path: block.to_string(), block, parameters, flops, bytes: 0.0, saved: 64.0, ends: [64.0, 64.0], piece: LayerPiece::Whole }
}
fn load(layers: Vec<LayerLoad>, rows: usize) -> RunLoad {
    RunLoad { layers, rows, shards: None, bucket_bytes: 25.0 * 1048576.0, compress: None, zero: 0, slots: 2, half: false, ends: [64.0, 64.0], times: None }
}
/// Pairs of layers that can be cut, of different sizes.
fn drawn_load(d: &mut Draw) -> RunLoad {
    let blocks = 2 + d.of(10);
    let mut layers = Vec::new();
    for k in 0..blocks {
        let mut l = layer(k, d.between(3.0, 7.0).round(), d.between(4.0, 8.0));
        (l.bytes, l.saved) = (d.between(1.0, 4.0), d.between(1.0, 4.0));
        l.ends = [d.between(2.0, 5.0).round(), d.between(2.0, 5.0).round()];
        l.piece = match k % 3 {
            0 => LayerPiece::Column(64),
            1 => LayerPiece::Row,
            _ => LayerPiece::Whole,
        };
        layers.push(l);
    }
    let mut load = load(layers, 64 + 64 * d.of(4));
    load.bucket_bytes = 1048576.0 * (1 + d.of(30)) as f64;
    load.compress = [None, None, Some(GradientCompression::Bf16), Some(GradientCompression::TopK { share: 0.01 })][d.of(4)];
    load
}
fn drawn_cluster(d: &mut Draw) -> PlannedCluster {
    let mut link = |low: f64| ClusterLink { alpha: d.between(-7.0, -4.0), beta: d.between(low, low + 2.0), uses_devices: d.of(2) == 0 };
    let (inside, between) = (link(9.0), link(8.0));
    PlannedCluster {
        hosts: [None, Some(1), Some(2), Some(4)][d.of(4)],
        devices: [1 + d.of(8), 64][d.of(2)],
        compute: ComputeRates { full: d.between(9.0, 13.0), half: 1e13 },
        bandwidth: d.between(9.0, 12.0),
        memory: 1e12,
        launch: if d.of(2) == 0 { 0.0 } else { 1e-6 },
        crowding: 1.0 + (d.of(2) * d.of(10)) as f64 / 10.0,
        switching: 1.0,
        collectives: [CollectivePaths::Exchange, CollectivePaths::TwoLevel][d.of(2)],
        inside,
        between,
    }
}
/// Each rank has a device of its own, what travels takes none, and nothing takes time but what the caller says.
fn ideal() -> PlannedCluster {
    let free = ClusterLink { alpha: 0.0, beta: f64::INFINITY, uses_devices: false };
    PlannedCluster {
        hosts: None,
        devices: 1,
        compute: ComputeRates { full: 1e9, half: 1e9 },
        bandwidth: f64::INFINITY,
        memory: 1e15,
        launch: 0.0,
        crowding: 1.0,
        switching: 1.0,
        collectives: CollectivePaths::Exchange,
        inside: free,
        between: free,
    }
}
fn pipeline(stages: usize, micro_batches: usize, schedule: PipelineSchedule) -> MeshStrategy {
    MeshStrategy { mesh: MeshShape { pipeline: stages, ..MeshShape::default() }, schedule, micro_batches, zero: 0 }
}
fn near(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() <= 1e-9 * want.abs().max(1e-12), "{what}: {got} and not {want}");
}
fn step(load: &RunLoad, cluster: &PlannedCluster, strategy: &MeshStrategy, rows: usize) -> StepForecast {
    forecast(load, cluster, strategy, rows).unwrap_or_else(|why| panic!("{strategy}: {why}"))
}

#[test]
fn time_that_one_rank_spends_on_others_or_work_that_is_not_counted() {
    for seed in 0..40 {
        let mut d = draw(seed);
        let (load, cluster) = (drawn_load(&mut d), drawn_cluster(&mut d));
        let alone = step(&load, &cluster, &MeshStrategy::data(1, 0), load.rows);
        let rows = load.rows as f64;
        // The roofline of each layer, three times: forward once, back twice. Parameters are read each time.
        let passes: f64 =
            load.layers.iter().map(|l| (l.flops * rows / cluster.compute.full).max((l.bytes * rows + 4.0 * l.parameters) / cluster.bandwidth)).sum();
        let launches = load.layers.len() as f64 * cluster.launch;
        let update = 4.0 * 7.0 * load.layers.iter().map(|l| l.parameters).sum::<f64>() / cluster.bandwidth;
        near(alone.seconds, 3.0 * (passes + launches) + update, &format!("seed {seed}"));
        assert_eq!((alone.exposed, alone.bubble, alone.bytes), (0.0, 0.0, 0.0), "seed {seed}");
    }
}
#[test]
fn ranks_that_wait_although_nothing_takes_time_to_travel() {
    for seed in 0..20 {
        let mut d = draw(seed);
        let mut load = drawn_load(&mut d);
        load.compress = None;
        let flops: f64 = load.layers.iter().map(|l| l.flops).sum();
        for n in [2, 4, 16] {
            for zero in 0..=3 {
                let s = step(&load, &ideal(), &MeshStrategy::data(n, zero), n * load.rows);
                near(s.seconds, 3.0 * flops * load.rows as f64 / 1e9, &format!("seed {seed}, {n} ranks, zero {zero}"));
                assert_eq!(s.exposed, 0.0);
            }
        }
    }
}
#[test]
fn communication_that_is_hidden_where_nothing_is_left_to_hide_it() {
    // One layer, so that its gradient is there when all is done: nothing overlaps.
    for n in [2usize, 3, 8] {
        let mut cluster = ideal();
        cluster.between = ClusterLink { alpha: 1e-4, beta: 1e8, uses_devices: false };
        let load = load(vec![layer(0, 1e6, 1e6)], 64);
        let s = step(&load, &cluster, &MeshStrategy::data(n, 0), 64 * n);
        // 2 (n - 1) messages; of 4 MB (n - 1) / n go twice, and of the 4 KiB of loss and rows; they go one behind the other.
        let (n, compute) = (n as f64, 3.0 * 1e6 * 64.0 / 1e9);
        let travels = |bytes: f64| 2.0 * (n - 1.0) * 1e-4 + 2.0 * (n - 1.0) / n * bytes / 1e8;
        near(s.seconds, compute + travels(4e6) + travels(4096.0), "one bucket behind all");
        near(s.exposed, travels(4e6) + travels(4096.0), "exposed");
        near(s.computing, compute, "computing");
    }
    // Two layers of the same size: the gradient of the second travels while the first goes back.
    let mut cluster = ideal();
    cluster.between = ClusterLink { alpha: 0.0, beta: 1e9, uses_devices: false };
    let load = load(vec![layer(0, 1e6, 1e6), layer(1, 1e6, 1e6)], 64);
    let s = step(&load, &cluster, &MeshStrategy::data(2, 0), 128);
    let (back, travels) = (2.0 * 0.064, 4e6 / 1e9);
    assert!(travels < back);
    near(s.exposed, travels + 4096.0 / 1e9, "only the last bucket is waited for");
}
#[test]
fn a_bubble_that_is_not_the_schedules() {
    for (p, m) in [(2usize, 2usize), (2, 8), (4, 4), (4, 16), (8, 8), (8, 32)] {
        let mut load = load((0..2 * p).map(|k| layer(k, 0.0, 1e6)).collect(), 64 * m);
        load.ends = [0.0, 0.0];
        load.layers.iter_mut().for_each(|l| l.ends = [0.0, 0.0]);
        for schedule in [PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved { chunks: 2 }] {
            let s = step(&load, &ideal(), &pipeline(p, m, schedule), load.rows);
            let want = match schedule {
                // Its lists are made by a clock by which back takes as long as forward: what that costs the pipeline's own dry run says.
                PipelineSchedule::Interleaved { .. } => {
                    let lists = pipeline_actions(schedule, p, m).unwrap();
                    dry_run(&lists, PipelineCosts { forward: 1.0, backward: 2.0, transfer: 0.0, buffered: true }).unwrap().bubble()
                }
                _ => (p as f64 - 1.0) / (m as f64 + p as f64 - 1.0),
            };
            assert!((s.bubble - want).abs() < 1e-9, "{schedule}, {p} stages, {m} micro-batches: {} and not {want}", s.bubble);
        }
    }
}
/// Bytes of so many parameters by the formulas of ZeRO, in f32 under an optimizer of two numbers a parameter.
fn by_the_formula(psi: f64, n: f64, zero: usize, (bucket, unit): (f64, f64)) -> f64 {
    match zero {
        0 => 16.0 * psi,
        1 => 8.0 * psi + 8.0 * psi / n,
        2 => 4.0 * psi + 12.0 * psi / n + 2.0 * bucket,
        _ => 16.0 * psi / n + 2.0 * unit + 2.0 * bucket.min(unit),
    }
}
#[test]
fn memory_that_is_not_what_the_formulas_say() {
    for seed in 0..20 {
        let mut d = draw(seed);
        let (blocks, each) = (4 + d.of(8), 1e6 * (1 + d.of(5)) as f64);
        let mut load = load((0..blocks).map(|k| layer(k, each, 1e6)).collect(), 64);
        load.bucket_bytes = 8e6;
        for n in [2usize, 4, 8] {
            for zero in 0..=3 {
                let got = memory(&load, &MeshStrategy::data(n, zero), 64);
                let psi = each * blocks as f64;
                // Full with the layer that fills it.
                let bucket = (8e6 / (4.0 * each)).ceil() * 4.0 * each;
                let want = by_the_formula(psi, n as f64, zero, (bucket.min(4.0 * psi), 4.0 * each));
                near(got.all() - got.activations, want, &format!("seed {seed}, {n} ranks, zero {zero}"));
                // What each layer saves, the input, and what one works on, for the rows of a rank.
                let rows = (64.0 / n as f64).ceil();
                near(got.activations, rows * (64.0 * blocks as f64 + 128.0 + 64.0 + 128.0), "activations");
            }
        }
        // On stages each has its own layers; of those that are forward and not yet back 1F1B keeps as many as stages follow.
        // Of stages with as much the last one has the loss too.
        for (p, schedule, flights, loss) in [(2usize, PipelineSchedule::OneForwardOneBackward, 2.0, 0.0), (2, PipelineSchedule::Gpipe, 8.0, 128.0)] {
            let got = memory(&load, &pipeline(p, 8, schedule), 64);
            let most = (blocks as f64 / p as f64).ceil();
            near(got.parameters, 4.0 * each * most, "parameters of the largest stage");
            if blocks % p == 0 {
                near(got.activations, 8.0 * (flights * 64.0 * most + 128.0 + 64.0 + loss), &format!("{schedule}: activations"));
            }
        }
    }
}
/// Every strategy that can be, of a drawn model on a drawn cluster.
fn drawn_strategies(load: &RunLoad, rows: usize) -> Vec<MeshStrategy> {
    let all = [2, 4, 8].into_iter().flat_map(|n| MeshStrategy::all(n, load));
    all.filter(|s| s.check(load, rows).is_ok()).collect()
}
#[test]
fn a_better_cluster_that_is_said_to_be_slower() {
    let (mut tried, mut exact) = (0, 0);
    for seed in 0..40 {
        let mut d = draw(seed);
        let (load, cluster) = (drawn_load(&mut d), drawn_cluster(&mut d));
        let strategies = drawn_strategies(&load, load.rows);
        // What is compressed goes with rows alone.
        let shares_the_model = strategies.iter().any(|s| s.mesh.tensor > 1) && strategies.iter().any(|s| s.mesh.pipeline > 1);
        assert_eq!(shares_the_model, load.compress.is_none(), "seed {seed}");
        for strategy in &strategies {
            let before = step(&load, &cluster, strategy, load.rows).seconds;
            let better: [(&str, fn(&mut PlannedCluster)); 7] = [
                ("α within", |c| c.inside.alpha /= 3.0),
                ("β within", |c| c.inside.beta *= 3.0),
                ("α between", |c| c.between.alpha /= 3.0),
                ("β between", |c| c.between.beta *= 3.0),
                ("compute", |c| c.compute.full *= 3.0),
                ("bandwidth", |c| c.bandwidth *= 3.0),
                ("launch", |c| c.launch = 0.0),
            ];
            for (what, change) in better {
                let mut other = cluster.clone();
                change(&mut other);
                let after = step(&load, &other, strategy, load.rows).seconds;
                // Where streams slow each other down an order of events may turn: what is carried earlier may delay what all wait for.
                let crowded = other.crowding > 1.0 || 2 * other.ranks_of_host(strategy.mesh.ranks()) > other.devices;
                exact += usize::from(!crowded);
                let slack = if crowded { 0.02 } else { 1e-9 };
                assert!(after <= before * (1.0 + slack), "seed {seed}, {strategy}: {before} s, with a better {what} {after} s");
                tried += 1;
            }
        }
    }
    assert!(tried > 5_000 && exact > 1_000, "{tried}, {exact}");
}
#[test]
fn ranks_that_share_devices_and_are_as_fast_as_alone() {
    for seed in 0..20 {
        let mut d = draw(seed);
        let load = drawn_load(&mut d);
        let mut cluster = PlannedCluster {
            hosts: Some(1),
            devices: 2,
            crowding: 1.0,
            inside: ClusterLink { alpha: 0.0, beta: f64::INFINITY, uses_devices: true },
            ..drawn_cluster(&mut d)
        };
        let one = |ranks: usize, cluster: &PlannedCluster| step(&load, cluster, &MeshStrategy::data(ranks, 0), ranks * 64).seconds;
        let (two, four, eight) = (one(2, &cluster), one(4, &cluster), one(8, &cluster));
        near(four, 2.0 * two, "four on two devices");
        near(eight, 4.0 * two, "eight on two devices");
        cluster.crowding = 1.5;
        near(one(2, &cluster), 1.5 * two, "a crowded host");
        near(one(4, &cluster), 3.0 * two, "a crowded host with more ranks");
        cluster.switching = 1.1;
        near(one(2, &cluster), 1.5 * two, "each on its own");
        near(one(4, &cluster), 3.0 * 1.1 * two, "two that take turns");
    }
}
#[test]
fn exchanges_of_other_costs_than_their_ways_have() {
    for seed in 0..40 {
        let mut d = draw(seed);
        let (n, bytes) = (2 + d.of(30), d.between(2.0, 8.0));
        let (a, b) = (d.between(-6.0, -4.0), d.between(7.0, 10.0));
        let link = ClusterLink { alpha: a, beta: b, uses_devices: d.of(2) == 0 };
        let mut cluster = PlannedCluster { hosts: Some(1), devices: 64, inside: link, collectives: CollectivePaths::Exchange, ..ideal() };
        let cost = |kind, on_host: usize, cluster: &PlannedCluster| ExchangeGroup::strided(n, 1, on_host).cost(kind, bytes, cluster);
        let m = n as f64;
        let all = cost(ExchangeKind::AllReduce, n, &cluster);
        near(all.seconds(), 2.0 * (m - 1.0) * a + 2.0 * (m - 1.0) / m * bytes / b, "an exchange of all");
        near(all.bytes, 2.0 * (m - 1.0) / m * bytes, "bytes");
        assert_eq!((all.free == 0.0, all.carried == 0.0), (link.uses_devices, !link.uses_devices), "seed {seed}");
        for kind in [ExchangeKind::AllGather, ExchangeKind::ReduceScatter] {
            near(2.0 * cost(kind, n, &cluster).seconds(), all.seconds(), "half of it");
        }
        cluster.collectives = CollectivePaths::TwoLevel;
        near(cost(ExchangeKind::AllReduce, n, &cluster).seconds(), 2.0 * m.log2().ceil() * a + 2.0 * (m - 1.0) / m * bytes / b, "by a tree");
        // On two hosts of four ranks: within each 2 * 3/4 of the bytes, between them one half twice.
        (cluster.inside, cluster.between) =
            (ClusterLink { alpha: 0.0, beta: b, uses_devices: false }, ClusterLink { alpha: a, beta: b / 10.0, uses_devices: false });
        let two = ExchangeGroup::strided(8, 1, 4).cost(ExchangeKind::AllReduce, bytes, &cluster);
        near(two.seconds(), 1.5 * bytes / b + 2.0 * a + 2.0 * 0.5 * bytes / (b / 10.0), "two levels");
        cluster.collectives = CollectivePaths::Exchange;
        let flat = ExchangeGroup::strided(8, 1, 4).cost(ExchangeKind::AllReduce, bytes, &cluster);
        // Each of four ranks sends its pieces for four others twice through the one link of the host.
        near(flat.seconds(), 2.0 * 3.0 / 8.0 * bytes / b + 8.0 * a + 2.0 * 4.0 * 4.0 / 8.0 * bytes / (b / 10.0), "each to each, on two hosts");
    }
}
#[test]
fn gradients_that_travel_in_other_buckets() {
    // 8 layers of 1 MiB: the first bucket is full with one of them, each other one with three.
    let mut load = load((0..8).map(|k| layer(k, 262_144.0, 1e6)).collect(), 64);
    load.bucket_bytes = 3.0 * 1048576.0;
    let mut cluster = ideal();
    cluster.between.beta = 1e9;
    let programs = programs(&load, &cluster, &MeshStrategy::data(2, 0), 128).unwrap();
    let bytes: Vec<f64> = programs[0].exchanges.iter().map(|e| e.bytes).collect();
    let mib = 1048576.0;
    assert_eq!(bytes, [mib, 3.0 * mib, 3.0 * mib, mib, 4096.0], "2 (n - 1) / n is 1 of two ranks");
    // With units gathered ahead: the second is begun before the first is computed.
    let programs = adamant_plan::programs(&load, &cluster, &MeshStrategy::data(2, 3), 128).unwrap();
    let acts = &programs[0].acts;
    let place = |act: StageAct| acts.iter().position(|a| *a == act).unwrap();
    assert!(place(StageAct::Begin(1)) < acts.iter().position(|a| matches!(a, StageAct::Compute(_))).unwrap());
    // 8 units forward; back the last is still there; and 8 gradients, and the loss.
    assert_eq!(programs[0].exchanges.len(), 8 + 7 + 8 + 1);
}
#[test]
fn what_cannot_be_is_planned_or_told_without_its_reason() {
    let mut load = load((0..4).map(|k| layer(k, 1e6, 1e6)).collect(), 8);
    let of = |load: &RunLoad, strategy: &MeshStrategy| strategy.check(load, load.rows).unwrap_err();
    let tensor = |n| MeshStrategy { mesh: MeshShape { tensor: n, ..MeshShape::default() }, ..MeshStrategy::data(1, 0) };
    assert!(matches!(of(&load, &MeshStrategy::data(16, 0)), Infeasible::Rows { rows: 8, among: 16 }));
    assert!(matches!(of(&load, &pipeline(8, 8, PipelineSchedule::Gpipe)), Infeasible::Layers { layers: 4, stretches: 8 }));
    assert!(matches!(of(&load, &tensor(2)), Infeasible::NoPieces));
    load.layers[0].piece = LayerPiece::Heads(6);
    assert!(matches!(of(&load, &tensor(4)), Infeasible::Divides { what: "heads", count: 6, among: 4, .. }));
    assert!(tensor(3).check(&load, 8).is_ok());
    let with_zero = MeshStrategy { zero: 3, ..tensor(3) };
    assert!(matches!(of(&load, &with_zero), Infeasible::Together(_)));
    load.compress = Some(GradientCompression::Bf16);
    assert!(matches!(of(&load, &MeshStrategy::data(2, 2)), Infeasible::Together(_)));
    assert!(MeshStrategy::data(2, 1).check(&load, 8).is_ok());
    load.shards = Some(2);
    assert!(matches!(of(&load, &MeshStrategy::data(4, 0)), Infeasible::Shards { shards: 2, ranks: 4 }));
    // Memory is told with both numbers, and only what fits is the best.
    let mut small = ideal();
    small.memory = 4e6 * 4.0 + 4e6 * 12.0 / 4.0;
    (load.shards, load.compress, load.layers[0].piece) = (None, None, LayerPiece::Whole);
    let planned = plan(&load, &small, &[1, 4], PlanScaling::Strong);
    let best = planned.best().unwrap();
    let full = planned.meshes[1].1.iter().find(|m| m.strategy == MeshStrategy::data(4, 0)).unwrap();
    assert!(
        matches!(full.strong, Err(Infeasible::Memory { needed, available }) if needed > 64e6 && (available - small.memory).abs() < 1.0),
        "{:?}",
        full.strong
    );
    assert!(best.strategy.zero == 3 || best.strategy.mesh.pipeline > 1, "{}", best.strategy);
    let alone = planned.meshes[0].1.first().unwrap();
    assert!(alone.strong.is_err() && alone.strong.as_ref().unwrap_err().to_string().starts_with("memory: "));
}
#[test]
fn a_table_that_train_does_not_take_or_a_document_without_its_numbers() {
    let load = load((0..4).map(|k| layer(k, 1e6, 1e8)).collect(), 64);
    let planned = plan(&load, &ideal(), &[1, 2, 4], PlanScaling::Strong);
    let mesh = planned.meshes[2].1.iter().find(|m| m.strategy == MeshStrategy::data(4, 2)).unwrap();
    let table = planned.table_of(mesh);
    let document = Document::parse("best", &table).unwrap();
    let (root, s) = (document.root().unwrap(), document.root().unwrap().section("distributed").unwrap().unwrap());
    drop(root);
    assert_eq!(
        (s.text("mode").unwrap(), s.size("shards").unwrap(), s.size("zero").unwrap(), s.size("bucket_mb").unwrap()),
        (Some("distributed"), Some(4), Some(2), Some(25))
    );
    s.finish().unwrap();
    let told = planned.to_json("by hand");
    assert_eq!((&told["schema_version"], &told["scaling"], &told["rows"]), (&1.into(), &"strong".into(), &64.into()));
    let meshes = told["meshes"].as_array().unwrap();
    assert_eq!(meshes.len(), planned.meshes.iter().map(|(_, all)| all.len()).sum::<usize>());
    for m in meshes {
        let numbers = ["step_seconds", "compute_seconds", "exposed_seconds", "bubble", "bytes_sent", "memory_bytes"];
        assert!(m["strong"]["infeasible"].is_string() || numbers.iter().all(|n| m["strong"][*n].is_f64()), "{m}");
    }
    // Four ranks that nothing holds up do a quarter of the work each.
    let four = meshes.iter().find(|m| m["data"] == 4 && m["zero"] == 0).unwrap();
    near(four["strong_efficiency"].as_f64().unwrap(), 1.0, "strong");
    near(four["weak_efficiency"].as_f64().unwrap(), 1.0, "weak");
}
#[test]
fn a_pattern_that_means_another_layer() {
    let named = |path: &str, piece| LayerLoad { path: path.into(), piece, ..layer(0, 1e3, 1e3) };
    let (column, row) = (LayerPiece::Column(4), LayerPiece::Row);
    let of = |layers: Vec<LayerLoad>| load(layers, 8).styles().into_iter().map(|(path, style)| format!("{path} {style:?}")).collect::<Vec<_>>();
    let blocks =
        vec![named("blocks.0.a", column), named("blocks.0.b", row), named("blocks.1.a", column), named("blocks.1.b", row), named("head", LayerPiece::Whole)];
    assert_eq!(of(blocks), ["blocks.*.a Column", "blocks.*.b Row"]);
    // A number is all that the layers are called by.
    let numbers = vec![named("0", column), named("1", LayerPiece::Between), named("2", row), named("3", LayerPiece::Whole)];
    assert_eq!(of(numbers), ["0 Column", "2 Row"]);
    assert_eq!(of(vec![named("blocks.0.a", column), named("blocks.1.a", LayerPiece::Whole)]), ["blocks.0.a Column"]);
}
