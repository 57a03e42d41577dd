//! Extreme declared sizes, for every case of every operator: each size of an input, each integer attribute and each
//! integer constant becomes 0, a power of two beyond memory, the maximum value, or negative. The import succeeds or is
//! rejected with a typed error; it never panics, and never takes memory or time out of proportion to the file.

use prost::Message;
use std::time::{Duration, Instant};

use super::cases::all_models;
use crate::proto::{DimensionValue, ModelProto, TypeValue};
use crate::{ImportOptions, Limits, Model, NoFiles, import};

const EXTREMES: [i64; 9] = [
    0,
    1,
    -1,
    i64::MIN,
    1 << 31,
    1 << 40,
    1 << 62,
    i64::MAX,
    i64::MAX - 1,
];

/// The maximum memory growth in KiB when a node is imported, and the maximum duration.
const MAX_KIB: u64 = 256 << 10;
const MAX_TIME: Duration = Duration::from_secs(20);

/// The peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Every integer of the model that a file's author may set, modified by `change`, which returns whether to continue.
fn visit(model: &mut ModelProto, change: &mut dyn FnMut(&mut i64)) {
    let graph = model.graph.as_mut().unwrap();
    for input in &mut graph.input {
        let Some(TypeValue::Tensor(ty)) = input.r#type.as_mut().and_then(|ty| ty.value.as_mut())
        else {
            continue;
        };
        for dim in ty.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
            if let Some(DimensionValue::Value(size)) = &mut dim.value {
                change(size);
            }
        }
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        match attribute.kind {
            2 => change(&mut attribute.i),
            7 => attribute.ints.iter_mut().for_each(&mut *change),
            _ => {}
        }
    }
    for constant in &mut graph.initializer {
        if constant.data_type != 7 {
            continue;
        }
        let mut bytes = constant.raw_data.to_vec();
        for element in bytes.chunks_exact_mut(8) {
            let mut number = i64::from_le_bytes(<[u8; 8]>::try_from(&*element).unwrap());
            change(&mut number);
            element.copy_from_slice(&number.to_le_bytes());
        }
        constant.raw_data = bytes.into();
    }
}

/// The model with its `at`-th integer replaced; `None` if it has fewer.
fn changed(model: &ModelProto, at: usize, to: i64) -> Option<ModelProto> {
    let (mut model, mut index, mut hit) = (model.clone(), 0, false);
    visit(&mut model, &mut |number| {
        if index == at {
            (*number, hit) = (to, true);
        }
        index += 1;
    });
    hit.then_some(model)
}

#[test]
fn extreme_sizes_in_any_operator_are_imported_or_refused_within_bounds() {
    let (mut tried, mut refused) = (0, 0);
    for (title, model) in all_models() {
        for at in 0.. {
            let Some(first) = changed(&model, at, EXTREMES[0]) else {
                break;
            };
            drop(first);
            for to in EXTREMES {
                let Some(model) = changed(&model, at, to) else {
                    break;
                };
                let (before, start) = (peak(), Instant::now());
                let limits = Limits::default();
                let result = Model::from_bytes_with(&model.encode_to_vec(), &NoFiles, &limits)
                    .and_then(|model| import(&model, &ImportOptions::new()));
                let (took, grown) = (start.elapsed(), peak().saturating_sub(before));
                assert!(took < MAX_TIME, "{title}, integer {at} = {to}: {took:?}");
                assert!(grown < MAX_KIB, "{title}, integer {at} = {to}: {grown} KiB");
                tried += 1;
                if let Err(error) = result {
                    refused += 1;
                    assert!(error.code().starts_with('E'), "{title}: {error}");
                }
            }
        }
    }
    assert!(
        tried > 1000 && refused > 100,
        "{tried} tried, {refused} refused"
    );
}
