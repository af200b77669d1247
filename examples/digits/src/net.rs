//! The model: 64 pixels in, a score for each digit out. In a file of its own because examples/dummy_backend trains it too.
use adamant::{
    Result, Tensor,
    nn::{Conv2d, ConvOptions, Dropout, Linear, MaxPool2d, Module},
};

/// Two convolutions, a pool, two linear layers.
#[derive(Module)]
pub struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    dropout: Dropout,
    hidden: Linear,
    head: Linear,
}
impl Net {
    /// A model that has learned nothing yet.
    ///
    /// # Errors
    /// There is no device.
    pub fn new() -> Result<Net> {
        let same = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
        Ok(Net {
            conv1: Conv2d::with(1, 32, 3, same())?,
            conv2: Conv2d::with(32, 64, 3, same())?,
            pool: MaxPool2d::new(2),
            dropout: Dropout::new(0.3)?,
            hidden: Linear::new(1024, 128)?,
            head: Linear::new(128, 10)?,
        })
    }
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.conv1.forward(&x.reshape([-1, 1, 8, 8]))?.relu();
        let x = self.pool.forward(&self.conv2.forward(&x)?.relu())?;
        let x = self.dropout.forward(&x.flatten(1, -1))?;
        self.head.forward(&self.hidden.forward(&x)?.relu())
    }
}
