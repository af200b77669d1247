//! The ranks of `adamant train`, where it was started as one of several: who this one is, and what the first decides for all. Under
//! `adamant launch --elastic` the ranks that are left meet again when one of them is lost, and newcomers come.
use crate::{out, runs::RunPlace, traced::TracedRanks};
use adamant::communicator::engine_named;
#[cfg(unix)]
use adamant_distributed::elastic::{ElasticSeat, SeatMet};
use adamant_distributed::{
    Communicator,
    control::RankControl,
    local::LinkSpeed,
    place::{RankPlace, open_group},
    told_by_first,
};
#[cfg(not(unix))]
use adamant_engine_mpi as _;
#[cfg(unix)]
use adamant_train::MetAgain;
use adamant_train::{Document, Failure, RankMeeting, rank_timeout};
use std::{cell::RefCell, path::PathBuf, sync::Arc};

/// Who this process is among ranks, and its group, if it has one yet.
pub struct StartedRanks {
    group: RefCell<Option<Arc<dyn Communicator>>>,
    seat: Option<Arc<RankSeat>>,
    size: usize,
}
/// Its seat under a launcher whose ranks come and go.
struct RankSeat(#[cfg(unix)] ElasticSeat);

fn told(kind: adamant::ErrorKind) -> Failure {
    Failure::from(adamant::Error::new("launch", kind))
}
impl StartedRanks {
    /// As a launcher's variables tell; one rank alone has no group. It is opened: all ranks are there, but where this one is a newcomer. `alone`
    /// are options that go with one rank, and whether they were given; `traced` gets the group where a trace is wanted.
    ///
    /// # Errors
    /// `Usage`: variables that make no sense, an option that goes with one rank; an engine that is not there, ranks that do not come.
    pub fn of(document: &Document, alone: &[(&str, bool)], traced: &TracedRanks) -> Result<StartedRanks, Failure> {
        let place = RankPlace::from_environment().map_err(|e| Failure::Usage(e.to_string()))?;
        LinkSpeed::from_environment().map_err(|e| Failure::Usage(e.to_string()))?;
        let size = place.size;
        let said = std::env::var_os("ADAMANT_TIMEOUT").is_some_and(|value| !value.is_empty());
        let place = RankPlace { timeout: if said { place.timeout } else { rank_timeout(document)? }, ..place };
        let seat = seat(&place)?.map(Arc::new);
        if size < 2 && seat.is_none() {
            return Ok(StartedRanks { group: RefCell::new(None), seat: None, size });
        }
        if let Some((option, _)) = alone.iter().find(|(_, asked)| *asked) {
            return Err(Failure::Usage(format!("{option} goes with one rank, and {size} were started")));
        }
        if seat.is_some() && traced.is_wanted() {
            return Err(Failure::Usage("--trace is of ranks that stay, and with --elastic they come and go".into()));
        }
        // Named by the user: one that there is not is a slip of the pen.
        engine_named(place.engine_name()).map_err(|kind| Failure::Usage(kind.to_string()))?;
        let group = if seat.is_some() { None } else { Some(open_group(&place).map_err(told)?) };
        if let Some(group) = group.as_deref().filter(|group| group.engine() == "mpi") {
            watch(group, &place);
        }
        let group = group.map(|group| traced.watch(group));
        Ok(StartedRanks { group: RefCell::new(group), seat, size })
    }
    /// Where the ranks meet again, and how many there are to be.
    pub fn meeting(&self) -> Option<(Arc<dyn RankMeeting>, usize)> {
        #[cfg(unix)]
        return self.seat.clone().map(|seat| (seat as Arc<dyn RankMeeting>, self.size));
        #[cfg(not(unix))]
        None
    }
    /// Does this rank tell how it goes?
    pub fn leads(&self) -> bool {
        match &self.seat {
            // Who leads in the end is not known yet.
            Some(_) => std::env::var("RANK").is_ok_and(|rank| rank == "0"),
            None => self.group.borrow().as_ref().is_none_or(|group| group.rank() == 0),
        }
    }
    /// The run's folder, which the first rank chooses, and the group.
    ///
    /// # Errors
    /// Those of `choose`; a lost peer.
    pub fn place(&self, choose: impl FnOnce() -> Result<RunPlace, Failure>) -> Result<(RunPlace, Option<Arc<dyn Communicator>>), Failure> {
        #[cfg(unix)]
        if let Some(seat) = &self.seat {
            return seat.place(choose);
        }
        let group = self.group.borrow_mut().take();
        Ok((place(group.as_deref(), choose, |_| Ok(()))?, group))
    }
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
#[cfg(unix)]
fn seat(place: &RankPlace) -> Result<Option<RankSeat>, Failure> {
    Ok(ElasticSeat::from_environment(place).map_err(|kind| Failure::Usage(kind.to_string()))?.map(RankSeat))
}
#[cfg(not(unix))]
fn seat(_: &RankPlace) -> Result<Option<RankSeat>, Failure> {
    Ok(None)
}
/// The folder, which the first rank chooses; `before` is done with it before the others hear of it.
fn place(
    group: Option<&dyn Communicator>,
    choose: impl FnOnce() -> Result<RunPlace, Failure>,
    before: impl FnOnce(&[u8]) -> Result<(), Failure>,
) -> Result<RunPlace, Failure> {
    let Some(group) = group else { return choose() };
    if group.rank() == 0 {
        let place = choose().inspect_err(|failure| group.abort(&failure.to_string()))?;
        let folder = std::path::absolute(&place.folder).unwrap_or_else(|_| place.folder.clone());
        let mut bytes = vec![u8::from(place.resume)];
        bytes.extend(folder.as_os_str().as_encoded_bytes());
        before(&bytes)?;
        told_by_first(group, &bytes).map_err(told)?;
        return Ok(place);
    }
    placed(&told_by_first(group, &[]).map_err(told)?)
}
/// The folder, as the first rank tells it.
fn placed(bytes: &[u8]) -> Result<RunPlace, Failure> {
    let (resume, folder) = bytes.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
    let folder =
        String::from_utf8(folder.to_vec()).map_err(|_| Failure::Usage("the run folder's name is no text, and other ranks cannot be told of it".into()))?;
    Ok(RunPlace::of(PathBuf::from(folder), resume == 1))
}
#[cfg(unix)]
impl RankSeat {
    /// As all do: but a newcomer is told by the launcher, and ranks that are lost meanwhile are gone on without.
    fn place(&self, choose: impl FnOnce() -> Result<RunPlace, Failure>) -> Result<(RunPlace, Option<Arc<dyn Communicator>>), Failure> {
        // What earlier ranks have written is gone on with.
        let told_before = |word: &[u8]| placed(word).map(|place| RunPlace::of(place.folder, true));
        if let Some(word) = self.0.word() {
            return Ok((told_before(word)?, None));
        }
        let (mut choose, mut lost) = (Some(choose), None);
        loop {
            let (group, word) = match self.0.meet(lost.as_ref(), &|| false).map_err(told)? {
                SeatMet::Group(group, word) => (group, word),
                SeatMet::Ended(signal) => return Err(Failure::Interrupted { signal, step: 0, checkpoint: None }),
                SeatMet::GaveUp => return Err(Failure::Interrupted { signal: 15, step: 0, checkpoint: None }),
            };
            if let Some(word) = word {
                return Ok((told_before(&word)?, Some(group)));
            }
            let chosen = || choose.take().map_or_else(|| Err(Failure::Run("a folder that is chosen twice".into())), |choose| choose());
            match place(Some(&*group), chosen, |word| self.0.tell(word).map_err(told)) {
                Err(Failure::PeerLost(_)) if matches!(group.state().ended(), Some(adamant::ErrorKind::PeerLost { .. })) => lost = group.state().ended(),
                done => return Ok((done?, Some(group))),
            }
        }
    }
}
#[cfg(unix)]
impl RankMeeting for RankSeat {
    fn meet(&self, lost: Option<&adamant::ErrorKind>, gives_up: &dyn Fn() -> bool) -> Result<MetAgain, adamant::ErrorKind> {
        Ok(match self.0.meet(lost, gives_up)? {
            SeatMet::Group(group, _) => MetAgain::Group(group),
            SeatMet::Ended(signal) => MetAgain::Ended(signal),
            SeatMet::GaveUp => MetAgain::GaveUp,
        })
    }
    fn is_called(&self) -> bool {
        self.0.is_called()
    }
}
