//! `adamant debug`: a page that shows a run, living or ended, and steers it.
//!
//! ```text
//! metrics, timing, incidents, profiles .jsonl -> follow -> record (bounded) ─┐
//! failure.json, result.json, architecture.json ──────────────────────────────┼─ feed ─ events ─> page, one stream for each that is open
//! control.sock <── status, twice a second ───────────────────────────────────┘
//!              <── steer: a request of the page, on a thread that may wait <── POST /api/control
//!                                                                  record ──> GET /metrics, for Prometheus
//! ```
//!
//! A page is what its stream said: first all that is known (`begin`, lines, `whole`), then each line as it comes. A stream that breaks, or
//! falls behind, is opened again and begins with all that is known, so that nothing has to be caught up with; a run that begins anew in the
//! folder, or is cut back, is told the same way.
//!
//! Invariants: the folder is only read. What is asked of the run goes over its socket, and the requests of the debugger over one connection
//! that is kept, since breakpoints belong to it: where this program ends, however it does, the run goes on. Nothing is sent to anybody but
//! who has the token, by this machine's own address; what a run says becomes text on the page and nothing else. All that is kept is
//! bounded: lines (thinned), pages, requests that wait, the bytes of each.
mod feed;
mod incident;
mod page;
mod prometheus;
mod record;
mod server;
mod steer;
mod terminal;

use crate::{device::DeviceOptions, out, watch::seen::SeenRun};
use adamant_train::{Failure, folder::text_of};
use clap::Args;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    io::ErrorKind,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

const EXAMPLES: &str = "Examples:
  adamant debug runs/mnist-1                          all panels; Ctrl-C ends the page, the run goes on
  adamant debug runs/mnist-1 --gradients --anomalies  opens with these two
  adamant debug runs/mnist-1 --port 8080              http://127.0.0.1:8080/, and /metrics for Prometheus
  adamant debug runs/mnist-1 --terminal               breakpoints, values, steps; help lists the commands
  adamant debug runs/mnist-1 --incident 1             the step that had bad numbers, once more";

/// Options of `debug`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DebugVerb {
    /// the run folder, of a run that goes on or has ended
    run: PathBuf,
    /// opens with the gradient flow
    #[arg(long)]
    gradients: bool,
    /// opens with dead neurons
    #[arg(long)]
    dead_neurons: bool,
    /// opens with anomalies
    #[arg(long)]
    anomalies: bool,
    /// opens with the step debugger
    #[arg(long)]
    step: bool,
    /// the port, on this machine's own address alone; a free one unless it is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// a debugger that reads commands from stdin, in the place of a page: `help` lists them
    #[arg(long, conflicts_with_all = ["port", "gradients", "dead_neurons", "anomalies", "step"])]
    terminal: bool,
    /// makes a step that had bad numbers once more: the number of its line in incidents.jsonl, from 1; with --terminal it stops before the step
    #[arg(long, value_name = "N", conflicts_with_all = ["port", "gradients", "dead_neurons", "anomalies", "step"])]
    incident: Option<u64>,
    /// of --incident: where the data lies, unless the run had it there
    #[arg(long, value_name = "DIR", requires = "incident")]
    data: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints the address as one JSON document; with --terminal, each answer
    #[arg(long)]
    pub json: bool,
}
impl DebugVerb {
    /// The panels that the page opens with; none: all.
    fn panels(&self) -> Vec<&'static str> {
        let asked = [(self.gradients, "gradients"), (self.dead_neurons, "neurons"), (self.anomalies, "anomalies"), (self.step, "debugger")];
        asked.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
    }
}
/// Serves the page until somebody ends it.
///
/// # Errors
/// `Input`: there is no such run. `Usage`: the port is taken, or may not be used. `Run`: the system gives no thread, socket or random bytes.
pub fn run(o: &DebugVerb) -> Result<(), Failure> {
    if !o.run.is_dir() {
        return Err(Failure::Input(format!("{}: there is no such run", o.run.display())));
    }
    if !SeenRun::of(&o.run).is_run() {
        return Err(Failure::Input(format!("{}: no run: neither config.toml nor metrics.jsonl is in it", o.run.display())));
    }
    if let Some(number) = o.incident {
        let DebugVerb { run, data, device, terminal, json, .. } = o;
        return incident::run(&incident::RepeatedIncident { run, number, data: data.as_deref(), device, terminal: *terminal, json: *json });
    }
    if o.terminal {
        return terminal::run(&o.run, o.json, &[]);
    }
    let failed = |e: std::io::Error| Failure::Run(format!("the page cannot be served: {e}"));
    let listener = listen(o.port)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let token = random()?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let feed = feed::start(&o.run)?;
    let site = Arc::new(server::DebugSite::new(&o.run, port, &token, &o.panels(), feed));
    let (ends, ended) = tokio::sync::oneshot::channel();
    let wait = move || {
        // Whatever came, the page is over; nobody listens only where it ended by itself.
        if signals.forever().next().is_some() {
            let _ = ends.send(());
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    let address = format!("http://127.0.0.1:{port}/?token={token}");
    if o.json {
        out::line(json!({ "run": text_of(&o.run), "address": address, "port": port, "token": token }))?;
    } else {
        out::line(&address)?;
        out::note("open it in a browser of this machine; Ctrl-C ends the page, the run goes on");
    }
    server::serve(listener, site, ended).map_err(failed)
}
/// A socket on this machine's own address.
fn listen(port: Option<u16>) -> Result<TcpListener, Failure> {
    let refused = |e: std::io::Error| match (e.kind(), port) {
        (ErrorKind::AddrInUse, Some(port)) => {
            Failure::Usage(format!("--port {port}: another program has it; take another one, or leave `--port` out for one that is free"))
        }
        (ErrorKind::PermissionDenied, Some(port)) => Failure::Usage(format!("--port {port}: it may not be used; take one above 1023")),
        _ => Failure::Run(format!("127.0.0.1 cannot be listened on: {e}")),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}
/// 256 bits that nobody can guess, as text.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| Failure::Run(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
