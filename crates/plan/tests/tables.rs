//! A way that a plan says can be is one that `train` takes: its table is put behind the description, and a step is made.
#![allow(clippy::unwrap_used)]

use adamant_core::Device;
use adamant_distributed::local::local_threads;
use adamant_plan::{PlanScaling, PlannedCluster, RunLoad, plan};
use adamant_train::{Document, Run};
use std::{path::Path, thread};

const PAIRS: &str = r#"
seed = 1
iterations = 1
batch = 32
[data]
kind = "permutation"
classes = 16
rows = 80
workers = 0
[model]
layers = [
    { name = "table", kind = "Embedding", num_embeddings = 16, embedding_dim = 8 },
    { name = "in", kind = "Linear", in_features = 8, out_features = 16 },
    { kind = "ReLU" },
    { name = "out", kind = "Linear", in_features = 16, out_features = 8 },
    { name = "mid", kind = "Linear", in_features = 8, out_features = 8 },
    { name = "head", kind = "Linear", HEAD },
]
[optimizer]
kind = "AdamW"
lr = 0.01
"#;
#[test]
fn a_way_whose_table_train_does_not_take() {
    let mut taken = 0;
    for head in ["in_features = 8, out_features = 16", "tied = \"table\""] {
        let text = PAIRS.replace("HEAD", head);
        let load = RunLoad::of(&Document::parse("run.toml", &text).unwrap(), Path::new(""), None, None).unwrap();
        let planned = plan(&load, &PlannedCluster::default(), &[2, 4], PlanScaling::Strong);
        for way in planned.meshes.iter().flat_map(|(_, all)| all).filter(|way| way.step(PlanScaling::Strong).is_some()) {
            let table = planned.table_of(way);
            let document = Document::parse("run.toml", &format!("{text}{table}")).unwrap();
            thread::scope(|scope| {
                let document = &document;
                let run = |on| Device::reference().scoped(|| Run::new(document).ranks(on).train(&mut ()).map(drop));
                let ranks: Vec<_> = local_threads(way.strategy.mesh.ranks()).unwrap().into_iter().map(|on| scope.spawn(move || run(on))).collect();
                ranks.into_iter().for_each(|rank| rank.join().unwrap().unwrap_or_else(|e| panic!("{}: {e}\n{table}", way.strategy)));
            });
            taken += usize::from(!way.strategy.is_of_rows());
        }
    }
    assert!(taken > 10, "{taken} ways with stages or pieces");
}
