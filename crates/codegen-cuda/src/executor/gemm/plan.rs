//! The descriptors and the algorithm of one problem.

use super::problem::{Activation, Matrix, Places, Problem};
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use kiln_tensor::DType;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A failed call of the library.
type Failure = (&'static str, CublasError);

/// The remembered state of a problem.
pub(super) struct Plan {
    descriptor: Descriptor,
    /// Layouts of B, A and D, as the library sees them.
    first: Layout,
    second: Layout,
    result: Layout,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

// SAFETY: descriptors may be used from any thread, one at a time.
unsafe impl Send for Plan {}

struct Descriptor(sys::cublasLtMatmulDesc_t);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. An error at this point cannot be reported.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

struct Layout(sys::cublasLtMatrixLayout_t);

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. An error at this point cannot be reported.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. An error at this point cannot be reported.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

fn data_type(dtype: DType) -> Result<sys::cudaDataType, Failure> {
    Ok(match dtype {
        DType::F32 => sys::cudaDataType_t::CUDA_R_32F,
        DType::F16 => sys::cudaDataType_t::CUDA_R_16F,
        DType::BF16 => sys::cudaDataType_t::CUDA_R_16BF,
        _ => {
            let status = sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED;
            return Err(("cublasLtMatrixLayoutCreate", CublasError(status)));
        }
    })
}

impl Descriptor {
    fn new(problem: &Problem) -> Result<Self, Failure> {
        let compute = match problem.dtype == DType::F32 && problem.allow_tf32 {
            true => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            false => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let made = result::create_matmul_desc(compute, sys::cudaDataType_t::CUDA_R_32F);
        let descriptor = Self(made.map_err(|error| ("cublasLtMatmulDescCreate", error))?);
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        // `CUBLAS_OP_N` and `CUBLAS_OP_T`.
        let operation = |matrix: &Matrix| i32::from(matrix.transposed);
        descriptor.set(
            Attribute::CUBLASLT_MATMUL_DESC_TRANSA,
            operation(&problem.b),
        )?;
        descriptor.set(
            Attribute::CUBLASLT_MATMUL_DESC_TRANSB,
            operation(&problem.a),
        )?;
        use sys::cublasLtEpilogue_t as Epilogue;
        let epilogue = match (problem.epilogue, problem.has_bias) {
            (Activation::Identity, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            (Activation::Identity, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            (Activation::Relu, false) => Epilogue::CUBLASLT_EPILOGUE_RELU,
            (Activation::Relu, true) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
            (Activation::GeluTanh, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
            (Activation::GeluTanh, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        descriptor.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)?;
        Ok(descriptor)
    }

    /// Sets an attribute.
    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<(), Failure> {
        let place = (&raw const value).cast::<c_void>();
        // SAFETY: the descriptor is live, and the value is of the attribute's type, as callers ensure.
        let set =
            unsafe { result::set_matmul_desc_attribute(self.0, attribute, place, size_of::<T>()) };
        set.map_err(|error| ("cublasLtMatmulDescSetAttribute", error))
    }
}

impl Layout {
    /// Column-major: `rows` adjacent elements per column.
    fn new(
        dtype: DType,
        rows: u64,
        columns: u64,
        matrix: &Matrix,
        batch: u64,
    ) -> Result<Self, Failure> {
        let leading = matrix.leading.max(rows.cast_signed());
        let made = result::create_matrix_layout(data_type(dtype)?, rows, columns, leading);
        let layout = Self(made.map_err(|error| ("cublasLtMatrixLayoutCreate", error))?);
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        if batch > 1 {
            let count = i32::try_from(batch).unwrap_or(i32::MAX);
            layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)?;
            let stride = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
            layout.set(stride, matrix.batch_stride)?;
        }
        Ok(layout)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatrixLayoutAttribute_t,
        value: T,
    ) -> Result<(), Failure> {
        let place = (&raw const value).cast::<c_void>();
        // SAFETY: the layout is live, and the value is of the attribute's type, as callers ensure.
        let set = unsafe {
            result::set_matrix_layout_attribute(self.0, attribute, place, size_of::<T>())
        };
        set.map_err(|error| ("cublasLtMatrixLayoutSetAttribute", error))
    }
}

impl Preference {
    fn new(problem: &Problem, workspace: usize) -> Result<Self, Failure> {
        let made = result::create_matmul_pref();
        let preference = Self(made.map_err(|error| ("cublasLtMatmulPreferenceCreate", error))?);
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        preference.set(
            Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            workspace,
        )?;
        for (attribute, matrix) in [
            (
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                &problem.b,
            ),
            (
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                &problem.a,
            ),
            (
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                &problem.d,
            ),
            (
                Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                &problem.d,
            ),
        ] {
            preference.set(attribute, matrix.alignment)?;
        }
        Ok(preference)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: T,
    ) -> Result<(), Failure> {
        let place = (&raw const value).cast::<c_void>();
        // SAFETY: the preference is live, and the value is of the attribute's type, as callers ensure.
        let set =
            unsafe { result::set_matmul_pref_attribute(self.0, attribute, place, size_of::<T>()) };
        set.map_err(|error| ("cublasLtMatmulPreferenceSetAttribute", error))
    }
}

impl Plan {
    /// Asks the library for an algorithm.
    pub(super) fn new(
        handle: sys::cublasLtHandle_t,
        problem: &Problem,
        workspace: usize,
    ) -> Result<Self, Failure> {
        let descriptor = Descriptor::new(problem)?;
        let Problem { m, n, k, batch, .. } = *problem;
        // If a matrix is transposed, its other axis is the contiguous one.
        let layout = |rows, columns, matrix: &Matrix| {
            let (rows, columns) = match matrix.transposed {
                false => (rows, columns),
                true => (columns, rows),
            };
            Layout::new(problem.dtype, rows, columns, matrix, batch)
        };
        let first = layout(n, k, &problem.b)?;
        let second = layout(k, m, &problem.a)?;
        let result_layout = Layout::new(problem.d_dtype, n, m, &problem.d, batch)?;
        let preference = Preference::new(problem, workspace)?;
        // SAFETY: all of these are live.
        let found = unsafe {
            result::get_matmul_algo_heuristic(
                handle,
                descriptor.0,
                first.0,
                second.0,
                result_layout.0,
                result_layout.0,
                preference.0,
            )
        };
        let found = found.map_err(|error| ("cublasLtMatmulAlgoGetHeuristic", error))?;
        Ok(Self {
            descriptor,
            first,
            second,
            result: result_layout,
            algorithm: found.algo,
        })
    }

    /// Submits the product.
    ///
    /// # Safety
    /// The operands are where `places` says, with the problem's sizes, and live until the stream's work is done; the
    /// workspace is used by this stream alone.
    pub(super) unsafe fn run(
        &mut self,
        handle: sys::cublasLtHandle_t,
        problem: &Problem,
        places: &Places,
        (workspace, workspace_bytes): (*mut c_void, usize),
        stream: sys::cudaStream_t,
    ) -> Result<(), Failure> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        if problem.has_bias {
            let place = places.bias as usize as *const c_void;
            self.descriptor
                .set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, place)?;
        }
        let (alpha, beta) = (f32::from_bits(problem.scale), 0.0f32);
        let at = |address: u64| address as usize as *mut c_void;
        let workspace = match workspace_bytes {
            0 => null_mut(),
            _ => workspace,
        };
        // SAFETY: as the caller promises; the factors are read during the call.
        let ran = unsafe {
            result::matmul(
                handle,
                self.descriptor.0,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                at(places.b),
                self.first.0,
                at(places.a),
                self.second.0,
                at(places.d),
                self.result.0,
                at(places.d),
                self.result.0,
                &raw const self.algorithm,
                workspace,
                workspace_bytes,
                stream,
            )
        };
        ran.map_err(|error| ("cublasLtMatmul", error))
    }
}
