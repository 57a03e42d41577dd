//! Limits of blueprints: documents are untrusted.

/// How large a blueprint may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueprintLimits {
    /// Bytes of the JSON text: 64 MiB.
    pub json_bytes: usize,
    /// Nodes: 20,000.
    pub nodes: usize,
    /// Inputs, outputs and symbols, each: 10,000.
    pub values: usize,
    /// Operands of a node, and elements of a list among its attributes: 4,096.
    pub list: usize,
    /// Bytes of a name: 256.
    pub name_bytes: usize,
    /// Bytes of all constants together, as tensors: 256 MiB.
    pub constant_bytes: usize,
}

impl Default for BlueprintLimits {
    fn default() -> Self {
        Self {
            json_bytes: 64 << 20,
            nodes: 20_000,
            values: 10_000,
            list: 4_096,
            name_bytes: 256,
            constant_bytes: 256 << 20,
        }
    }
}
