//! A process that kills what is left when the launcher is gone, however it went.
//!
//! It holds one end of a pipe, and only the launcher holds the other for long. Each rank writes its process group into it before it becomes the
//! program; the launcher takes it out when the group is gone. When the pipe ends, the launcher has: the guard kills the groups that
//! are left, and ends. It leads a session of its own and listens to no signal that asks, so what ends the launcher's group or
//! terminal does not end it. (Linux kills a rank whose launcher is gone in any case; not what the rank has started.)
//!
//! | message | says |
//! |---|---|
//! | n > 0 | group n was begun |
//! | -n | group n is gone |
//! | 0 | the group of the last message was never a program |
use rustix::{
    fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    process::{Pid, WaitOptions, waitpid},
};
use std::io::{self, PipeWriter};

/// The launcher's hold on the guard: when it is dropped, all groups that are left are killed.
pub(super) struct OrphanGuard {
    pipe: Option<PipeWriter>,
    process: Pid,
}
impl OrphanGuard {
    /// Begins a guard of so many ranks. Groups that are to be ended gently get SIGTERM, and two seconds.
    pub(super) fn start(ranks: usize, gently: bool) -> io::Result<OrphanGuard> {
        let (read, write) = io::pipe()?;
        // All that the guard writes to is here before it is forked: it must not ask for memory.
        let mut groups = vec![0i32; ranks + 1];
        // SAFETY: the child calls nothing but functions that may be called after a fork of a process with threads (`watch`).
        match unsafe { libc::fork() } {
            0 => watch(read.as_raw_fd(), &mut groups, gently),
            pid => {
                let process = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)?;
                Ok(OrphanGuard { pipe: Some(write), process })
            }
        }
    }
    /// Where ranks write their group.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(PipeWriter::as_fd)
    }
    /// A group that is gone.
    pub(super) fn forget(&self, group: Pid) {
        self.say(-group.as_raw_pid());
    }
    /// What was begun last has not become a program.
    pub(super) fn forget_last(&self) {
        self.say(0);
    }
    fn say(&self, message: i32) {
        // Where the guard has been killed there is nobody to tell.
        let _ = self.pipe().map(|pipe| rustix::io::write(pipe, &message.to_ne_bytes()));
    }
}
impl Drop for OrphanGuard {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }
}

/// The guard's life.
fn watch(read: RawFd, groups: &mut [i32], gently: bool) -> ! {
    // SAFETY: system calls on numbers; all of them may be called after a fork (POSIX, "async-signal-safe").
    unsafe {
        libc::setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE, libc::SIGXCPU, libc::SIGUSR1, libc::SIGUSR2] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::dup2(read, 0);
        close_from(1);
    }
    let mut last = None;
    loop {
        let mut message = [0u8; 4];
        // SAFETY: `message` is 4 bytes long.
        let got = unsafe { libc::read(0, message.as_mut_ptr().cast(), message.len()) };
        if got < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        if got != 4 {
            break;
        }
        let message = i32::from_ne_bytes(message);
        let looked_for = message.min(0).saturating_neg();
        let found = if message == 0 { last } else { groups.iter().position(|group| *group == looked_for) };
        if let Some(at) = found {
            groups[at] = message.max(0);
            last = (message > 0).then_some(at);
        }
    }
    // SAFETY: as above; a group's number is above 0, so it is a group that is meant and not all processes.
    unsafe {
        let signals: &[i32] = if gently { &[libc::SIGTERM, libc::SIGKILL] } else { &[libc::SIGKILL] };
        for signal in signals {
            let mut left = false;
            for group in groups.iter().filter(|group| **group > 1) {
                left |= libc::kill(-*group, *signal) == 0;
            }
            if left && *signal == libc::SIGTERM {
                libc::sleep(2);
            }
        }
        libc::_exit(0)
    }
}
/// Closes all descriptors from this one on, so that nobody waits for the end of what the guard only inherited.
///
/// # Safety
/// Nothing in this process uses them any more.
unsafe fn close_from(first: RawFd) {
    // SAFETY: closing numbers; those that are not open are an error that means nothing.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0 as libc::c_uint) == 0 {
            return;
        }
        let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 65_536) as RawFd;
        for fd in first..most {
            libc::close(fd);
        }
    }
}
