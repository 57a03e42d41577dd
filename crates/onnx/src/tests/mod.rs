//! Tests of reading whole models, grouped by what goes wrong.

mod attributes;
mod build;
mod data_files;
mod hostile;
mod import;
mod messages;
mod models;
mod tensors;
