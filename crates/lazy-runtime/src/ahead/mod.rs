//! Ahead of calls: which shapes came and what they cost, which may come, and compiling for them.

mod generate;
mod memory;
mod precompile;
mod profile;

pub use generate::ShapeVariantGenerator;
pub use memory::CallMemory;
pub use profile::{ProfileError, ProfiledShapes, ShapeProfile};
