//! The beginning of a call: every rank tells every other what it calls, before any data.
//!
//! Once all headers are here and say the same, all ranks are in the call. What is small lies behind the header, and the call is
//! done with it.
use crate::{
    frame::{CallHeader, HEADER, INLINE},
    lines::{GroupLines, tag},
    patience::MpiPatience,
    transfer::{SpareBuffers, settle},
    wire::PendingRequest,
};
use adamant_ir::ErrorKind;

/// Bytes of a header's buffer.
pub(crate) const FRAME: usize = HEADER + INLINE;

/// Headers on their way.
struct HeaderExchange<'g> {
    lines: &'g GroupLines,
    sending: Vec<(usize, PendingRequest<'static>)>,
    receiving: Vec<(usize, PendingRequest<'static>)>,
}
impl Drop for HeaderExchange<'_> {
    fn drop(&mut self) {
        settle(self.lines, self.sending.drain(..).chain(self.receiving.drain(..)).map(|(_, pending)| pending).collect());
    }
}
/// What lies behind the header of a rank.
pub(crate) struct Inline {
    frame: Option<Box<[u8]>>,
}
impl Inline {
    /// The first so many bytes.
    pub(crate) fn bytes(&self, n: usize) -> &[u8] {
        self.frame.as_deref().and_then(|frame| frame.get(HEADER..HEADER + n)).unwrap_or(&[])
    }
}
/// A frame of a header and what lies behind it.
pub(crate) fn framed(header: &CallHeader, spares: &SpareBuffers, inline: &[u8]) -> (Box<[u8]>, usize) {
    let mut frame = spares.take(FRAME);
    header.write(&mut frame[..HEADER]);
    frame[HEADER..HEADER + inline.len()].copy_from_slice(inline);
    (frame, HEADER + inline.len())
}
/// Does a rank call the same as this one? `own` is what it was told, `expected` how many bytes it is to bring.
///
/// # Errors
/// What it calls.
pub(crate) fn compare(own: &CallHeader, expected: usize, frame: &[u8]) -> Result<(), String> {
    let other = CallHeader::read(frame)?;
    if other.fingerprint != own.fingerprint || other.number != own.number {
        return Err(other.text);
    }
    match (other.bytes, other.expects) {
        (bytes, _) if bytes != expected as u64 => Err(format!("{}, of which this rank gets {bytes} bytes where it expects {expected}", other.text)),
        (_, expects) if expects != own.bytes => Err(format!("{}, of which it expects {expects} bytes where it gets {}", other.text, own.bytes)),
        _ => Ok(()),
    }
}

/// Meets the other ranks in a call. `to` tells how many bytes a rank gets and which of them lie behind the header, `expected` how
/// many it is to bring. Gives what lay behind the headers, by rank.
///
/// # Errors
/// A rank that calls something else, or does not come.
pub(crate) fn meet<'b>(
    lines: &GroupLines,
    spares: &SpareBuffers,
    patience: &mut MpiPatience<'_>,
    own: &CallHeader,
    to: impl Fn(usize) -> (usize, &'b [u8]),
    expected: impl Fn(usize) -> usize,
) -> Result<Vec<Inline>, ErrorKind> {
    let mut meeting = HeaderExchange { lines, sending: Vec::new(), receiving: Vec::new() };
    {
        let turn = lines.turn()?;
        for peer in lines.peers() {
            let (bytes, inline) = to(peer);
            let (frame, n) = framed(&CallHeader { bytes: bytes as u64, expects: expected(peer) as u64, ..own.clone() }, spares, inline);
            let sent = turn.send_owned(lines.comm, peer, tag::HEADER, frame, n);
            let received = turn.receive(lines.comm, peer, tag::HEADER, spares.take(FRAME), FRAME);
            match (sent, received) {
                (Ok(sent), Ok(received)) => {
                    meeting.sending.push((peer, sent));
                    meeting.receiving.push((peer, received));
                }
                (sent, received) => {
                    let failures: Vec<String> = [sent.err(), received.err()].into_iter().flatten().collect();
                    drop(turn);
                    return Err(patience.lost(peer, failures.join("; ")));
                }
            }
        }
    }
    let mut met: Vec<Inline> = (0..lines.size).map(|_| Inline { frame: None }).collect();
    while !(meeting.receiving.is_empty() && meeting.sending.is_empty()) {
        let (done, failed) = ask(&mut meeting, spares)?;
        if let Some((peer, why)) = failed {
            return Err(patience.lost(peer, why));
        }
        if done.is_empty() {
            let missing = || {
                let open = if meeting.receiving.is_empty() { &meeting.sending } else { &meeting.receiving };
                open.iter().map(|(peer, _)| *peer).collect()
            };
            patience.nothing_came(missing)?;
            continue;
        }
        patience.came();
        for (peer, frame) in done {
            let Some(frame) = frame else { continue };
            compare(&CallHeader { bytes: to(peer).0 as u64, ..own.clone() }, expected(peer), &frame).map_err(|other| patience.differ(peer, other))?;
            met[peer].frame = Some(frame);
        }
    }
    patience.agreeing = false;
    Ok(met)
}
type Asked = (Vec<(usize, Option<Box<[u8]>>)>, Option<(usize, String)>);
/// Which headers are done (those that were received, with their bytes), and which failed.
fn ask(meeting: &mut HeaderExchange<'_>, spares: &SpareBuffers) -> Result<Asked, ErrorKind> {
    let turn = meeting.lines.turn()?;
    let (mut done, mut failed) = (Vec::new(), None);
    for (open, is_sent) in [(&mut meeting.receiving, false), (&mut meeting.sending, true)] {
        let mut at = 0;
        while at < open.len() {
            let (peer, pending) = &mut open[at];
            match turn.is_done(pending) {
                Ok(false) => at += 1,
                Ok(true) => {
                    let (peer, pending) = open.swap_remove(at);
                    let frame = pending.into_buffer();
                    if is_sent {
                        frame.into_iter().for_each(|frame| spares.give_back(frame));
                        done.push((peer, None));
                    } else {
                        done.push((peer, frame));
                    }
                }
                Err(why) => {
                    failed = Some((*peer, why));
                    open.swap_remove(at);
                }
            }
        }
    }
    Ok((done, failed))
}
/// Gives the buffers of headers back.
pub(crate) fn done_with(met: Vec<Inline>, spares: &SpareBuffers) {
    met.into_iter().filter_map(|inline| inline.frame).for_each(|frame| spares.give_back(frame));
}
