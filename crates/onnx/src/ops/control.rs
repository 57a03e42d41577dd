//! Control flow. The importers, which import bodies, are in `import`.

use super::support::operator;
use crate::import::{Operator, Takes, import_if, import_loop, import_scan, import_sequence_map};

pub(super) const OPERATORS: &[Operator] = &[
    operator("If", &[1], import_if),
    operator("Loop", &[1], import_loop).taking(Takes::Items),
    operator("Scan", &[8, 9], import_scan),
    operator("SequenceMap", &[17], import_sequence_map).taking(Takes::Items),
];
