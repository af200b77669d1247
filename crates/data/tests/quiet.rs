//! A program whose panics are counted by its own hook. One test: the hook belongs to the whole process.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{Device, Result};
use adamant_data::{BadRecord, DataLoader, Dataset, Place, Policy};
use std::{
    panic::{catch_unwind, set_hook},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

struct Falls;
impl Dataset for Falls {
    type Record = usize;
    type Batch = Vec<usize>;
    fn len(&self) -> usize {
        20
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        if index % 5 == 3 { panic!("record {index} fell over") } else { Ok(index) }
    }
    fn collate(&self, records: Vec<usize>) -> Result<Vec<usize>> {
        Ok(records)
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: "falls".into(), index, offset: 0 }
    }
}

#[test]
fn a_bad_record_that_is_printed_or_a_fault_of_the_program_that_is_not() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    set_hook(Box::new(|_| {
        HEARD.fetch_add(1, SeqCst);
    }));
    Device::reference().make_current();
    for workers in [0, 2] {
        let mut loader = DataLoader::new(Arc::new(Falls)).batch_size(4).workers(workers).on_bad_record(Policy::Skip { at_most: 4 }).build().unwrap();
        let left: usize = loader.epoch().map(|b| b.unwrap().len()).sum();
        let bad = loader.take_bad_records();
        assert_eq!((left, bad.len()), (16, 4));
        assert!(bad[0].reason.contains("record 3 fell over") && bad[0].reason.contains("quiet.rs:"), "{}", bad[0].reason);
    }
    assert_eq!(HEARD.load(SeqCst), 0);
    assert!(catch_unwind(|| panic!("of the program itself")).is_err());
    assert_eq!(HEARD.load(SeqCst), 1);
}
