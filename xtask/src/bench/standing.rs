//! How this project stands against the best peer in a record, and what is asked of it.
use adamant_bench::{
    record::{Case, Record},
    verdict::{Compared, Pairs, judge},
};

/// What is asked: the workload, which form of this project, against which peer if not the best, and the largest ratio at
/// one thread and at more.
const TARGETS: &[(&str, &str, Option<&str>, [f64; 2])] = &[
    ("ew_add_16m", "adamant", None, [0.9; 2]),
    ("ew_gelu_xwb_16m", "adamant", None, [0.4; 2]),
    ("transpose_copy_4096", "adamant", None, [0.4; 2]),
    ("dropout_16m", "adamant", None, [0.06; 2]),
    ("xent_2048x50257_fwdbwd", "adamant", None, [0.2; 2]),
    ("sum_last_16m", "adamant", None, [1.0; 2]),
    ("sum_first_16m", "adamant", None, [1.0; 2]),
    ("softmax_4096x1024", "adamant", None, [1.0; 2]),
    ("layernorm_4096x768", "adamant", None, [1.0; 2]),
    ("embedding_32000x768_8192", "adamant", None, [1.0; 2]),
    ("small_add4_grad", "adamant", Some("candle"), [2.0; 2]),
    ("small_add4_grad", "adamant-compile", None, [1.0; 2]),
    ("tiny_mlp_fwdbwd", "adamant", None, [0.6; 2]),
    ("tiny_mlp_fwdbwd", "adamant-compile", None, [0.3; 2]),
    ("train_mlp_b128", "adamant", None, [0.8, 0.6]),
];
/// A broadcast addition is asked for a share of the rate of copies, or a time at two threads.
const OF_COPY: (&str, f64, f64) = ("bcast_add_row_16m", 0.7, 3.3e6);
/// How far above 1 the interval of a ratio may end where at most 1 is asked.
const BOUND: f64 = 1.10;

