//! Tells that ranks have ended, in the order in which they did, and leaves them to be reaped.
//!
//! On Linux by descriptors of processes behind one epoll, whose list is in the order of events. Where a kernel has none, and on other systems, a
//! thread waits for each rank: their order is that in which they were woken.
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::BorrowedFd,
    process::{Pid, WaitId, WaitIdOptions, waitid},
};
use std::{
    io::{self, PipeReader, PipeWriter},
    sync::Arc,
    thread,
    time::Duration,
};

pub(super) struct Exits {
    #[cfg(target_os = "linux")]
    ordered: Option<linux::OrderedExits>,
    read: PipeReader,
    write: Arc<PipeWriter>,
}
impl Exits {
    pub(super) fn new() -> io::Result<Exits> {
        let (read, write) = io::pipe()?;
        Ok(Exits {
            #[cfg(target_os = "linux")]
            ordered: linux::OrderedExits::new().ok(),
            read,
            write: Arc::new(write),
        })
    }
    /// Without descriptors of processes, as where there are none.
    #[cfg(test)]
    fn by_threads() -> io::Result<Exits> {
        Ok(Exits {
            #[cfg(target_os = "linux")]
            ordered: None,
            ..Exits::new()?
        })
    }
    /// Looks for the end of a child of this process under a number.
    pub(super) fn watch(&mut self, process: Pid, number: u32) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.ordered.as_mut().is_some_and(|ordered| ordered.watch(process, number).is_ok()) {
            return Ok(());
        }
        let write = self.write.clone();
        let wait = move || {
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {}
            let _ = rustix::io::write(&*write, &number.to_ne_bytes());
        };
        thread::Builder::new().name("rank's end".into()).stack_size(64 * 1024).spawn(wait).map(drop)
    }
    /// The numbers of those that have ended since the last call; waits so long for one.
    pub(super) fn wait(&mut self, at_most: Duration) -> io::Result<Vec<u32>> {
        self.wait_or(at_most, &[])
    }
    /// The same; it waits no longer than until one of these can be read.
    pub(super) fn wait_or(&mut self, at_most: Duration, others: &[BorrowedFd<'_>]) -> io::Result<Vec<u32>> {
        let at_most = Timespec { tv_sec: at_most.as_secs() as _, tv_nsec: at_most.subsec_nanos() as _ };
        let mut fds = vec![PollFd::new(&self.read, PollFlags::IN)];
        #[cfg(target_os = "linux")]
        fds.extend(self.ordered.iter().map(|ordered| PollFd::from_borrowed_fd(ordered.fd(), PollFlags::IN)));
        fds.extend(others.iter().map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN)));
        match poll(&mut fds, Some(&at_most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let by_thread = !fds[0].revents().is_empty();
        drop(fds);
        let mut ended = Vec::new();
        #[cfg(target_os = "linux")]
        if let Some(ordered) = &mut self.ordered {
            ordered.ended(&mut ended)?;
        }
        if by_thread {
            let mut bytes = [0u8; 4096];
            let got = rustix::io::read(&self.read, &mut bytes)?;
            ended.extend(bytes[..got].as_chunks::<4>().0.iter().map(|number| u32::from_ne_bytes(*number)));
        }
        Ok(ended)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use rustix::{
        event::epoll,
        fd::{AsFd, OwnedFd},
        process::{PidfdFlags, pidfd_open},
    };
    use std::collections::BTreeMap;

    pub(super) struct OrderedExits {
        epoll: OwnedFd,
        processes: BTreeMap<u32, OwnedFd>,
    }
    impl OrderedExits {
        pub(super) fn new() -> io::Result<OrderedExits> {
            Ok(OrderedExits { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, processes: BTreeMap::new() })
        }
        pub(super) fn fd(&self) -> BorrowedFd<'_> {
            self.epoll.as_fd()
        }
        pub(super) fn watch(&mut self, process: Pid, number: u32) -> io::Result<()> {
            let process = pidfd_open(process, PidfdFlags::empty())?;
            epoll::add(&self.epoll, &process, epoll::EventData::new_u64(u64::from(number)), epoll::EventFlags::IN)?;
            self.processes.insert(number, process);
            Ok(())
        }
        pub(super) fn ended(&mut self, ended: &mut Vec<u32>) -> io::Result<()> {
            let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let count = match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
                Err(rustix::io::Errno::INTR) => 0,
                count => count?,
            };
            for event in &events[..count] {
                let number = event.data.u64() as u32;
                // Closed, it is watched no more.
                if self.processes.remove(&number).is_some() {
                    ended.push(number);
                }
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn ends_that_come_in_another_order_than_they_happened() {
        for by_threads in [false, true] {
            let mut exits = if by_threads { Exits::by_threads() } else { Exits::new() }.unwrap();
            // The last one that is begun ends first; nobody looks until all have.
            let count = 6u32;
            let mut children: Vec<Child> =
                (0..count).map(|k| Command::new("sh").args(["-c", &format!("sleep {}", 0.3 + 0.1 * f64::from(count - k))]).spawn().unwrap()).collect();
            for (k, child) in children.iter().enumerate() {
                exits.watch(Pid::from_child(child), k as u32).unwrap();
            }
            thread::sleep(Duration::from_millis(1500));
            let mut ended = Vec::new();
            for _ in 0..500 {
                if ended.len() == children.len() {
                    break;
                }
                ended.extend(exits.wait(Duration::from_millis(20)).unwrap());
            }
            assert_eq!(ended, (0..count).rev().collect::<Vec<_>>(), "by threads: {by_threads}");
            children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
        }
    }
}
