"""A graph under construction, in the way exporters write: one node after the other, names counted, constants named."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes, constants and inputs; `op` adds a node and gives the name of its first result."""

    def __init__(self, rng, opset):
        self.rng, self.opset = rng, opset
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.count = 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def op(self, op_type, *inputs, n=1, domain="", **attributes):
        outputs = [self.name(op_type.lower()) for _ in range(n)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs, domain=domain, **attributes))
        return outputs[0] if n == 1 else outputs

    def const(self, value, dtype=None):
        name = self.name("c")
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def ints(self, *values):
        return self.const(values, np.int64)

    def weight(self, *shape, scale=0.3):
        return self.const(self.rng.standard_normal(shape) * scale, np.float32)

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, dtype=TensorProto.FLOAT):
        name = self.name("y")
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, None))

    def size(self, x, axis):
        """One size of `x` as a scalar: `Shape` and `Gather`."""
        return self.op("Gather", self.op("Shape", x), self.const(axis, np.int64), axis=0)

    def shape_of(self, *sizes):
        """A shape of scalars and numbers: `Unsqueeze` each and `Concat`."""
        parts = [self.ints(size) if isinstance(size, int) else self.unsqueeze(size, 0) for size in sizes]
        return self.op("Concat", *parts, axis=0)

    def unsqueeze(self, x, axis):
        if self.opset < 13:
            return self.op("Unsqueeze", x, axes=[axis])
        return self.op("Unsqueeze", x, self.ints(axis))

    def body(self, name, nodes, inputs, outputs):
        return helper.make_graph(nodes, name, inputs, outputs)

    def model(self):
        graph = helper.make_graph(self.nodes, "exported", self.inputs, self.outputs, self.initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="generated")
        return model
