//! Persistent data: stored programs, cache entries and bundles, damaged in every way.
//!
//! Code in them is never run: it is trusted once its digest was checked. Digests are recomputed where the data behind them
//! has its own guarantees.
#![allow(
    unsafe_code,
    reason = "a file system in memory is vouched for: nothing is run"
)]

use std::path::PathBuf;
use std::time::Duration;

use arbitrary::Unstructured;
use kiln_fusion::FusionOptions;
use kiln_ir::BlobMap;
use kiln_kernel_cache::{
    Bundle, CacheKey, Collected, CollectingTier, Content, DiskOptions, DiskTier, EntryKind,
    Payload, Tier,
};
use kiln_program::{BuildOptions, Program, ProgramError, RowMajor, StoredProgram};
use serde_json::Value;

use super::{assert_plain, fail_with};
use crate::files::MemoryFs;
use crate::generate::{GraphOptions, random_graph};
use crate::reseal::{reseal_bundle, reseal_entry};

/// Bytes that choose a program and a change of it.
const CHOICE_BYTES: usize = 256;

/// Bytes as the JSON of a stored program, or as choices of a program and of a change of its data: read with every check or
/// rejected; an accepted program prints, and is stored and read back unchanged.
pub fn read_program(bytes: &[u8]) {
    let blobs = BlobMap::new();
    if bytes.starts_with(b"{") {
        if let Ok(stored) = serde_json::from_slice::<StoredProgram>(bytes) {
            load_program(&stored, &blobs);
        }
        return;
    }
    let (head, tail) = bytes.split_at(bytes.len().min(CHOICE_BYTES));
    let mut blobs = BlobMap::new();
    let Some(mut data) = random_stored_program(&mut Unstructured::new(tail), &mut blobs) else {
        return;
    };
    let mut choices = Unstructured::new(head);
    if change(&mut choices, &mut data).is_ok()
        && let Ok(stored) = serde_json::from_value::<StoredProgram>(data)
    {
        load_program(&stored, &blobs);
    }
}

fn load_program(stored: &StoredProgram, blobs: &BlobMap) {
    let program = match Program::load(stored, blobs) {
        Ok(program) => program,
        Err(error) => {
            assert_plain(&error.to_string());
            let is_typed = matches!(
                error,
                ProgramError::Damaged { .. }
                    | ProgramError::Version { .. }
                    | ProgramError::MissingConstant { .. }
            );
            return assert!(is_typed, "{} {error}", error.code());
        }
    };
    let printed = program.to_string();
    let mut again = BlobMap::new();
    let reloaded = program
        .store(&mut again)
        .and_then(|stored| Program::load(&stored, &again));
    match reloaded {
        Ok(reloaded) => assert_eq!(reloaded.to_string(), printed),
        Err(error) => fail_with(&format!("{error}\n{printed}")),
    }
}

/// A random graph as a stored program; `None` if it cannot be planned.
fn random_stored_program(choices: &mut Unstructured<'_>, blobs: &mut BlobMap) -> Option<Value> {
    let options = GraphOptions {
        max_ops: 8,
        ..GraphOptions::default()
    };
    let graph = random_graph(choices, &options).ok()?;
    let plan = kiln_fusion::plan(&graph, &FusionOptions::new()).ok()?;
    let program = kiln_program::build(graph, &plan, &RowMajor, &BuildOptions::default()).ok()?;
    match program.store(blobs) {
        Ok(stored) => serde_json::to_value(stored).ok(),
        Err(error) => fail_with(&error.to_string()),
    }
}

