//! `merge`: one file of a checkpoint, for other programs.
use crate::out;
use adamant_train::{
    Failure,
    merged::{MergeFrom, MergeOptions, merge},
};
use clap::Args;
use std::path::PathBuf;

/// Options of `merge`.
#[derive(Args)]
#[command(after_help = "Examples:\n  adamant merge runs/chargpt-1\n  adamant merge runs/chargpt-1 --checkpoint best --out best.safetensors\n  \
adamant merge runs/chargpt-1 --checkpoint 600 --with-slots --json\n\nIn Python: safetensors.torch.load_file(\"merged.safetensors\"), a state dict.")]
pub struct Options {
    /// the run folder
    run: PathBuf,
    /// which checkpoint: newest, best (the highest score of a validation), or its step
    #[arg(long, value_name = "STEP", default_value = "newest")]
    checkpoint: String,
    /// the file; merged.safetensors in the run folder, unless it is named
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// the optimizer's slots too, as optimizer.NAME, and running means of the weights, as ema.NAME
    #[arg(long)]
    with_slots: bool,
    /// replaces a file that is there
    #[arg(long)]
    force: bool,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn run(o: &Options) -> Result<(), Failure> {
    let from = match o.checkpoint.as_str() {
        "newest" => MergeFrom::Newest,
        "best" => MergeFrom::Best,
        step => MergeFrom::Step(step.parse().map_err(|_| Failure::Usage(format!("--checkpoint takes a step, newest or best, not {step}")))?),
    };
    let done = merge(&o.run, &MergeOptions { from, out: o.out.clone(), slots: o.with_slots, force: o.force })?;
    done.warnings.iter().for_each(|warning| out::note(format!("warning: {warning}")));
    if o.json {
        return out::line(done.to_json());
    }
    let written_by = done.ranks.map_or_else(String::new, |ranks| format!(", written by {ranks} ranks"));
    out::line(format!("{} tensors of step {}{written_by}: {} ({} bytes)", done.tensors, done.step, done.out.display(), done.bytes))
}
