//! ONNX import for Kiln: models in, core graphs with symbolic shapes out.
