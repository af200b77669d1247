//! Recurrent networks: RNN (Elman 1990), GRU (Cho et al. 2014), LSTM (Hochreiter and Schmidhuber 1997), in several
//! layers and both directions, and their single steps. Equations and names are those of `torch.nn`.
use crate::{Copies, Module, PackedSequence, Param, Site, Walk, Walker, init, pack_padded_sequence, pad_packed_sequence};
use adamant_core::{Error, ErrorKind, Result, Tensor, functional, scope};

mod cells;
pub use cells::{GruCell, LstmCell, RnnCell};

/// What one time step computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TimeStep {
    Tanh,
    Relu,
    Gru,
    Lstm,
}
impl TimeStep {
    /// How many blocks of `hidden` rows the weights have.
    fn gates(self) -> usize {
        match self {
            TimeStep::Tanh | TimeStep::Relu => 1,
            TimeStep::Gru => 3,
            TimeStep::Lstm => 4,
        }
    }
    /// The next state (h, c) from the gates' input part `[batch, gates · hidden]` and hidden part of the same shape. `c` is the
    /// LSTM's cell; the others have none.
    #[track_caller]
    fn next(self, input: &Tensor, hidden: &Tensor, h: &Tensor, c: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
        // Parts of a whole: their cotangents are joined, where those of slices would be padded and added.
        let parts = |t: &Tensor| t.chunk(self.gates(), -1);
        Ok(match (self, c) {
            (TimeStep::Gru, _) => {
                let (Ok([ri, zi, ni]), Ok([rh, zh, nh])) = (<[Tensor; 3]>::try_from(parts(input)?), <[Tensor; 3]>::try_from(parts(hidden)?)) else {
                    return Err(Error::new("GRU", ErrorKind::Internal("not three gates".into())));
                };
                let (reset, update) = ((ri + rh).sigmoid(), (zi + zh).sigmoid());
                let new = (ni + reset * nh).tanh();
                (&new + update * (h - &new), None)
            }
            (TimeStep::Lstm, Some(c)) => {
                let Ok([i, f, g, o]) = <[Tensor; 4]>::try_from(parts(&(input + hidden))?) else {
                    return Err(Error::new("LSTM", ErrorKind::Internal("not four gates".into())));
                };
                let c = f.sigmoid() * c + i.sigmoid() * g.tanh();
                (o.sigmoid() * c.tanh(), Some(c))
            }
            (TimeStep::Relu, _) => ((input + hidden).relu(), None),
            _ => ((input + hidden).tanh(), None),
        })
    }
}

