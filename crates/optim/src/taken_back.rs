//! Numbers of an optimizer that follow its cells. A step inside another one hands its writes on, and the other may still
//! fail: then the cells are as they were, and the numbers that were counted with them must be, too. A cell of the optimizer's
//! own tells: each step writes a mark of its own into it, and who finds an older mark there knows which steps were taken back.
//! Must not know what the numbers are.
use adamant_core::{Cell, Device, Result, Tensor};

/// What the numbers were before each step that may still be taken back.
pub(crate) struct Past<S> {
    witness: Option<Cell>,
    /// the marks, each made once
    marks: Vec<Tensor>,
    /// the mark of the last step
    now: i64,
    /// commits of the witness that are known of
    version: u64,
    /// the mark that stood before a step, and the numbers of then
    before: Vec<(i64, S)>,
    /// room for the next
    unused: Vec<S>,
}
impl<S> Default for Past<S> {
    fn default() -> Past<S> {
        Past { witness: None, marks: Vec::new(), now: 0, version: 0, before: Vec::new(), unused: Vec::new() }
    }
}
impl<S: Default> Past<S> {
    /// Room for the numbers before a step.
    pub fn room(&mut self) -> S {
        self.unused.pop().unwrap_or_default()
    }
    /// A step begins: it is to write the mark into the cell.
    ///
    /// # Errors
    /// No memory.
    pub fn begin(&mut self, numbers: S) -> Result<(Cell, Tensor)> {
        let cell = match &self.witness {
            Some(cell) => cell.clone(),
            None => self.witness.insert(Cell::new(&mark(self.now), false)?).clone(),
        };
        let next = (0..).find(|id| *id != self.now && self.before.iter().all(|(other, _)| other != id)).unwrap_or(0);
        while self.marks.len() as i64 <= next {
            self.marks.push(mark(self.marks.len() as i64));
        }
        self.before.push((std::mem::replace(&mut self.now, next), numbers));
        Ok((cell, self.marks[next as usize].clone()))
    }
    /// A step has succeeded. Where none is around it, nothing takes it back any more.
    pub fn end(&mut self) {
        let committed = self.witness.as_ref().map_or(0, Cell::version);
        if committed != std::mem::replace(&mut self.version, committed) {
            self.unused.extend(self.before.drain(..).map(|(_, numbers)| numbers));
        }
    }
    /// Which of the steps were taken back: those from this place on.
    fn place(&self) -> Option<usize> {
        if self.before.is_empty() {
            return None;
        }
        let there = self.witness.as_ref()?.read().item::<i64>().ok()?;
        self.before.iter().position(|(mark, _)| *mark == there).filter(|_| there != self.now)
    }
    /// The numbers that hold, if steps were taken back since the last look.
    pub fn holding(&self) -> Option<&S> {
        self.place().and_then(|k| self.before.get(k)).map(|(_, numbers)| numbers)
    }
    /// As [`Past::holding`]; the steps are forgotten once `restore` has put the numbers back.
    pub fn settle(&mut self, restore: impl FnOnce(&S)) {
        if let Some(k) = self.place() {
            restore(&self.before[k].1);
            self.now = self.before[k].0;
            self.unused.extend(self.before.drain(k..).map(|(_, numbers)| numbers));
        }
        self.end();
    }
}
/// It lies with the reference device, which is always there and computes nothing here.
fn mark(id: i64) -> Tensor {
    Tensor::from_vec_on(vec![id], (), Device::reference())
}
