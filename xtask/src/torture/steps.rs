//! Panics and errors planted in random programs of steps, three deep and on several threads, and in every method of a backend:
//! cells are as before, for everybody, and what comes next is right.
use super::{claim, report};
use crate::exit::Exit;
use adamant::Device;
use adamant_conformance::torture::{
    broken,
    steps::{self, Judge},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Programs, and panics of a backend
    #[arg(long, default_value_t = 1000)]
    n: usize,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads that run programs at once
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
pub fn run(options: &Options) -> Exit {
    let Options { n, seed, threads, json } = *options;
    let on = |name: &str, judge: Judge| -> Result<Vec<String>, String> {
        let device: Device = name.parse().map_err(|e: adamant::Error| e.to_string())?;
        Ok(steps::run(device, seed, n, threads.max(1), judge))
    };
    let mut claims: Vec<_> = ["cpu", "reference"]
        .map(|device| {
            claim(&format!("programs whose steps panic or fail leave cells as before, on {device}"), |claim| {
                let wrong = on(device, Judge::Right)?;
                (0..n.saturating_sub(wrong.len())).for_each(|_| claim.count(Ok(())));
                wrong.into_iter().for_each(|why| claim.count(Err(why)));
                Ok(())
            })
        })
        .into();
    claims.push(claim("panics in a backend are errors, cells are as before, and the device goes on", |claim| {
        let mut reached = 0;
        for k in 0..n as u64 {
            let case = broken::case(seed + k);
            reached += usize::from(case == Ok(true));
            claim.count(case.map(drop));
        }
        claim.seen = serde_json::json!({ "reached": reached });
        Ok(())
    }));
    claims.push(claim("a judge that thinks writes of a failed step stay is contradicted", |claim| {
        for judge in [Judge::KeepsInnerWrites, Judge::KeepsOuterWrites] {
            let wrong = on("reference", judge)?;
            claim.count(if wrong.is_empty() { Err(format!("{judge:?}: nobody noticed")) } else { Ok(()) });
        }
        Ok(())
    }));
    report(json, &claims)
}
