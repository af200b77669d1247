//! Several devices in one process: each gets a part of the rows and a copy of the model, and what they compute is joined.
//!
//! The copies hold no values of their own: each parameter of a copy is computed from the original's, on the other device. So gradients flow to the
//! original by themselves, and there is nothing to add up afterwards.
use adamant_core::{Device, Error, ErrorKind, Result, Tensor};

use adamant_nn::{
    Module, Param, Role, Site, Visit, Walk, Walker,
    parametrize::{Parametrization, register_parametrization},
};

/// Options of [`DataParallel`]; the defaults are PyTorch's.
#[derive(Clone, Debug, Default)]
pub struct DataParallelOptions {
    /// where the outputs are joined, by name; `None`: on the first device
    pub output_device: Option<String>,
    /// the axis of inputs that is cut, and of outputs that is joined
    pub dim: usize,
}
/// A model on several devices of this process: the rows of an input are shared out, as evenly as can be, and the outputs are joined in their order.
///
/// Devices are named as elsewhere (`"wgpu:0"`, `"wgpu:1"`). Of a backend with one device, as the CPU's, further numbers are *logical* devices: parts that are
/// computed there one after another, each on all cores, with a copy of the model of its own.
///
/// Names, values and gradients are those of the model. Buffers that layers write (running statistics of batch norms) are those of the first device, which
/// alone writes them; hooks run on the first device alone. The model moves to the first device.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_nn::{Linear, Module, Walk};
/// use adamant_parallel::DataParallel;
/// # adamant_core::Device::reference().make_current();
/// let model = DataParallel::new(Linear::new(3, 2)?, &["reference:0", "reference:1"])?;
/// let y = model.forward(&Tensor::ones([5, 3]))?;
/// assert_eq!(y.dims()?, [5, 2]);
/// assert_eq!(y.sum(..).backward()?.len(), model.parameters().len());
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.DataParallel`.
pub struct DataParallel<M> {
    model: M,
    copies: Vec<ModelCopy<M>>,
    devices: Vec<Device>,
    output_device: Device,
    dim: usize,
}
/// The model once more, on another device.
struct ModelCopy<M> {
    model: M,
    /// the original's and its own, which it follows
    buffers: Vec<(Param, Param)>,
    sites: Vec<(Site, Site)>,
}
/// The value of the original's parameter, on another device.
#[derive(Clone, Module)]
struct OfOriginal {
    #[module(skip)]
    original: Param,
    #[module(skip)]
    device: Device,
}
impl Parametrization for OfOriginal {
    fn forward(&self, _: &[Tensor]) -> Result<Tensor> {
        self.original.get().to(self.device).ok()
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Vec<Tensor>> {
        // It is computed from nothing of its own.
        Ok(vec![Tensor::full_on((), 0.0, value.dtype()?, value.device()?)])
    }
}
#[derive(Default)]
struct AllSites(Vec<Site>);
impl Visit for AllSites {
    fn site(&mut self, _: &str, site: &Site) {
        self.0.push(site.clone());
    }
    fn container(&mut self, path: &str, site: &Site) {
        self.site(path, site);
    }
}
fn sites(model: &impl Walk) -> Vec<Site> {
    let mut all = AllSites::default();
    model.visit(&mut all);
    all.0
}
/// A device by its name; a number beyond the first of a backend that has one device stands for that device.
#[track_caller]
fn opened(name: &str) -> Result<Device> {
    let (backend, number) = name.split_once(':').unwrap_or((name, "0"));
    let number: usize =
        number.parse().map_err(|_| Error::new("data_parallel", ErrorKind::Argument(format!("`{name}` is no device: write cpu:0, cpu:1, wgpu:0"))))?;
    match Device::open(backend, number) {
        Err(error) if number > 0 && matches!(error.kind(), ErrorKind::DeviceAbsent(_)) && has_one_device(backend) => Device::open(backend, 0),
        made => made,
    }
}
/// Backends on the processor: their device is all of it.
fn has_one_device(backend: &str) -> bool {
    matches!(backend, "cpu" | "reference")
}
impl<M: Module> DataParallel<M> {
    /// On devices by their names; the first one holds the model and joins the outputs.
    ///
    /// # Errors
    /// No devices; a device that is not there; a model that cannot be copied, or has parameters without values.
    #[track_caller]
    pub fn new(model: M, devices: &[&str]) -> Result<DataParallel<M>> {
        DataParallel::with(model, devices, DataParallelOptions::default())
    }
    /// The same with options.
    ///
    /// # Errors
    /// As [`DataParallel::new`].
    #[track_caller]
    pub fn with(model: M, devices: &[&str], options: DataParallelOptions) -> Result<DataParallel<M>> {
        let devices: Vec<Device> = devices.iter().map(|name| opened(name)).collect::<Result<_>>()?;
        let Some((&first, others)) = devices.split_first() else {
            return Err(Error::new("data_parallel", ErrorKind::Argument("no devices: one at least is needed".into())));
        };
        let output_device = options.output_device.as_deref().map_or(Ok(first), opened)?;
        model.to(first)?;
        let copies = others.iter().map(|device| copied(&model, *device)).collect::<Result<_>>()?;
        Ok(DataParallel { model, copies, devices, output_device, dim: options.dim })
    }
    /// The model, on the first device.
    pub fn module(&self) -> &M {
        &self.model
    }
    /// The model alone.
    pub fn into_module(self) -> M {
        self.model
    }
}
#[track_caller]
fn copied<M: Module>(model: &M, device: Device) -> Result<ModelCopy<M>> {
    let copy = model.deep_copy()?;
    let (originals, own) = (model.leaves(), copy.leaves());
    if originals.len() != own.len() {
        return Err(Error::new("data_parallel", ErrorKind::Internal(format!("{} parameters and buffers, and {} of the copy", originals.len(), own.len()))));
    }
    let sites = sites(model).into_iter().zip(sites(&copy)).collect();
    let mut buffers = Vec::new();
    for ((_, original), (path, param)) in originals.into_iter().zip(own) {
        param.move_to(device)?;
        if param.role() == Role::Trainable {
            register_parametrization(&copy, &path, OfOriginal { original, device })?;
        } else {
            buffers.push((original, param));
        }
    }
    Ok(ModelCopy { model: copy, buffers, sites })
}
impl<M> ModelCopy<M> {
    /// Modes and buffers are the original's.
    #[track_caller]
    fn follow(&self, device: Device) -> Result<()> {
        self.sites.iter().for_each(|(original, own)| own.set_training(original.is_training()));
        self.buffers.iter().try_for_each(|(original, own)| own.set(&original.detached().to(device)))
    }
}
impl<M: Module> Walk for DataParallel<M> {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.model.walk(walker);
    }
}
impl<M: Module> Module for DataParallel<M> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let shape = x.shape()?;
        let Some(&rows) = shape.get(self.dim) else {
            return Err(Error::new("data_parallel", ErrorKind::Shape { shape, expected: format!("an axis {} that is shared out", self.dim) }));
        };
        let longest = rows.div_ceil(self.devices.len()).max(1);
        let mut made = Vec::new();
        for (k, &device) in self.devices.iter().enumerate() {
            let (start, end) = ((k * longest).min(rows), ((k + 1) * longest).min(rows));
            if start == end && k > 0 {
                break;
            }
            let part = x.narrow(self.dim, start, end - start).to(device);
            let copy = k.checked_sub(1).and_then(|k| self.copies.get(k));
            let y = match copy {
                None => self.model.forward(&part)?,
                Some(copy) => {
                    copy.follow(device)?;
                    device.scoped(|| copy.model.forward(&part))?
                }
            };
            made.push(y.to(self.output_device));
        }
        if let [one] = made.as_slice() { one.clone().ok() } else { Tensor::cat(&made, self.dim).ok() }
    }
}