/// Options of recurrent networks; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOptions {
    /// layers on top of each other
    pub num_layers: usize,
    /// with biases?
    pub bias: bool,
    /// is the batch the first axis of input and output? Else time is.
    pub batch_first: bool,
    /// probability of dropping between layers, in training
    pub dropout: f64,
    /// read in both directions?
    pub bidirectional: bool,
    /// of an LSTM: the hidden state is projected to this size (0: it is not)
    pub proj_size: usize,
}
impl Default for RecurrentOptions {
    fn default() -> RecurrentOptions {
        RecurrentOptions { num_layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false, proj_size: 0 }
    }
}
/// The weights of one direction of one layer.
#[derive(Clone)]
struct DirectionWeights {
    suffix: String,
    weight_ih: Param,
    weight_hh: Param,
    bias_ih: Option<Param>,
    bias_hh: Option<Param>,
    weight_hr: Option<Param>,
}
impl Walk for DirectionWeights {
    fn walk(&self, walker: &mut Walker<'_>) {
        let parts = [
            ("weight_ih", Some(&self.weight_ih)),
            ("weight_hh", Some(&self.weight_hh)),
            ("bias_ih", self.bias_ih.as_ref()),
            ("bias_hh", self.bias_hh.as_ref()),
            ("weight_hr", self.weight_hr.as_ref()),
        ];
        for (name, part) in parts {
            if let Some(part) = part {
                walker.child(&format!("{name}_{}", self.suffix), part);
            }
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<DirectionWeights> {
        Ok(DirectionWeights {
            suffix: self.suffix.clone(),
            weight_ih: self.weight_ih.duplicate(copies)?,
            weight_hh: self.weight_hh.duplicate(copies)?,
            bias_ih: self.bias_ih.duplicate(copies)?,
            bias_hh: self.bias_hh.duplicate(copies)?,
            weight_hr: self.weight_hr.duplicate(copies)?,
        })
    }
}
#[derive(Clone)]
struct Network {
    site: Site,
    step: TimeStep,
    options: RecurrentOptions,
    /// layer by layer, forward direction first
    weights: Vec<DirectionWeights>,
}
impl Walk for Network {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.site.walk(walker);
        self.weights.iter().for_each(|w| w.walk(walker));
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<Network> {
        let (site, weights) = (self.site.duplicate(copies)?, self.weights.duplicate(copies)?);
        Ok(Network { site, weights, step: self.step, options: self.options })
    }
}
impl Network {
    #[track_caller]
    fn new(kind: &'static str, step: TimeStep, input_size: usize, hidden_size: usize, options: RecurrentOptions) -> Result<Network> {
        let refuse = |text: String| Error::new("recurrent", ErrorKind::Argument(text));
        if hidden_size == 0 || options.num_layers == 0 || !(0.0..=1.0).contains(&options.dropout) {
            return Err(refuse(format!(
                "hidden_size {hidden_size}, num_layers {} and dropout {}: at least 1, at least 1, and 0 to 1 are needed",
                options.num_layers, options.dropout
            )));
        }
        if options.proj_size >= hidden_size || (options.proj_size > 0 && step != TimeStep::Lstm) {
            return Err(refuse(format!("proj_size {} is for an LSTM and less than its hidden_size {hidden_size}", options.proj_size)));
        }
        let bound = 1.0 / (hidden_size as f64).sqrt();
        let out = if options.proj_size > 0 { options.proj_size } else { hidden_size };
        let directions = 1 + options.bidirectional as usize;
        let rows = step.gates() * hidden_size;
        let mut weights = Vec::new();
        for layer in 0..options.num_layers {
            for direction in 0..directions {
                let width = if layer == 0 { input_size } else { out * directions };
                let weight_ih = Param::new(&init::uniform([rows, width], -bound, bound)?)?;
                let weight_hh = Param::new(&init::uniform([rows, out], -bound, bound)?)?;
                let (mut bias_ih, mut bias_hh, mut weight_hr) = (None, None, None);
                if options.bias {
                    bias_ih = Some(Param::new(&init::uniform(rows, -bound, bound)?)?);
                    bias_hh = Some(Param::new(&init::uniform(rows, -bound, bound)?)?);
                }
                if options.proj_size > 0 {
                    weight_hr = Some(Param::new(&init::uniform([out, hidden_size], -bound, bound)?)?);
                }
                let suffix = format!("l{layer}{}", if direction == 1 { "_reverse" } else { "" });
                weights.push(DirectionWeights { suffix, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr });
            }
        }
        Ok(Network { site: Site::with_hooks(kind), step, options, weights })
    }
    fn directions(&self) -> usize {
        1 + self.options.bidirectional as usize
    }
    fn input_size(&self) -> usize {
        self.weights.first().map_or(0, |w| w.weight_ih.meta().shape[1])
    }
    /// Features of h, and of the LSTM's c. The weights say it: pruning makes them fewer.
    fn state_sizes(&self) -> (usize, usize) {
        let Some(first) = self.weights.first() else { return (0, 0) };
        let cell = first.weight_hh.meta().shape[0] / self.step.gates();
        (first.weight_hr.as_ref().map_or(cell, |projection| projection.meta().shape[0]), cell)
    }
    /// Output, last h and (LSTM) last c of every layer and direction.
    #[track_caller]
    fn run(&self, x: &Tensor, h0: Option<&Tensor>, c0: Option<&Tensor>) -> Result<(Tensor, Tensor, Option<Tensor>)> {
        let call = self.site.begin(&[x])?;
        let _called = scope::call(self.site.kind());
        let x = call.input(0, x);
        let (shape, width) = (x.shape()?, self.input_size());
        if !(2..=3).contains(&shape.rank()) || shape[shape.rank() - 1] != width {
            return Err(Error::new("recurrent", ErrorKind::Shape { shape, expected: format!("[time, batch, {width}] (or batch first), or [time, {width}]") }));
        }
        let batched = shape.rank() == 3;
        // Inside, time is the first axis and there is a batch.
        let x = match (batched, self.options.batch_first) {
            (false, _) => x.unsqueeze(1),
            (true, true) => x.transpose(0, 1),
            (true, false) => x.clone(),
        };
        let [time, batch, _] = x.dims()?;
        if time == 0 {
            return Err(Error::new("recurrent", ErrorKind::Shape { shape, expected: "at least one time step".into() }));
        }
        let (h0, c0) = self.states(&x, batch, batched, h0, c0)?;
        let steps = StepRows { rows: vec![batch; time], packed: false };
        let (output, h, c) = self.layers(x, &steps, &h0, c0.as_ref())?;
        let output = match (batched, self.options.batch_first) {
            (false, _) => output.squeeze(1),
            (true, true) => output.transpose(0, 1),
            (true, false) => output,
        };
        let given = |state: Tensor| if batched { state.ok() } else { state.squeeze(1).ok() };
        let (output, h) = (output.ok()?, given(h)?);
        Ok(match c {
            Some(c) => {
                let [output, h, c] = call.end_all([output, h, given(c)?])?;
                (output, h, Some(c))
            }
            None => {
                let [output, h] = call.end_all([output, h])?;
                (output, h, None)
            }
        })
    }
    /// As [`Network::run`], of packed sequences: no padding is computed. States are in the order of the sequences.
    #[track_caller]
    fn run_packed(&self, packed: &PackedSequence, h0: Option<&Tensor>, c0: Option<&Tensor>) -> Result<(PackedSequence, Tensor, Option<Tensor>)> {
        let call = self.site.begin(&[&packed.data])?;
        let _called = scope::call(self.site.kind());
        let x = call.input(0, &packed.data);
        let (shape, width, sizes) = (x.shape()?, self.input_size(), &packed.batch_sizes);
        let total: usize = sizes.iter().sum();
        if *shape != [total, width] || total == 0 || sizes.windows(2).any(|pair| pair[0] < pair[1]) {
            let expected = format!("[{total}, {width}]: the steps that the batch sizes say, which do not grow, and features");
            return Err(Error::new("recurrent", ErrorKind::Shape { shape, expected }));
        }
        let (h, c) = self.states(x, sizes[0], true, h0, c0)?;
        // Zeros are those of any sequence.
        let sorted = |given: Option<&Tensor>, state: Tensor| if given.is_some() { packed.sorted(&state) } else { Ok(state) };
        let (h0, c0) = (sorted(h0, h)?, c.map(|c| sorted(c0, c)).transpose()?);
        let (output, h, c) = self.layers(x.clone(), &StepRows { rows: sizes.clone(), packed: true }, &h0, c0.as_ref())?;
        let (output, h) = (output.ok()?, packed.unsorted(&h)?);
        Ok(match c {
            Some(c) => {
                let [output, h, c] = call.end_all([output, h, packed.unsorted(&c)?])?;
                (packed.with(output), h, Some(c))
            }
            None => {
                let [output, h] = call.end_all([output, h])?;
                (packed.with(output), h, None)
            }
        })
    }
    /// As [`Network::run`], of padded sequences of given lengths: steps behind a sequence's end are zeros, and the last states are
    /// those at its end.
    #[track_caller]
    fn run_lengths(&self, x: &Tensor, lengths: &[usize], h0: Option<&Tensor>, c0: Option<&Tensor>) -> Result<(Tensor, Tensor, Option<Tensor>)> {
        let batch_first = self.options.batch_first;
        let packed = pack_padded_sequence(x, lengths, batch_first, false)?;
        let (y, h, c) = self.run_packed(&packed, h0, c0)?;
        let time = x.shape()?[usize::from(batch_first)];
        Ok((pad_packed_sequence(&y, batch_first, 0.0, Some(time))?.0, h, c))
    }
    /// The states that were given, `[layers and directions, batch, features]`, or zeros.
    #[track_caller]
    fn states(&self, x: &Tensor, batch: usize, batched: bool, h0: Option<&Tensor>, c0: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
        let (out, cell) = self.state_sizes();
        let count = self.weights.len();
        let state = |given: Option<&Tensor>, size: usize| -> Result<Tensor> {
            let Some(s) = given else { return Tensor::full_on([count, batch, size], 0.0, x.dtype()?, x.device()?).ok() };
            let s = if batched { s.clone() } else { s.unsqueeze(1) };
            let got = s.shape()?;
            if *got != [count, batch, size] {
                return Err(Error::new(
                    "recurrent",
                    ErrorKind::Shape { shape: got, expected: format!("a state of [{count}, {batch}, {size}] (layers and directions, batch, features)") },
                ));
            }
            Ok(s)
        };
        Ok((state(h0, out)?, if self.step == TimeStep::Lstm { Some(state(c0, cell)?) } else { None }))
    }
    /// All layers, with time first or packed.
    #[track_caller]
    fn layers(&self, x: Tensor, steps: &StepRows, h0: &Tensor, c0: Option<&Tensor>) -> Result<(Tensor, Tensor, Option<Tensor>)> {
        let (mut x, directions) = (x, self.directions());
        let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
        for (k, pair) in self.weights.chunks(directions).enumerate() {
            let mut outputs = Vec::with_capacity(directions);
            for (d, w) in pair.iter().enumerate() {
                let index = k * directions + d;
                let inputs = w.weight_ih.linear(&x, w.bias_ih.as_ref().map(Param::get).as_ref());
                let inputs = if steps.packed { inputs.split_with_sizes(&steps.rows, 0)? } else { inputs.unbind(0)? };
                let state = (h0.select(0, index), c0.map(|c| c.select(0, index)));
                let (outs, (h, c)) = self.direction(w, &inputs, &steps.rows, state, d == 1)?;
                outputs.push(if steps.packed { Tensor::cat(&outs, 0) } else { Tensor::stack(&outs, 0) });
                last_h.push(h);
                last_c.extend(c);
            }
            x = if directions == 2 { Tensor::cat(&outputs, -1) } else { outputs.swap_remove(0) };
            if self.site.is_training() && self.options.dropout > 0.0 && k + 1 < self.options.num_layers {
                x = functional::dropout(&x, self.options.dropout, &init::generator(x.device()?)?);
            }
        }
        let c = if last_c.is_empty() { None } else { Some(Tensor::stack(&last_c, 0)) };
        Ok((x, Tensor::stack(&last_h, 0), c))
    }
    /// The outputs of one direction of one layer, in the order of time, and the last state of each sequence. Step t has `rows[t]`
    /// sequences, which do not grow: forward those that end leave with their state, backward they come in with their first.
    #[track_caller]
    fn direction(&self, w: &DirectionWeights, inputs: &[Tensor], rows: &[usize], first: HiddenState, reverse: bool) -> Result<(Vec<Tensor>, HiddenState)> {
        let (weight_hh, bias_hh) = (w.weight_hh.read(), w.bias_hh.as_ref().map(Param::get));
        let project = w.weight_hr.as_ref().map(Param::read);
        let time = inputs.len();
        let all = rows.first().copied().unwrap_or(0);
        let start = if reverse { rows.last().copied().unwrap_or(0) } else { all };
        let mut at = start;
        let (mut h, mut c) = if start == all { first.clone() } else { part(&first, 0, start) };
        let (mut steps, mut ended) = (Vec::with_capacity(time), Vec::new());
        for t in 0..time {
            let k = if reverse { time - 1 - t } else { t };
            if rows[k] < at {
                ended.push(part(&(h.clone(), c.clone()), rows[k], at - rows[k]));
                (h, c) = part(&(h, c), 0, rows[k]);
            } else if rows[k] > at {
                (h, c) = joined(&[(h, c), part(&first, at, rows[k] - at)]);
            }
            at = rows[k];
            let hidden = weight_hh.linear(&h, bias_hh.as_ref());
            let (next, cell) = self.step.next(&inputs[k], &hidden, &h, c.as_ref())?;
            h = match &project {
                Some(p) => p.linear(&next, None),
                None => next,
            };
            c = cell;
            steps.push(h.clone());
        }
        if reverse {
            steps.reverse();
        }
        if !ended.is_empty() {
            // Those that ended last stand first.
            ended.push((h, c));
            ended.reverse();
            (h, c) = joined(&ended);
        }
        Ok((steps, (h, c)))
    }
}
/// h, and the LSTM's c, of some sequences.
type HiddenState = (Tensor, Option<Tensor>);
#[track_caller]
fn part((h, c): &HiddenState, from: usize, count: usize) -> HiddenState {
    (h.narrow(0, from, count), c.as_ref().map(|c| c.narrow(0, from, count)))
}
#[track_caller]
fn joined(states: &[HiddenState]) -> HiddenState {
    let h: Vec<&Tensor> = states.iter().map(|(h, _)| h).collect();
    let c: Vec<&Tensor> = states.iter().filter_map(|(_, c)| c.as_ref()).collect();
    (Tensor::cat(&h, 0), if c.is_empty() { None } else { Some(Tensor::cat(&c, 0)) })
}
/// How many sequences each time step has.
struct StepRows {
    rows: Vec<usize>,
    /// Are the steps one behind the other, or is time an axis?
    packed: bool,
}

macro_rules! network {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Input `[time, batch, input_size]`, `[batch, time, input_size]` with `batch_first`, or `[time, input_size]`; states
        /// `[layers · directions, batch, features]`. [`Module::forward`] gives the outputs of all steps.
        #[derive(Clone)]
        pub struct $name(Network);
        impl Walk for $name {
            fn walk(&self, walker: &mut Walker<'_>) {
                self.0.walk(walker);
            }
            fn duplicate(&self, copies: &mut Copies) -> Result<$name> {
                Ok($name(self.0.duplicate(copies)?))
            }
        }
        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                Ok(self.0.run(x, None, None)?.0)
            }
        }
    };
}
network! {
    /// h' = tanh(W x + b + U h + d), or with relu.
    Rnn
}
network! {
    /// Gated recurrent units: h' = (1 - z) n + z h.
    Gru
}
network! {
    /// Long short-term memory: c' = f c + i g, h' = o tanh(c').
    Lstm
}
/// The function of a plain recurrent network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RnnNonlinearity {
    /// the hyperbolic tangent
    #[default]
    Tanh,
    /// max(x, 0)
    Relu,
}
impl RnnNonlinearity {
    fn step(self) -> TimeStep {
        match self {
            RnnNonlinearity::Tanh => TimeStep::Tanh,
            RnnNonlinearity::Relu => TimeStep::Relu,
        }
    }
}
impl Rnn {
    /// PyTorch's defaults: one layer, tanh.
    ///
    /// # Errors
    /// As [`Rnn::with`].
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Result<Rnn> {
        Rnn::with(input_size, hidden_size, RnnNonlinearity::Tanh, RecurrentOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Sizes that make no sense.
    #[track_caller]
    pub fn with(input_size: usize, hidden_size: usize, nonlinearity: RnnNonlinearity, options: RecurrentOptions) -> Result<Rnn> {
        Ok(Rnn(Network::new("RNN", nonlinearity.step(), input_size, hidden_size, options)?))
    }
}
impl Gru {
    /// PyTorch's defaults: one layer.
    ///
    /// # Errors
    /// As [`Gru::with`].
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Result<Gru> {
        Gru::with(input_size, hidden_size, RecurrentOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Sizes that make no sense.
    #[track_caller]
    pub fn with(input_size: usize, hidden_size: usize, options: RecurrentOptions) -> Result<Gru> {
        Ok(Gru(Network::new("GRU", TimeStep::Gru, input_size, hidden_size, options)?))
    }
}
/// What layers with one state have.
macro_rules! of_one_state {
    ($($name:ident)*) => { $(
        impl $name {
            /// (outputs of all steps, last state), from a state or from zeros.
            ///
            /// # Errors
            /// Shapes that do not go together.
            #[track_caller]
            pub fn forward_state(&self, x: &Tensor, h0: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let (y, h, _) = self.0.run(x, h0, None)?;
                Ok((y, h))
            }
            #[doc = concat!("As [`", stringify!($name), "::forward_state`], of packed sequences: packed outputs, and the state at the end of each")]
            /// sequence. States are in the order in which the sequences were given.
            ///
            /// ```
            /// # use adamant_core::Tensor;
            #[doc = concat!("# use adamant_nn::{", stringify!($name), ", pack_sequence, pad_packed_sequence};")]
            /// # adamant_core::Device::reference().make_current();
            /// let packed = pack_sequence(&[Tensor::ones([2, 3]), Tensor::ones([5, 3])], false)?;
            #[doc = concat!("let (y, h) = ", stringify!($name), "::new(3, 4)?.forward_packed(&packed, None)?;")]
            /// let (padded, lengths) = pad_packed_sequence(&y, false, 0.0, None)?;
            /// assert_eq!((padded.dims()?, h.dims()?, lengths), ([5, 2, 4], [1, 2, 4], vec![2, 5]));
            /// # Ok::<(), adamant_core::Error>(())
            /// ```
            ///
            /// # Errors
            /// Shapes that do not go together.
            #[track_caller]
            pub fn forward_packed(&self, packed: &PackedSequence, h0: Option<&Tensor>) -> Result<(PackedSequence, Tensor)> {
                let (y, h, _) = self.0.run_packed(packed, h0, None)?;
                Ok((y, h))
            }
            #[doc = concat!("As [`", stringify!($name), "::forward_state`], of padded sequences and the length of each, in any order: outputs behind a")]
            /// sequence's end are zeros, and the last state is the one at its end. No padding is computed.
            ///
            /// # Errors
            /// Shapes that do not go together; lengths as [`pack_padded_sequence`] refuses them.
            #[track_caller]
            pub fn forward_lengths(&self, x: &Tensor, lengths: &[usize], h0: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let (y, h, _) = self.0.run_lengths(x, lengths, h0, None)?;
                Ok((y, h))
            }
        }
    )* };
}
of_one_state!(Rnn Gru);
impl Lstm {
    /// PyTorch's defaults: one layer.
    ///
    /// # Errors
    /// As [`Lstm::with`].
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Result<Lstm> {
        Lstm::with(input_size, hidden_size, RecurrentOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Sizes that make no sense.
    #[track_caller]
    pub fn with(input_size: usize, hidden_size: usize, options: RecurrentOptions) -> Result<Lstm> {
        Ok(Lstm(Network::new("LSTM", TimeStep::Lstm, input_size, hidden_size, options)?))
    }
    /// (outputs of all steps, last h, last c), from states (h, c) or from zeros.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_state(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor, Tensor)> {
        match self.0.run(x, state.map(|s| s.0), state.map(|s| s.1))? {
            (y, h, Some(c)) => Ok((y, h, c)),
            _ => Err(Error::new("LSTM", ErrorKind::Internal("no cell state".into()))),
        }
    }
    /// As [`Lstm::forward_state`], of packed sequences: packed outputs, and the state at the end of each sequence. States are in the
    /// order in which the sequences were given.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Lstm, pack_sequence, pad_packed_sequence};
    /// # adamant_core::Device::reference().make_current();
    /// let packed = pack_sequence(&[Tensor::ones([2, 3]), Tensor::ones([5, 3])], false)?;
    /// let (y, h, _) = Lstm::new(3, 4)?.forward_packed(&packed, None)?;
    /// let (padded, lengths) = pad_packed_sequence(&y, false, 0.0, None)?;
    /// assert_eq!((padded.dims()?, h.dims()?, lengths), ([5, 2, 4], [1, 2, 4], vec![2, 5]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_packed(&self, packed: &PackedSequence, state: Option<(&Tensor, &Tensor)>) -> Result<(PackedSequence, Tensor, Tensor)> {
        let (y, h, c) = self.0.run_packed(packed, state.map(|s| s.0), state.map(|s| s.1))?;
        c.map(|c| (y, h, c)).ok_or_else(|| Error::new("LSTM", ErrorKind::Internal("no cell state".into())))
    }
    /// As [`Lstm::forward_state`], of padded sequences and the length of each, in any order: outputs behind a sequence's end are
    /// zeros, and the last states are those at its end. No padding is computed.
    ///
    /// # Errors
    /// Shapes that do not go together; lengths as [`pack_padded_sequence`] refuses them.
    #[track_caller]
    pub fn forward_lengths(&self, x: &Tensor, lengths: &[usize], state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor, Tensor)> {
        let (y, h, c) = self.0.run_lengths(x, lengths, state.map(|s| s.0), state.map(|s| s.1))?;
        c.map(|c| (y, h, c)).ok_or_else(|| Error::new("LSTM", ErrorKind::Internal("no cell state".into())))
    }
}
