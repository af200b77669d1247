//! Matrix products by cuBLASLt, where it is installed. A product is described once by its sizes, layouts and how its operands are
//! aligned; the library offers ways to compute it, of which the first is kept. Where it offers none, or the one that it offered
//! fails, the product is a kernel of our own, from then on.
//!
//! Must not know: steps and skeletons. It is handed sizes and addresses.
#![allow(unsafe_code)]
use crate::{driver::StreamHandle, opened::CudaContext};
use adamant_runtime::{DType, ErrorKind};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t as DescAttribute, cublasLtMatmulHeuristicResult_t,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cublasStatus_t as Status,
    cudaDataType as Kind,
};
use parking_lot::Mutex;
use std::{collections::HashMap, ffi::c_void, mem::MaybeUninit, ptr, sync::Arc};

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
/// What is to be computed: `d = a b`, all of one dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LtProduct {
    pub dtype: DType,
    pub batch: i32,
    pub a: LtMatrix,
    pub b: LtMatrix,
    pub d: LtMatrix,
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
    algorithm: cublasLtMatmulAlgo_t,
}
// SAFETY: descriptions are read alone once they are made.
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
    /// How it computes a product, if it does.
    ///
    /// # Errors
    /// A lost device.
    pub fn plan(&self, product: &LtProduct) -> Result<Option<Arc<LtPlan>>, ErrorKind> {
        let mut plans = self.plans.lock();
        if let Some(known) = plans.get(product) {
            return Ok(known.clone());
        }
        let plan = self.context.call(|| Ok(self.offered(product)))?.map(Arc::new);
        plans.insert(*product, plan.clone());
        Ok(plan)
    }
    fn offered(&self, product: &LtProduct) -> Option<LtPlan> {
        let (_, compute, scale) = kind_of(product.dtype)?;
        let compute = if self.rules.tf32 && product.dtype == DType::F32 { Compute::CUBLAS_COMPUTE_32F_FAST_TF32 } else { compute };
        let description = {
            let mut made = ptr::null_mut();
            // SAFETY: it writes where it is told to.
            is_fine(unsafe { sys::cublasLtMatmulDescCreate(&mut made, compute, scale) }).then_some(made)?
        };
        let mut plan = LtPlan { product: *product, description, layouts: [ptr::null_mut(); 3], algorithm: zeroed() };
        for (attribute, matrix) in [(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &product.a), (DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &product.b)] {
            // As the header counts: 0 takes it as it is, 1 transposes it.
            let operation = i32::from(matrix.is_transposed);
            // SAFETY: the attribute is of four bytes, which is what it is given.
            is_fine(unsafe { sys::cublasLtMatmulDescSetAttribute(description, attribute, ptr::from_ref(&operation).cast(), 4) }).then_some(())?;
        }
        for (layout, matrix) in plan.layouts.iter_mut().zip([&product.a, &product.b, &product.d]) {
            *layout = laid_out(product, matrix)?;
        }
        plan.algorithm = self.first_offer(&plan)?;
        Some(plan)
    }
    fn first_offer(&self, plan: &LtPlan) -> Option<cublasLtMatmulAlgo_t> {
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
            (PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product.d.alignment),
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
        let mut offer: MaybeUninit<cublasLtMatmulHeuristicResult_t> = MaybeUninit::zeroed();
        let mut count = 0;
        let [a, b, d] = plan.layouts;
        // SAFETY: at most one result is written, where there is space for one.
        let asked = is_set
            .then(|| unsafe { sys::cublasLtMatmulAlgoGetHeuristic(self.handle, plan.description, a, b, d, d, preference, 1, offer.as_mut_ptr(), &mut count) });
        // SAFETY: it was made above.
        unsafe { sys::cublasLtMatmulPreferenceDestroy(preference) };
        if !asked.is_some_and(is_fine) || count < 1 {
            return None;
        }
        // SAFETY: written by the call, and zero before it.
        let offer = unsafe { offer.assume_init() };
        (is_fine(offer.state) && offer.workspaceSize <= WORKSPACE).then_some(offer.algo)
    }
    /// Hands a product over to a stream; what it was given stays its own until the stream has come by. `false`: the library
    /// would not, now or ever, and nothing has happened.
    ///
    /// # Errors
    /// A lost device.
    pub fn run(&self, plan: &LtPlan, [a, b, d]: [u64; 3], workspace: u64, stream: StreamHandle) -> Result<bool, ErrorKind> {
        let (one, zero) = ([1f64, 0.0], [1f32, 0.0]);
        let is_wide = plan.product.dtype == DType::F64;
        let scalar = |k: usize| if is_wide { ptr::from_ref(&one[k]).cast::<c_void>() } else { ptr::from_ref(&zero[k]).cast() };
        let at = |address: u64| address as usize as *mut c_void;
        let [of_a, of_b, of_d] = plan.layouts;
        let status = self.context.call(|| {
            // SAFETY: descriptions that the library made; scalars of the dtype it was told; addresses of the device with all that
            // the layouts name, which their owners keep until the stream has come by.
            Ok(unsafe {
                sys::cublasLtMatmul(
                    self.handle,
                    plan.description,
                    scalar(0),
                    at(a),
                    of_a,
                    at(b),
                    of_b,
                    scalar(1),
                    at(d),
                    of_d,
                    at(d),
                    of_d,
                    &plan.algorithm,
                    at(workspace),
                    WORKSPACE,
                    stream.0.cast(),
                )
            })
        })?;
        if !is_fine(status) {
            self.plans.lock().insert(plan.product, None);
        }
        Ok(is_fine(status))
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
fn zeroed() -> cublasLtMatmulAlgo_t {
    // SAFETY: an array of words, of which zero is one.
    unsafe { MaybeUninit::zeroed().assume_init() }
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
