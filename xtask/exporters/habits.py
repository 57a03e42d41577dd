"""Quirks of model writers: different node orders, declarations and constants with the same meaning."""

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from build import pick


def constants_as_nodes(rng, model):
    """Small constants as leading `Constant` nodes, as torch's first exporter writes them."""
    graph = model.graph
    kept = []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.size <= 8 and rng.integers(2):
            graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
        else:
            kept.append(tensor)
    del graph.initializer[:]
    graph.initializer.extend(kept)


def constants_as_inputs(rng, model):
    """Constants that are also listed as inputs, with their types, as required before IR version 4."""
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def out_of_order(rng, model):
    """Nodes in any order, as some optimisers leave them."""
    nodes = list(model.graph.node)
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def stale_sizes(rng, model):
    """Intermediate shapes declared before the model was changed, so that some are wrong."""
    inferred = shape_inference.infer_shapes(model)
    for info in inferred.graph.value_info:
        if rng.integers(3) or not info.type.HasField("tensor_type"):
            continue
        shape = info.type.tensor_type.shape
        for dim in shape.dim:
            if rng.integers(2):
                dim.Clear()
                dim.dim_value = int(rng.integers(1, 100))
        model.graph.value_info.append(info)


def stale_outputs(rng, model):
    """Outputs declared with fixed sizes from the example that the model was exported with."""
    inferred = shape_inference.infer_shapes(model)
    for output, known in zip(model.graph.output, inferred.graph.output):
        kind = known.type.tensor_type
        if kind.HasField("shape") and kind.shape.dim and rng.integers(2):
            output.type.CopyFrom(known.type)
            for dim in output.type.tensor_type.shape.dim:
                if not dim.HasField("dim_value"):
                    dim.dim_value = int(rng.integers(1, 100))


def metadata(rng, model):
    """Metadata of the model, and unused weights."""
    helper.set_model_props(model, {"author": "generated", "classes": "{0: 'a', 1: 'b'}"})
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((2, 2), np.float32), "unused"))
    model.graph.doc_string = "unchanged"


HABITS = [constants_as_nodes, constants_as_inputs, out_of_order, stale_sizes, stale_outputs, metadata]


def apply(rng, model):
    """Applies a random habit to the model, or none; returns the names of those applied."""
    if rng.integers(2):
        return []
    habit = pick(rng, *HABITS)
    habit(rng, model)
    return [habit.__name__]
