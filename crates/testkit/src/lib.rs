//! Development tools for Kiln: generators, oracles, fault injection.
