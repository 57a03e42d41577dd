//! A store written in safe Rust can return any bytes under any key. They are never run as code.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use kiln_kernel_cache::{
    CacheKey, CollectingTier, Content, Miss, NotStored, Payload, Stored, StoredEntry, Tier,
};
use kiln_lazy_runtime::{Runtime, RuntimeOptions};
use support::{FakeCompiler, FakeDevice, compiled, expect_same, ramp};

/// Stores its entries, and returns equal bytes that it created itself.
#[derive(Default)]
struct Forger(CollectingTier);

impl Tier for Forger {
    fn name(&self) -> &str {
        "forger"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        let entry = self.0.get(key)?;
        Ok(StoredEntry {
            payload: Payload::data(entry.payload.to_vec()),
            ..entry
        })
    }

    fn put(
        &self,
        key: &CacheKey,
        time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        self.0.put(key, time, content)
    }

    fn remove(&self, key: &CacheKey) {
        self.0.remove(key);
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.0.contains(key)
    }
}

#[test]
fn untrusted_code_from_a_store_is_compiled_again() {
    let graph = kiln_shape_inference::read_graph(
        "graph @f(%x: f32[N]) -> f32[N] {\n  %y: f32[N] = exp %x\n  return %y\n}",
        &kiln_ir::BlobMap::new(),
    )
    .unwrap();
    let compiles_on = |tier: Arc<dyn Tier>| {
        let device = Arc::new(FakeDevice::default());
        let compiler = Arc::new(FakeCompiler::default());
        let runtime = Runtime::new(Some(compiler), device, RuntimeOptions::new());
        let runtime = Arc::new(runtime.with_tiers(vec![tier]));
        expect_same(&compiled(&runtime, &graph, true), &graph, &[ramp(&[5])]);
        assert!(runtime.wait_idle(Duration::from_secs(120)));
        runtime.stats().compilations
    };
    let honest: Arc<dyn Tier> = Arc::new(CollectingTier::new());
    assert_eq!(compiles_on(Arc::clone(&honest)), 1);
    assert_eq!(compiles_on(honest), 0);
    let forger: Arc<dyn Tier> = Arc::new(Forger::default());
    assert_eq!(compiles_on(Arc::clone(&forger)), 1);
    assert_eq!(compiles_on(forger), 1);
}
