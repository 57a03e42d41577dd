//! Development tools for Kiln, shared by tests, fuzz targets and benches.
//!
//! | module | content |
//! |---|---|
//! | [`random`] | random choices derived from bytes: a fuzzer's, or generated from a seed |
//! | [`generate`] | random valid graphs of every core op, and inputs for them |
//! | [`files`] | a cache folder in memory |
//! | [`power_cut`] | the possible states of a disk after a power cut |
//! | [`export`] | graphs as ONNX models, for other implementations to run |
//! | [`oracle`] | whether two results are equal, within the required tolerance |
//! | [`laws`] | laws that every graph obeys: its text, types and hash |
//! | [`kernels`] | random kernels, and compiled kernels compared with the evaluator |
//! | [`reseal`] | recomputed digests of damaged entries and bundles |
//! | [`mutate`] | graphs with injected defects |
//! | [`large`] | long, wide and deep graphs, and a thread with little stack |
//! | [`programs`] | graphs as compiled programs, compared with the interpreter |
//! | [`targets`] | the code of the fuzz targets |
//! | [`book`] | the book's examples |
//! | [`cases`] | test cases as files: programs and what is expected of them |
//!
//! ```
//! use arbitrary::Unstructured;
//! use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
//! use kiln_testkit::{laws, random::seeded_bytes};
//!
//! let bytes = seeded_bytes(7, 4096);
//! let mut choices = Unstructured::new(&bytes);
//! let graph = random_graph(&mut choices, &GraphOptions::default())?;
//! laws::check_graph(&graph)?;
//! if let Some(shapes) = input_shapes(&mut choices, &graph)? {
//!     let inputs = input_tensors(&mut choices, &graph, &shapes, Flavor::Small)?;
//!     assert_eq!(inputs.len(), graph.inputs().len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

pub mod book;
pub mod cases;
pub mod export;
pub mod files;
pub mod generate;
pub mod gradients;
pub mod kernels;
pub mod large;
pub mod laws;
pub mod mutate;
pub mod oracle;
pub mod power_cut;
pub mod programs;
pub mod random;
pub mod reseal;
pub mod targets;
