//! Norms that were folded into the layer before them: that layer does their part by its weight and its bias, they pass values on.
//!
//! [`Submodule::fold_into`] changes both from outside, in any model. The norm gives its parameters and buffers up, so that no walk
//! meets them any more; a layer that was made without a bias gets one, which its place holds and which is walked as `bias` behind
//! its own parameters.
//!
//! Must not know how the new weight and bias are computed, nor which norms can be folded.
use crate::{Copies, Param, Role, Site, Submodule, Walk, Walker};
use adamant_core::{Cell, Error, ErrorKind, Flag, Result, Tensor};
use parking_lot::RwLock;

/// What a place knows of norms that were folded.
pub(crate) struct FoldedParts {
    /// Does its layer read a bias from here, where it has none of its own?
    takes_bias: bool,
    /// Is there such a bias? Captured functions are good for one answer.
    has_bias: Flag,
    bias: RwLock<Option<Param>>,
    /// Does the layer leave its bias, or all of a batch norm, to hooks?
    is_left_to_hooks: Flag,
    /// of a norm: the place of the layer that does its part
    into: RwLock<Option<Site>>,
}
impl FoldedParts {
    pub fn new(takes_bias: bool) -> FoldedParts {
        FoldedParts { takes_bias, has_bias: Flag::new(false), bias: RwLock::default(), is_left_to_hooks: Flag::new(false), into: RwLock::default() }
    }
    fn late_bias(&self) -> Option<Param> {
        if self.has_bias.get() { self.bias.read().clone() } else { None }
    }
    fn set_late_bias(&self, bias: Option<Param>) {
        self.has_bias.set(bias.is_some());
        *self.bias.write() = bias;
    }
    #[track_caller]
    pub fn apart(&self, copies: &mut Copies) -> Result<FoldedParts> {
        let (bias, into) = (self.bias.read().clone(), self.into.read().clone());
        let copy = FoldedParts::new(self.takes_bias);
        copy.set_late_bias(bias.map(|bias| copies.param(&bias)).transpose()?);
        *copy.into.write() = into.map(|layer| copies.site(&layer)).transpose()?;
        Ok(copy)
    }
}
impl Site {
    /// Is it the place of a convolution or linear layer of this library, which adds a bias also if it was made without one?
    pub fn takes_bias(&self) -> bool {
        self.place().folded.takes_bias
    }
    /// Has a layer leave something to hooks behind it from now on, or do it again. One that [takes a bias](Site::takes_bias) computes without
    /// it: the hook adds it where what the layer returns is one term of a sum, as where ranks share its inputs. A batch norm passes values on:
    /// the hook normalises, as where ranks share the rows. Other layers leave nothing. A copy of the layer has no hooks, and does all itself.
    pub fn leave_to_hooks(&self, leave: bool) {
        self.place().folded.is_left_to_hooks.set(leave);
    }
    pub(crate) fn is_left_to_hooks(&self) -> bool {
        self.place().folded.is_left_to_hooks.get()
    }
    /// The place of the layer that a norm was folded into; `None`: it was not, or is no norm.
    pub fn folded_into(&self) -> Option<Site> {
        self.place().folded.into.read().clone()
    }
}

