"""Writes ONNX's textual syntax: a graph is filled node by node, every value with its type.

A value is a `Value`: its name as the text spells it, and its type. Parameters are declared (a name and a
shape without data), so a text holds no weights. State that never trains, such as the running statistics of
a normalization, stands as external data. The types of computed values go into the text too: they are what
the cost of a node is computed from.
"""
import math
import re
import sys
from collections import namedtuple

Value = namedtuple("Value", "name dtype shape")


def quoted(name):
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f'"{name}"'


def typed(value):
    if not value.shape:
        return f"{value.dtype} {quoted(value.name)}"
    return f"{value.dtype}[{','.join(map(str, value.shape))}] {quoted(value.name)}"


def attribute(value):
    if isinstance(value, Graph):
        return value.text("      ")
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(attribute, value)) + "]"
    return repr(value)


class Constant:
    """The value of a Constant node: a small tensor written out."""

    def __init__(self, dtype, data):
        self.dtype, self.data = dtype, data

    def __repr__(self):
        if isinstance(self.data, list):
            return f"{self.dtype}[{len(self.data)}] {{{', '.join(map(str, self.data))}}}"
        return f"{self.dtype} {{{self.data}}}"


PRECISIONS = {  # what parameters are stored as, and what is computed in
    "float": ("float", "float"),
    "bfloat16": ("bfloat16", "bfloat16"),
    "mixed": ("float", "bfloat16"),  # a parameter is cast where it is used
}


