//! Readers answer requests while another thread loads and steps: no request is computed with two versions of the weights.
use super::{claim, report};
use crate::exit::Exit;
use adamant::Device;
use adamant_conformance::torture::readers;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Requests, of all readers together
    #[arg(long, default_value_t = 100_000)]
    requests: usize,
    /// Threads that answer them
    #[arg(long, default_value_t = 8)]
    readers: usize,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
pub fn run(options: &Options) -> Exit {
    let Options { requests, readers: threads, json } = *options;
    let on = |requests: usize, in_sections: bool| -> Result<readers::Seen, String> {
        let device: Device = "cpu".parse().map_err(|e: adamant::Error| e.to_string())?;
        readers::run(device, threads, requests, in_sections).map_err(|e| e.to_string())
    };
    let sections = claim("requests in a read section are of one version", |claim| {
        let seen = on(requests, true)?;
        (claim.tried, claim.held) = (requests, seen.requests - seen.mixed);
        claim.seen = serde_json::json!({ "mixed": seen.mixed, "failed": seen.failed, "error": seen.error, "versions": seen.versions });
        Ok(())
    });
    let without = claim("requests without one are seen to be mixed", |claim| {
        let seen = on(requests.min(1000), false)?;
        claim.seen = serde_json::json!({ "mixed": seen.mixed, "versions": seen.versions });
        claim.count(if seen.mixed > 0 { Ok(()) } else { Err("the judge saw none".into()) });
        Ok(())
    });
    report(json, &[sections, without])
}
