//! Shape inference for Kiln: rules per operation, the graph builder, the reader that fills in types.
