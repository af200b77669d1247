//! Rows about what memory work takes: block by block, phase by phase, and nothing in a steady state.
use super::{CheckCost, Checked, RowCheck, Seen, device, plant, planted};
use crate::workspace;
use adamant::{
    DType, Tensor,
    memory::{MemoryTracker, memory_usage, profile_memory},
    nn::{Linear, Module},
    no_grad,
};
use serde_json::Value;
use std::error::Error;

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "B1.10",
        target: "dhat: no bytes that grow with the tensors; the pool serves all requests",
        cost: CheckCost::Long,
        check: reused,
        plants: &[],
    },
    RowCheck {
        id: "S0.10",
        target: "on the default device, on all cores: 0 system allocations in 50 steps by a counting allocator; the pool serves all requests after step 2",
        cost: CheckCost::Long,
        check: steady,
        plants: &[plant("a step that asks for memory", "0 allocations")],
    },
    RowCheck { id: "S0.26", target: "prints current and peak MB; the peak of a known graph within 1 %", cost: CheckCost::Cheap, check: profiled, plants: &[] },
    RowCheck {
        id: "S1.03",
        target: "each of the three differences within 1 % of the bytes of what was made, on the device and on the host",
        cost: CheckCost::Cheap,
        check: phases,
        plants: &[],
    },
    RowCheck {
        id: "S2.23",
        target: "start, end and peak of blocks, nested too, within 1 % of the bytes in them",
        cost: CheckCost::Cheap,
        check: tracked,
        plants: &[],
    },
];
const MIB: usize = 1 << 20;

fn within(figure: usize, expected: usize) -> bool {
    figure.abs_diff(expected) * 100 <= expected
}
fn filled(mib: usize) -> Result<Tensor, adamant::Error> {
    let x = Tensor::full_on([mib * MIB / 4], 0.5, DType::F32, device()?);
    x.materialize()?;
    Ok(x)
}
fn profiled() -> Checked {
    // Two inputs of 8 and 4 MiB and their concatenation are there at once; one input stays.
    let (kept, memory) = profile_memory(device()?, || -> Result<Tensor, adamant::Error> {
        let (a, b) = (filled(8)?, filled(4)?);
        let both = Tensor::cat(&[&a, &b], 0);
        both.materialize()?;
        drop(both);
        Ok(b)
    });
    let kept = kept?;
    let text = memory.to_string();
    drop(kept);
    Ok(Seen::all(
        &[("peak", within(memory.peak, 24 * MIB)), ("current", within(memory.current, 4 * MIB)), ("prints both", text == "current 4.194 MB, peak 25.166 MB")],
        format!("{text}; by hand 4.194 and 25.166"),
    ))
}
/// Device and resident bytes before anything, with a model, with its input too, with its output too.
fn levels(n: usize) -> Result<[(usize, usize); 4], Box<dyn Error>> {
    let device = device()?;
    let level = || -> Result<(usize, usize), Box<dyn Error>> {
        // What waits in the pool is nobody's.
        device.pool().trim();
        let usage = memory_usage(device)?;
        Ok((usage.device.live_bytes, usize::try_from(usage.process.resident)?))
    };
    let before = level()?;
    let model = Linear::new(n, n)?;
    device.synchronize()?;
    let with_model = level()?;
    let x = Tensor::from_vec(vec![0.5f32; n * n], [n, n]);
    let with_input = level()?;
    let y = no_grad(|| model.forward(&x))?;
    y.materialize()?;
    let with_output = level()?;
    drop((model, x, y));
    Ok([before, with_model, with_input, with_output])
}
fn phases() -> Checked {
    const N: usize = 4096;
    // The first time, code is read from the program's file and threads get their stacks.
    levels(N)?;
    let seen = levels(N)?;
    let expected = [4 * (N * N + N), 4 * N * N, 4 * N * N];
    let differences: Vec<(usize, usize)> = seen.windows(2).map(|w| (w[1].0.saturating_sub(w[0].0), w[1].1.saturating_sub(w[0].1))).collect();
    let right = |of: fn(&(usize, usize)) -> usize| differences.iter().zip(expected).all(|(d, e)| within(of(d), e));
    let mib = |bytes: usize| format!("{:.2}", bytes as f64 / MIB as f64);
    let parts: Vec<String> = ["model", "input", "forward"]
        .iter()
        .zip(&differences)
        .zip(expected)
        .map(|((name, d), e)| format!("{name} {} and {} of {} MiB", mib(d.0), mib(d.1), mib(e)))
        .collect();
    Ok(Seen::all(&[("device", right(|d| d.0)), ("host", right(|d| d.1))], format!("device and host: {}", parts.join("; "))))
}
fn tracked() -> Checked {
    let tracker = MemoryTracker::new(device()?);
    let kept = tracker.track("outer", || -> Result<Tensor, adamant::Error> {
        drop(filled(16)?);
        let kept = filled(2)?;
        let block = tracker.begin("inner");
        let other = filled(4)?;
        drop(block);
        drop(other);
        Ok(kept)
    })?;
    let blocks = tracker.blocks();
    drop(kept);
    let expected = [("inner", 2, 6, 6), ("outer", 0, 2, 16)];
    let right = blocks.len() == 2
        && blocks
            .iter()
            .zip(expected)
            .all(|(b, (name, start, end, peak))| b.name == name && within(b.start, start * MIB) && within(b.end, end * MIB) && within(b.peak, peak * MIB));
    let told = tracker.to_string();
    Ok(Seen::all(
        &[("start, end and peak", right), ("a table", told.lines().count() == 3 && told.contains("Peak MB"))],
        blocks.iter().map(|b| format!("{}: {} to {} bytes, peak {}", b.name, b.start, b.end, b.peak)).collect::<Vec<_>>().join("; "),
    ))
}

