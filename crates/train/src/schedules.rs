//! Learning rates that change from step to step, for [`Trainer::step_at`](crate::Trainer::step_at).

use std::f64::consts::PI;

/// Linear warm-up from 0 to `rate` in the first `warmup` steps, then cosine decay to 0 at step `total` (Loshchilov and
/// Hutter, 2017).
pub fn cosine(rate: f64, step: u64, warmup: u64, total: u64) -> f64 {
    if step < warmup {
        return rate * (step + 1) as f64 / warmup as f64;
    }
    let length = total.saturating_sub(warmup).max(1) as f64;
    let part = ((step - warmup) as f64 / length).min(1.0);
    rate * 0.5 * (1.0 + (PI * part).cos())
}

/// Step decay: `rate` is multiplied by `factor` after every `every` steps.
pub fn decay(rate: f64, step: u64, every: u64, factor: f64) -> f64 {
    let times = step / every.max(1);
    rate * factor.powf(times as f64)
}
