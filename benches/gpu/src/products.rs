//! Products by cuBLASLt: every layout and epilogue against sums on the host at odd sizes, and rates at large ones.
#![allow(unsafe_code, reason = "launches on memory of their own")]

use crate::measure::{report, time, whole};
use anyhow::{Error, anyhow, bail};
use kiln::internals::backend::{
    Artifact, ArtifactBuffer, ArtifactParts, Condition, KernelExecutor, Launch, LaunchContext,
    Phase, Quantity, Schedule, Target,
};
use kiln::internals::codegen_cuda::{
    CudaExecutor, DeviceCode, Entry, GemmEntry, GemmEpilogue, GemmOperand,
};
use kiln::internals::symbolic_shape::DimTable;
use kiln::internals::tensor::{DType, Tensor};

/// A product to run: symbols are m, n, k and the number of products.
struct Product {
    transposed: [bool; 2],
    epilogue: GemmEpilogue,
    dtype: DType,
    allow_tf32: bool,
}

/// The positions of the artifact's arguments: m, n, k, batch, then the leading numbers and the strides of A, B and D.
const LEADING: usize = 4;
const STRIDES: usize = 7;

impl Product {
    fn artifact(&self) -> Result<Artifact, Error> {
        let symbol = Quantity::symbol;
        let (m, n, k, batch) = (|| symbol(0), || symbol(1), || symbol(2), || symbol(3));
        let leading = |transposed, rows: Quantity, columns: Quantity| match transposed {
            false => columns,
            true => rows,
        };
        let [a, b] = self.transposed;
        let arguments = vec![
            m(),
            n(),
            k(),
            batch(),
            leading(a, m(), k()),
            leading(b, k(), n()),
            n(),
            m() * k(),
            k() * n(),
            m() * n(),
        ];
        let operand = |buffer: usize, transposed| GemmOperand {
            buffer,
            transposed,
            leading: LEADING + buffer,
            batch_stride: STRIDES + buffer,
        };
        let code = DeviceCode {
            arch: "sm_90a".to_owned(),
            nvrtc: String::new(),
            entries: vec![Entry::Gemm(GemmEntry {
                m: 0,
                n: 1,
                k: 2,
                batch: 3,
                a: operand(0, a),
                b: operand(1, b),
                d: operand(2, false),
                scale: 0.5f32.to_bits(),
                allow_tf32: self.allow_tf32,
                epilogue: self.epilogue,
            })],
            cubin: Vec::new(),
        };
        let width = || Quantity::constant(self.dtype.size_in_bytes() as i64);
        let buffer = |name: &str, elements: Quantity| ArtifactBuffer {
            name: name.to_owned(),
            dtype: self.dtype,
            written: name == "d",
            bytes: elements * width(),
        };
        let parts = ArtifactParts {
            kernel: "product".to_owned(),
            target: Target {
                backend: "cuda".to_owned(),
                level: "sm_90a".to_owned(),
            },
            schedule: Schedule::new("library"),
            code: code.to_bytes()?,
            contract: Condition::contract(&DimTable::new()),
            buffers: vec![
                buffer("a", m() * k() * batch()),
                buffer("b", k() * n() * batch()),
                buffer("d", m() * n() * batch()),
                buffer("bias", n()),
            ],
            arguments,
            phases: vec![Phase {
                entry: "product".to_owned(),
                tasks: Quantity::constant(1),
                block: 1,
                scratch: Quantity::constant(0),
            }],
            shared_scratch: Quantity::constant(0),
            packs: Vec::new(),
            in_place: Vec::new(),
            fault_sites: Vec::new(),
        };
        // SAFETY: a call of the library reads and writes what its sizes say, and the buffers are as long.
        Ok(unsafe { Artifact::trusted(parts) })
    }
}

/// Small numbers, so that sums are exact in every dtype.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7 + seed * 3) % 9) as f32 * 0.25 - 1.0)
        .collect()
}

fn tensor(dtype: DType, numbers: &[f32]) -> Result<Tensor, Error> {
    let bytes: Vec<u8> = match dtype {
        DType::F32 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        // Multiples of a quarter below 2: their upper half is exact.
        DType::BF16 => numbers
            .iter()
            .flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes())
            .collect(),
        other => bail!("no numbers of {other}"),
    };
    Ok(Tensor::from_bytes(dtype, &[numbers.len()], &bytes)?)
}

/// Checks everything, then measures.
pub(crate) fn run() -> Result<(), Error> {
    let device = CudaExecutor::open(0)?;
    let (mut checked, mut wrong) = (0, 0);
    for transposed in [[false, false], [true, false], [false, true], [true, true]] {
        for epilogue in [
            GemmEpilogue::None,
            GemmEpilogue::Relu,
            GemmEpilogue::Bias { buffer: 3 },
            GemmEpilogue::BiasRelu { buffer: 3 },
            GemmEpilogue::BiasGeluTanh { buffer: 3 },
        ] {
            for dtype in [DType::F32, DType::BF16] {
                let product = Product {
                    transposed,
                    epilogue,
                    dtype,
                    allow_tf32: false,
                };
                for sizes in [[1, 1, 1, 1], [3, 5, 7, 1], [16, 32, 8, 2], [33, 17, 65, 3]] {
                    checked += 1;
                    if let Err(error) = check(&device, &product, sizes) {
                        wrong += 1;
                        println!("{transposed:?} {epilogue:?} {dtype} {sizes:?}: {error:#}");
                    }
                }
            }
        }
    }
    println!("products: {checked} checked, {wrong} wrong");
    for (dtype, allow_tf32, size) in [
        (DType::BF16, false, 8192),
        (DType::BF16, false, 2048),
        (DType::F32, true, 4096),
        (DType::F32, false, 2048),
    ] {
        let product = Product {
            transposed: [false, false],
            epilogue: GemmEpilogue::None,
            dtype,
            allow_tf32,
        };
        measure(&device, &product, size)?;
    }
    Ok(())
}

