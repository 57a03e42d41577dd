//! Symbolic dimensions: expressions, facts, a prover, and the lexer that Kiln's text forms share.
