//! Ranks that go on without those who are lost, and with those who come: the ranks' side.
//!
//! ```text
//! launcher (launch/elastic.rs)                         rank: ElasticSeat
//!   starts it, a socket pair between the two  <------->  a thread that listens
//!                        hello WORD        -->  what the leader wants newcomers to know, if it has said it yet
//!                        <--  word WORD         the leader says it
//!                        <--  want EPOCH LOST   its group of that epoch is over (or it has had none): it wants the next
//!   knows who lives      call              -->  a newcomer waits: come to a meeting, all of you, between two steps
//!   decides who meets    meet EPOCH RANK SIZE WORD -> join, by the socket that listens for the whole job -> a new group
//!                        stale EPOCH RANK  -->  one of those who are to meet is gone: want again
//!                        end SIGNAL, none WHY --> nobody meets any more
//! ```
//!
//! **Who decides.** The launcher alone. It sees the end of every process, in order, and no rank's death takes it away; its own ends all ranks
//! (the guard). Ranks need not agree on who is left, which among themselves they could not do without rounds of their own. An
//! epoch is a number that the launcher gives out once; whoever is not told it cannot join under it (it is part of the proof, [`crate::join`]).
//!
//! **Who meets.** All who live and were members of the last epoch, once each of them wants the next one, and all newcomers that are ready by
//! then. Members keep their order and come first: rank 0 of an epoch is a newcomer only where no member is left, and a member that
//! leads goes on leading. So nobody that lives ever stops leading.
//!
//! **Where they meet.** At one socket, which the launcher opens and every rank inherits: rank 0 of the epoch accepts there. What an earlier
//! epoch left in its queue is refused by its epoch.
//!
//! **A death at any moment.** In a step: the control connection tells, calls fail, every survivor wants the next epoch. While they meet: the
//! launcher tells `stale`, joining is called off, all want again, under the next number. Before it ever wanted: nobody has waited for it. Two at
//! once: the launcher waits for both ends, as no epoch begins while a member lives that does not want it. One that was given up
//! and lives (stopped, hung) would keep them waiting: it is killed.
//!
//! What is lost of a step, and who must take whose state, is not known here: that is the run's.
mod rank;
mod seat;
pub(crate) mod words;

pub use rank::ElasticRank;
pub use seat::{ElasticSeat, SeatMet};

/// The variable that names the descriptor of a rank's socket to its launcher.
pub const SEAT_FD: &str = "ADAMANT_ELASTIC_FD";
