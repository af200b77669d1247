//! Matrix products by cuBLASLt, where it is installed, with what comes behind their sums as the library's epilogues. A product is
//! described once by its sizes, layouts, epilogue and how its operands are aligned; the library offers ways to compute it, of which
//! the first is taken. One that fails gives way to the next for good; where none is offered or left, the library does not
//! compute this product.
//!
//! An epilogue works on sums in f32 and rounds once. How it lies on the library's side: the bias has a number for each row of a
//! result that lies column by column, a batch of results may share one; an added matrix is C, whose factor is then 1.
//!
//! Must not know: steps and skeletons. It is handed sizes and addresses.
#![allow(unsafe_code)]
use crate::{driver::StreamHandle, opened::CudaContext};
use adamant_runtime::{DType, ErrorKind};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
    cublasStatus_t as Status, cudaDataType as Kind,
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    ffi::c_void,
    mem::MaybeUninit,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Bytes that the library may use beside the operands.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// A factor or the result, column by column as the library sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LtMatrix {
    pub rows: u64,
    pub columns: u64,
    /// elements from one column to the next
    pub leading: i64,
    /// elements from one matrix of a batch to the next; 0: all are one
    pub batched: i64,
    /// the largest power of two up to 256 that its address is a multiple of
    pub alignment: u32,
    /// is it read with rows and columns exchanged?
    pub is_transposed: bool,
}
/// What is applied to a sum before it is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum LtActivation {
    #[default]
    None,
    Relu,
    /// by tanh, the only one that the library has
    GeluTanh,
}
/// A number for each row of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LtBias {
    /// elements from those of one matrix of a batch to the next; 0: all have the same
    pub batched: i64,
    pub alignment: u32,
}
/// What becomes of sums before they are rounded: `activation(± sums + added + bias)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LtBehind {
    /// sums are taken with the other sign
    pub negated: bool,
    /// how a matrix that lies as the result does is aligned, if one is added
    pub added: Option<u32>,
    pub bias: Option<LtBias>,
    pub activation: LtActivation,
}
impl LtBehind {
    fn epilogue(&self) -> Epilogue {
        match (self.activation, self.bias) {
            (LtActivation::None, None) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            (LtActivation::None, Some(_)) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            (LtActivation::Relu, None) => Epilogue::CUBLASLT_EPILOGUE_RELU,
            (LtActivation::Relu, Some(_)) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
            (LtActivation::GeluTanh, None) => Epilogue::CUBLASLT_EPILOGUE_GELU,
            (LtActivation::GeluTanh, Some(_)) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        }
    }
}
/// What is to be computed: `d = a b` and what comes behind it, all of one dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LtProduct {
    pub dtype: DType,
    pub batch: i32,
    pub a: LtMatrix,
    pub b: LtMatrix,
    pub d: LtMatrix,
    pub behind: LtBehind,
}
/// Where its operands are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LtPlaces {
    pub a: u64,
    pub b: u64,
    pub d: u64,
    /// the matrix that is added; where none is, anything of the result's size
    pub added: u64,
    /// 0: there is none
    pub bias: u64,
}
/// What it may do.
#[derive(Clone, Copy, Default)]
pub(crate) struct LtRules {
    /// f32 factors may be cut to TF32
    pub tf32: bool,
    /// sums are not cut, to be added up in an order that is no part of the way chosen
    pub deterministic: bool,
}
/// The library on a device.
pub(crate) struct BlasLt {
    handle: sys::cublasLtHandle_t,
    rules: LtRules,
    plans: Mutex<HashMap<LtProduct, Option<Arc<LtPlan>>>>,
    context: Arc<CudaContext>,
}
// SAFETY: the handle may be used from any thread; `plans` is locked.
unsafe impl Send for BlasLt {}
// SAFETY: as above.
unsafe impl Sync for BlasLt {}
/// How a product is computed.
pub(crate) struct LtPlan {
    product: LtProduct,
    description: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    offers: Vec<cublasLtMatmulAlgo_t>,
    /// the first that has not failed
    next: AtomicUsize,
    /// whose turn it is to say where the bias is: that is a part of the description
    turn: Mutex<()>,
}
/// Ways that the library is asked for.
const OFFERS: usize = 8;
// SAFETY: descriptions are read alone once they are made, but for the bias's address, which `turn` guards.
unsafe impl Send for LtPlan {}
// SAFETY: as above.
unsafe impl Sync for LtPlan {}
fn is_fine(status: Status) -> bool {
    status == Status::CUBLAS_STATUS_SUCCESS
}
fn kind_of(dtype: DType) -> Option<(Kind, Compute, Kind)> {
    Some(match dtype {
        DType::F64 => (Kind::CUDA_R_64F, Compute::CUBLAS_COMPUTE_64F, Kind::CUDA_R_64F),
        DType::F32 => (Kind::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F, Kind::CUDA_R_32F),
        DType::F16 => (Kind::CUDA_R_16F, Compute::CUBLAS_COMPUTE_32F, Kind::CUDA_R_32F),
        DType::BF16 => (Kind::CUDA_R_16BF, Compute::CUBLAS_COMPUTE_32F, Kind::CUDA_R_32F),
        _ => return None,
    })
}
impl BlasLt {
    /// # Errors
    /// The library does not start: its words.
    pub fn new(context: &Arc<CudaContext>, rules: LtRules) -> Result<BlasLt, ErrorKind> {
        let mut handle = ptr::null_mut();
        // SAFETY: it writes where it is told to, on the context that is bound.
        let status = context.call(|| Ok(unsafe { sys::cublasLtCreate(&mut handle) }))?;
        if !is_fine(status) {
            return Err(ErrorKind::Internal(format!("cublasLtCreate says {status:?}")));
        }
        Ok(BlasLt { handle, rules, plans: Mutex::default(), context: context.clone() })
    }
    /// The library's version, ten thousand times major.
    pub fn version(&self) -> usize {
        // SAFETY: takes nothing.
        unsafe { sys::cublasLtGetVersion() }
    }
    /// Has it sums of this dtype?
    pub fn computes(dtype: DType) -> bool {
        kind_of(dtype).is_some()
    }
    /// How it computes a product that lies there, and others that are as well aligned, if it does.
    ///
    /// # Errors
    /// A lost device.
    pub fn plan(&self, product: &LtProduct, places: &LtPlaces) -> Result<Option<Arc<LtPlan>>, ErrorKind> {
        let mut plans = self.plans.lock();
        if let Some(known) = plans.get(product) {
            return Ok(known.clone());
        }
        let plan = self.context.call(|| Ok(self.offered(product, places)))?.map(Arc::new);
        plans.insert(*product, plan.clone());
        Ok(plan)
    }
    fn offered(&self, product: &LtProduct, places: &LtPlaces) -> Option<LtPlan> {
        let (kind, compute, scale) = kind_of(product.dtype)?;
        let compute = if self.rules.tf32 && product.dtype == DType::F32 { Compute::CUBLAS_COMPUTE_32F_FAST_TF32 } else { compute };
        let description = {
            let mut made = ptr::null_mut();
            // SAFETY: it writes where it is told to.
            is_fine(unsafe { sys::cublasLtMatmulDescCreate(&mut made, compute, scale) }).then_some(made)?
        };
        let (next, turn) = (AtomicUsize::new(0), Mutex::default());
        let mut plan = LtPlan { product: *product, description, layouts: [ptr::null_mut(); 3], offers: Vec::new(), next, turn };
        // As the header counts: 0 takes a factor as it is, 1 transposes it.
        let [a, b] = [&product.a, &product.b].map(|m| i32::from(m.is_transposed));
        let is_set = plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &a)
            && plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &b)
            && plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(product.behind.epilogue() as u32));
        let has_bias = product.behind.bias.is_none_or(|bias| {
            plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &(kind as u32))
                && plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &bias.batched)
                // Offers are for addresses that are aligned like this one.
                && plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &places.bias)
        });
        (is_set && has_bias).then_some(())?;
        for (layout, matrix) in plan.layouts.iter_mut().zip([&product.a, &product.b, &product.d]) {
            *layout = laid_out(product, matrix)?;
        }
        plan.offers = self.offers(&plan)?;
        (!plan.offers.is_empty()).then_some(plan)
    }
    fn offers(&self, plan: &LtPlan) -> Option<Vec<cublasLtMatmulAlgo_t>> {
        let mut preference = ptr::null_mut();
        // SAFETY: it writes where it is told to.
        is_fine(unsafe { sys::cublasLtMatmulPreferenceCreate(&mut preference) }).then_some(())?;
        let set = |attribute, value: *const c_void, bytes: usize| {
            // SAFETY: a value of so many bytes, as the attribute has.
            is_fine(unsafe { sys::cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes) })
        };
        let workspace = WORKSPACE as u64;
        let product = &plan.product;
        let alignments = [
            (PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product.a.alignment),
            (PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product.b.alignment),
            (PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product.behind.added.unwrap_or(product.d.alignment)),
            (PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, product.d.alignment),
        ];
        let mut is_set = set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, ptr::from_ref(&workspace).cast(), 8);
        if self.rules.deterministic {
            // `CUBLASLT_REDUCTION_SCHEME_NONE`: no sum is cut.
            let schemes = 0u32;
            is_set &= set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, ptr::from_ref(&schemes).cast(), 4);
        }
        for (attribute, bytes) in alignments {
            is_set &= set(attribute, ptr::from_ref(&bytes).cast(), 4);
        }
        let mut offers: [MaybeUninit<cublasLtMatmulHeuristicResult_t>; OFFERS] = [const { MaybeUninit::zeroed() }; OFFERS];
        let mut count = 0;
        let [a, b, d] = plan.layouts;
        let (most, into) = (OFFERS as i32, offers.as_mut_ptr().cast());
        // SAFETY: at most so many results are written, where there is space for them.
        let asked =
            is_set.then(|| unsafe { sys::cublasLtMatmulAlgoGetHeuristic(self.handle, plan.description, a, b, d, d, preference, most, into, &mut count) });
        // SAFETY: it was made above.
        unsafe { sys::cublasLtMatmulPreferenceDestroy(preference) };
        asked.is_some_and(is_fine).then_some(())?;
        // SAFETY: written by the call, and zero before it.
        let offers = offers.iter().take(usize::try_from(count).unwrap_or(0)).map(|offer| unsafe { offer.assume_init_ref() });
        Some(offers.filter(|o| is_fine(o.state) && o.workspaceSize <= WORKSPACE).map(|o| o.algo).collect())
    }
    /// Hands a product over to a stream; what it was given stays its own until the stream has come by. `false`: the library
    /// would not, now or ever, and nothing has happened.
    ///
    /// # Errors
    /// A lost device.
    pub fn run(&self, plan: &LtPlan, places: &LtPlaces, workspace: u64, stream: StreamHandle) -> Result<bool, ErrorKind> {
        let behind = &plan.product.behind;
        let factors = [if behind.negated { -1.0 } else { 1.0 }, if behind.added.is_some() { 1.0 } else { 0.0 }];
        let narrow = factors.map(|f: f64| f as f32);
        let is_wide = plan.product.dtype == DType::F64;
        let factor = |k: usize| if is_wide { ptr::from_ref(&factors[k]).cast::<c_void>() } else { ptr::from_ref(&narrow[k]).cast() };
        let at = |address: u64| address as usize as *mut c_void;
        let [of_a, of_b, of_d] = plan.layouts;
        let _turn = plan.turn.lock();
        let mut next = plan.next.load(Relaxed);
        while let Some(offer) = plan.offers.get(next) {
            let status = self.context.call(|| {
                if behind.bias.is_some() && !plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &places.bias) {
                    return Ok(Status::CUBLAS_STATUS_INVALID_VALUE);
                }
                // SAFETY: descriptions that the library made; factors of the dtype it was told; addresses of the device with all that
                // the layouts name, which their owners keep until the stream has come by.
                Ok(unsafe {
                    sys::cublasLtMatmul(
                        self.handle,
                        plan.description,
                        factor(0),
                        at(places.a),
                        of_a,
                        at(places.b),
                        of_b,
                        factor(1),
                        at(places.added),
                        of_d,
                        at(places.d),
                        of_d,
                        offer,
                        at(workspace),
                        WORKSPACE,
                        stream.0.cast(),
                    )
                })
            })?;
            if is_fine(status) {
                return Ok(true);
            }
            next += 1;
            plan.next.store(next, Relaxed);
        }
        self.plans.lock().insert(plan.product, None);
        Ok(false)
    }
}
impl LtPlan {
    /// Sets an attribute whose values are of this size.
    fn set<T>(&self, attribute: DescAttribute, value: &T) -> bool {
        // SAFETY: so many bytes are there to be read.
        is_fine(unsafe { sys::cublasLtMatmulDescSetAttribute(self.description, attribute, ptr::from_ref(value).cast(), size_of::<T>()) })
    }
}
impl Drop for BlasLt {
    fn drop(&mut self) {
        self.plans.get_mut().clear();
        // SAFETY: it was made by `cublasLtCreate` and is given back once.
        let _ = self.context.call(|| Ok(unsafe { sys::cublasLtDestroy(self.handle) }));
    }
}
impl Drop for LtPlan {
    fn drop(&mut self) {
        for layout in self.layouts.iter().filter(|l| !l.is_null()) {
            // SAFETY: made by the library, given back once.
            unsafe { sys::cublasLtMatrixLayoutDestroy(*layout) };
        }
        // SAFETY: as above.
        unsafe { sys::cublasLtMatmulDescDestroy(self.description) };
    }
}
fn laid_out(product: &LtProduct, matrix: &LtMatrix) -> Option<sys::cublasLtMatrixLayout_t> {
    let (kind, ..) = kind_of(product.dtype)?;
    let mut layout = ptr::null_mut();
    // SAFETY: it writes where it is told to.
    is_fine(unsafe { sys::cublasLtMatrixLayoutCreate(&mut layout, kind, matrix.rows, matrix.columns, matrix.leading) }).then_some(())?;
    let set = |attribute, value: *const c_void, bytes: usize| {
        // SAFETY: a value of so many bytes, as the attribute has.
        is_fine(unsafe { sys::cublasLtMatrixLayoutSetAttribute(layout, attribute, value, bytes) })
    };
    let is_set = set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, ptr::from_ref(&product.batch).cast(), 4)
        && set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, ptr::from_ref(&matrix.batched).cast(), 8);
    if !is_set {
        // SAFETY: made above.
        unsafe { sys::cublasLtMatrixLayoutDestroy(layout) };
        return None;
    }
    Some(layout)
}
