"""Networks with the structure of ResNet-18 and MobileNetV2 and random weights, to measure int8 versions of."""
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Nodes, and random weights scaled so that activations neither vanish nor explode."""

    def __init__(self, seed):
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}_{op}", **attributes))
        return name

    def conv(self, x, channels, outputs, size=1, stride=1, groups=1):
        """A convolution `[outputs, channels / groups, size, size]` with bias, padded by half the kernel size."""
        fan = channels // groups * size * size
        w = self.constant(self.rng.standard_normal((outputs, channels // groups, size, size)) * (2 / fan) ** 0.5)
        b = self.constant(self.rng.standard_normal(outputs) * 0.1)
        return self.node("Conv", x, w, b, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4, group=groups)

    def model(self, result, outputs):
        takes = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])
        gives = helper.make_tensor_value_info(result, TensorProto.FLOAT, ["N", outputs])
        graph = helper.make_graph(self.nodes, "network", [takes], [gives], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def classifier(self, x, channels, classes):
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        w = self.constant(self.rng.standard_normal((channels, classes)) / channels**0.5)
        return self.node("Gemm", x, w, self.constant(np.zeros(classes)))


def resnet18():
    b = Builder(1)
    x = b.node("Relu", b.conv("x", 3, 64, 7, 2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for outputs, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        y = b.conv(b.node("Relu", b.conv(x, channels, outputs, 3, stride)), outputs, outputs, 3)
        if stride != 1:
            x = b.conv(x, channels, outputs, 1, stride)
        x, channels = b.node("Relu", b.node("Add", x, y)), outputs
    return b.model(b.classifier(x, channels, 1000), 1000)


def mobilenet_v2():
    b = Builder(2)
    low, high = b.constant(0.0), b.constant(6.0)
    relu6 = lambda x: b.node("Clip", x, low, high)
    x, channels = relu6(b.conv("x", 3, 32, 3, 2)), 32
    for expand, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            inner, step = channels * expand, stride if i == 0 else 1
            y = relu6(b.conv(x, channels, inner)) if expand > 1 else x
            y = b.conv(relu6(b.conv(y, inner, inner, 3, step, inner)), inner, outputs)
            x = b.node("Add", x, y) if step == 1 and channels == outputs else y
            channels = outputs
    x = relu6(b.conv(x, channels, 1280))
    return b.model(b.classifier(x, 1280, 1000), 1000)


SHAPES = {"resnet18": resnet18, "mobilenet_v2": mobilenet_v2}
PICTURES = [(1, 224, 224), (4, 160, 192)]
