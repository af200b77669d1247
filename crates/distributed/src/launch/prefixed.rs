//! Lines of ranks as a person reads them: `[3] loss 0.25`.
use super::{LaunchOutput, RankStream};
use std::io::{self, ErrorKind, Write};

/// Writes the ranks' lines to two streams, each behind its rank.
pub struct PrefixedOutput<O, E> {
    out: Sink<O>,
    err: Sink<E>,
    /// of the widest rank's number
    digits: usize,
}
struct Sink<W> {
    to: W,
    colour: bool,
    /// nobody reads it any more
    left: bool,
    line: Vec<u8>,
}
/// Of prefixes: those that both dark and light terminals show well.
const COLOURS: [u8; 6] = [36, 32, 33, 35, 34, 31];

impl<O: Write + Send, E: Write + Send> PrefixedOutput<O, E> {
    /// For so many ranks; each stream with colours or without.
    pub fn new(ranks: usize, out: (O, bool), err: (E, bool)) -> PrefixedOutput<O, E> {
        let sink = |colour| (colour, ranks.saturating_sub(1).to_string().len());
        let (out_colour, digits) = sink(out.1);
        PrefixedOutput {
            out: Sink { to: out.0, colour: out_colour, left: false, line: Vec::new() },
            err: Sink { to: err.0, colour: err.1, left: false, line: Vec::new() },
            digits,
        }
    }
}
impl<W: Write> Sink<W> {
    fn line(&mut self, rank: Option<usize>, digits: usize, line: &[u8]) -> io::Result<()> {
        if self.left {
            return Ok(());
        }
        self.line.clear();
        match rank {
            Some(rank) if self.colour => write!(self.line, "\x1b[{}m[{rank:>digits$}]\x1b[0m ", COLOURS[rank % COLOURS.len()])?,
            Some(rank) => write!(self.line, "[{rank:>digits$}] ")?,
            None => {}
        }
        self.line.extend_from_slice(line);
        self.line.push(b'\n');
        // At once, so that no other writer's line comes between.
        match self.to.write_all(&self.line).and_then(|()| self.to.flush()) {
            // A reader that has seen enough.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.left = true;
                Ok(())
            }
            done => done,
        }
    }
}
impl<O: Write + Send, E: Write + Send> LaunchOutput for PrefixedOutput<O, E> {
    fn line(&mut self, rank: Option<usize>, stream: RankStream, line: &[u8]) -> io::Result<()> {
        match stream {
            RankStream::Out => self.out.line(rank, self.digits, line),
            RankStream::Err => self.err.line(rank, self.digits, line),
        }
    }
    fn note(&mut self, text: &str) {
        for line in text.lines() {
            // Where even that cannot be written there is nobody to tell.
            let _ = self.err.line(None, 0, line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Takes so many bytes, one call at a time.
    #[derive(Clone, Default)]
    struct Taker(Arc<Mutex<(Vec<Vec<u8>>, Option<ErrorKind>)>>);
    impl Write for Taker {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut inner = self.0.lock().unwrap();
            if let Some(kind) = inner.1 {
                return Err(kind.into());
            }
            inner.0.push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    #[test]
    fn a_prefix_that_is_missing_or_torn_from_its_line() {
        let (out, err) = (Taker::default(), Taker::default());
        let mut output = PrefixedOutput::new(12, (out.clone(), false), (err.clone(), true));
        output.line(Some(3), RankStream::Out, b"loss \xff").unwrap();
        output.line(Some(11), RankStream::Out, b"").unwrap();
        output.line(None, RankStream::Out, b"bare").unwrap();
        output.line(Some(7), RankStream::Err, b"hot").unwrap();
        output.note("two\nlines");
        assert_eq!(out.0.lock().unwrap().0, [&b"[ 3] loss \xff\n"[..], b"[11] \n", b"bare\n"]);
        assert_eq!(err.0.lock().unwrap().0, [&b"\x1b[32m[ 7]\x1b[0m hot\n"[..], b"two\n", b"lines\n"]);
    }
    #[test]
    fn a_reader_that_left_is_taken_for_a_fault() {
        let (out, err) = (Taker::default(), Taker::default());
        let mut output = PrefixedOutput::new(1, (out.clone(), false), (err.clone(), false));
        out.0.lock().unwrap().1 = Some(ErrorKind::BrokenPipe);
        err.0.lock().unwrap().1 = Some(ErrorKind::StorageFull);
        output.line(Some(0), RankStream::Out, b"x").unwrap();
        output.line(Some(0), RankStream::Out, b"x").unwrap();
        assert_eq!(output.line(Some(0), RankStream::Err, b"x").unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
