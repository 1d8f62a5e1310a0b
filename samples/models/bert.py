"""BERT (Devlin et al., 2018) as Hugging Face names it, with an own masked-language head.

Two things make it worth a check. The decoder of the head is the token table itself (tied), so the table's
gradient has two contributions and is ready last. And the encoder brings its pooler along: it is computed
and returned, but the loss does not read it, so two parameters never get a gradient.
"""
from .text import Graph, model


def layer(g, x, name, heads, inner, dropout, fused):
    out = name.replace("bert.encoder.layer.", "layer_")
    width = x.shape[-1]

    def linear(x, module, features, value):
        weight, bias = g.param(f"{module}.weight", features, x.shape[-1]), g.param(f"{module}.bias", features)
        return g.linear(x, weight, bias, value)

    def closing(y, x, module, value):
        """What ends both halves of a layer: dense, dropout, residual, norm."""
        y = g.dropout(linear(y, f"{module}.dense", width, value + "_dense"), dropout, value + "_drop")
        norm = [g.param(f"{module}.LayerNorm.{part}", width) for part in ("weight", "bias")]
        return g.layer_norm(g.add(y, x, value + "_sum"), *norm, value, 1e-12)

    attention = f"{name}.attention"
    q, k, v = (linear(x, f"{attention}.self.{part}", width, f"{out}_{part}") for part in ("query", "key", "value"))
    y = out + "_attn"
    y = g.fused_attention(q, k, v, heads, y) if fused else g.attention(q, k, v, heads, y, dropout)
    x = closing(y, x, f"{attention}.output", out + "_mid")
    y = linear(x, f"{name}.intermediate.dense", inner, out + "_inter")
    return closing(g.unary("Gelu", y, out + "_gelu"), x, f"{name}.output", out)


def build(layers=12, hidden=768, heads=12, inner=None, vocabulary=30522, batch=16, length=512, dropout=0.1,
          predictions=0, fused=0, precision="float"):
    """predictions: how many positions of a sequence are to be guessed; then, as its authors trained it, only those
    go through the head, and the pooler has a task: do two sentences follow each other? 0: all, and no such task."""
    g = Graph("bert", precision=precision)
    ids = g.input("input_ids", "int64", batch, length)
    types = g.input("token_type_ids", "int64", batch, length)
    if predictions:
        places = g.input("masked_positions", "int64", batch * predictions)
        follows = g.input("next_sentence_label", "int64", batch)
    labels = g.input("labels", "int64", *((batch * predictions,) if predictions else (batch, length)))

    name = "bert.embeddings"
    words = g.param(f"{name}.word_embeddings.weight", vocabulary, hidden)
    positions = g.param(f"{name}.position_embeddings.weight", length, hidden)
    kinds = g.param(f"{name}.token_type_embeddings.weight", 2, hidden)
    norm = [g.param(f"{name}.LayerNorm.{part}", hidden) for part in ("weight", "bias")]
    x = g.add(
        g.gather(words, ids, "words", (batch, length, hidden)),
        g.gather(kinds, types, "kinds", (batch, length, hidden)),
        "words_kinds",
    )
    x = g.layer_norm(g.add(x, g.cast(positions), "embedded"), *norm, "embedded_norm", 1e-12)
    x = g.dropout(x, dropout, "embeddings")
    for i in range(layers):
        x = layer(g, x, f"bert.encoder.layer.{i}", heads, inner or 4 * hidden, dropout, fused)

    first = g.node("Gather", [x, g.constant("int64", 0)], "first_token", (batch, hidden), axis=1)
    pooler = [g.param("bert.pooler.dense.weight", hidden, hidden), g.param("bert.pooler.dense.bias", hidden)]
    pooled = g.unary("Tanh", g.linear(first, *pooler, "pooler_dense"), "pooler_output")

    if predictions:
        x = g.reshape(x, [-1, hidden], "positions", (batch * length, hidden))
        x = g.node("Gather", [x, places], "masked", (batch * predictions, hidden))
    head = "cls.predictions"
    bias = g.param(f"{head}.bias", vocabulary)
    dense = [g.param(f"{head}.transform.dense.weight", hidden, hidden), g.param(f"{head}.transform.dense.bias", hidden)]
    norm = [g.param(f"{head}.transform.LayerNorm.{part}", hidden) for part in ("weight", "bias")]
    x = g.unary("Gelu", g.linear(x, *dense, "transform"), "transform_gelu")
    x = g.layer_norm(x, *norm, "transform_norm", 1e-12)
    scores = g.linear(x, words, bias, "scores")
    if predictions:
        pair = [g.param("cls.seq_relationship.weight", 2, hidden), g.param("cls.seq_relationship.bias", 2)]
        masked_loss = g.cross_entropy(scores, labels, "masked_loss")
        pair_loss = g.cross_entropy(g.linear(pooled, *pair, "relationship"), follows, "pair_loss")
        g.output(g.add(masked_loss, pair_loss, "loss"))
        return model(g, f"BERT, {layers} layers of {hidden}, with both tasks of its pre-training; the decoder is tied")
    classes_first = g.transpose(scores, (0, 2, 1), "scores_t")
    loss = g.cross_entropy(classes_first, labels, "loss", ignore_index=-100)
    g.output(loss, pooled)
    return model(
        g,
        f"BERT, {layers} layers of {hidden}, with a masked-language head of its own: the decoder is tied to the\n"
        "token table, and the pooler is returned but not in the loss",
    )
