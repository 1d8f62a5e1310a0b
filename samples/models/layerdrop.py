"""wav2vec 2.0 (Baevski et al., 2020) as Hugging Face names it, trained with LayerDrop (Fan et al., 2019).

Each layer is skipped at random, and each rank draws for itself. A skipped layer's parameters get no gradient
in that step: 16 parameters per layer are conditional on one boolean. The text starts at the convolutional
features, as when the feature encoder is frozen.
"""
from .text import Graph, model


def pair(g, name, *shape):
    """A module's weight and bias."""
    return g.param(f"{name}.weight", *shape), g.param(f"{name}.bias", shape[0])


def layer(g, outer, x, name, heads, inner, out):
    """A post-norm transformer layer in graph g; its parameters are the outer graph's."""
    width = x.shape[-1]
    dense = lambda x, module, features, value: g.linear(x, *pair(outer, f"{name}.{module}", features, x.shape[-1]), value)
    k, v, q = (dense(x, f"attention.{part}_proj", width, f"{out}_{part}") for part in "kvq")
    y = dense(g.attention(q, k, v, heads, out + "_attn", 0.1), "attention.out_proj", width, out + "_out")
    y = g.add(g.dropout(y, 0.1, out + "_out_drop"), x, out + "_mid_sum")
    x = g.layer_norm(y, *pair(outer, f"{name}.layer_norm", width), out + "_mid")
    y = g.unary("Gelu", dense(x, "feed_forward.intermediate_dense", inner, out + "_inter"), out + "_gelu")
    y = g.dropout(dense(y, "feed_forward.output_dense", width, out + "_ff"), 0.1, out + "_ff_drop")
    return g.layer_norm(g.add(y, x, out + "_sum"), *pair(outer, f"{name}.final_layer_norm", width), out + "_run")


def positions(g, x, name, groups, kernel):
    """A grouped convolution over time with weight normalization along the kernel, its last element cut off."""
    batch, length, width = x.shape
    bias = g.param(f"{name}.bias", width)
    size = g.param(f"{name}.parametrizations.weight.original0", 1, 1, kernel)
    direction = g.param(f"{name}.parametrizations.weight.original1", width, width // groups, kernel)
    norm = g.node("ReduceL2", [direction, g.constant("int64", [0, 1])], "pos_norm", size.shape, keepdims=1)
    weight = g.mul(g.node("Div", [direction, norm], "pos_unit", direction.shape), size, "pos_weight")
    attributes = dict(kernel_shape=[kernel], pads=[kernel // 2] * 2, group=groups)
    y = g.transpose(x, (0, 2, 1), "pos_in")
    y = g.node("Conv", [y, weight, bias], "pos_conv", (batch, width, length + 1), **attributes)
    zero, end, axis = (g.constant("int64", [n]) for n in (0, -1, 2))
    y = g.node("Slice", [y, zero, end, axis], "pos_cut", (batch, width, length))
    return g.transpose(g.unary("Gelu", y, "pos_gelu"), (0, 2, 1), "positions")


def build(layers=12, hidden=768, heads=12, inner=3072, labels=35, batch=16, length=49, layerdrop=0.1):
    g = Graph("wav2vec2")
    features = g.input("features", "float", batch, length, 512)
    masked = g.input("mask_time_indices", "bool", batch, length, 1)
    wanted = g.input("labels", "int64", batch)
    root = "wav2vec2"
    embedding = g.param(f"{root}.masked_spec_embed", hidden)
    x = g.layer_norm(features, *pair(g, f"{root}.feature_projection.layer_norm", 512), "features_norm")
    x = g.linear(x, *pair(g, f"{root}.feature_projection.projection", hidden, 512), "projected")
    x = g.node("Where", [masked, embedding, x], "masked", x.shape)
    x = g.add(x, positions(g, x, f"{root}.encoder.pos_conv_embed.conv", 16, 128), "with_positions")
    x = g.layer_norm(x, *pair(g, f"{root}.encoder.layer_norm", hidden), "encoder_norm")
    for i in range(layers):
        out = f"layer{i}"
        draw = g.node("RandomUniform", [], out + "_draw", (1,), shape=[1], high=1.0, low=0.0)
        run_it = g.node("GreaterOrEqual", [draw, g.constant("float", layerdrop)], out + "_runs", (1,), "bool")
        run, skip = g.subgraph("run"), g.subgraph("skip")
        run.output(layer(run, g, x, f"{root}.encoder.layers.{i}", heads, inner, out))
        skip.output(skip.unary("Identity", x, out + "_skipped"))
        x = g.node("If", [run_it], out, x.shape, then_branch=run, else_branch=skip)
    x = g.linear(x, *pair(g, "projector", 256, hidden), "projector")
    x = g.node("ReduceMean", [x, g.constant("int64", [1])], "pooled", (batch, 256), keepdims=0)
    logits = g.linear(x, *pair(g, "classifier", labels, 256), "logits")
    g.output(g.cross_entropy(logits, wanted, "loss"))
    return model(g, f"wav2vec 2.0 for classification, {layers} layers, each skipped with probability {layerdrop} (LayerDrop)")
