//! Recording a user's calls into a graph.

#![forbid(unsafe_code)]
