//! Every function of the engine on every MPI that is here, under that MPI's own launcher.
//!
//! Started by cargo, this program starts itself under `mpirun` with the name of a case, and judges what the ranks print and
//! how they end. `ADAMANT_TEST_MPI` names the MPIs to test, as `LAUNCHER=LIBRARY` separated by `;`; without it, the `mpirun` of the path is
//! taken with whatever library the engine finds. Where there is none, it says so loudly and passes.
mod cases;
mod data;
mod functions;
mod judge;

fn main() {
    if let Ok(case) = std::env::var(judge::CASE) {
        cases::run(&case);
        return;
    }
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    judge::all(&filter);
}
