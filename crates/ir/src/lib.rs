//! Kiln's graph: typed SSA over symbolic shapes, its text form, verifier and drawings.
