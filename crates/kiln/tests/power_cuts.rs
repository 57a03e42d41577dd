//! Power cuts: whatever state of a cache folder a disk contains afterwards, an entry is intact or a miss, and every
//! result is correct.
//!
//! The states are those of `kiln_testkit::power_cut`: after each change of the folder, unsynced data is present, missing,
//! zeroed or torn, and names are present in any order.

#![cfg(all(feature = "llvm", feature = "onnx"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic and print"
)]

use kiln::internals::kernel_cache::{CacheKey, Content, DiskOptions, DiskTier, EntryKind, Tier};
use kiln::internals::shape_inference::GraphBuilder;
use kiln::{Cache, DType, Device, Options, Tensor};
use kiln_testkit::export::to_onnx_beside;
use kiln_testkit::files::MemoryFs;
use kiln_testkit::power_cut::{State, states_after};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

fn key(name: &str) -> CacheKey {
    CacheKey::of_fields(EntryKind::PROGRAM, [("kernel", name)])
}

fn options(sync: bool) -> DiskOptions {
    DiskOptions {
        sync,
        // Room for two of the three entries below, so that one is evicted.
        max_bytes: 2600,
        ..DiskOptions::default()
    }
}

/// The content stored under each name, in this order; the first name is stored again with other content.
fn stored() -> [(&'static str, Vec<u8>); 4] {
    let content = |byte: u8| vec![byte; 1000];
    [
        ("a", content(1)),
        ("b", content(2)),
        ("a", content(3)),
        ("c", content(4)),
    ]
}

fn disk(fs: MemoryFs, options: DiskOptions) -> DiskTier {
    // SAFETY: nothing that is read from it is executed.
    unsafe { DiskTier::with_fs(fs, options) }
}

/// Reads a state, repairs it, and reads it again; returns the content of each name.
fn judge(state: &State) -> BTreeMap<&'static str, Option<Vec<u8>>> {
    let files = state
        .iter()
        .map(|(name, content)| (name.as_str(), content.as_slice()));
    let tier = disk(MemoryFs::holding(files), DiskOptions::default());
    let mut found = BTreeMap::new();
    for name in ["a", "b", "c"] {
        let entry = tier.get(&key(name));
        if let Ok(entry) = &entry {
            let is_stored =
                |(of, content): &(&str, Vec<u8>)| *of == name && content[..] == entry.payload[..];
            assert!(
                stored().iter().any(is_stored),
                "{name}: a content that was never stored"
            );
        }
        let is_whole = entry.is_ok();
        found.insert(name, entry.ok().map(|entry| entry.payload.to_vec()));
        let mut content = vec![0; 1000];
        assert_eq!(tier.get_into(&key(name), &mut content).is_ok(), is_whole);
        if !is_whole {
            tier.put(&key(name), Duration::ZERO, Content::data(&content))
                .unwrap();
            assert_eq!(tier.get(&key(name)).unwrap().payload[..], content[..]);
        }
    }
    assert!(
        tier.verify(true).unwrap().bad.is_empty(),
        "reading removes damaged entries"
    );
    tier.clear().unwrap();
    assert_eq!(tier.usage().unwrap().entries, 0);
    found
}

#[test]
fn after_a_power_cut_entries_are_intact_or_misses() {
    for sync in [false, true] {
        let fs = MemoryFs::new();
        let tier = disk(fs.clone(), options(sync));
        // The number of changes made when each was stored.
        let mut ends = Vec::new();
        for (name, content) in stored() {
            tier.put(&key(name), Duration::ZERO, Content::data(&content))
                .unwrap();
            ends.push(fs.changes().len());
        }
        let changes = fs.changes();
        let (mut n_states, mut n_damaged) = (0, 0);
        for n in 0..=changes.len() {
            let states: BTreeSet<State> = states_after(&changes, n);
            for state in &states {
                let found = judge(state);
                n_states += 1;
                let n_named = state.keys().filter(|name| name.ends_with(".kiln2")).count();
                n_damaged += n_named - found.values().flatten().count();
                // Everything that was stored and synced is present, or its replacement is, until an entry must be
                // evicted.
                if sync && (ends[0]..ends[2]).contains(&n) {
                    assert!(found["a"].is_some(), "after {n} changes");
                }
            }
        }
        println!(
            "sync {sync}: {} changes, {n_states} states, {n_damaged} damaged entries",
            changes.len()
        );
        // Without syncing, names may reach the disk before their bytes; with it, never.
        assert_eq!(n_damaged == 0, sync);
        assert!(n_states > 100);
    }
}