class Graph:
    """A graph under construction. Nodes are added by operator: g.node("Relu", [x], "h", shape)."""

    def __init__(self, name, outer=None, precision="float"):
        self.name, self.outer = name, outer
        self.stored, self.dtype = (outer.stored, outer.dtype) if outer else PRECISIONS[precision]
        self.casts = {} if outer is None else outer.casts
        self.inputs, self.outputs = [], []
        self.opset = 20 if self.dtype == "float" else 22  # from which on convolutions take bfloat16
        self.params, self.state, self.values, self.nodes = [], [], [], []
        self.constants = {} if outer is None else outer.constants

    def input(self, name, dtype, *shape):
        self.inputs.append(Value(name, dtype, shape))
        return self.inputs[-1]

    def param(self, name, *shape):
        self.params.append(Value(name, self.stored, shape))
        return self.params[-1]

    def buffer(self, name, *shape):
        self.state.append(Value(name, "float", shape))
        return self.state[-1]

    def output(self, *values):
        self.outputs.extend(values)
        return self

    def subgraph(self, name):
        return Graph(name, self)

    def node(self, op, inputs, out, dims, dtype=None, more=(), **attributes):
        """Adds a node and returns its first output. `more` names further outputs, whose types are not
        written. An input that is None is left out. Without a dtype: what the graph computes in."""
        names = ", ".join("" if i is None else quoted(i.name) for i in inputs)
        outs = ", ".join(map(quoted, (out, *more)))
        attrs = ", ".join(f"{k} = {attribute(v)}" for k, v in attributes.items())
        self.nodes.append(f"{outs} = {op} {'<' + attrs + '> ' if attrs else ''}({names})")
        self.values.append(Value(out, dtype or self.dtype, tuple(dims)))
        return self.values[-1]

    def cast(self, x):
        """x in what the graph computes in; a parameter once for all its uses."""
        if x is None or x.dtype == self.dtype:
            return x
        if x not in self.casts:
            number = {"float": 1, "bfloat16": 16}[self.dtype]
            self.casts[x] = self.node("Cast", [x], f"{x.name}.{self.dtype}", x.shape, to=number)
        return self.casts[x]

    def constant(self, dtype, data):
        """A Constant node, one per distinct value, in the outermost graph."""
        if self.outer:
            return self.outer.constant(dtype, data)
        key = (dtype, repr(data))
        if key not in self.constants:
            word = re.sub(r"[^A-Za-z0-9]+", "_", repr(data).replace("-", "m")).strip("_")
            name, dims = (f"{dtype}s_{word}", (len(data),)) if isinstance(data, list) else (f"{dtype}_{word}", ())
            self.constants[key] = self.node("Constant", [], name, dims, dtype, value=Constant(dtype, data))
        return self.constants[key]

    # The operators that every model uses, with the shapes worked out.

    def unary(self, op, x, out, **attributes):
        return self.node(op, [x], out, x.shape, x.dtype, **attributes)

    def add(self, a, b, out):
        return self.node("Add", [a, b], out, max(a.shape, b.shape, key=len))

    def mul(self, a, b, out):
        return self.node("Mul", [a, b], out, max(a.shape, b.shape, key=len))

    def reshape(self, x, dims, out, shape):
        return self.node("Reshape", [x, self.constant("int64", dims)], out, shape, x.dtype)

    def transpose(self, x, perm, out):
        return self.node("Transpose", [x], out, [x.shape[i] for i in perm], x.dtype, perm=list(perm))

    def matmul(self, a, b, out):
        return self.node("MatMul", [a, b], out, (*a.shape[:-1], b.shape[-1]))

    def dropout(self, x, ratio, out):
        if not ratio:
            return x
        inputs = [x, self.constant("float", ratio), self.constant("bool", 1)]
        return self.node("Dropout", inputs, out, x.shape)

    def gather(self, table, ids, out, shape):
        return self.cast(self.node("Gather", [table, ids], out, shape, table.dtype))

    def linear(self, x, weight, bias, out):
        """torch.nn.Linear: the weight is [out, in]."""
        weight, bias = self.cast(weight), self.cast(bias)
        product = self.matmul(x, self.transpose(weight, (1, 0), out + "_wt"), out + "_mm" if bias else out)
        return self.add(product, bias, out) if bias else product

    def layer_norm(self, x, weight, bias, out, epsilon=1e-5):
        inputs = [x, self.cast(weight), self.cast(bias)]
        return self.node("LayerNormalization", inputs, out, x.shape, axis=-1, epsilon=epsilon)

    def attention(self, q, k, v, heads, out, dropout=0.0, mask=None):
        """Scaled dot-product attention over [batch, length, width], written out as exporters do.
        mask: a boolean value, false where a position must not be seen."""
        if self.dtype != "float":
            sys.exit(f"generate.py: attention is written out in float alone; in {self.dtype} it is fused: fused=1")
        batch, length, width = q.shape
        size = width // heads
        split = lambda x, perm, name: self.transpose(
            self.reshape(x, [0, 0, heads, size], name + "_r", (batch, length, heads, size)), perm, name
        )
        scores = self.matmul(split(q, (0, 2, 1, 3), out + "_q"), split(k, (0, 2, 3, 1), out + "_k"), out + "_s")
        scores = self.mul(scores, self.constant("float", round(1 / math.sqrt(size), 7)), out + "_sc")
        if mask:
            inputs = [mask, scores, self.constant("float", -1e9)]
            scores = self.node("Where", inputs, out + "_ms", scores.shape)
        weights = self.unary("Softmax", scores, out + "_p", axis=-1)
        if dropout:
            weights = self.dropout(weights, dropout, out + "_pd")
        context = self.matmul(weights, split(v, (0, 2, 1, 3), out + "_v"), out + "_c")
        context = self.transpose(context, (0, 2, 1, 3), out + "_ct")
        return self.reshape(context, [0, 0, width], out, (batch, length, width))

    def fused_attention(self, q, k, v, heads, out, causal=False):
        """The same as one operator of opset 23, which has no dropout."""
        attributes = dict(q_num_heads=heads, kv_num_heads=heads, **({"is_causal": 1} if causal else {}))
        self.opset = 23
        return self.node("Attention", [q, k, v], out, q.shape, **attributes)

    def cross_entropy(self, logits, labels, out, **attributes):
        inputs = [logits, labels]
        return self.node("SoftmaxCrossEntropyLoss", inputs, out, (), reduction="mean", **attributes)

    def text(self, indent=""):
        """The graph; nested graphs are indented deeper and have no parameters of their own."""
        known = {v.name for v in self.outputs}
        items = [f"{typed(v)}" for v in self.params]
        items += [f'{typed(v)} = ["location": "state"]' for v in self.state]
        items += [typed(v) for v in self.values if v.name not in known]
        head = f"{self.name} ({', '.join(map(typed, self.inputs))}) => ({', '.join(map(typed, self.outputs))})"
        inner = indent + "   "
        lines = [head]
        if items:
            lines += [indent + "<", *[f"{inner}{item}," for item in items[:-1]], inner + items[-1], indent + ">"]
        lines += [indent + "{", *[inner + node for node in self.nodes], indent + "}"]
        return "\n".join(lines)


def model(graph, about, metadata=(), domains=()):
    """The whole text. about: what the model is, in a line or more. metadata: pairs of strings. domains:
    what it uses beside ONNX's own operators."""
    opsets = ", ".join([f'"" : {graph.opset}', *(f'"{domain}" : 1' for domain in domains)])
    header = ["ir_version: 10", f"opset_import: [{opsets}]"]
    if metadata:
        pairs = ",\n    ".join(f'"{key}": "{value}"' for key, value in metadata)
        header.append(f"metadata_props: [\n    {pairs}]")
    comment = "".join(f"# {line}\n" for line in about.strip().split("\n"))
    return f"{comment}<{', '.join(header)}>\n{graph.text()}\n"
