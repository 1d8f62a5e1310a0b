"""GPT-2 (Radford et al., 2019) as Hugging Face names it: lm_head is tied to wte.

Every parameter always gets a gradient. Its token table, a third of the small model, has two contributions
and is ready only when the backward pass has reached the embedding: a schedule cannot hide it.
"""
from .text import Graph, model


def conv1d(g, x, name, features, value):
    """Hugging Face's Conv1D: a linear layer whose weight is [in, out]."""
    weight, bias = g.param(f"{name}.weight", x.shape[-1], features), g.param(f"{name}.bias", features)
    return g.add(g.matmul(x, g.cast(weight), value + "_mm"), g.cast(bias), value)


def norm(g, x, name, value):
    return g.layer_norm(x, g.param(f"{name}.weight", x.shape[-1]), g.param(f"{name}.bias", x.shape[-1]), value)


def block(g, x, name, out, heads, mask, dropout, fused):
    width = x.shape[-1]
    y = conv1d(g, norm(g, x, f"{name}.ln_1", out + "_ln1"), f"{name}.attn.c_attn", 3 * width, out + "_qkv")
    q, k, v = out + "_query", out + "_key", out + "_value"
    q = g.node("Split", [y], q, x.shape, more=(k, v), axis=-1, num_outputs=3)
    k, v = q._replace(name=k), q._replace(name=v)
    g.values += [k, v]
    y = out + "_attn"
    y = g.fused_attention(q, k, v, heads, y, True) if fused else g.attention(q, k, v, heads, y, dropout, mask)
    y = conv1d(g, y, f"{name}.attn.c_proj", width, out + "_proj")
    x = g.add(x, g.dropout(y, dropout, out + "_proj_drop"), out + "_mid")
    y = conv1d(g, norm(g, x, f"{name}.ln_2", out + "_ln2"), f"{name}.mlp.c_fc", 4 * width, out + "_fc")
    y = conv1d(g, g.unary("Gelu", y, out + "_gelu", approximate="tanh"), f"{name}.mlp.c_proj", width, out + "_mlp")
    return g.add(x, g.dropout(y, dropout, out + "_mlp_drop"), out)


def causal_mask(g, length):
    square = g.constant("int64", [length, length])
    ones = g.node("ConstantOfShape", [square], "ones", (length, length))
    lower = g.node("Trilu", [ones], "lower", (length, length), upper=0)
    return g.node("Cast", [lower], "causal", (length, length), "bool", to=9)


def build(layers=12, hidden=768, heads=12, vocabulary=50257, positions=1024, batch=8, length=1024, dropout=0.1,
          fused=0, precision="float"):
    g = Graph("gpt2", precision=precision)
    ids = g.input("input_ids", "int64", batch, length)
    labels = g.input("labels", "int64", batch, length)
    wte = g.param("transformer.wte.weight", vocabulary, hidden)
    wpe = g.param("transformer.wpe.weight", positions, hidden)
    places = g.node(
        "Range", [g.constant("int64", n) for n in (0, length, 1)], "position_ids", (length,), "int64"
    )
    x = g.add(
        g.gather(wte, ids, "tokens", (batch, length, hidden)),
        g.gather(wpe, places, "places", (length, hidden)),
        "embedded",
    )
    x = g.dropout(x, dropout, "embeddings")
    mask = None if fused else causal_mask(g, length)
    for i in range(layers):
        x = block(g, x, f"transformer.h.{i}", f"h_{i}", heads, mask, dropout, fused)
    x = norm(g, x, "transformer.ln_f", "ln_f")
    logits = g.linear(x, wte, None, "logits")

    # Position t predicts token t + 1.
    zero, one, end, axis = (g.constant("int64", [n]) for n in (0, 1, length - 1, 1))
    logits = g.node("Slice", [logits, zero, end, axis], "shifted", (batch, length - 1, vocabulary))
    far = g.constant("int64", [length])
    labels = g.node("Slice", [labels, one, far, axis], "next", (batch, length - 1), "int64")
    loss = g.cross_entropy(g.transpose(logits, (0, 2, 1), "shifted_t"), labels, "loss")
    g.output(loss)
    return model(g, f"GPT-2, {layers} layers of {hidden}, with the head tied to the token table")
