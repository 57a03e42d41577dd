//! From a kernel to functions of a module: the loops, what is computed in them, and what is loaded and stored.
//!
//! One nest serves every schedule. It runs over the outer points of a kernel as a [`Tile`](kiln_schedule_cpu::Tile) says:
//! some points of one outer axis at once (*rows*, sharing what does not depend on them), and vectors along one axis, outer
//! or inner. Without rows and vectors it is plain loops, which compile any verified kernel.
//!
//! - `launch`: the numbers that the code is given, and the sites that can fault.
//! - `context`: the kernel, the function being written and its parameters.
//! - `scope`: where in the nest we are; `expression`, `load`, `access`: values and memory there.
//! - `copy`: operands that are laid out anew before.
//! - `stage`, `reduce`, `carry`, `store`: the items of a kernel. `nest`: the loops over outer points.

mod access;
mod carry;
mod context;
mod copy;
mod dots;
mod edges;
mod expression;
mod finish;
mod hoist;
mod identity;
mod interior;
mod interleave;
mod item;
mod launch;
mod load;
mod loops;
mod nest;
mod packed;
mod padding;
mod parts;
mod prefetch;
mod reduce;
mod scope;
mod share;
mod slide;
mod square;
mod stream;
mod vectors;
mod winograd;

pub(crate) use launch::LaunchBuilder;
pub(crate) use nest::emit_nest;
