//! Scalar functions for Kiln: primitive operations, expressions, named functions, derivatives.
