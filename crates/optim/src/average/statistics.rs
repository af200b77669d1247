//! Running statistics of batch norms that suit averaged weights: nobody trained with those, so data goes through once more.
use adamant_core::{Result, Tensor, flush, grad::no_grad};
use adamant_nn::{Module, Param, Site, Visit, Walk, with_cumulative_statistics};

/// Computes the running statistics of all batch norms of a model anew: the mean over these batches, all alike, as
/// `torch.optim.swa_utils.update_bn`. Batches are inputs of the model; without batch norms nothing is done. The model's mode (training
/// or not) is afterwards what it was.
///
/// ```
/// # use adamant_nn::{BatchNorm1d, Walk};
/// # use adamant_core::Tensor;
/// # adamant_core::Device::reference().make_current();
/// let norm = BatchNorm1d::new(1)?;
/// let batches = [[1.0f32, 3.0], [5.0, 7.0]].map(|b| Ok(Tensor::from_vec(b.to_vec(), [2, 1])));
/// adamant_optim::update_bn(&norm, batches)?;
/// assert_eq!(norm.running_mean().unwrap().detached().to_vec::<f32>()?, [4.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Those of the batches and of the model.
#[track_caller]
pub fn update_bn(model: &(impl Module + ?Sized), batches: impl IntoIterator<Item = Result<Tensor>>) -> Result<()> {
    update_bn_by(model, batches, |x| model.forward(&x).map(|_| ()))
}
/// As [`update_bn`] for batches of any kind: `forward` takes one through the model, such as the inputs of a pair of a loader.
///
/// # Errors
/// Those of the batches and of `forward`.
#[track_caller]
pub fn update_bn_by<B>(model: &(impl Walk + ?Sized), batches: impl IntoIterator<Item = Result<B>>, mut forward: impl FnMut(B) -> Result<()>) -> Result<()> {
    let statistics = statistics(model);
    if statistics.is_empty() {
        return Ok(());
    }
    for (leaf, initial) in &statistics {
        leaf.set(&leaf.detached().full_like(*initial))?;
    }
    let was_training = model.is_training();
    model.train();
    let done = no_grad(|| {
        with_cumulative_statistics(|| {
            batches.into_iter().try_for_each(|batch| {
                forward(batch?)?;
                // One batch at a time in memory.
                flush()
            })
        })
    });
    model.set_training(was_training);
    done
}
/// The running statistics of batch norms, and what each begins as.
fn statistics(model: &(impl Walk + ?Sized)) -> Vec<(Param, i64)> {
    #[derive(Default)]
    struct BatchNorms(Vec<String>);
    impl Visit for BatchNorms {
        fn site(&mut self, path: &str, site: &Site) {
            if site.kind().starts_with("BatchNorm") {
                self.0.push(path.to_string());
            }
        }
    }
    let mut norms = BatchNorms::default();
    model.visit(&mut norms);
    let initial = |name: &str| [("running_mean", 0), ("running_var", 1), ("num_batches_tracked", 0)].iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    let of_norm = |(path, leaf): (String, Param)| {
        let (layer, name) = path.rsplit_once('.').unwrap_or(("", &path));
        initial(name).filter(|_| norms.0.iter().any(|norm| norm == layer)).map(|v| (leaf, v))
    };
    model.named_buffers().into_iter().filter_map(of_norm).collect()
}
