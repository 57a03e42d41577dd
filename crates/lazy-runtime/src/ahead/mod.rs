//! Work ahead of calls: profiles of shapes, generation of shapes, and compiling for them.

mod generate;
mod memory;
mod precompile;
mod shape_profile;

pub use generate::ShapeVariantGenerator;
pub use memory::{CallMemory, LiveValue};
pub use shape_profile::{ProfileError, ProfiledShapes, ShapeProfile};