/// One form of this project against one peer.
#[derive(Clone, Debug)]
pub struct Standing {
    /// the workload
    pub workload: String,
    /// `adamant` or `adamant-compile`
    pub ours: String,
    /// the peer
    pub peer: String,
    /// time of ours over time of the peer
    pub compared: Compared,
    /// outputs of both were compared
    pub checked: bool,
    /// what is asked
    target: Option<StandingTarget>,
}
#[derive(Clone, Copy, PartialEq, Debug)]
enum StandingTarget {
    /// a ratio of at most so much
    Ratio(f64),
    /// so much of the rate of copies, or at most so many nanoseconds at two threads; whether it is so
    Copy(f64, f64, bool),
}
impl Standing {
    /// What is asked, in words.
    pub fn asked(&self) -> String {
        match self.target {
            None => String::new(),
            Some(StandingTarget::Ratio(most)) => format!("≤ {most}"),
            Some(StandingTarget::Copy(share, ns, _)) => format!("≥ {:.0} % of copies, or ≤ {} ms at 2 threads", share * 100.0, ns * 1e-6),
        }
    }
    /// Is it so? Nothing where nothing is asked.
    pub fn met(&self) -> Option<bool> {
        let (ratio, [_, high]) = (self.compared.ratio?, self.compared.interval?);
        Some(match self.target? {
            StandingTarget::Ratio(most) => ratio <= most && (most != 1.0 || high <= BOUND),
            StandingTarget::Copy(_, _, met) => met,
        })
    }
    /// `yes`, `no` or nothing.
    pub fn answer(&self) -> String {
        self.met().map_or(String::new(), |met| if met { "yes" } else { "**no**" }.into())
    }
}
/// Each form of this project against the best peer, and against the peer that a target names.
pub fn standings(record: &Record) -> Vec<Standing> {
    let mut names: Vec<&str> = Vec::new();
    record.cases.iter().for_each(|c| {
        if !names.contains(&c.workload.as_str()) {
            names.push(&c.workload);
        }
    });
    names.iter().flat_map(|name| of_workload(record, name)).collect()
}
fn of_workload(record: &Record, workload: &str) -> Vec<Standing> {
    let timed =
        |ours: bool| record.cases.iter().filter(move |c| c.workload == workload && c.error.is_none() && c.implementation.starts_with("adamant") == ours);
    let one_thread = record.settings.threads == 1;
    let against = |own: &Case, peer: &Case| {
        // Of whole samples: a peer whose threads hand work to each other on one core waits for them, and that is its own time.
        let compared = judge(&[(workload.to_string(), Pairs::of_cases(peer, own, false))], 0.01).pop()?;
        compared.ratio.is_some().then(|| Standing {
            workload: workload.into(),
            ours: own.implementation.clone(),
            peer: peer.implementation.clone(),
            compared,
            checked: peer.worst_error.is_some(),
            target: None,
        })
    };
    let mut found = Vec::new();
    for own in timed(true) {
        let all: Vec<Standing> = timed(false).filter_map(|peer| against(own, peer)).collect();
        let best = all.iter().max_by(|a, b| a.compared.ratio.unwrap_or(0.0).total_cmp(&b.compared.ratio.unwrap_or(0.0)));
        let Some(best) = best else { continue };
        let wanted = TARGETS.iter().find(|t| (t.0, t.1) == (workload, own.implementation.as_str()));
        let target = wanted.map(|t| StandingTarget::Ratio(t.3[usize::from(!one_thread)])).or_else(|| of_copy(record, own));
        match wanted.and_then(|t| t.2) {
            Some(named) => {
                found.extend((best.peer != named).then(|| best.clone()));
                found.extend(all.iter().filter(|s| s.peer == named).map(|s| Standing { target, ..s.clone() }));
            }
            None => found.push(Standing { target, ..best.clone() }),
        }
    }
    found
}
fn of_copy(record: &Record, own: &Case) -> Option<StandingTarget> {
    let (name, share, most) = OF_COPY;
    let ns = own.median_ns().filter(|_| own.workload == name && own.implementation == "adamant")?;
    let rate = own.amount? / ns;
    let met = record.ceilings.as_ref().is_some_and(|c| rate >= share * c.copy_gbps) || (record.settings.threads == 2 && ns <= most);
    Some(StandingTarget::Copy(share, most, met))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use adamant_bench::{place::BenchPlace, record::WorkUnit};
    use std::time::SystemTime;

    /// Two forms of this project and two peers.
    pub fn record() -> Record {
        let case = |workload: &str, implementation: &str, ns: f64| {
            let samples: Vec<f64> = (0..40).map(|k| ns * (1.0 + 0.001 * ((k * 7) % 11) as f64)).collect();
            let case = Case { unit: Some(WorkUnit::Bytes), amount: Some(1e6), worst_error: Some(0.1), ..Case::new(workload, implementation) };
            Case { rounds: (0..40).map(|k| k / 10).collect(), ..case.sampled(samples, vec![0.0; 40], 1) }
        };
        let mut record = Record::begun(SystemTime::UNIX_EPOCH, BenchPlace::reference().settings(Some("x"), 1.0, 0.005, false));
        record.command = ["bench", "peers", "--threads", "1"].map(String::from).to_vec();
        record.cases = vec![
            case("ew_add_16m", "adamant", 80.0),
            case("ew_add_16m", "torch", 100.0),
            case("ew_add_16m", "candle", 300.0),
            case("small_add4_grad", "adamant", 150.0),
            case("small_add4_grad", "adamant-compile", 90.0),
            case("small_add4_grad", "torch", 100.0),
            case("small_add4_grad", "candle", 70.0),
            case("softmax_4096x1024", "adamant", 100.0),
            case("softmax_4096x1024", "torch", 105.0),
        ];
        record.cases.push(Case { error: Some("wrong result".into()), ..Case::new("softmax_4096x1024", "candle") });
        record
    }
    #[test]
    fn a_target_that_is_measured_against_another_peer() {
        let all: Vec<_> = standings(&record())
            .into_iter()
            .map(|s| (s.workload.clone(), s.ours.clone(), s.peer.clone(), (s.compared.ratio.unwrap() * 100.0).round(), s.met()))
            .collect();
        let of = |w: &str, o: &str, p: &str, r: f64, met| (w.to_string(), o.to_string(), p.to_string(), r, met);
        assert_eq!(
            all,
            [
                of("ew_add_16m", "adamant", "torch", 80.0, Some(true)),
                of("small_add4_grad", "adamant", "candle", 214.0, Some(false)),
                of("small_add4_grad", "adamant-compile", "candle", 129.0, Some(false)),
                of("softmax_4096x1024", "adamant", "torch", 95.0, Some(true)),
            ]
        );
    }
}
