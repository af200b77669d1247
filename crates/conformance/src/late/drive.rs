//! What is driven over an asynchronous device to see whether anybody forgets to wait: training steps on good and bad data, whose
//! cells, losses and errors are known, memory that comes and goes, reads that are waited for late. Each check says what it saw.
use adamant_core::{Arg, Cell, Device, Error, Op, Result, Tensor, compile, step};

type Seen<T> = std::result::Result<T, String>;
fn text(e: Error) -> String {
    e.to_string()
}
/// All of it.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn everything(device: Device) -> Seen<()> {
    for round in 0..3 {
        data_comes_and_goes(device).map_err(|e| format!("round {round}, data: {e}"))?;
        bad_steps(device).map_err(|e| format!("round {round}, steps: {e}"))?;
        two_looks(device).map_err(|e| format!("round {round}, two looks: {e}"))?;
        swapped(device).map_err(|e| format!("round {round}, exchanged cells: {e}"))?;
        inherited(device).map_err(|e| format!("round {round}, inherited: {e}"))?;
        told_once(device).map_err(|e| format!("round {round}, told once: {e}"))?;
        compiled(device).map_err(|e| format!("round {round}, compiled: {e}"))?;
        beside(device).map_err(|e| format!("round {round}, beside: {e}"))?;
        device.pool().trim();
    }
    device.synchronize().map_err(|e| format!("at the end: {e}"))
}
fn same(what: &str, got: Result<Vec<f32>>, want: &[f32]) -> Seen<()> {
    match got.map_err(|e| format!("{what}: {e}"))? {
        got if got == want => Ok(()),
        got => Err(format!("{what} is {:?}.., not {:?}..", &got[..got.len().min(4)], &want[..want.len().min(4)])),
    }
}
fn is_bad(what: &str, got: Result<()>) -> Seen<()> {
    match got {
        Ok(()) => Err(format!("{what}: no error")),
        Err(e) if e.kind().word() == "index" && e.to_string().contains(file!()) => Ok(()),
        Err(e) => Err(format!("{what}: no index error with its line: {e}")),
    }
}
fn gather(x: &Tensor, index: &Tensor) -> Tensor {
    Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[x, index])
}
fn numbers(n: usize, from: usize, device: Device) -> Tensor {
    Tensor::from_vec_on((0..n).map(|k| (from + k) as f32).collect(), [n], device)
}
fn index(of: [i64; 3], device: Device) -> Tensor {
    Tensor::from_vec_on(of.to_vec(), [3], device)
}
/// Uploads into memory that was in use, kernels on what is still on its way, reads that nobody waits for at once.
fn data_comes_and_goes(device: Device) -> Seen<()> {
    let mut readings = Vec::new();
    for k in 0..12 {
        let x = numbers(300, k, device);
        let y = (&x * 2.0f32 + 1.0f32).cumsum(0);
        readings.push((k, y.read_later::<f32>().map_err(text)?));
        if k == 5 {
            drop((x, y));
            device.pool().trim();
        }
    }
    for (k, reading) in readings {
        let mut sum = 0.0f32;
        let want: Vec<f32> = (0..300)
            .map(|i| {
                sum += (k + i) as f32 * 2.0 + 1.0;
                sum
            })
            .collect();
        same("a late read", reading.wait(), &want)?;
    }
    Ok(())
}
/// Steps of which some find bad data: the cells go on from the last good one.
fn bad_steps(device: Device) -> Seen<()> {
    let table = numbers(3, 1, device);
    let (a, b) = (Cell::new(&(&table * 1.0f32), true).map_err(text)?, Cell::new(&(&table * 2.0f32), true).map_err(text)?);
    let c = Cell::new(&Tensor::from_vec_on(vec![0.0f32], [1], device), false).map_err(text)?;
    let mut want = [vec![1.0f32, 2.0, 3.0], vec![2.0, 4.0, 6.0], vec![0.0]];
    let mut losses = Vec::new();
    for k in 0..8 {
        // Two looks into the table, of which now one, now the other is bad.
        let (first, second) = (if k % 4 == 1 { [0, 3, 1] } else { [2, 1, 0] }, if k % 4 == 3 { [-1, 0, 0] } else { [0, 0, 1] });
        let good = k % 2 == 0;
        let taken = step(|| {
            let (x, y) = (gather(&table, &index(first, device)), gather(&table, &index(second, device)));
            a.set(&(a.detached() + &x))?;
            b.set(&(b.detached() * 0.5f32 + &y))?;
            // No Map: it has memory of its own on any device.
            c.set(&(a.detached() * b.detached()).sum_keepdim(0).reshape([1]))?;
            Ok(x * y)
        });
        // What a step returns does not depend on how fast the device is.
        let loss = taken.map_err(|e| format!("step {k}: {e}"))?;
        if good {
            let (x, y) = ([3.0, 2.0, 1.0], [1.0, 1.0, 2.0]);
            for i in 0..3 {
                want[0][i] += x[i];
                want[1][i] = want[1][i] * 0.5 + y[i];
            }
            want[2][0] = (0..3).map(|i| want[0][i] * want[1][i]).sum();
        }
        losses.push((k, good, loss));
    }
    for (k, good, loss) in losses {
        match (good, loss) {
            (true, loss) => same("a loss", loss.to_vec(), &[3.0, 2.0, 2.0])?,
            (false, loss) => is_bad(&format!("the loss of step {k}"), loss.materialize())?,
        }
    }
    for (k, (cell, want)) in [&a, &b, &c].into_iter().zip(&want).enumerate() {
        same(&format!("cell {k}"), cell.detached().to_vec(), want)?;
    }
    device.synchronize().map_err(|e| format!("told twice: {e}"))?;
    // Of a step that nobody asks about, the device tells.
    let unread = step(|| a.set(&(a.detached() + gather(&table, &index([7, 0, 0], device)))));
    is_bad("a step that nobody asks about", unread.and_then(|()| device.synchronize()))?;
    same("cell 0", a.detached().to_vec(), &want[0])
}
/// A step that may be bad in two places and writes its cells where they lie, on a device that does that.
fn two_looks(device: Device) -> Seen<()> {
    let table = numbers(3, 1, device);
    let (a, b) = (Cell::new(&numbers(3, 1, device), true).map_err(text)?, Cell::new(&numbers(3, 2, device), true).map_err(text)?);
    let good = [0, 1, 2];
    let mut times = 0.0;
    for (first, second) in [(good, good), ([0, 3, 0], good), (good, [0, 0, -1]), (good, good), ([9, 9, 9], [9, 9, 9])] {
        let done = step(|| {
            a.set(&(a.detached() + gather(&table, &index(first, device))))?;
            b.set(&(b.detached() + gather(&table, &index(second, device))))
        });
        let done = done.and_then(|()| device.synchronize());
        if (first, second) == (good, good) {
            done.map_err(text)?;
            times += 1.0;
        } else {
            is_bad("a step", done)?;
        }
        for (cell, from) in [(&a, 1.0f32), (&b, 2.0)] {
            let want = [0.0f32, 1.0, 2.0].map(|k| k + from + times * (k + 1.0));
            same("a cell", cell.detached().to_vec(), &want)?;
        }
    }
    Ok(())
}
/// Two cells that exchange their values, and do not where the data is bad.
fn swapped(device: Device) -> Seen<()> {
    let table = numbers(3, 0, device);
    let (a, b) = (Cell::new(&numbers(3, 10, device), true).map_err(text)?, Cell::new(&numbers(3, 20, device), true).map_err(text)?);
    for (bad, index_of, wants) in [(true, [0, 0, 9], [10.0f32, 20.0]), (false, [0, 0, 0], [20.0, 10.0]), (true, [5, 0, 0], [20.0, 10.0])] {
        let zero = gather(&table, &index(index_of, device));
        let done = step(|| {
            let (x, y) = (a.detached() + &zero, b.detached() + &zero);
            a.set(&y)?;
            b.set(&x)
        });
        let done = done.and_then(|()| device.synchronize());
        match bad {
            true => is_bad("an exchange", done)?,
            false => done.map_err(text)?,
        }
        for (cell, from) in [&a, &b].into_iter().zip(wants) {
            same("a cell", cell.detached().to_vec(), &[from, from + 1.0, from + 2.0])?;
        }
    }
    Ok(())
}
/// A loss of one window spoils the step of the next one. Who reads the loss is told, and nobody else.
fn told_once(device: Device) -> Seen<()> {
    let table = numbers(3, 1, device);
    let a = Cell::new(&(&table * 1.0f32), true).map_err(text)?;
    for of in [[0i64, 3, 0], [0, 1, 2], [-1, 0, 0]] {
        let loss = gather(&table, &index(of, device));
        adamant_core::flush().map_err(text)?;
        let before = a.detached().to_vec::<f32>().map_err(text)?;
        step(|| a.set(&(a.detached() + &loss))).map_err(|e| format!("a step told what its device looks for: {e}"))?;
        match of {
            [0, 1, 2] => same("a loss", loss.to_vec(), &[1.0, 2.0, 3.0])?,
            _ => {
                is_bad("a loss", loss.materialize())?;
                same("the cell", a.detached().to_vec(), &before)?;
            }
        }
        device.synchronize().map_err(|e| format!("told again: {e}"))?;
    }
    same("the cell", a.detached().to_vec(), &[2.0, 4.0, 6.0])
}
/// A value of one window that the next one reads before anybody knows whether it is good.
fn inherited(device: Device) -> Seen<()> {
    let table = numbers(3, 1, device);
    let a = Cell::new(&(&table * 1.0f32), true).map_err(text)?;
    let total = |of: [i64; 3]| -> Result<Tensor> {
        let x = gather(&table, &index(of, device));
        // It runs, and nobody reads it.
        let _reading = x.read_later::<f32>();
        Ok(x)
    };
    for (k, of) in [[0i64, 4, 0], [2, 2, 2]].into_iter().enumerate() {
        // A value that runs without anybody looking at it is a sum over windows.
        let mut sum = numbers(3, 0, device);
        for last in [[0, 1, 2], of, [1, 1, 1]] {
            sum = adamant_core::with_window(1, || &sum + gather(&table, &index(last, device)));
            adamant_core::flush().map_err(text)?;
        }
        let derived = &sum * 2.0f32;
        adamant_core::flush().map_err(text)?;
        let done = step(|| a.set(&(a.detached() + &derived))).and_then(|()| device.synchronize());
        match k {
            0 => {
                is_bad("a step on a spoiled sum", done)?;
                is_bad("a spoiled sum", derived.materialize())?;
                same("the cell", a.detached().to_vec(), &[1.0, 2.0, 3.0])?;
            }
            _ => {
                done.map_err(text)?;
                same("a sum", derived.to_vec(), &[12.0, 16.0, 20.0])?;
                same("the cell", a.detached().to_vec(), &[13.0, 18.0, 23.0])?;
            }
        }
    }
    total([0, 0, 0]).map(drop).map_err(text)
}
/// The same of a compiled function, whose cells are written at each call.
fn compiled(device: Device) -> Seen<()> {
    let table = numbers(3, 1, device);
    let (a, b) = (Cell::new(&(&table * 1.0f32), true).map_err(text)?, Cell::new(&(&table * 2.0f32), true).map_err(text)?);
    let (first, second, taken) = (a.clone(), b.clone(), table.clone());
    let f = compile(move |i: &[Tensor]| {
        let x = gather(&taken, &i[0]);
        first.set(&(first.detached() + 1.0f32))?;
        second.set(&(second.detached() + &x))?;
        Ok(vec![x * 2.0f32])
    });
    let (good, bad) = (index([2, 1, 0], device), index([0, 3, 0], device));
    for k in 0..4 {
        let called = f.call(&[if k % 2 == 0 { &good } else { &bad }]);
        let done = called.and_then(|out| out[0].materialize());
        match k % 2 {
            0 => done.map_err(text)?,
            _ => is_bad("a compiled step", done)?,
        }
    }
    same("the first cell", a.detached().to_vec(), &[3.0, 4.0, 5.0])?;
    same("the second cell", b.detached().to_vec(), &[8.0, 8.0, 8.0])
}
/// A step that writes a value that is there, an input as it is, and one that is computed from bad data: all or none.
fn beside(device: Device) -> Seen<()> {
    let table = numbers(3, 1, device);
    let [a, b, c] = [1.0f32, 2.0, 3.0].map(|by| Cell::new(&(&table * by), false));
    let (a, b, c) = (a.map_err(text)?, b.map_err(text)?, c.map_err(text)?);
    for (bad, of) in [(true, [0, 0, 3]), (false, [0, 0, 0])] {
        let there = numbers(3, 50, device);
        there.materialize().map_err(text)?;
        let done = step(|| {
            a.set(&there)?;
            b.set(&c.detached())?;
            c.set(&gather(&table, &index(of, device)))
        });
        let done = done.and_then(|()| device.synchronize());
        match bad {
            true => is_bad("a step", done)?,
            false => done.map_err(text)?,
        }
        let want = if bad { [[1.0f32, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]] } else { [[50.0, 51.0, 52.0], [3.0, 6.0, 9.0], [1.0, 1.0, 1.0]] };
        for (cell, want) in [&a, &b, &c].into_iter().zip(want) {
            same("a cell", cell.detached().to_vec(), &want)?;
        }
        same("what was there", there.to_vec(), &[50.0, 51.0, 52.0])?;
    }
    Ok(())
}
