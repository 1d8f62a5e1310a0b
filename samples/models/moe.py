"""A mixture of experts with Mixtral's names (Jiang et al., 2024), small: an expert runs only if a token of the
batch was routed to it, so each expert's parameters are conditional on a boolean of their own.

Ranks see different tokens, so they disagree about which experts ran. The router itself always trains: the
load-balancing loss reads its probabilities. Rotary position embeddings, which have no parameters, are left
out.
"""
from .text import Graph, model


def rms_norm(g, x, name, out):
    weight = g.param(f"{name}.weight", x.shape[-1])
    column = (*x.shape[:-1], 1)
    square = g.mul(x, x, out + "_sq")
    mean = g.node("ReduceMean", [square, g.constant("int64", [-1])], out + "_ms", column, keepdims=1)
    root = g.unary("Sqrt", g.add(mean, g.constant("float", 1e-05), out + "_eps"), out + "_rms")
    return g.mul(g.node("Div", [x, root], out + "_n", x.shape), weight, out)


def attention(g, x, name, heads, mask, out):
    width = x.shape[-1]
    q, k, v = (g.linear(x, g.param(f"{name}.{p}_proj.weight", width, width), None, f"{out}_{p}") for p in "qkv")
    y = g.attention(q, k, v, heads, out + "_attn", mask=mask)
    return g.linear(y, g.param(f"{name}.o_proj.weight", width, width), None, out + "_o")


def expert(g, outer, x, scale, name, inner, out):
    """SwiGLU, weighted by the router: w2(silu(w1 x) * w3 x) * scale. Its parameters are the outer graph's."""
    width = x.shape[-1]
    w1 = outer.param(f"{name}.w1.weight", inner, width)
    w2 = outer.param(f"{name}.w2.weight", width, inner)
    w3 = outer.param(f"{name}.w3.weight", inner, width)
    gate = g.linear(x, w1, None, out + "_w1")
    gate = g.mul(gate, g.unary("Sigmoid", gate, out + "_sig"), out + "_silu")
    y = g.linear(g.mul(gate, g.linear(x, w3, None, out + "_w3"), out + "_gated"), w2, None, out + "_w2")
    return g.mul(y, scale, out)


def mixture(g, x, name, experts, inner, out):
    """-> (output, load-balancing loss). The best expert of each token runs on the whole batch, masked."""
    batch, length, width = x.shape
    one, shape = g.constant("int64", [1]), g.node("Shape", [x], out + "_shape", (3,), "int64")
    logits = g.linear(x, g.param(f"{name}.gate.weight", experts, width), None, out + "_gate")
    probabilities = g.unary("Softmax", logits, out + "_prob", axis=-1)
    best = out + "_expert"
    top = g.node("TopK", [probabilities, one], out + "_top", (batch, length, 1), more=(best,), axis=-1)
    best = top._replace(name=best, dtype="int64")
    g.values.append(best)
    total = None
    shares = []
    for i in range(experts):
        e = f"{out}_expert{i}"
        chosen = g.node("Equal", [best, g.constant("int64", i)], e + "_chosen", best.shape, "bool")
        weight = g.node("Cast", [chosen], e + "_weight", best.shape, to=1)
        count = g.node("ReduceSum", [weight], e + "_tokens", (), keepdims=0)
        shares.append(g.reshape(count, [1], e + "_share", (1,)))
        has = g.node("Greater", [count, g.constant("float", 0.0)], e + "_has_tokens", (), "bool")
        scale = g.mul(weight, top, e + "_scale")
        run, skip = g.subgraph("run"), g.subgraph("skip")
        run.output(expert(run, g, x, scale, f"{name}.experts.{i}", inner, e + "_y"))
        # Nothing of x flows where the expert does not run.
        skip.output(skip.node("ConstantOfShape", [shape], e + "_zero", x.shape))
        y = g.node("If", [has], e, x.shape, then_branch=run, else_branch=skip)
        total = g.add(total, y, f"{e}_sum") if total else y
    share = g.node("Concat", shares, out + "_shares", (experts,), axis=0)
    tokens = g.constant("int64", [0, 1])
    mean = g.node("ReduceMean", [probabilities, tokens], out + "_mean", (experts,), keepdims=0)
    balance = g.node("ReduceMean", [g.mul(mean, share, out + "_balanced")], out + "_balance", (), keepdims=0)
    return total, balance


def build(layers=2, hidden=512, heads=8, inner=1792, experts=4, vocabulary=32000, batch=8, length=512):
    g = Graph("moe")
    ids = g.input("input_ids", "int64", batch, length)
    labels = g.input("labels", "int64", batch, length)
    table = g.param("model.embed_tokens.weight", vocabulary, hidden)
    x = g.node("Gather", [table, ids], "embedded", (batch, length, hidden))
    square = g.constant("int64", [length, length])
    ones = g.node("ConstantOfShape", [square], "ones", (length, length))
    lower = g.node("Trilu", [ones], "lower", (length, length), upper=0)
    mask = g.node("Cast", [lower], "causal", (length, length), "bool", to=9)
    balances = []
    for i in range(layers):
        name, out = f"model.layers.{i}", f"l{i}"
        # Registration order: attention, experts, then the two norms.
        y = rms_norm(g, x, f"{name}.input_layernorm", out + "_in")
        norm = g.params.pop()
        x = g.add(x, attention(g, y, f"{name}.self_attn", heads, mask, out), out + "_mid")
        y = rms_norm(g, x, f"{name}.post_attention_layernorm", out + "_post")
        norms = [norm, g.params.pop()]
        y, balance = mixture(g, y, f"{name}.block_sparse_moe", experts, inner, out)
        g.params += norms
        balances.append(balance)
        x = g.add(x, y, out)
    x = rms_norm(g, x, "model.norm", "norm")
    logits = g.linear(x, g.param("lm_head.weight", vocabulary, hidden), None, "logits")
    loss = g.cross_entropy(g.transpose(logits, (0, 2, 1), "logits_t"), labels, "loss_lm")
    balance = g.node("Sum", balances, "balance", ())
    g.output(g.add(loss, g.mul(balance, g.constant("float", 0.02), "balance_weighted"), "loss"))
    return model(g, f"A mixture of {experts} experts per layer with Mixtral's names: an expert without tokens does not run")
