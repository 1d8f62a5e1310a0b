"""ResNet (He et al., 2015) with the parameters of torchvision, in torchvision's order.

The batch normalizations run in training mode: their running statistics are inputs that no gradient reaches
(buffers), and outputs that nobody reads.
"""
from .text import Graph, model

#        blocks per stage, bottleneck
DEPTHS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}


def conv_bn(g, x, conv, bn, channels, kernel=1, stride=1, relu=True):
    """conv, bn: the names of the two modules."""
    out = conv.replace(".", "_")
    batch, inputs, height, width = x.shape
    weight = g.param(conv + ".weight", channels, inputs, kernel, kernel)
    shape = (batch, channels, height // stride, width // stride)
    attributes = dict(kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
    x = g.node("Conv", [x, g.cast(weight)], out, shape, **attributes)
    state = [g.param(bn + ".weight", channels), g.param(bn + ".bias", channels)]
    state += [g.buffer(bn + ".running_mean", channels), g.buffer(bn + ".running_var", channels)]
    out = bn.replace(".", "_")
    more = (out + "_mean", out + "_var")
    x = g.node("BatchNormalization", [x, *state], out, shape, more=more, training_mode=1, momentum=0.9)
    return g.unary("Relu", x, out + "_relu") if relu else x


def block(g, x, name, width, stride, bottleneck):
    out = name.replace(".", "_")
    if bottleneck:
        channels = 4 * width
        y = conv_bn(g, x, name + ".conv1", name + ".bn1", width)
        y = conv_bn(g, y, name + ".conv2", name + ".bn2", width, 3, stride)
        y = conv_bn(g, y, name + ".conv3", name + ".bn3", channels, relu=False)
    else:
        channels = width
        y = conv_bn(g, x, name + ".conv1", name + ".bn1", width, 3, stride)
        y = conv_bn(g, y, name + ".conv2", name + ".bn2", width, 3, relu=False)
    if stride != 1 or x.shape[1] != channels:
        shortcut = name + ".downsample"
        x = conv_bn(g, x, shortcut + ".0", shortcut + ".1", channels, 1, stride, relu=False)
    return g.unary("Relu", g.add(y, x, out + "_sum"), out)


def build(depth=50, batch=128, classes=1000, size=224, precision="float"):
    blocks, bottleneck = DEPTHS[depth]
    g = Graph(f"resnet{depth}", precision=precision)
    images = g.cast(g.input("images", "float", batch, 3, size, size))
    labels = g.input("labels", "int64", batch)
    x = conv_bn(g, images, "conv1", "bn1", 64, 7, 2)
    shape = (batch, 64, size // 4, size // 4)
    x = g.node("MaxPool", [x], "maxpool", shape, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, count in enumerate(blocks):
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(g, x, f"layer{stage + 1}.{i}", 64 << stage, stride, bottleneck)
    features = x.shape[1]
    x = g.node("GlobalAveragePool", [x], "avgpool", (batch, features, 1, 1))
    x = g.node("Flatten", [x], "flat", (batch, features))
    weight, bias = g.param("fc.weight", classes, features), g.param("fc.bias", classes)
    logits = g.node("Gemm", [x, g.cast(weight), g.cast(bias)], "fc", (batch, classes), transB=1)
    g.output(g.cross_entropy(logits, labels, "loss"))
    return model(g, f"ResNet-{depth} with torchvision's parameters and a classification loss")
