//! A program that uses Kiln like an outside user, without anything of the workspace.
//!
//! `cargo xtask test` builds and runs it, with Kiln's default features, when it makes a bundle and fills a cache; with only
//! the feature `native`, when it runs their contents; and without any: it succeeds only if its assertions hold. Its
//! arguments are the path of the bundle, and the cache's folder.
#![forbid(unsafe_code)]

use kiln::internals::shape_inference::GraphBuilder;
use kiln::{DType, Device, Dim, ErrorKind, Model, Options, Source, Tensor, Var, diagnose};

const MLP: &str = "
graph @mlp(%x: f32[B, 4], %w: f32[4, N]) -> f32[B, N] {
  %0 = matmul %x, %w
  %y = relu %0
  return %y
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    text_of_any_size()?;
    declared_sizes_are_a_contract()?;
    a_graph_from_the_builder()?;
    every_backend_gives_the_same()?;
    a_function_that_compiles_itself()?;
    #[cfg(feature = "native")]
    {
        let mut arguments = std::env::args_os().skip(1);
        if let (Some(bundle), Some(cache)) = (arguments.next(), arguments.next()) {
            a_bundle(std::path::Path::new(&bundle))?;
            a_cache(std::path::Path::new(&cache))?;
        }
    }
    let backends: Vec<_> = Device::all().iter().map(Device::to_string).collect();
    println!(
        "kiln works from outside its workspace: {}",
        backends.join(", ")
    );
    Ok(())
}

/// One model, every size: nothing is specialised on the first call.
fn text_of_any_size() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::load(Source::text(MLP))?;
    assert_eq!(model.inputs()[0].to_string(), "x: f32[B, 4]");
    for (batch, columns) in [(1, 1), (3, 2), (0, 5), (7, 1)] {
        let x = Tensor::from_vec(&[batch, 4], vec![0.5_f32; batch * 4])?;
        let w = Tensor::from_vec(&[4, columns], vec![2.0_f32; 4 * columns])?;
        let outputs = model.run([("x", &x), ("w", &w)])?;
        let y = outputs.get("y")?;
        assert_eq!(y.shape(), [batch, columns]);
        assert!(y.to_vec::<f32>()?.iter().all(|&value| value == 4.0));
    }
    Ok(())
}

/// Sizes outside a declared range, and inputs that are missing or of the wrong type, are typed errors.
fn declared_sizes_are_a_contract() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::new().dim("B", Dim::range(1..=8));
    let model = options.load(Source::text(MLP))?;
    let w = Tensor::zeros(DType::F32, &[4, 2])?;
    let tall = Tensor::zeros(DType::F32, &[9, 4])?;
    let whole = Tensor::zeros(DType::I64, &[1, 4])?;
    for inputs in [
        vec![("x", &tall), ("w", &w)],
        vec![("x", &whole), ("w", &w)],
        vec![("w", &w)],
    ] {
        let error = model
            .run(inputs)
            .err()
            .ok_or("the call was expected to fail")?;
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.code().starts_with('E'));
    }
    Ok(())
}

/// The crates beneath the facade are reachable through it by name.
fn a_graph_from_the_builder() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = GraphBuilder::new("softmax");
    let rows = builder.symbol("rows")?;
    let columns = builder.symbol("columns")?;
    let x = builder.input("x", DType::F32, &[rows, columns]);
    let y = builder.softmax(x, 1)?;
    let model = Model::load(Source::graph(builder.finish(&[("y", y)])?))?;
    let x = Tensor::from_vec(&[2, 3], vec![0.0_f32, 1.0, 2.0, 5.0, 5.0, 5.0])?;
    let outputs = model.run([("x", &x)])?;
    let y = outputs.get("y")?.to_vec::<f32>()?;
    assert!((y.iter().sum::<f32>() - 2.0).abs() < 1e-6);
    Ok(())
}

/// Whatever the device, results are those of the interpreter.
fn every_backend_gives_the_same() -> Result<(), Box<dyn std::error::Error>> {
    let x = Tensor::from_vec(&[2, 4], vec![1.0_f32, -2.0, 3.0, 0.5, 0.0, 1.0, 2.0, -1.0])?;
    let w = Tensor::from_vec(&[4, 3], vec![0.25_f32; 12])?;
    for device in compiling_devices() {
        let model = Options::new()
            .device(device.clone())
            .load(Source::text(MLP))?;
        let comparison = diagnose::compare(
            &model,
            &diagnose::reference(&model, [("x", &x), ("w", &w)])?,
        )?;
        assert!(comparison.agrees(), "{device}");
        let compiles = model.compilation_stats().compilations;
        assert_eq!(compiles > 0, device != Device::interpreter(), "{device}");
    }
    Ok(())
}

