"""A graph builder that works like exporters: one node after another, with numbered names and named constants."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
END = 2**63 - 1


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def pick(rng, *choices):
    return choices[int(rng.integers(len(choices)))]


class Graph:
    """Nodes, constants and inputs; `op` adds a node and returns the name of its result, or a list of names.

    A nested graph, for `If`, `Loop` and `Scan`, shares the names and constants of the outer one.
    """

    def __init__(self, rng, opset, outer=None):
        self.rng, self.opset, self.outer = rng, opset, outer
        self.nodes, self.inputs, self.outputs = [], [], []
        self.initializers = outer.initializers if outer else []
        self.steps = []
        self.functions, self.domains = [], {}
        self.count = 0

    def inner(self):
        return Graph(self.rng, self.opset, self)

    def name(self, stem):
        if self.outer:
            return self.outer.name(stem)
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

    def int(self, value):
        return self.const(value, np.int64)

    def float(self, value):
        return self.const(value, np.float32)

    def weight(self, *shape, scale=0.3):
        return self.const(self.rng.standard_normal(shape) * scale, np.float32)

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value, dtype=FLOAT, step=0.0):
        """Adds an output, and returns its index. `step` is the tolerance where a quantised value may round to either
        of two steps: a number, or a pair of a factor and the index of the output that it multiplies."""
        name = self.name("y")
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, None))
        self.steps.append(step)
        return len(self.outputs) - 1

    def size(self, x, axis):
        """One size of `x` as a scalar: `Shape` and `Gather`."""
        return self.op("Gather", self.op("Shape", x), self.int(axis), axis=0)

    def shape_of(self, *sizes):
        """A shape from scalars and numbers: each is unsqueezed, then `Concat`."""
        parts = [self.ints(size) if isinstance(size, int) else self.unsqueeze(size, 0) for size in sizes]
        return self.op("Concat", *parts, axis=0)

    def unsqueeze(self, x, *axes):
        if self.opset < 13:
            return self.op("Unsqueeze", x, axes=list(axes))
        return self.op("Unsqueeze", x, self.ints(*axes))

    def squeeze(self, x, *axes):
        if self.opset < 13:
            return self.op("Squeeze", x, axes=list(axes))
        return self.op("Squeeze", x, self.ints(*axes))

    def reduce(self, op_type, x, *axes, keepdims=1):
        """A reduction; its axes became an input in version 13 for sums, and in 18 for all others."""
        if self.opset < (13 if op_type == "ReduceSum" else 18):
            return self.op(op_type, x, axes=list(axes), keepdims=keepdims)
        return self.op(op_type, x, self.ints(*axes), keepdims=keepdims)

    def slice(self, x, start, end, axis, step=1):
        start, end = (self.ints(v) if isinstance(v, int) else v for v in (start, end))
        return self.op("Slice", x, start, end, self.ints(axis), self.ints(step))

    def split(self, x, axis, *sizes):
        if self.opset < 13:
            return self.op("Split", x, n=len(sizes), axis=axis, split=list(sizes))
        return self.op("Split", x, self.ints(*sizes), n=len(sizes), axis=axis)

    def resize(self, x, sizes="", scales="", **attributes):
        """Before version 13, omitted inputs are empty tensors."""
        empty = self.const([], np.float32) if self.opset < 13 else ""
        return self.op("Resize", x, empty, scales or empty, *[sizes] * bool(sizes), **attributes)

    def range(self, end, start=None):
        return self.op("Range", start or self.int(0), end, self.int(1))

    def cast(self, x, to):
        return self.op("Cast", x, to=to)

    def linear(self, x, n_in, n_out):
        return self.op("Add", self.op("MatMul", x, self.weight(n_in, n_out)), self.weight(n_out))

    def layer_norm(self, x, channels):
        """Layer normalisation as exporters wrote it before there was an op for it."""
        centred = self.op("Sub", x, self.reduce("ReduceMean", x, -1))
        variance = self.reduce("ReduceMean", self.op("Pow", centred, self.float(2.0)), -1)
        scale = self.op("Sqrt", self.op("Add", variance, self.float(1e-5)))
        return self.op("Add", self.op("Mul", self.op("Div", centred, scale), self.weight(channels)), self.weight(channels))

    def expand(self, x, *sizes):
        """torch's `expand`: sizes of -1 are replaced by 1 with `ConstantOfShape`, `Mul`, `Equal` and `Where`."""
        shape = self.shape_of(*sizes)
        ones = self.op("ConstantOfShape", self.op("Shape", shape), value=helper.make_tensor("v", INT64, [1], [1]))
        kept = self.op("Equal", shape, self.op("Mul", ones, self.int(-1)))
        return self.op("Expand", x, self.op("Where", kept, ones, shape))

    def body(self, name, inputs, outputs):
        """This graph as a subgraph; `inputs` and `outputs` are pairs of a name and a dtype or a declared type."""
        def info(pair):
            declared = pair[1] if isinstance(pair[1], tuple) else (pair[1], None)
            return helper.make_tensor_value_info(pair[0], *declared)
        return helper.make_graph(self.nodes, name, [info(p) for p in inputs], [info(p) for p in outputs])

    def model(self):
        graph = helper.make_graph(self.nodes, "exported", self.inputs, self.outputs, self.initializers)
        domains = {"": self.opset, "ai.onnx.ml": 3, "com.microsoft": 1, **self.domains}
        opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8 if self.opset < 19 else 10,
                                 producer_name="generated", functions=self.functions)
