//! Packed constants: packed once for all programs and processes; a bad store entry costs one packing, never a wrong
//! result.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_kernel_cache::{
    CacheError, CacheKey, CollectingTier, Content, EntryKind, Miss, NotStored, Stored, StoredEntry,
    Tier,
};
use kiln_lazy_runtime::{Runtime, RuntimeOptions};
use kiln_tensor::{DType, Tensor, TensorError};
use support::{FakeCompiler, FakeDevice, compiled, error_of, expect_same, ramp};

/// Longer than any test takes, however busy the machine is; only a hang takes longer.
const LONG: Duration = Duration::from_secs(120);

/// `y = x w` with a weight of 4 x 6, which the fake compiler needs transposed.
fn graph() -> kiln_ir::Graph {
    let mut builder = kiln_shape_inference::GraphBuilder::new("f");
    let rows = builder.symbol("B").unwrap();
    let four = builder.size(4);
    let x = builder.input("x", DType::F32, &[rows, four]);
    // Large enough to be omitted from the graph's text.
    let weight = builder.constant(ramp(&[4, 24])).unwrap();
    let y = builder.matmul(x, weight).unwrap();
    builder.finish(&[("y", y)]).unwrap()
}

fn runtime(tiers: Vec<Arc<dyn Tier>>) -> Arc<Runtime> {
    let device = Arc::new(FakeDevice::default());
    let compiler = Arc::new(FakeCompiler::default());
    let runtime = Runtime::new(Some(compiler), device, RuntimeOptions::new());
    Arc::new(runtime.with_tiers(tiers))
}

/// The counts of packed, loaded and stored constants.
fn counts(runtime: &Runtime) -> (u64, u64, u64) {
    assert!(runtime.wait_idle(LONG));
    let stats = runtime.stats();
    (
        stats.constants_packed,
        stats.constants_loaded,
        stats.constants_stored,
    )
}

/// A tier with configurable results for packed constants, which stores everything else.
#[derive(Default)]
struct Told {
    kept: CollectingTier,
    answer: Mutex<Option<Miss>>,
    is_final: bool,
    refuses: bool,
}

impl Tier for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        match &*self.answer.lock().unwrap() {
            Some(miss) if key.kind() == EntryKind::PACKED => Err(miss.clone()),
            _ => self.kept.get(key),
        }
    }

    fn put(
        &self,
        key: &CacheKey,
        time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        match self.refuses && key.kind() == EntryKind::PACKED {
            true => Err(NotStored::TooLarge { bytes: 2, limit: 1 }),
            false => self.kept.put(key, time, content),
        }
    }

    fn remove(&self, key: &CacheKey) {
        self.kept.remove(key);
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.kept.contains(key)
    }

    fn damage(&self, _: &CacheKey, miss: &Miss) -> Option<CacheError> {
        (self.is_final && *miss != Miss::Absent).then(|| CacheError::Bundle {
            path: "x".into(),
            part: "an entry".to_owned(),
            problem: miss.to_string(),
        })
    }
}

#[test]
fn a_second_process_reuses_packed_constants() {
    let (graph, store) = (graph(), Arc::new(CollectingTier::new()));
    let first = runtime(vec![Arc::clone(&store) as Arc<dyn Tier>]);
    expect_same(&compiled(&first, &graph, true), &graph, &[ramp(&[3, 4])]);
    assert_eq!(counts(&first), (1, 0, 1));
    let is_packed = |key: &CacheKey| key.kind() == EntryKind::PACKED;
    let entries = store.entries();
    let packed: Vec<_> = entries
        .iter()
        .filter(|entry| is_packed(&entry.key))
        .collect();
    assert_eq!((packed.len(), packed[0].content.len()), (1, 4 * 24 * 4));
    let fields = packed[0]
        .key
        .fields()
        .iter()
        .map(|field| field.name.as_str());
    let fields: Vec<&str> = fields.collect();
    assert_eq!(fields, ["constant", "part", "layout", "device", "kiln"]);
    let second = runtime(vec![Arc::clone(&store) as Arc<dyn Tier>]);
    let program = compiled(&second, &graph, true);
    for rows in [2, 7] {
        expect_same(&program, &graph, &[ramp(&[rows, 4])]);
    }
    assert_eq!(counts(&second), (0, 1, 0));
    assert_eq!(second.stats().compilations, 0);
    // An entry found in a slower store is copied into the faster ones.
    let faster = Arc::new(CollectingTier::new());
    let third = runtime(vec![
        Arc::clone(&faster) as Arc<dyn Tier>,
        Arc::clone(&store) as Arc<dyn Tier>,
    ]);
    expect_same(&compiled(&third, &graph, true), &graph, &[ramp(&[3, 4])]);
    assert_eq!(counts(&third), (0, 1, 1));
    assert_eq!(faster.entries().len(), store.entries().len());
    let report = second.stats().to_report();
    assert!(
        report.contains("constants packed            1 more loaded from stores"),
        "{report}"
    );
}

