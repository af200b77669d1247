//! Gradient accumulation: several small batches make one step.
use adamant_core::{Error, ErrorKind, Grads, Result, compile, flush};
use adamant_nn::Param;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Adds the gradients of small batches up until they are worth one step.
///
/// Each small batch gives the gradients of its mean loss and the number of its rows; what comes out are the gradients of
/// the mean loss over all rows, as if they had been one batch. Clip afterwards.
///
/// ```
/// # use adamant_core::{Result, Tensor};
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_optim::{GradAccumulator, Optimizer, Sgd, UpdateRule};
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(3, 1)?;
/// let mut optimizer = Sgd::new(0.1).over(model.parameters());
/// let mut accumulator = GradAccumulator::new(model.parameters(), 4)?;
/// let mut steps = 0;
/// for _ in 0..8 {
///     let loss = model.forward(&Tensor::ones([2, 3]))?.mean(..);
///     if let Some(grads) = accumulator.add(loss.backward()?, 2)? {
///         optimizer.step(&grads)?;
///         steps += 1;
///     }
/// }
/// assert_eq!(steps, 2);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// In a captured step all small batches of a step are added in the one function: what waits is no cell, and a replay would not
/// see it.
pub struct GradAccumulator {
    parameters: Vec<Param>,
    every: usize,
    sums: Grads,
    /// rows of each small batch since the last step
    rows: Vec<usize>,
    /// the capture in which what waits was added, 0: none
    capture: u64,
    /// as many as wait, for the end of a capture
    waiting: Arc<AtomicUsize>,
}
impl GradAccumulator {
    /// One step for each `every` small batches.
    ///
    /// # Errors
    /// `every` is 0.
    #[track_caller]
    pub fn new(parameters: Vec<Param>, every: usize) -> Result<GradAccumulator> {
        if every == 0 {
            return Err(Error::new("GradAccumulator", ErrorKind::Argument("a step takes at least one batch".into())));
        }
        Ok(GradAccumulator { parameters, every, sums: Grads::default(), rows: Vec::new(), capture: 0, waiting: Arc::default() })
    }
    /// Small batches that wait for a step.
    pub fn waiting(&self) -> usize {
        self.rows.len()
    }
    /// Forgets what waits.
    pub fn reset(&mut self) {
        (self.rows, self.sums) = (Vec::new(), Grads::default());
        self.waiting.store(0, Relaxed);
    }
    /// Adds the gradients of the mean loss over `rows` rows. Every `every`-th call gives the gradients for a step.
    ///
    /// # Errors
    /// No rows, or what computing the gradients came to.
    #[track_caller]
    pub fn add(&mut self, grads: Grads, rows: usize) -> Result<Option<Grads>> {
        if rows == 0 {
            return Err(Error::new("GradAccumulator", ErrorKind::Argument("a batch without rows has no mean loss".into())));
        }
        if self.every == 1 {
            return Ok(Some(grads));
        }
        self.within_one_capture()?;
        for p in &self.parameters {
            let cell = p.cell();
            let Some(g) = grads.of(&cell) else { continue };
            let weighted = g * rows as f64;
            let sum = match self.sums.of(&cell) {
                Some(sum) => sum + weighted,
                None => weighted,
            };
            self.sums.set(&cell, sum);
        }
        self.rows.push(rows);
        self.waiting.store(self.rows.len(), Relaxed);
        // Without this the graphs of all small batches would stay in memory until the step.
        flush()?;
        if self.rows.len() < self.every { Ok(None) } else { self.finish() }
    }
    /// The gradients of what waits: the last, ragged group of an epoch. None if nothing does.
    ///
    /// # Errors
    /// None of its own.
    #[track_caller]
    pub fn finish(&mut self) -> Result<Option<Grads>> {
        let rows: usize = std::mem::take(&mut self.rows).into_iter().sum();
        self.waiting.store(0, Relaxed);
        let mut sums = std::mem::take(&mut self.sums);
        if rows == 0 {
            return Ok(None);
        }
        for p in &self.parameters {
            let cell = p.cell();
            if let Some(sum) = sums.take(&cell) {
                sums.set(&cell, sum / rows as f64);
            }
        }
        Ok(Some(sums))
    }
    /// What waits lies in Rust: it is added up and taken in the same capture, or outside of any.
    #[track_caller]
    fn within_one_capture(&mut self) -> Result<()> {
        let (capture, apart) = (compile::capture_number(), "small batches of one step are in different captured functions, or some in none");
        if self.rows.is_empty() {
            self.capture = capture;
            if capture != 0 {
                let waiting = self.waiting.clone();
                compile::check_at_end(move || match waiting.load(Relaxed) {
                    0 => Ok(()),
                    n => Err(Error::new("GradAccumulator", ErrorKind::Argument(format!("a captured function leaves {n} small batches that wait for a step")))
                        .hint("add all small batches of a step in it, or call `finish`")),
                });
            }
        } else if self.capture != capture {
            self.reset();
            return Err(Error::new("GradAccumulator", ErrorKind::Argument(apart.into())).hint("add all small batches of a step in one function"));
        }
        Ok(())
    }
}
