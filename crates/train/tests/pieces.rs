//! Checkpoints that ranks write together, piece by piece: on a disk that fails or loses power at each of its operations, and with files that are
//! damaged, missing or exchanged. What is to be read is known: each tensor is made here, and cut here.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Device, Shape, Tensor};
use adamant_train::{
    checkpoint::{
        CheckpointError, CheckpointReader, Checkpoints, NeededElements, PieceFiles, PieceTensor, RankShare, Retention, Snapshot, TensorPiece, latest, read,
        write_pieces,
    },
    storage::{
        Disk, Storage, StorageErrorKind,
        simulated::{Fate, Simulated},
    },
};
use serde_json::json;
use std::{fs, ops::Range, path::Path, sync::Arc};

/// Numbers that follow from a seed.
struct Draw(u64);
impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}
/// A tensor by its group and name, and the bits of its elements as numbers.
struct MadeTensor {
    group: &'static str,
    name: String,
    shape: Vec<usize>,
    dtype: DType,
    values: Vec<f32>,
}
impl MadeTensor {
    fn value(&self) -> Tensor {
        Tensor::from_vec(self.values.clone(), Shape::new(&self.shape).unwrap()).cast(self.dtype)
    }
    fn piece(&self, of: &Range<usize>) -> Tensor {
        Tensor::from_vec(self.values[of.clone()].to_vec(), [of.len()]).cast(self.dtype)
    }
}
fn state(draw: &mut Draw) -> Vec<MadeTensor> {
    let mut all = Vec::new();
    for (k, shape) in [vec![7], vec![3, 5], vec![2, 3, 4], vec![40, 30], vec![1], vec![]].into_iter().enumerate() {
        for (group, name) in [("model", format!("layer{k}.weight")), ("optimizer", format!("layer{k}.weight.exp_avg"))] {
            let n = shape.iter().product();
            // Whole numbers below 256: exact in every dtype.
            let values = (0..n).map(|_| draw.below(256) as f32).collect();
            let dtype = [DType::F32, DType::BF16, DType::F64][draw.below(3)];
            all.push(MadeTensor { group, name, shape: shape.clone(), dtype, values });
        }
    }
    all
}
/// Where ranks meet in so many elements.
fn cuts(draw: &mut Draw, elements: usize, ranks: usize) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = (1..ranks).map(|_| draw.below(elements + 1)).chain([0, elements]).collect();
    ends.sort_unstable();
    ends.windows(2).map(|w| w[0]..w[1]).collect()
}
/// What each rank writes: pieces, or all of it by one.
fn shares(draw: &mut Draw, all: &[MadeTensor], ranks: usize) -> Vec<RankShare> {
    let mut shares = vec![RankShare::new(); ranks];
    for tensor in all {
        let mut put = |rank: usize, value: Tensor, piece: Option<TensorPiece>| {
            shares[rank].entry(tensor.group.to_string()).or_default().push(PieceTensor { name: tensor.name.clone(), value, piece });
        };
        if draw.below(5) == 0 {
            put(draw.below(ranks), tensor.value(), None);
            continue;
        }
        for (rank, of) in cuts(draw, tensor.values.len(), ranks).into_iter().enumerate().filter(|(_, of)| !of.is_empty()) {
            put(rank, tensor.piece(&of), Some(TensorPiece { shape: Shape::new(&tensor.shape).unwrap(), elements: of }));
        }
    }
    shares
}
fn save(checkpoints: &Checkpoints, disk: &dyn Storage, step: u64, shares: &[RankShare]) -> Result<(), CheckpointError> {
    let write = || {
        checkpoints.begin_together(step)?;
        let files = shares.iter().enumerate().map(|(rank, share)| write_pieces(disk, checkpoints.folder(), step, rank, share));
        // As they travel from rank to rank.
        let files = files.map(|files| PieceFiles::decode(&files?.encode()?)).collect::<Result<Vec<_>, _>>()?;
        checkpoints.finish_together(step, &json!({ "step": step }), Some(step as f64), files)
    };
    write().map(drop).inspect_err(|_| checkpoints.give_up_together(step))
}
fn check(found: &Snapshot, all: &[MadeTensor], step: u64) {
    assert_eq!((found.step, &found.state), (step, &json!({ "step": step })));
    assert_eq!(found.tensors.values().map(Vec::len).sum::<usize>(), all.len());
    for tensor in all {
        let (_, value) = found.tensors[tensor.group].iter().find(|(name, _)| *name == tensor.name).unwrap();
        assert_eq!((value.shape().unwrap().to_vec(), value.dtype().unwrap()), (tensor.shape.clone(), tensor.dtype), "{}", tensor.name);
        assert_eq!(value.cast(DType::F32).to_vec::<f32>().unwrap(), tensor.values, "{}", tensor.name);
    }
}
fn entries(disk: &Simulated, folder: &Path) -> Vec<String> {
    disk.list(folder).unwrap().into_iter().map(|e| e.name.to_string_lossy().into_owned()).filter(|name| name != ".lock").collect()
}
const KEPT: Retention = Retention { last: 2, best: 0 };
const FOLDER: &str = "/run/checkpoints";