/// Changes up to four places of some data, each in one way.
fn change(choices: &mut Unstructured<'_>, data: &mut Value) -> arbitrary::Result<()> {
    for _ in 0..choices.int_in_range(0..=4)? {
        let n_places = count(data);
        let (place, other) = (
            choices.int_in_range(0..=n_places - 1)?,
            choices.int_in_range(0..=n_places - 1)?,
        );
        // A value of the same kind from elsewhere fits its type more often than a made-up one.
        let other = at(data, other).cloned();
        let kind = choices.int_in_range(0..=5_u8)?;
        let Some(target) = at(data, place) else {
            continue;
        };
        match (kind, &mut *target) {
            (0, target) => *target = other.unwrap_or(Value::Null),
            (1, Value::Array(items)) if !items.is_empty() => {
                let index = choices.choose_index(items.len())?;
                items.remove(index);
            }
            (2, Value::Array(items)) if !items.is_empty() => {
                let index = choices.choose_index(items.len())?;
                items.push(items[index].clone());
            }
            (3, Value::Array(items)) => items.reverse(),
            (_, Value::Number(number)) => {
                let near = number.as_u64().unwrap_or_default();
                let edges = [0, 1, near.wrapping_add(1), near.wrapping_sub(1), 1 << 31];
                let more = [u64::from(u32::MAX), u64::from(u32::MAX) - 1, u64::MAX];
                *number = (*choices.choose(&[&edges[..], &more].concat())?).into();
            }
            (_, Value::Bool(flag)) => *flag = !*flag,
            (_, Value::String(text)) => {
                let cut = choices.int_in_range(0..=text.chars().count())?;
                let mut changed: String = text.chars().take(cut).collect();
                let put = [
                    " ",
                    "0",
                    "9223372036854775807",
                    "A",
                    "*",
                    ")",
                    "%",
                    "\u{1b}",
                ];
                changed.push_str(choices.choose(&put)?);
                changed.extend(text.chars().skip(cut + 1));
                *text = changed;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The number of places in some data.
fn count(data: &Value) -> usize {
    let mut n_places = 0;
    let mut waiting = vec![data];
    while let Some(value) = waiting.pop() {
        n_places += 1;
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            _ => {}
        }
    }
    n_places
}

/// The place with this number.
fn at(data: &mut Value, mut place: usize) -> Option<&mut Value> {
    let mut waiting = vec![data];
    while let Some(value) = waiting.pop() {
        if place == 0 {
            return Some(value);
        }
        place -= 1;
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values_mut()),
            _ => {}
        }
    }
    None
}

/// The key of the entries of seeds.
fn key(name: &str, kind: EntryKind) -> CacheKey {
    CacheKey::of_fields(kind, [("kernel", name), ("target", "llvm:portable")])
}

/// Entries in a file system in memory.
fn disk_of(fs: &MemoryFs) -> DiskTier {
    // SAFETY: nothing that is read here is run.
    unsafe { DiskTier::with_fs(fs.clone(), DiskOptions::default()) }
}

/// The bytes of an entry of a cache folder: a seed.
pub fn example_entry(content: &[u8]) -> Vec<u8> {
    let fs = MemoryFs::new();
    let tier = disk_of(&fs);
    let key = key("a", EntryKind::PROGRAM);
    match tier.put(&key, Duration::from_millis(5), Content::data(content)) {
        Ok(_) => fs.content().unwrap_or_default(),
        Err(problem) => fail_with(&problem.to_string()),
    }
}

/// Bytes as choices and the file of a cache entry, its digests unchanged or recomputed: a miss with a reason, or the
/// content of that very entry. In any case, the folder can be listed, checked and cleared.
pub fn read_entry(bytes: &[u8]) {
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    let is_resealed = choice % 2 == 1;
    if is_resealed {
        reseal_entry(&mut file);
    }
    let fs = MemoryFs::new();
    let tier = disk_of(&fs);
    let key = key("a", EntryKind::PROGRAM);
    if let Err(problem) = tier.put(&key, Duration::ZERO, Content::data(b"content")) {
        fail_with(&problem.to_string());
    }
    fs.replace(&file);
    let heads = tier.heads(usize::MAX);
    match tier.verify(false) {
        Ok(_) => {}
        Err(error) => fail_with(&error.to_string()),
    }
    let mut content = vec![0; 7];
    let into = tier.get_into(&key, &mut content);
    fs.replace(&file);
    match tier.get(&key) {
        Ok(entry) => {
            assert_eq!(heads.len(), 1, "an entry whose head is not listed");
            assert!(entry.payload.len() <= file.len());
            assert_eq!(into.is_ok(), entry.payload.len() == 7);
        }
        Err(miss) => {
            assert_plain(&miss.to_string());
            assert!(into.is_err(), "read into place, and else a miss: {miss}");
        }
    }
    fs.replace(&file);
    if let Err(error) = tier.verify(true).and_then(|_| tier.clear()) {
        fail_with(&error.to_string());
    }
}

/// The bytes of a bundle with a program, constants and data in place of code: a seed.
pub fn example_bundle(choices: &[u8]) -> Vec<u8> {
    let mut blobs = BlobMap::new();
    let program = random_stored_program(&mut Unstructured::new(choices), &mut blobs);
    let target = serde_json::json!({ "backend": "llvm", "level": "portable" });
    let manifest = serde_json::json!({ "kiln": "0", "target": target, "program": program });
    let collected = CollectingTier::new();
    let contents = [("a", EntryKind::PROGRAM), ("b", EntryKind::CONSTANT)];
    for (name, kind) in contents {
        if let Err(problem) =
            collected.put(&key(name, kind), Duration::ZERO, Content::data(&[7; 40]))
        {
            fail_with(&problem.to_string());
        }
    }
    let (folder, path) = scratch_file();
    let written = Bundle::write(
        &path,
        manifest.to_string().as_bytes(),
        &collected.entries(),
        None,
    );
    let bytes = written
        .map_err(|error| error.to_string())
        .and_then(|_| std::fs::read(&path).map_err(|error| error.to_string()));
    drop(folder);
    match bytes {
        Ok(bytes) => bytes,
        Err(error) => fail_with(&error),
    }
}

/// Bytes as choices and a bundle, its digests unchanged or recomputed: rejected with an error that names the place, or
/// opened; then every entry is whole or an error, and its program is read with every check. None of its code is loaded.
pub fn read_bundle(bytes: &[u8]) {
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    if choice % 2 == 1 {
        reseal_bundle(&mut file);
    }
    let (folder, path) = scratch_file();
    if let Err(error) = std::fs::write(&path, &file) {
        fail_with(&error.to_string());
    }
    let bundle = match Bundle::open(&path) {
        Ok(bundle) => bundle,
        Err(error) => return assert_plain(&error.to_string()),
    };
    if let Err(error) = bundle.verify(|_| true) {
        assert_plain(&error.to_string());
    }
    let heads = bundle.heads(usize::MAX);
    assert!(heads.len() <= bundle.n_entries());
    for Collected { key, content, .. } in example_keys() {
        let mut read = vec![0; content.len()];
        let into = bundle.get_into(&key, &mut read);
        match bundle.get(&key) {
            Ok(entry) => assert_eq!(into.is_ok(), entry.payload.len() == read.len()),
            Err(miss) => {
                assert!(into.is_err(), "read into place, and else a miss: {miss}");
                if let Some(error) = bundle.damage(&key, &miss) {
                    assert_plain(&error.to_string());
                }
            }
        }
    }
    if let Ok(manifest) = serde_json::from_slice::<Value>(bundle.manifest())
        && let Some(program) = manifest.get("program")
        && let Ok(stored) = serde_json::from_value::<StoredProgram>(program.clone())
    {
        load_program(&stored, &BlobMap::new());
    }
    drop(folder);
}

fn example_keys() -> Vec<Collected> {
    let entry = |(name, kind)| Collected {
        key: key(name, kind),
        time: Duration::ZERO,
        content: Payload::data(vec![0; 40]),
    };
    [("a", EntryKind::PROGRAM), ("b", EntryKind::CONSTANT)]
        .map(entry)
        .into()
}

/// A path in a temporary folder, which is removed with the first of the two.
fn scratch_file() -> (tempfile::TempDir, PathBuf) {
    match tempfile::tempdir() {
        Ok(folder) => {
            let path = folder.path().join("x.kiln-bundle");
            (folder, path)
        }
        Err(error) => fail_with(&error.to_string()),
    }
}