/// The devices that need no compiler: without one, the only code is in stores.
fn compiling_devices() -> impl Iterator<Item = Device> {
    let all = Device::all().into_iter();
    all.filter(|device| cfg!(feature = "llvm") || device.interprets())
}

/// A model with its code and weights in one file: made by a build with a compiler, run by one without.
#[cfg(feature = "native")]
fn a_bundle(path: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    use kiln::{CompilePolicy, SealKey};
    // The run that makes the bundle and the one that opens it share a secret.
    let key = SealKey::of_secret(b"a secret of this program, 32 bytes or more");
    #[cfg(feature = "llvm")]
    {
        let mut builder = GraphBuilder::new("layer");
        let rows = builder.symbol("rows")?;
        let inner = builder.size(16);
        let x = builder.input("x", DType::F32, &[rows, inner]);
        let w = builder.constant(Tensor::full(&[16, 24], 0.5_f32)?)?;
        let product = builder.matmul(x, w)?;
        let y = builder.map("relu", &[product])?;
        let graph = builder.finish(&[("y", y)])?;
        let options = Options::new().device(Device::cpu());
        options
            .load(Source::graph(graph))?
            .save_bundle(path, Some(&key))?;
    }
    let options = Options::new().compiling(CompilePolicy::AheadOfTime);
    let model = Model::open_sealed_bundle(path, &key, options)?;
    for rows in [1, 7] {
        let x = Tensor::full(&[rows, 16], 0.25_f32)?;
        let y = model.run([("x", &x)])?;
        assert_eq!(y[0].to_vec::<f32>()?, vec![2.0; rows * 24]);
    }
    let stats = model.compilation_stats();
    assert_eq!(
        (
            stats.compilations,
            stats.interpreted_steps,
            stats.constants_packed
        ),
        (0, 0, 0)
    );
    Ok(())
}

/// Code in a folder: stored by a build with a compiler and found by one without, which computes the same keys. Missing code
/// is an error that says so.
#[cfg(feature = "native")]
fn a_cache(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    use kiln::{Cache, CompilePolicy, Compiling};
    let options = |policy| {
        let options = Options::new().device(Device::cpu());
        options.cache(Cache::folder(folder)).compiling(Compiling {
            policy,
            variants: None,
            ..Compiling::default()
        })
    };
    #[cfg(feature = "llvm")]
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let model = options(CompilePolicy::FirstUse).load(Source::text(MLP))?;
    for (rows, columns) in [(1, 1), (5, 3)] {
        let x = Tensor::full(&[rows, 4], 0.5_f32)?;
        let w = Tensor::full(&[4, columns], 2.0_f32)?;
        let outputs = model.run([("x", &x), ("w", &w)])?;
        assert_eq!(outputs[0].to_vec::<f32>()?, vec![4.0; rows * columns]);
    }
    let stats = model.compilation_stats();
    if cfg!(feature = "llvm") {
        assert!(stats.compilations > 0);
        assert!(model.wait_for_compiles(std::time::Duration::from_secs(60)));
        return Ok(());
    }
    assert!(stats.cache.tier_hits > 0);
    assert_eq!((stats.compilations, stats.interpreted_steps), (0, 0));
    let text = "graph @other(%x: f32[N]) -> f32[N] {
      %y = tanh %x
      return %y
    }";
    let x = Tensor::full(&[3], 0.5_f32)?;
    let other = options(CompilePolicy::AheadOfTime).load(Source::text(text))?;
    let error = other.run([("x", &x)]).err().ok_or("there is no code")?;
    assert_eq!(
        (error.code(), error.kind()),
        ("E0891", ErrorKind::Environment)
    );
    let other = options(CompilePolicy::FirstUse).load(Source::text(text))?;
    let error = other.compile().err().ok_or("there is no compiler")?;
    assert_eq!(
        (error.code(), error.kind()),
        ("E0517", ErrorKind::Unsupported)
    );
    // A failed compile leaves its step to the interpreter, and is counted.
    other.run([("x", &x)])?;
    let stats = other.compilation_stats();
    assert_eq!(stats.interpreted_steps, 1);
    assert!(stats.failures > 0);
    Ok(())
}

/// A closure, recorded once for every size.
fn a_function_that_compiles_itself() -> Result<(), Box<dyn std::error::Error>> {
    for device in compiling_devices() {
        let options = Options::new().device(device);
        let layer = kiln::jit(|x: Var, w: Var| x.matmul(w).relu()).with_options(options);
        for rows in [1, 5] {
            let x = Tensor::from_vec(&[rows, 2], vec![1.0_f32; rows * 2])?;
            let w = Tensor::from_vec(&[2, 1], vec![1.0_f32, 2.0])?;
            assert_eq!(layer.call([&x, &w])?.to_vec::<f32>()?, vec![3.0; rows]);
        }
        assert_eq!(layer.n_recordings(), 1);
    }
    Ok(())
}
