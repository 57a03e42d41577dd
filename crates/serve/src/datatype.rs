//! The protocol's names for element types, and its notation for shapes.

use kiln::internals::symbolic_shape::SymbolicShape;
use kiln::{DType, ValueDescription};

const NAMES: [(DType, &str); 13] = [
    (DType::Bool, "BOOL"),
    (DType::U8, "UINT8"),
    (DType::U16, "UINT16"),
    (DType::U32, "UINT32"),
    (DType::U64, "UINT64"),
    (DType::I8, "INT8"),
    (DType::I16, "INT16"),
    (DType::I32, "INT32"),
    (DType::I64, "INT64"),
    (DType::F16, "FP16"),
    (DType::BF16, "BF16"),
    (DType::F32, "FP32"),
    (DType::F64, "FP64"),
];

/// The protocol's name.
pub(crate) fn name_of(dtype: DType) -> &'static str {
    let known = NAMES.iter().find(|(known, _)| *known == dtype);
    // A type that has no name in the protocol keeps Kiln's name, which no client accepts.
    known.map_or_else(|| dtype.name(), |(_, name)| name)
}

/// The element type of a name; `None` for a type that Kiln does not have, such as `BYTES`.
pub(crate) fn of_name(name: &str) -> Option<DType> {
    let known = NAMES.iter().find(|(_, known)| *known == name);
    known.map(|(dtype, _)| *dtype)
}

/// Every name, for messages.
pub(crate) fn names() -> String {
    NAMES.map(|(_, name)| name).join(", ")
}

/// The sizes of an input or output, -1 for each that differs from call to call; `[-1]` if even the rank does.
pub(crate) fn shape_of(value: &ValueDescription) -> Vec<i64> {
    let sizes = |shape: &SymbolicShape| {
        let dimensions = shape.dimensions().iter();
        dimensions
            .map(|dimension| dimension.value().unwrap_or(-1))
            .collect()
    };
    value.shape().map_or_else(|| vec![-1], sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_a_name_of_its_own() {
        for dtype in DType::ALL {
            assert_eq!(of_name(name_of(dtype)), Some(dtype));
        }
        assert_eq!(of_name("BYTES"), None);
        assert_eq!(of_name("f32"), None);
    }
}
