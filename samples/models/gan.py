"""DCGAN (Radford et al., 2015) as PyTorch's example names it: two networks, two steps, one graph.

`d_turn` says whose turn it is. In the discriminator's turn its loss reads real images and a detached fake;
in the generator's turn the fake goes through the discriminator with its gradients on, but the discriminator
is not trained. The metadata tells ddpc about the two steps; without it each network is conditional on
`d_turn`.
"""
from .text import Graph, model


class Network:
    """A network that may be applied several times, with the same parameters each time."""

    def __init__(self, g, name):
        self.g, self.name, self.known = g, name, {}

    def tensor(self, kind, name, *shape):
        """kind: the graph's `param` or `buffer`, used at the first application."""
        if name not in self.known:
            self.known[name] = kind(f"{self.name}.{name}", *shape)
        return self.known[name]

    def norm(self, g, x, module, out):
        channels = x.shape[1]
        state = [self.tensor(self.g.param, f"{module}.{part}", channels) for part in ("weight", "bias")]
        state += [self.tensor(self.g.buffer, f"{module}.{part}", channels) for part in ("running_mean", "running_var")]
        more = (out + "_mean", out + "_var")
        return g.node("BatchNormalization", [x, *state], out, x.shape, more=more, training_mode=1, momentum=0.9)


def generate(net, g, noise, features, out):
    """[batch, noise, 1, 1] -> [batch, 3, 64, 64]"""
    x, batch = noise, noise.shape[0]
    channels, module = [features * 8, features * 4, features * 2, features, 3], 0
    for i, width in enumerate(channels):
        size, stride, pad = (4, 1, 0) if i == 0 else (x.shape[2] * 2, 2, 1)
        weight = net.tensor(net.g.param, f"main.{module}.weight", x.shape[1], width, 4, 4)
        attributes = dict(kernel_shape=[4, 4], strides=[stride] * 2, pads=[pad] * 4)
        x = g.node("ConvTranspose", [x, weight], f"{out}_conv{i}", (batch, width, size, size), **attributes)
        if i == len(channels) - 1:
            return g.unary("Tanh", x, out)
        x = net.norm(g, x, f"main.{module + 1}", f"{out}_norm{i}")
        x = g.unary("Relu", x, f"{out}_relu{i}")
        module += 3


def discriminate(net, g, images, features, out):
    """[batch, 3, 64, 64] -> logits [batch]"""
    x, batch = images, images.shape[0]
    channels, module = [features, features * 2, features * 4, features * 8, 1], 0
    for i, width in enumerate(channels):
        last = i == len(channels) - 1
        size, stride, pad = (1, 1, 0) if last else (x.shape[2] // 2, 2, 1)
        weight = net.tensor(net.g.param, f"main.{module}.weight", width, x.shape[1], 4, 4)
        attributes = dict(kernel_shape=[4, 4], strides=[stride] * 2, pads=[pad] * 4)
        x = g.node("Conv", [x, weight], f"{out}_conv{i}", (batch, width, size, size), **attributes)
        if last:
            return g.reshape(x, [-1], out, (batch,))
        if i > 0:
            x = net.norm(g, x, f"main.{module + 1}", f"{out}_norm{i}")
        x = g.unary("LeakyRelu", x, f"{out}_relu{i}", alpha=0.2)
        module += 2 if i == 0 else 3


def logistic(g, logits, sign, out):
    """The mean of softplus(sign * logits): binary cross-entropy against all ones (-1) or all zeros (+1)."""
    x = g.unary("Neg", logits, out + "_neg") if sign < 0 else logits
    x = g.unary("Softplus", x, out + "_soft")
    return g.node("ReduceMean", [x], out, (), keepdims=0)


def build(batch=128, noise=100, features=64):
    g = Graph("dcgan")
    z = g.input("noise", "float", batch, noise, 1, 1)
    real = g.input("real", "float", batch, 3, 64, 64)
    turn = g.input("d_turn", "bool")
    net_g, net_d = Network(g, "netG"), Network(g, "netD")
    fake = generate(net_g, g, z, features, "fake")

    train_d = g.subgraph("discriminator_turn")
    fixed = train_d.unary("ddpc.StopGradient", fake, "detached")
    on_real = logistic(train_d, discriminate(net_d, train_d, real, features, "on_real"), -1, "loss_real")
    on_fake = logistic(train_d, discriminate(net_d, train_d, fixed, features, "on_fake"), +1, "loss_fake")
    train_d.output(train_d.add(on_real, on_fake, "loss_d"))

    train_g = g.subgraph("generator_turn")
    train_g.output(logistic(train_g, discriminate(net_d, train_g, fake, features, "judged"), -1, "loss_g"))

    g.output(g.node("If", [turn], "loss", (), then_branch=train_d, else_branch=train_g))
    steps = [
        ("ddpc.step.d", "loss=loss trainable=netD.* assume=d_turn"),
        ("ddpc.step.g", "loss=loss trainable=netG.* assume=!d_turn"),
    ]
    return model(g, "DCGAN: the discriminator's and the generator's step over one graph", steps, domains=("ddpc",))