/// What the example counts, for each of its models. The second is the first with larger batches.
fn counted(arguments: &[&str]) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut command = workspace::cargo(&["run", "--release", "--quiet", "--package", "adamant", "--example", "allocations", "--"]);
    let output = command.args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
fn number(of: &Value, name: &str) -> Result<i64, Box<dyn Error>> {
    of[name].as_i64().ok_or_else(|| format!("no {name} in {of}").into())
}
fn reused() -> Checked {
    let counts = counted(&[])?;
    let [small, large, ..] = &counts[..] else { return Err("fewer than two models".into()) };
    let both = |name: &str| -> Result<[i64; 2], Box<dyn Error>> { Ok([number(small, name)?, number(large, name)?]) };
    let (bytes, blocks, buffers, steps) = (both("heap_bytes")?, both("heap_blocks")?, both("peak_buffer_bytes")?, both("steps")?);
    let (system, requests, growth) = (both("pool_system_allocations")?, both("pool_requests")?, both("heap_growth_bytes")?);
    Ok(Seen::all(
        &[
            ("the larger batch has larger buffers", buffers[1] > buffers[0] + 500_000),
            ("and asks the allocator for no more", bytes[1] <= bytes[0] + 64 * steps[1]),
            ("the pool was asked", requests.iter().zip(steps).all(|(r, s)| *r >= s)),
            ("and served from what it has", system == [0, 0]),
            ("nothing is kept", growth.iter().all(|g| *g <= 0)),
        ],
        format!(
            "{} steps with batches of 64 and 256: buffers {} and {} bytes; {} and {} bytes of small blocks ({} a step), {} requests of the pool, {} of the system",
            steps[0],
            buffers[0],
            buffers[1],
            bytes[0],
            bytes[1],
            blocks[0] / steps[0].max(1),
            requests[0] + requests[1],
            system[0] + system[1],
        ),
    ))
}
fn steady() -> Checked {
    let (mut no_blocks, mut served, mut told) = (true, true, Vec::new());
    let arguments = if planted("a step that asks for memory") { &["count", "wasteful"][..] } else { &[] };
    for counts in counted(arguments)? {
        let name = counts["model"].as_str().ok_or("a model without a name")?;
        let (steps, blocks) = (number(&counts, "steps")?, number(&counts, "heap_blocks")?);
        let (requests, after_two) = (number(&counts, "pool_requests")?, number(&counts, "system_allocations_after_step_2")?);
        no_blocks &= blocks == 0;
        served &= requests > 0 && after_two == 0;
        told.push(format!("{name}: {blocks} allocations in {steps} steps, {requests} requests of the pool, {after_two} of the system after step 2"));
    }
    let told = told.join("; ");
    Ok(Seen::all(&[("0 allocations", no_blocks), ("every request served after step 2", served && !told.is_empty())], told))
}