fn check(device: &CudaExecutor, product: &Product, sizes: [usize; 4]) -> Result<(), Error> {
    let [m, n, k, batch] = sizes;
    let artifact = product.artifact()?;
    let loaded = device.load(&artifact)?;
    let symbols = sizes.map(|size| size as i64);
    let numbers_of = artifact.numbers(&LaunchContext {
        symbols: &symbols,
        threads: 1,
        caches: device.caches(),
    })?;
    let [a, b] = [numbers(m * k * batch, 1), numbers(k * n * batch, 2)];
    let bias = numbers(n, 3);
    let memories = [
        device.upload(&tensor(product.dtype, &a)?)?,
        device.upload(&tensor(product.dtype, &b)?)?,
        device.alloc(m * n * batch * product.dtype.size_in_bytes())?,
        device.upload(&tensor(product.dtype, &bias)?)?,
    ];
    let buffers: Vec<_> = memories.iter().map(whole).collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers_of,
    };
    let mut run = device.begin();
    // SAFETY: the memories are this launch's own.
    unsafe { run.launch(&loaded, &launch)? };
    run.finish()?;
    let found = device.download(&memories[2], 0, product.dtype, &[m * n * batch])?;
    let found = found.to_f64_vec()?;
    let at = |matrix: &[f32],
              transposed,
              rows: usize,
              columns: usize,
              (p, i, j): (usize, usize, usize)| {
        let place = match transposed {
            false => i * columns + j,
            true => j * rows + i,
        };
        f64::from(matrix[p * rows * columns + place])
    };
    for (place, &value) in found.iter().enumerate() {
        let (p, i, j) = (place / (m * n), place / n % m, place % n);
        let products = (0..k).map(|l| {
            at(&a, product.transposed[0], m, k, (p, i, l))
                * at(&b, product.transposed[1], k, n, (p, l, j))
        });
        let sum = 0.5 * products.sum::<f64>();
        let expected = applied(product.epilogue, sum, f64::from(bias[j]));
        let allowed = match product.dtype {
            DType::F32 => {
                2e-3 * expected.abs().max(1.0) * f64::from(u8::from(has_gelu(product.epilogue)))
                    + 1e-5 * expected.abs().max(1.0)
            }
            _ => 1.6e-2 * expected.abs().max(1.0),
        };
        if (value - expected).abs() > allowed {
            return Err(anyhow!(
                "({p}, {i}, {j}): expected {expected}, found {value}"
            ));
        }
    }
    Ok(())
}

/// Whether an epilogue has gelu, which cuBLASLt approximates.
fn has_gelu(epilogue: GemmEpilogue) -> bool {
    matches!(
        epilogue,
        GemmEpilogue::GeluTanh | GemmEpilogue::BiasGeluTanh { .. }
    )
}

fn applied(epilogue: GemmEpilogue, x: f64, bias: f64) -> f64 {
    let gelu =
        |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh());
    match epilogue {
        GemmEpilogue::None => x,
        GemmEpilogue::Relu => x.max(0.0),
        GemmEpilogue::Bias { .. } => x + bias,
        GemmEpilogue::BiasRelu { .. } => (x + bias).max(0.0),
        GemmEpilogue::GeluTanh => gelu(x),
        GemmEpilogue::BiasGeluTanh { .. } => gelu(x + bias),
    }
}

fn measure(device: &CudaExecutor, product: &Product, size: usize) -> Result<(), Error> {
    let artifact = product.artifact()?;
    let loaded = device.load(&artifact)?;
    let numbers_of = artifact.numbers(&LaunchContext {
        symbols: &[size as i64, size as i64, size as i64, 1],
        threads: 1,
        caches: device.caches(),
    })?;
    let filled = |seed| {
        device
            .upload(&tensor(product.dtype, &numbers(size * size, seed))?)
            .map_err(Error::from)
    };
    let memories = [filled(1)?, filled(2)?, filled(3)?, filled(4)?];
    let buffers: Vec<_> = memories.iter().map(whole).collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers_of,
    };
    let seconds = time(&mut *device.begin(), |run, _| {
        // SAFETY: the memories are this run's own.
        Ok(unsafe { run.launch(&loaded, &launch) }?)
    })?;
    let name = format!("cuBLASLt {}, {size}^3", product.dtype);
    report(
        &name,
        if product.allow_tf32 { "tf32" } else { "" },
        seconds,
        0.0,
        (size as f64).powi(3),
    )
}
