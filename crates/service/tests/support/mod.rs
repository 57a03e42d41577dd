//! A compiler for busy machines, and blueprints that compile quickly.

#![allow(dead_code, reason = "each test program uses some of it")]

use kiln::SealKey;
use kiln_service::blueprint::{Blueprint, BlueprintLimits};
use kiln_service::{BlueprintCompiler, KernelOptimizer, KernelValidator, PerformanceBounds};
use std::sync::Arc;
use std::time::Duration;

/// Uses this many random shapes per check.
pub(crate) fn validator(shapes: usize) -> KernelValidator {
    // On a busy machine, measurements may differ a lot.
    let bounds = PerformanceBounds {
        max_relative_to_plain: 100.0,
        ..PerformanceBounds::default()
    };
    KernelValidator {
        shapes,
        bounds,
        ..KernelValidator::default()
    }
}

/// Measures briefly, on one thread.
pub(crate) fn compiler(validator: KernelValidator) -> BlueprintCompiler {
    let optimizer = KernelOptimizer {
        measuring: Duration::from_millis(2),
        max_threads: Some(1),
    };
    BlueprintCompiler::new(SealKey::of_secret(&[7; 32]))
        .with_optimizer(optimizer)
        .with_validator(validator)
}

/// `x * factor`.
pub(crate) fn scaled(factor: u32) -> Arc<Blueprint> {
    let json = format!(
        r#"{{"blueprint": 1, "name": "scaled",
          "inputs": [{{"name": "x", "dtype": "f32", "shape": ["N"]}}],
          "nodes": [{{"kind": "constant", "results": ["c"], "attributes": {{"value": {{"dtype": "f32", "shape": [], "data": [{factor}]}}}}}},
                    {{"kind": "mul", "operands": ["x", "c"], "results": ["y"]}}],
          "outputs": [{{"name": "y", "value": "y"}}]}}"#
    );
    Arc::new(Blueprint::from_json(&json, &BlueprintLimits::default()).unwrap())
}