#[test]
fn a_tensor_that_is_put_together_otherwise_than_it_was_cut() {
    let device = Device::reference();
    device.scoped(|| {
        for seed in 0..12 {
            let mut draw = Draw(seed);
            let (all, ranks, disk) = (state(&mut draw), 1 + draw.below(6), Simulated::new());
            let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(FOLDER), KEPT).unwrap();
            save(&checkpoints, &disk, 6, &shares(&mut draw, &all, ranks)).unwrap();
            check(&checkpoints.latest().unwrap().unwrap().snapshot, &all, 6);
            let folder = Path::new(FOLDER).join("step-00000006");
            // The pieces of other ranks, each with its own reader, and in any order.
            for tensor in &all {
                let mut reader = CheckpointReader::open(&disk, &folder).unwrap();
                assert_eq!((reader.step(), reader.ranks()), (6, Some(ranks as u64)));
                let readers = 1 + draw.below(9);
                let mut of = cuts(&mut draw, tensor.values.len(), readers);
                of.reverse();
                for of in of {
                    let got = reader.range(tensor.group, &tensor.name, of.clone(), device).unwrap();
                    assert_eq!(got.cast(DType::F32).to_vec::<f32>().unwrap(), tensor.values[of.clone()], "seed {seed}, {} {of:?}", tensor.name);
                }
                let beyond = reader.range(tensor.group, &tensor.name, 0..tensor.values.len() + 1, device).unwrap_err();
                assert!(beyond.to_string().contains(&format!("which has {}", tensor.values.len())), "{beyond}");
            }
            // What is not needed is left out, and not read.
            let reader = CheckpointReader::open(&disk, &folder).unwrap();
            let found = reader.restore(device, &|entry| if entry.group == "model" { NeededElements::Range(0..1) } else { NeededElements::Nothing }).unwrap();
            assert!(found.snapshot.tensors["optimizer"].is_empty() && found.snapshot.tensors["model"].len() == all.len() / 2);
        }
    });
}
#[test]
fn a_save_that_fails_or_loses_power_at_any_operation() {
    Device::reference().scoped(|| {
        let mut draw = Draw(77);
        let (first, second) = (state(&mut draw), state(&mut draw));
        let (a, b) = (shares(&mut draw, &first, 3), shares(&mut draw, &second, 4));
        let begun = || {
            let disk = Simulated::new();
            let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(FOLDER), Retention { last: 1, best: 0 }).unwrap();
            save(&checkpoints, &disk, 3, &a).unwrap();
            (disk, checkpoints)
        };
        let (disk, checkpoints) = begun();
        let before = disk.history().len() as u64;
        save(&checkpoints, &disk, 9, &b).unwrap();
        let after = disk.history().len() as u64;
        drop(checkpoints);
        assert!(after - before > 20, "{}", after - before);
        let (mut old, mut new) = (0, 0);
        for at in before..after {
            // The disk fails once: what there was is as it was, nothing is left, and the next save goes well.
            let (disk, checkpoints) = begun();
            disk.fail_at(at, StorageErrorKind::Io("broken".into()));
            let saved = save(&checkpoints, &disk, 9, &b);
            let found = checkpoints.latest().unwrap().unwrap().snapshot;
            match &saved {
                Ok(()) => check(&found, &second, 9),
                Err(_) if found.step == 3 => check(&found, &first, 3),
                Err(_) => check(&found, &second, 9),
            }
            save(&checkpoints, &disk, 12, &b).unwrap();
            check(&checkpoints.latest().unwrap().unwrap().snapshot, &second, 12);
            drop(checkpoints);
            let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(FOLDER), Retention { last: 1, best: 0 }).unwrap();
            assert!(entries(&disk, Path::new(FOLDER)).iter().all(|name| name.starts_with("step-")), "{at}: {:?}", entries(&disk, Path::new(FOLDER)));
            drop(checkpoints);
            // The power goes out, whatever becomes of what was not synced.
            for fate in [Fate::Kept, Fate::Dropped, Fate::Torn(at), Fate::Torn(at + 1000)] {
                let (disk, checkpoints) = begun();
                disk.crash_at(at);
                let saved = save(&checkpoints, &disk, 9, &b);
                let disk = disk.restarted(fate);
                let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(FOLDER), Retention { last: 1, best: 0 }).unwrap();
                let found = checkpoints.latest().unwrap().unwrap().snapshot;
                let is_new = found.step == 9;
                assert!(is_new || saved.is_err(), "{at} {fate:?}: what was saved is not found");
                check(&found, if is_new { &second } else { &first }, if is_new { 9 } else { 3 });
                (old, new) = (old + usize::from(!is_new), new + usize::from(is_new));
                assert!(entries(&disk, Path::new(FOLDER)).iter().all(|name| name.starts_with("step-")), "{at} {fate:?}");
            }
        }
        assert!(old > 20 && new > 4, "{old} {new}");
    });
}
#[test]
fn a_rank_whose_disk_is_full() {
    Device::reference().scoped(|| {
        let mut draw = Draw(5);
        let (all, disk) = (state(&mut draw), Simulated::new());
        let shares = shares(&mut draw, &all, 3);
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(FOLDER), KEPT).unwrap();
        disk.set_capacity(Some(3000));
        let error = save(&checkpoints, &disk, 1, &shares).unwrap_err();
        assert!(error.is_full(), "{error}");
        assert!(entries(&disk, Path::new(FOLDER)).is_empty(), "{:?}", entries(&disk, Path::new(FOLDER)));
    });
}
#[test]
fn pieces_that_are_damaged_missing_or_exchanged() {
    Device::reference().scoped(|| {
        let run = tempfile::tempdir().unwrap();
        let mut draw = Draw(11);
        let all = state(&mut draw);
        let made = shares(&mut draw, &all, 3);
        let checkpoints = Checkpoints::open(Arc::new(Disk), run.path(), Retention { last: 9, best: 0 }).unwrap();
        save(&checkpoints, &Disk, 1, &made).unwrap();
        save(&checkpoints, &Disk, 2, &made).unwrap();
        let (older, newest) = (run.path().join("step-00000001"), run.path().join("step-00000002"));
        let files: Vec<String> = fs::read_dir(&newest).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(files.iter().filter(|name| name.contains(".rank-")).count(), 6);
        for name in &files {
            let path = newest.join(name);
            let whole = fs::read(&path).unwrap();
            let found = |what: &str| {
                let found = latest(&Disk, run.path()).unwrap().unwrap();
                assert_eq!(found.snapshot.step, 1, "{what} {name}");
                assert!(found.warnings[0].error.is_damage() && found.warnings[0].to_string().contains(name), "{what} {name}: {}", found.warnings[0]);
                check(&found.snapshot, &all, 1);
                found.warnings[0].to_string()
            };
            for _ in 0..6 {
                let mut bytes = whole.clone();
                let at = draw.below(bytes.len());
                bytes[at] ^= 1 << draw.below(8);
                fs::write(&path, &bytes).unwrap();
                found("a changed bit of");
            }
            fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            found("the end is cut off of");
            fs::remove_file(&path).unwrap();
            assert!(found("missing is").contains("it is not there"));
            fs::write(&path, &whole).unwrap();
        }
        // Of the last tensor of a file the error tells the name.
        let path = newest.join("optimizer.rank-1.safetensors");
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = read(&Disk, &newest).unwrap_err().to_string();
        assert!(error.contains("optimizer.rank-1.safetensors is damaged in tensor `layer"), "{error}");
        fs::write(&path, &whole).unwrap();
        // Files of two ranks, exchanged; and the manifest of another step.
        let other = newest.join("optimizer.rank-2.safetensors");
        let kept = fs::read(&other).unwrap();
        fs::write(&path, &kept).unwrap();
        fs::write(&other, &whole).unwrap();
        let error = read(&Disk, &newest).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("optimizer.rank-"), "{error}");
        fs::write(&path, &whole).unwrap();
        fs::write(&other, &kept).unwrap();
        let manifest = fs::read(newest.join("manifest.json")).unwrap();
        fs::copy(older.join("manifest.json"), newest.join("manifest.json")).unwrap();
        let found = latest(&Disk, run.path()).unwrap().unwrap();
        assert!(found.snapshot.step == 1 && found.warnings[0].to_string().contains("it is of step 1"), "{}", found.warnings[0]);
        fs::write(newest.join("manifest.json"), manifest).unwrap();
        check(&latest(&Disk, run.path()).unwrap().unwrap().snapshot, &all, 2);
    });
}
#[test]
fn what_ranks_say_that_is_no_whole_state() {
    Device::reference().scoped(|| {
        let mut draw = Draw(3);
        let (all, disk) = (state(&mut draw), Simulated::new());
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(FOLDER), KEPT).unwrap();
        let made = shares(&mut draw, &all, 3);
        // One whose pieces are left out; one that writes a file and does not say so.
        let mut short = made.clone();
        short[1].values_mut().for_each(|pieces| drop(pieces.iter().position(|p| p.piece.is_some()).map(|at| pieces.remove(at))));
        for (shares, says) in [(short, "are in no file"), (made.clone(), "")] {
            match save(&checkpoints, &disk, 4, &shares) {
                Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{error}"),
                Ok(()) => assert!(says.is_empty()),
            }
            let left = entries(&disk, Path::new(FOLDER));
            assert!(left.iter().all(|name| name.starts_with("step-")) && left.len() == usize::from(says.is_empty()), "{left:?}");
        }
        checkpoints.begin_together(5).unwrap();
        let files: Vec<PieceFiles> = made.iter().enumerate().map(|(rank, share)| write_pieces(&disk, checkpoints.folder(), 5, rank, share).unwrap()).collect();
        write_pieces(&disk, checkpoints.folder(), 5, 7, &made[0]).unwrap();
        let error = checkpoints.finish_together(5, &json!({ "step": 5 }), None, files.clone()).unwrap_err();
        assert!(error.to_string().contains(".rank-7.safetensors") && error.to_string().contains("no rank says"), "{error}");
        // A file that only its writer sees.
        checkpoints.begin_together(5).unwrap();
        let error = checkpoints.finish_together(5, &json!({ "step": 5 }), None, files).unwrap_err();
        assert!(error.to_string().contains("all ranks need one file system"), "{error}");
        assert_eq!(entries(&disk, Path::new(FOLDER)), ["step-00000004"]);
        check(&checkpoints.latest().unwrap().unwrap().snapshot, &all, 4);
    });
}
