//! Work ahead of calls: profiles of shapes, generation of shapes, and compiling for them.

mod generate;
mod memory;
mod precompile;
mod profile;

pub use generate::ShapeVariantGenerator;
pub use memory::CallMemory;
pub use profile::{ProfileError, ProfiledShapes, ShapeProfile};
