//! Event files, read back by our own reader and by TensorBoard's.
#![allow(clippy::unwrap_used)]
use adamant_train::events::{self, EventWriter, Payload};
use serde_json::json;
use std::{io::Write, path::Path, process::Command};

fn written(folder: &Path) -> EventWriter {
    let mut writer = EventWriter::create(folder).unwrap();
    for step in 1..=5 {
        writer.scalar("train/loss", step, 1.0 / step as f64).unwrap();
    }
    writer.scalar("zero", 1, 0.0).unwrap();
    writer.scalar("wild/</script>\u{202e}\"", 3, f64::NAN).unwrap();
    writer.text("config", 0, "a **bold** line\nπ").unwrap();
    writer.histogram("grads", 2, &[0.0, 1.0, 2.0, f64::NAN]).unwrap();
    writer.flush().unwrap();
    writer
}

#[test]
fn a_record_that_is_lost_or_changed_on_the_way_back() {
    let folder = tempfile::tempdir().unwrap();
    let records = events::read(written(folder.path()).path()).unwrap();
    assert_eq!(records.len(), 10);
    assert_eq!(records[0].payload, Payload::Version("brain.Event:2".into()));
    assert_eq!((records[4].step, &records[4].payload), (4, &Payload::Scalar { tag: "train/loss".into(), value: 0.25 }));
    assert_eq!(records[6].payload, Payload::Scalar { tag: "zero".into(), value: 0.0 });
    assert!(matches!(&records[7].payload, Payload::Scalar { tag, value } if tag.contains("</script>") && value.is_nan()));
    assert_eq!(records[8].payload, Payload::Text { tag: "config".into(), text: "a **bold** line\nπ".into() });
    assert!(matches!(&records[9].payload, Payload::Histogram { count: 3.0, range: (0.0, 2.0), .. }));
}
#[test]
fn a_flipped_bit_or_a_cut_file_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path()).path().to_path_buf();
    let whole = std::fs::read(&path).unwrap();
    let (mut cuts, mut ends) = (0, Vec::new());
    for length in 1..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        // Only between two records may a file end.
        match events::read(&path) {
            Ok(records) => ends.push(records.len()),
            Err(_) => cuts += 1,
        }
    }
    assert_eq!(ends, (1..10).collect::<Vec<_>>());
    assert_eq!(cuts, whole.len() - 1 - ends.len());
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &changed).unwrap();
        assert!(events::read(&path).is_err(), "bit {bit}");
    }
}
#[test]
fn two_writers_in_one_second_that_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (EventWriter::create(folder.path()).unwrap(), EventWriter::create(folder.path()).unwrap());
    assert_ne!(a.path(), b.path());
}
#[test]
fn a_folder_that_cannot_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(EventWriter::create(&file.join("runs")).is_err());
}

/// Python with TensorBoard: `ADAMANT_PYTHON`, else `python3`.
fn tensorboard(folder: &Path) -> Option<serde_json::Value> {
    let python = std::env::var("ADAMANT_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/read_events.py");
    let skipped = |why: &str| {
        let text = format!("NOT TESTED against TensorBoard's own parser: {why}. Set ADAMANT_PYTHON to a Python that has tensorboard.");
        let _ = writeln!(std::io::stderr(), "\n*** {text} ***\n");
        None
    };
    let output = match Command::new(&python).arg(script).arg(folder).output() {
        Ok(output) => output,
        Err(error) => return skipped(&format!("{python}: {error}")),
    };
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) {
        return skipped(says.trim());
    }
    assert!(output.status.success(), "{says}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}
#[test]
fn a_file_that_tensorboard_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = written(folder.path());
    writer.scalar("wild/</script>\u{202e}\"", 4, 1.5).unwrap();
    drop(writer);
    let Some(found) = tensorboard(folder.path()) else { return };
    let losses: Vec<_> = (1..=5).map(|s| json!([s, 1.0 / f64::from(s)])).map(as_f32).collect();
    assert_eq!(found["scalars"]["train/loss"].as_array().unwrap().iter().cloned().map(as_f32).collect::<Vec<_>>(), losses);
    assert_eq!(found["scalars"]["zero"], json!([[1, 0.0]]));
    assert_eq!(found["scalars"]["wild/</script>\u{202e}\""], json!([[3, "nan"], [4, 1.5]]));
    assert_eq!(found["texts"]["config"], json!([[0, "a **bold** line\nπ"]]));
    assert_eq!(found["histograms"]["grads"], json!([[2, 3.0, 3.0]]));
}
#[test]
fn steps_that_a_resumed_run_lost_and_tensorboard_still_shows() {
    let folder = tempfile::tempdir().unwrap();
    drop(written(folder.path()));
    // Resumed from the checkpoint of step 3: steps 4 and 5 are done again, with other losses.
    let mut writer = EventWriter::resume(folder.path(), 4).unwrap();
    for step in 4..=6 {
        writer.scalar("train/loss", step, 10.0 * step as f64).unwrap();
    }
    writer.flush().unwrap();
    let records = events::read(writer.path()).unwrap();
    assert_eq!((records[1].step, &records[1].payload), (4, &Payload::Purge));
    let Some(found) = tensorboard(folder.path()) else { return };
    let steps: Vec<_> = found["scalars"]["train/loss"].as_array().unwrap().iter().cloned().map(as_f32).collect();
    assert_eq!(steps, [(1, 1.0), (2, 0.5), (3, 1.0 / 3.0), (4, 40.0), (5, 50.0), (6, 60.0)]);
}
/// `[step, value]` with the value as TensorBoard keeps it.
fn as_f32(pair: serde_json::Value) -> (u64, f32) {
    (pair[0].as_u64().unwrap(), pair[1].as_f64().unwrap() as f32)
}
