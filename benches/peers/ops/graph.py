"""One-operator models: a graph is built by calls, together with its data, and sizes become symbols on request.

    g = Graph("bias add")
    x = g.input("N:8 c:64 H:56 W:56")           # f32 noise
    g.output(g.Add(x, g.input("c:64 1 1")))

An axis is NAME:SIZE or SIZE. Capitalised names are sizes that change from call to call in real networks (batch, length,
height, width), and are symbols in the mode `natural`. In the mode `all`, every axis is a symbol; axes with the same
name share it.
"""
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

OPSET, IR_VERSION = 21, 10
MODES = ("static", "natural", "all")
TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "f64": TensorProto.DOUBLE,
         "i64": TensorProto.INT64, "i32": TensorProto.INT32, "i8": TensorProto.INT8, "u8": TensorProto.UINT8, "bool": TensorProto.BOOL}


def axes(text):
    """Pairs of name (or None) and size."""
    pairs = [part.rpartition(":") for part in text.split()]
    return [(name or None, int(size)) for name, _, size in pairs]


class Graph:
    """A graph under construction, with the values of its inputs."""

    def __init__(self, name, opset=OPSET):
        self.name, self.opset = name, opset
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []
        self.moved = None
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def values(self, shape, dtype, low=None, high=None):
        """Random values: floats are normal, or uniform between bounds; integers are uniform."""
        t = helper.tensor_dtype_to_np_dtype(TYPES[dtype])
        if dtype == "bool":
            return self.random.random(shape) < 0.5
        if dtype in ("f32", "f16", "f64"):
            v = self.random.standard_normal(shape) if low is None else self.random.uniform(low, high, shape)
            return np.asarray(v).astype(t)
        bounds = np.iinfo(t)
        narrow = bounds.max < 1 << 20
        low = (bounds.min if narrow else -1000) if low is None else low
        return np.asarray(self.random.integers(low, (bounds.max if narrow else 1000) if high is None else high, shape)).astype(t)

    def input(self, text, dtype="f32", low=None, high=None, value=None):
        """An input with random values, or a given one."""
        name = f"x{len(self.inputs)}"
        shape = axes(text)
        v = self.values([size for _, size in shape], dtype, low, high) if value is None else np.asarray(value)
        self.inputs[name] = (shape, dtype, v)
        return name

    def const(self, value, dtype=None):
        """A constant with a value."""
        v = np.asarray(value)
        v = v.astype(helper.tensor_dtype_to_np_dtype(TYPES[dtype])) if dtype else v
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(v, name))
        return name

    def weights(self, *shape, dtype="f32"):
        """A constant of random values; floats are scaled to keep products of unit size."""
        v = self.values(shape, dtype)
        fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        return self.const((v / np.sqrt(fan_in)).astype(v.dtype) if dtype in ("f32", "f16", "f64") else v)

    def node(self, kind, operands, outputs=1, domain="", **attributes):
        """A node; returns its output, or a list of several."""
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(operands), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def __getattr__(self, kind):
        """`g.Relu(x)`: a node of this operator; an operand of None is absent."""
        if not kind[0].isupper():
            raise AttributeError(kind)
        return lambda *operands, **attributes: self.node(kind, ["" if o is None else o for o in operands], **attributes)

    def output(self, *names):
        self.outputs += names
        return self

    def model(self, mode):
        """The ONNX model; None if it has no symbols in this mode, and so equals the static one."""
        symbols = 0

        def size(axis):
            nonlocal symbols
            name, n = axis
            if mode == "static" or (mode == "natural" and not (name or "").isupper()):
                return n
            symbols += 1
            return name or f"d{symbols}"

        inputs = [helper.make_tensor_value_info(n, TYPES[t], [size(a) for a in s]) for n, (s, t, _) in self.inputs.items()]
        if mode != "static" and not symbols:
            return None
        graph = helper.make_graph(self.nodes, "g", inputs, [onnx.ValueInfoProto(name=n) for n in self.outputs], self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR_VERSION)
        made = shape_inference.infer_shapes(made, data_prop=True)
        if mode != "static":
            for value in made.graph.output:  # Names invented by shape inference carry no meaning.
                for dim in value.type.tensor_type.shape.dim:
                    dim.Clear()
        del made.graph.value_info[:]
        return made

    def feeds(self):
        """The inputs' values by name."""
        return {name: value for name, (_, _, value) in self.inputs.items()}

    def moves(self, size):
        """Sets the number of bytes read and written, if that is not all of the operands and results."""
        self.moved = size
        return self

    def operations(self):
        """The arithmetic operations of products and convolutions for the data's sizes; 0 for other operators."""
        made = self.model("static")
        typed = shape_inference.infer_shapes(made, data_prop=True).graph
        shape = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*typed.input, *typed.value_info, *typed.output]}
        shape |= {c.name: list(c.dims) for c in typed.initializer}
        return sum(operations(node, shape) for node in typed.node)


def operations(node, shape):
    """The arithmetic operations of one node."""
    size = lambda name: int(np.prod(shape.get(name, [0])))
    kind, operands, result = node.op_type, node.input, node.output[0]
    if kind in ("MatMul", "MatMulInteger"):
        return 2 * size(result) * shape[operands[0]][-1]
    if kind == "QLinearMatMul":
        return 2 * size(result) * shape[operands[0]][-1]
    if kind == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return 2 * size(result) * shape[operands[0]][0 if transposed else 1]
    if kind in ("Conv", "ConvInteger"):
        return 2 * size(result) * int(np.prod(shape[operands[1]][1:]))
    if kind == "QLinearConv":
        return 2 * size(result) * int(np.prod(shape[operands[3]][1:]))
    if kind == "ConvTranspose":
        return 2 * size(operands[0]) * int(np.prod(shape[operands[1]][1:]))
    if kind in ("LSTM", "GRU", "RNN"):
        steps, batch = shape[operands[0]][:2]
        return 2 * steps * batch * (size(operands[1]) + size(operands[2]))
    return 0
