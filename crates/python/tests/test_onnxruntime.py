"""Scripts written for onnxruntime."""

import numpy as np
import pytest

import kiln
import kiln.onnxruntime as onnxruntime

TEXT = """graph @f(%x: f32[batch, 4]) -> (f32[batch, 4], f32[batch]) {
  %y = relu %x
  %s = reduce %y {function = sum, axes = [1]}
  return "y" = %y, "s" = %s
}"""


def test_a_session_is_described_and_runs():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(TEXT, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("x", "tensor(float)", ["batch", 4])
    assert [output.name for output in session.get_outputs()] == ["y", "s"]
    x = np.array([[-1, 2, -3, 4]], np.float32)
    y, s = session.run(None, {"x": x})
    np.testing.assert_array_equal(y, [[0, 2, 0, 4]])
    np.testing.assert_array_equal(s, [6])
    y += 1
    (only,) = session.run(["s"], {given.name: x})
    np.testing.assert_array_equal(only, [6])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_modelmeta().custom_metadata_map == {}


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="providers"):
        onnxruntime.InferenceSession(TEXT, providers=["AbacusExecutionProvider"])
    session = onnxruntime.InferenceSession(TEXT)
    with pytest.raises(ValueError, match="no output 'z'"):
        session.run(["z"], {"x": np.zeros((1, 4), np.float32)})
    with pytest.raises(kiln.InvalidInputError):
        session.run(None, {"z": np.zeros((1, 4), np.float32)})


def test_symbols_can_be_fixed():
    options = onnxruntime.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 3)
    session = onnxruntime.InferenceSession(TEXT, options)
    assert session.get_inputs()[0].shape == [3, 4]
    assert "CPUExecutionProvider" in onnxruntime.get_available_providers()
    assert onnxruntime.get_device() in ("CPU", "GPU")
