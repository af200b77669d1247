//! What is known of the axes of a value: which channel each of its elements along an axis is of. Channels that can only go together are
//! one; those that cannot go at all have a reason. Must not know ops.
use std::rc::Rc;

/// An axis of a value.
#[derive(Clone, Debug)]
pub(super) enum AxisLabel {
    /// of the data: a batch, a place
    Free,
    /// the same along it, and as long as what it meets
    Uniform,
    /// for each element the channel that it is of
    Channels(Rc<[u32]>),
}
/// Channels, which are numbers until they are told to be one: disjoint sets with a reason to stay, if there is one.
#[derive(Default)]
pub(super) struct ChannelSets {
    parent: Vec<u32>,
    reasons: Vec<Option<Rc<str>>>,
}
impl ChannelSets {
    pub fn fresh(&mut self, count: usize) -> Rc<[u32]> {
        let first = self.parent.len() as u32;
        self.parent.extend(first..first + count as u32);
        self.reasons.resize(self.parent.len(), None);
        (first..first + count as u32).collect()
    }
    pub fn find(&mut self, mut channel: u32) -> u32 {
        while self.parent[channel as usize] != channel {
            let above = self.parent[self.parent[channel as usize] as usize];
            self.parent[channel as usize] = above;
            channel = above;
        }
        channel
    }
    /// They go together from now on, and stay if one of them does.
    pub fn unite(&mut self, left: u32, right: u32) {
        let (left, right) = (self.find(left), self.find(right));
        if left != right {
            self.parent[right as usize] = left;
            let reason = self.reasons[left as usize].take().or(self.reasons[right as usize].take());
            self.reasons[left as usize] = reason;
        }
    }
    pub fn unite_all(&mut self, left: &[u32], right: &[u32]) {
        left.iter().zip(right).for_each(|(l, r)| self.unite(*l, *r));
    }
    pub fn stay(&mut self, channels: &[u32], reason: &str) {
        let reason: Rc<str> = reason.into();
        for channel in channels {
            let root = self.find(*channel) as usize;
            self.reasons[root].get_or_insert_with(|| reason.clone());
        }
    }
    pub fn reason(&mut self, channel: u32) -> Option<Rc<str>> {
        let root = self.find(channel);
        self.reasons[root as usize].clone()
    }
    /// All that an axis is of stays.
    pub fn axis_stays(&mut self, label: &AxisLabel, reason: &str) {
        if let AxisLabel::Channels(channels) = label {
            self.stay(channels, reason);
        }
    }
    /// The axes of a value behind a reshape.
    pub fn reshaped(&mut self, labels: &[AxisLabel], from: &[usize], to: &[usize], reason: &str) -> Vec<AxisLabel> {
        let mut out: Vec<AxisLabel> = to.iter().map(|size| if *size == 1 { AxisLabel::Uniform } else { AxisLabel::Free }).collect();
        let real = |sizes: &[usize]| (0..sizes.len()).filter(|k| sizes[*k] != 1).collect::<Vec<usize>>();
        let (ins, outs) = (real(from), real(to));
        if from == to {
            return labels.to_vec();
        }
        // An axis of one channel leaves no trace behind.
        (0..from.len()).filter(|k| from[*k] == 1).for_each(|k| self.axis_stays(&labels[k], reason));
        let (mut i, mut j) = (0, 0);
        while i < ins.len() && j < outs.len() {
            let (first_in, first_out) = (i, j);
            let (mut left, mut right) = (from[ins[i]], to[outs[j]]);
            (i, j) = (i + 1, j + 1);
            while left != right && (i < ins.len() || j < outs.len()) {
                if left < right && i < ins.len() {
                    left *= from[ins[i]];
                    i += 1;
                } else if j < outs.len() {
                    right *= to[outs[j]];
                    j += 1;
                } else {
                    break;
                }
            }
            let (of, into) = (&ins[first_in..i], &outs[first_out..j]);
            let labelled: Vec<usize> = of.iter().copied().filter(|k| matches!(labels[*k], AxisLabel::Channels(_))).collect();
            match (of, into, labelled.as_slice()) {
                (_, _, []) => {}
                ([one], [other], _) => out[*other] = labels[*one].clone(),
                (_, [other], [one]) => out[*other] = merged(&labels[*one], of, *one, from),
                (_, _, [one]) => {
                    let split = if of.len() == 1 { split(&labels[*one], into, to) } else { None };
                    let blocks =
                        |sets: &mut Self| if of.first() == Some(one) { sets.blocks(&labels[*one], to[into[0]]).map(|label| (into[0], label)) } else { None };
                    match split.or_else(|| blocks(self)) {
                        Some((axis, label)) => out[axis] = label,
                        None => self.axis_stays(&labels[*one], reason),
                    }
                }
                _ => labelled.iter().for_each(|k| self.axis_stays(&labels[*k], reason)),
            }
        }
        out
    }
    /// The first of several axes that become others: of `count` blocks each goes whole (a head, a group), and of a block in as many
    /// equal parts each part is of the block.
    fn blocks(&mut self, label: &AxisLabel, count: usize) -> Option<AxisLabel> {
        let AxisLabel::Channels(channels) = label else { return None };
        let (size, count) = (channels.len(), count.max(1));
        if size.is_multiple_of(count) {
            let width = size / count;
            channels.chunks(width.max(1)).for_each(|block| block.iter().skip(1).for_each(|channel| self.unite(block[0], *channel)));
            return Some(AxisLabel::Channels(channels.iter().copied().step_by(width.max(1)).collect()));
        }
        let parts = count / size.max(1);
        (size * parts == count).then(|| AxisLabel::Channels((0..count).map(|at| channels[at / parts]).collect()))
    }
}
/// Several axes as one, the channels being those of one of them.
fn merged(label: &AxisLabel, axes: &[usize], labelled: usize, sizes: &[usize]) -> AxisLabel {
    let AxisLabel::Channels(channels) = label else { return AxisLabel::Free };
    let total: usize = axes.iter().map(|k| sizes[*k]).product();
    let inner: usize = axes.iter().filter(|k| **k > labelled).map(|k| sizes[*k]).product();
    AxisLabel::Channels((0..total).map(|at| channels[at / inner % channels.len()]).collect())
}
/// One axis as several, if the channels are those of one of them.
fn split(label: &AxisLabel, axes: &[usize], sizes: &[usize]) -> Option<(usize, AxisLabel)> {
    let AxisLabel::Channels(channels) = label else { return None };
    axes.iter().find_map(|axis| {
        let inner: usize = axes.iter().filter(|k| *k > axis).map(|k| sizes[*k]).product();
        let of: Vec<u32> = (0..sizes[*axis]).map(|k| channels[k * inner]).collect();
        let holds = channels.iter().enumerate().all(|(at, channel)| *channel == of[at / inner % of.len()]);
        holds.then(|| (*axis, AxisLabel::Channels(of.into())))
    })
}
