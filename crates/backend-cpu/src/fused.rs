//! Compounds that run whole: one or two passes over rows that stay in cache, where their bodies would write and read
//! every intermediate tensor. Each does the operations of its body one by one, each rounded as there, sums by the same
//! tree: the bits are the body's, for any number of threads and any instruction set. Must not know programs or layouts.
mod attention;
mod batch_norm;
mod ctc;
mod distances;
mod entropy;
mod finite;
mod fourier;
mod interleaved;
mod matrices;
mod norm;
mod quantized_attention;
mod quantized_conv;
mod quantized_linear;
pub(crate) mod rows;
mod search;
mod side_by_side;
mod softmax;
mod sorted_range;
mod taps;
mod true_places;

use crate::device::CpuKernel;
use adamant_runtime::{Composite, DType, composite::wide::wide};
use std::{any::Any, collections::HashMap, sync::Arc};

/// The kernels by the names of their composites.
pub(crate) fn kernels() -> HashMap<&'static str, Arc<dyn CpuKernel>> {
    let all: [(&'static str, Arc<dyn CpuKernel>); 29] = [
        ("adamant.all_finite", Arc::new(finite::AllFiniteKernel)),
        ("adamant.softmax", Arc::new(softmax::SoftmaxForwardKernel)),
        ("adamant.softmax_backward", Arc::new(softmax::SoftmaxBackwardKernel)),
        ("adamant.log_softmax", Arc::new(softmax::SoftmaxForwardKernel)),
        ("adamant.log_softmax_backward", Arc::new(softmax::SoftmaxBackwardKernel)),
        ("adamant.layer_norm", Arc::new(norm::NormForwardKernel)),
        ("adamant.layer_norm_backward", Arc::new(norm::NormBackwardKernel)),
        ("adamant.rms_norm", Arc::new(norm::NormForwardKernel)),
        ("adamant.rms_norm_backward", Arc::new(norm::NormBackwardKernel)),
        ("adamant.group_norm", Arc::new(norm::NormForwardKernel)),
        ("adamant.fourier", Arc::new(fourier::FourierKernel::default())),
        ("adamant.taps", Arc::new(taps::TapsKernel)),
        ("adamant.taps_backward", Arc::new(taps::TapsKernel)),
        ("adamant.ctc_alignments", Arc::new(ctc::CtcKernel { backward: false })),
        ("adamant.ctc_alignments_backward", Arc::new(ctc::CtcKernel { backward: true })),
        ("adamant.distances", Arc::new(distances::DistancesKernel)),
        ("adamant.quantized_attention", Arc::new(quantized_attention::QuantizedAttentionKernel)),
        ("adamant.quantized_conv", Arc::new(quantized_conv::QuantizedConvKernel)),
        ("adamant.quantized_linear", Arc::new(quantized_linear::QuantizedLinearKernel)),
        ("adamant.search_sorted", Arc::new(search::SearchSortedKernel)),
        ("adamant.true_places", Arc::new(true_places::TruePlacesKernel)),
        ("adamant.sorted_range", Arc::new(sorted_range::SortedRangeKernel)),
        ("adamant.batch_norm", Arc::new(norm::NormForwardKernel)),
        ("adamant.batch_norm_backward", Arc::new(norm::NormBackwardKernel)),
        ("adamant.attention", Arc::new(attention::AttentionForwardKernel)),
        ("adamant.attention_backward", Arc::new(attention::AttentionBackwardKernel)),
        ("adamant.cross_entropy", Arc::new(entropy::EntropyForwardKernel)),
        ("adamant.cross_entropy_backward", Arc::new(entropy::EntropyBackwardKernel)),
        ("adamant.cross_entropy_with_backward", Arc::new(entropy::Both)),
    ];
    all.into()
}
/// The composite as what a kernel knows it as.
fn known<C: Composite>(composite: &dyn Composite) -> Option<&C> {
    (composite as &dyn Any).downcast_ref()
}
/// Are all of them one float dtype with arithmetic?
fn one_float(dtypes: &[DType]) -> bool {
    dtypes.first().is_some_and(|d| d.is_float() && d.computes() && dtypes.iter().all(|e| e == d))
}
/// Are all of them one float dtype with arithmetic, or the wider one it is computed in?
fn one_float_or_wide(dtypes: &[DType]) -> bool {
    dtypes.first().is_some_and(|d| d.is_float() && d.computes() && dtypes.iter().all(|e| e == d || *e == wide(*d)))
}
