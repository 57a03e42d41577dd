//! Control flow. The importers, which import bodies, are beside the one for graphs.

use super::support::operator;
use crate::import::{Operator, import_if, import_loop, import_scan};

pub(super) const OPERATORS: &[Operator] = &[
    operator("If", &[1], import_if),
    operator("Loop", &[1], import_loop),
    operator("Scan", &[8, 9], import_scan),
];
