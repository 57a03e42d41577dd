//! Graph passes for Kiln: canonicalise, fold, eliminate, simplify, freeze.