/// Files by name.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// A product with weights that kernels read packed, a constant to fold, and both in an external file.
fn write_model(folder: &Path) -> PathBuf {
    let mut builder = GraphBuilder::new("weights");
    let sizes = [3, 64].map(|size| builder.size(size));
    let x = builder.input("x", DType::F32, &sizes);
    let mut constant = |shape: &[usize]| {
        let n = shape.iter().product::<usize>();
        let elements = (0..n).map(|i| (i % 13) as f32 - 6.0).collect();
        builder
            .constant(Tensor::from_vec(shape, elements).unwrap())
            .unwrap()
    };
    let (weight, a, b) = (
        constant(&[64, 512]),
        constant(&[3, 512]),
        constant(&[3, 512]),
    );
    let product = builder.matmul(x, weight).unwrap();
    let bias = builder.map("sub", &[a, b]).unwrap();
    let y = builder.add(product, bias).unwrap();
    let graph = builder.finish(&[("y", y)]).unwrap();
    let (model, weights) = to_onnx_beside(&graph, &[vec![3, 64]], "weights.bin").unwrap();
    let path = folder.join("model.onnx");
    fs::write(&path, model).unwrap();
    fs::write(folder.join("weights.bin"), weights).unwrap();
    path
}

fn answer(path: &Path, cache: Cache) -> Result<(Vec<f32>, u64), kiln::Error> {
    let options = Options::new()
        .device(Device::cpu())
        .threads(1)
        .shared_kernels(false)
        .cache(cache);
    let model = options.load(path)?;
    let x = Tensor::full(&[3, 64], 0.5f32)?;
    let outputs = model.run([(model.inputs()[0].name(), &x)])?;
    // Packed weights are stored by a separate thread.
    assert!(model.wait_for_compiles(Duration::from_secs(60)));
    let stats = model.compilation_stats();
    Ok((outputs[0].to_vec()?, stats.compilations))
}

/// The entries of a folder, in the order in which they were written.
fn entries(folder: &Path) -> Files {
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "kiln2"))
        .collect();
    paths.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    let read = |path: PathBuf| {
        let content = fs::read(&path).unwrap();
        (path, content)
    };
    paths.into_iter().map(read).collect()
}

/// What an unsynced file may contain.
fn losses(content: &[u8]) -> [Vec<u8>; 4] {
    let n = content.len();
    let with_zeros = |range: std::ops::Range<usize>| {
        let mut torn = content.to_vec();
        torn[range].fill(0);
        torn
    };
    [
        Vec::new(),
        with_zeros(0..n),
        with_zeros(n / 2..n),
        with_zeros(n / 3..n / 2),
    ]
}

#[test]
fn after_a_power_cut_results_are_right() {
    let folder = TempDir::new().unwrap();
    let path = write_model(folder.path());
    let cache = folder.path().join("cache");
    let call = || answer(&path, Cache::folder(&cache)).unwrap();
    let (right, compilations) = call();
    assert!(compilations > 0);
    assert_eq!(call(), (right.clone(), 0));
    let whole = entries(&cache);
    let stored = Cache::folder(&cache).open().unwrap().entries().unwrap();
    let kinds: BTreeSet<String> = stored
        .into_iter()
        .map(|entry| entry.head.unwrap().kind)
        .collect();
    assert_eq!(
        kinds,
        ["constant", "kernel", "packed", "program"]
            .map(str::to_owned)
            .into()
    );
    let mut states: Vec<Files> = Vec::new();
    for n in 0..whole.len() {
        // The entries written last never reached the disk, or one of them did in part, or all did.
        states.push(whole[..n].to_vec());
        for loss in losses(&whole[n].1) {
            let mut torn = whole.clone();
            torn[n].1 = loss;
            states.push(torn);
        }
    }
    for loss in 0..4 {
        let torn =
            |(path, content): &(PathBuf, Vec<u8>)| (path.clone(), losses(content)[loss].clone());
        states.push(whole.iter().map(torn).collect());
    }
    for (n, state) in states.iter().enumerate() {
        fs::remove_dir_all(&cache).unwrap();
        fs::create_dir(&cache).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
        for (path, content) in state {
            fs::write(path, content).unwrap();
        }
        assert!(call().0 == right, "state {n}");
        // Damaged entries were rebuilt.
        assert_eq!(call(), (right.clone(), 0), "state {n}");
    }
}
