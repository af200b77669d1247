//! The ranks of `adamant train`, where it was started as one of several: who this one is, and what the first decides for all.
use crate::{out, runs::RunPlace};
use adamant::communicator::engine_named;
use adamant_distributed::{
    Communicator,
    control::RankControl,
    place::{RankPlace, open_group},
    told_by_first,
};
#[cfg(not(unix))]
use adamant_engine_mpi as _;
use adamant_train::{Document, Failure, rank_timeout};
use std::{path::PathBuf, sync::Arc};

/// The group that a launcher's variables tell of; none for one rank alone. It is opened: all ranks are there. `alone` are options that go
/// with one rank, and whether they were given.
///
/// # Errors
/// `Usage`: variables that make no sense, an option that goes with one rank; an engine that is not there, ranks that do not come.
pub fn group(document: &Document, alone: &[(&str, bool)]) -> Result<Option<Arc<dyn Communicator>>, Failure> {
    let told = |kind| Failure::from(adamant::Error::new("launch", kind));
    let place = RankPlace::from_environment().map_err(|e| Failure::Usage(e.to_string()))?;
    if place.size < 2 {
        return Ok(None);
    }
    if let Some((option, _)) = alone.iter().find(|(_, asked)| *asked) {
        return Err(Failure::Usage(format!("{option} goes with one rank, and {} were started", place.size)));
    }
    let said = std::env::var_os("ADAMANT_TIMEOUT").is_some_and(|value| !value.is_empty());
    let place = RankPlace { timeout: if said { place.timeout } else { rank_timeout(document)? }, ..place };
    // Named by the user: one that there is not is a slip of the pen.
    engine_named(place.engine_name()).map_err(|kind| Failure::Usage(kind.to_string()))?;
    let group = open_group(&place).map_err(told)?;
    if group.engine() == "mpi" {
        watch(&*group, &place);
    }
    Ok(Some(group))
}
/// MPI mostly does not tell that a rank is dead: connections between the ranks do.
fn watch(group: &dyn Communicator, place: &RankPlace) {
    match RankControl::beside(group, &place.to_request()) {
        Ok(Some(control)) => {
            #[cfg(unix)]
            adamant_engine_mpi::watch_peers(Arc::new(move || (0..control.size()).find_map(|rank| control.is_lost(rank).map(|why| (rank, why)))));
            #[cfg(not(unix))]
            drop(control);
        }
        Ok(None) => {}
        Err(kind) => out::note(format!("a rank that dies will be missed after the timeout only: {kind}")),
    }
}
/// The run's folder, which the first rank chooses.
///
/// # Errors
/// Those of `choose`; a lost peer.
pub fn place(group: Option<&dyn Communicator>, choose: impl FnOnce() -> Result<RunPlace, Failure>) -> Result<RunPlace, Failure> {
    let Some(group) = group else { return choose() };
    let told = |kind| Failure::from(adamant::Error::new("launch", kind));
    if group.rank() == 0 {
        let place = choose().inspect_err(|failure| group.abort(&failure.to_string()))?;
        let folder = std::path::absolute(&place.folder).unwrap_or_else(|_| place.folder.clone());
        let mut bytes = vec![u8::from(place.resume)];
        bytes.extend(folder.as_os_str().as_encoded_bytes());
        told_by_first(group, &bytes).map_err(told)?;
        return Ok(place);
    }
    let bytes = told_by_first(group, &[]).map_err(told)?;
    let (resume, folder) = bytes.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
    let folder =
        String::from_utf8(folder.to_vec()).map_err(|_| Failure::Usage("the run folder's name is no text, and other ranks cannot be told of it".into()))?;
    Ok(RunPlace::of(PathBuf::from(folder), resume == 1))
}