/// Where a layer that was made without a bias finds the one that it got later.
#[derive(Clone)]
pub(crate) struct LateBias(Site);
impl LateBias {
    pub fn at(site: &Site) -> LateBias {
        LateBias(site.clone())
    }
    /// The layer's own bias, or else that one.
    #[track_caller]
    pub fn or(&self, own: Option<&Param>) -> Option<Tensor> {
        let folded = &self.0.place().folded;
        if folded.is_left_to_hooks.get() {
            return None;
        }
        match own {
            Some(bias) => Some(bias.get()),
            None => folded.late_bias().map(|bias| bias.get()),
        }
    }
}
impl Walk for LateBias {
    fn walk(&self, walker: &mut Walker<'_>) {
        if let Some(bias) = self.0.place().folded.late_bias() {
            walker.child("bias", &bias);
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<LateBias> {
        Ok(LateBias(copies.site(&self.0)?))
    }
}

/// A norm that was folded into a layer, with what it takes to undo that. To drop it leaves the norm folded.
pub struct FoldedNorm {
    norm: Site,
    layer: Site,
    /// parameters of the layer, with their values before
    changed: Vec<(Param, Tensor)>,
    /// what the norm gave up, with the cells that held it
    given_up: Vec<(Param, Cell)>,
    got_bias: bool,
}
impl FoldedNorm {
    /// Norm and layer are what they were before.
    ///
    /// # Errors
    /// A parameter of the layer that holds no value of its own any more.
    #[track_caller]
    pub fn undo(self) -> Result<()> {
        self.given_up.into_iter().for_each(|(param, cell)| param.take_back(cell));
        *self.norm.place().folded.into.write() = None;
        if self.got_bias {
            self.layer.place().folded.set_late_bias(None);
        }
        adamant_core::step(|| self.changed.iter().try_for_each(|(param, before)| param.set(before)))
    }
    #[track_caller]
    fn set(&mut self, param: &Param, value: &Tensor) -> Result<()> {
        let before = param.detached();
        param.set(value)?;
        self.changed.push((param.clone(), before));
        Ok(())
    }
    #[track_caller]
    fn apply(&mut self, norm: &Submodule, layer: &Submodule, weight: &Param, values: [&Tensor; 2]) -> Result<()> {
        self.set(weight, values[0])?;
        match layer.parameter("bias") {
            Some(bias) => self.set(bias, values[1])?,
            None => {
                let bias = Param::with_role(values[1], Role::Trainable)?;
                bias.set_frozen(!weight.is_trainable());
                self.layer.place().folded.set_late_bias(Some(bias));
                self.got_bias = true;
            }
        }
        for (_, param) in &norm.parameters {
            self.given_up.push((param.clone(), param.give_up()?));
        }
        *self.norm.place().folded.into.write() = Some(self.layer.clone());
        Ok(())
    }
}

impl Submodule {
    /// Has a batch norm pass values on from now on, because the layer before it does its part: that one's weight and bias become
    /// those given. The norm has no parameters and buffers any more; the layer has a bias, if it had none. What is to be given is
    /// `quant::fuse_modules`' affair. Functions that were compiled before are captured anew.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{BatchNorm1d, Linear, Module, Sequential, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let net = Sequential::new().add(Linear::no_bias(2, 1)?).add(BatchNorm1d::new(1)?);
    /// let (layer, norm) = (net.get_submodule("0")?, net.get_submodule("1")?);
    /// norm.fold_into(&layer, &Tensor::ones([1, 2]), &Tensor::ones([1]))?;
    /// let names: Vec<String> = net.state_dict().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["0.weight", "0.bias"]);
    /// assert_eq!(net.forward(&Tensor::ones([1, 2]))?.item::<f32>()?, 3.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// This is no batch norm, or was folded already; a layer that is no convolution or linear layer of this library; parameters that
    /// hold no value of their own (codes, lazy or computed ones); values of another shape, dtype or device. Then nothing has changed.
    #[track_caller]
    pub fn fold_into(&self, layer: &Submodule, weight: &Tensor, bias: &Tensor) -> Result<FoldedNorm> {
        let refuse = |text: String| Err(Error::new("fold_into", ErrorKind::Argument(text)));
        let (norm_site, layer_site) = (self.site()?, layer.site()?);
        if norm_site.eps().is_none() || norm_site.folded_into().is_some() {
            return refuse(format!("the {} `{}` is no batch norm, or was folded before", self.kind, self.path()));
        }
        let Some(own) = layer.parameter("weight").filter(|_| layer_site.takes_bias()) else {
            return refuse(format!("the {} `{}` is no convolution or linear layer with a weight of its own", layer.kind, layer.path()));
        };
        let held = self.parameters.iter().map(|(_, param)| param).chain([own]).chain(layer.parameter("bias"));
        if let Some(other) = held.into_iter().find(|param| !param.is_plain()) {
            return refuse(format!("{} holds no value of its own", other.called()));
        }
        let mut folded = FoldedNorm { norm: norm_site.clone(), layer: layer_site.clone(), changed: Vec::new(), given_up: Vec::new(), got_bias: false };
        [weight, bias].into_iter().try_for_each(Tensor::materialize)?;
        match folded.apply(self, layer, own, [weight, bias]) {
            Ok(()) => Ok(folded),
            Err(error) => {
                folded.undo()?;
                Err(error)
            }
        }
    }
}