#[test]
fn constants_can_be_packed_before_any_call() {
    let (graph, store) = (graph(), Arc::new(CollectingTier::new()));
    let first = runtime(vec![Arc::clone(&store) as Arc<dyn Tier>]);
    let program = compiled(&first, &graph, true);
    program.compile_all().unwrap();
    program.place_constants();
    assert_eq!(counts(&first), (1, 0, 1));
    expect_same(&program, &graph, &[ramp(&[3, 4])]);
    assert_eq!(counts(&first), (1, 0, 1));
}

#[test]
fn a_damaged_weight_store_is_packed_again() {
    let graph = graph();
    for miss in [
        Miss::Digest { part: "content" },
        Miss::Unavailable {
            message: "no network".to_owned(),
        },
    ] {
        let store = Arc::new(Told::default());
        *store.answer.lock().unwrap() = Some(miss);
        let runtime = runtime(vec![store]);
        expect_same(&compiled(&runtime, &graph, true), &graph, &[ramp(&[3, 4])]);
        assert_eq!(counts(&runtime), (1, 0, 1));
    }
    let store = Arc::new(Told {
        refuses: true,
        ..Told::default()
    });
    let runtime = runtime(vec![store]);
    expect_same(&compiled(&runtime, &graph, true), &graph, &[ramp(&[3, 4])]);
    assert_eq!(counts(&runtime), (1, 0, 0));
    let stats = runtime.stats();
    assert_eq!(stats.constants_not_stored, 1);
    assert!(stats.to_report().contains("entries not stored"));
}

#[test]
fn a_final_store_error_fails_calls_until_it_is_repaired() {
    let graph = graph();
    let store = Arc::new(Told {
        is_final: true,
        ..Told::default()
    });
    *store.answer.lock().unwrap() = Some(Miss::Digest { part: "content" });
    let runtime = runtime(vec![Arc::clone(&store) as Arc<dyn Tier>]);
    let program = compiled(&runtime, &graph, true);
    let error = error_of(&program, &[ramp(&[3, 4])]);
    assert_eq!(error.code(), "E0707", "{error}");
    assert!(
        error
            .to_string()
            .contains("the digest of its content does not match"),
        "{error}"
    );
    assert_eq!(counts(&runtime), (0, 0, 0));
    *store.answer.lock().unwrap() = Some(Miss::Absent);
    expect_same(&program, &graph, &[ramp(&[3, 4])]);
    assert_eq!(counts(&runtime), (1, 0, 1));
}

#[test]
fn elements_that_cannot_be_loaded_are_an_error_of_the_call() {
    let mut builder = kiln_shape_inference::GraphBuilder::new("f");
    let (one, four) = (builder.size(1), builder.size(4));
    let x = builder.input("x", DType::F32, &[one, four]);
    let gone = Tensor::deferred(DType::F32, &[4, 24], || {
        Err(TensorError::Deferred("the file is gone".into()))
    });
    let digest = kiln_ir::Digest::of_text("weights");
    let gone = kiln_ir::Constant::of_known_digest(gone.unwrap(), digest).unwrap();
    let weight = builder.op1(kiln_ir::Op::Constant(gone), &[]).unwrap();
    let y = builder.matmul(x, weight).unwrap();
    let graph = builder.finish(&[("y", y)]).unwrap();
    let program = compiled(&runtime(Vec::new()), &graph, true);
    let error = error_of(&program, &[ramp(&[1, 4])]);
    assert_eq!(error.code(), "E0943", "{error}");
}
