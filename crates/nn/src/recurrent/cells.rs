//! Single steps of recurrent networks, for loops of one's own.
use super::{RnnNonlinearity, TimeStep};
use crate::{Module, Param, Site, init};
use adamant_core::{Error, ErrorKind, Result, Tensor, scope};

#[derive(Clone, Module)]
struct One {
    site: Site,
    weight_ih: Param,
    weight_hh: Param,
    bias_ih: Option<Param>,
    bias_hh: Option<Param>,
    #[module(skip)]
    step: TimeStep,
}
impl One {
    #[track_caller]
    fn new(kind: &'static str, step: TimeStep, input_size: usize, hidden_size: usize, bias: bool) -> Result<One> {
        let bound = 1.0 / (hidden_size.max(1) as f64).sqrt();
        let rows = step.gates() * hidden_size;
        let weight_ih = Param::new(&init::uniform([rows, input_size], -bound, bound)?)?;
        let weight_hh = Param::new(&init::uniform([rows, hidden_size], -bound, bound)?)?;
        let (mut bias_ih, mut bias_hh) = (None, None);
        if bias {
            bias_ih = Some(Param::new(&init::uniform(rows, -bound, bound)?)?);
            bias_hh = Some(Param::new(&init::uniform(rows, -bound, bound)?)?);
        }
        Ok(One { site: Site::with_hooks(kind), weight_ih, weight_hh, bias_ih, bias_hh, step })
    }
    #[track_caller]
    fn run(&self, x: &Tensor, h: Option<&Tensor>, c: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
        let call = self.site.begin(&[x])?;
        let _called = scope::call(self.site.kind());
        let x = call.input(0, x);
        let mut shape = x.shape()?.to_vec();
        let Some(last) = shape.last_mut() else {
            return Err(Error::new("recurrent", ErrorKind::Shape { shape: x.shape()?, expected: "[batch, features] or [features]".into() }));
        };
        *last = self.weight_hh.meta().shape[0] / self.step.gates();
        let zeros = Tensor::full_on(shape, 0.0, x.dtype()?, x.device()?);
        let (h, c) = (h.unwrap_or(&zeros), c.unwrap_or(&zeros));
        let input = self.weight_ih.linear(x, self.bias_ih.as_ref().map(Param::get).as_ref());
        let hidden = self.weight_hh.linear(h, self.bias_hh.as_ref().map(Param::get).as_ref());
        let (h, c) = self.step.next(&input, &hidden, h, if self.step == TimeStep::Lstm { Some(c) } else { None })?;
        let h = h.ok()?;
        match c {
            Some(c) => {
                let [h, c] = call.end_all([h, c.ok()?])?;
                Ok((h, Some(c)))
            }
            None => Ok((call.end(h)?, None)),
        }
    }
}
macro_rules! cell {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $name {
            #[module(flatten)]
            one: One,
        }
        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                Ok(self.one.run(x, None, None)?.0)
            }
        }
    };
}
cell! {
    /// One step of [`super::Rnn`]. [`Module::forward`] starts from zeros.
    RnnCell
}
cell! {
    /// One step of [`super::Gru`]. [`Module::forward`] starts from zeros.
    GruCell
}
cell! {
    /// One step of [`super::Lstm`]. [`Module::forward`] starts from zeros and gives h.
    LstmCell
}
impl RnnCell {
    /// With biases, and tanh.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Result<RnnCell> {
        RnnCell::with(input_size, hidden_size, true, RnnNonlinearity::Tanh)
    }
    /// With or without biases.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(input_size: usize, hidden_size: usize, bias: bool, nonlinearity: RnnNonlinearity) -> Result<RnnCell> {
        Ok(RnnCell { one: One::new("RNNCell", nonlinearity.step(), input_size, hidden_size, bias)? })
    }
    /// The next state, from a state or from zeros.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_state(&self, x: &Tensor, h: Option<&Tensor>) -> Result<Tensor> {
        Ok(self.one.run(x, h, None)?.0)
    }
}
impl GruCell {
    /// With biases.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Result<GruCell> {
        GruCell::with(input_size, hidden_size, true)
    }
    /// With or without biases.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(input_size: usize, hidden_size: usize, bias: bool) -> Result<GruCell> {
        Ok(GruCell { one: One::new("GRUCell", TimeStep::Gru, input_size, hidden_size, bias)? })
    }
    /// The next state, from a state or from zeros.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_state(&self, x: &Tensor, h: Option<&Tensor>) -> Result<Tensor> {
        Ok(self.one.run(x, h, None)?.0)
    }
}
impl LstmCell {
    /// With biases.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(input_size: usize, hidden_size: usize) -> Result<LstmCell> {
        LstmCell::with(input_size, hidden_size, true)
    }
    /// With or without biases.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn with(input_size: usize, hidden_size: usize, bias: bool) -> Result<LstmCell> {
        Ok(LstmCell { one: One::new("LSTMCell", TimeStep::Lstm, input_size, hidden_size, bias)? })
    }
    /// The next states (h, c), from states or from zeros.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_state(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor)> {
        match self.one.run(x, state.map(|s| s.0), state.map(|s| s.1))? {
            (h, Some(c)) => Ok((h, c.ok()?)),
            _ => Err(Error::new("LSTMCell", ErrorKind::Internal("no cell state".into()))),
        }
    }
}
