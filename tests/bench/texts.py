#!/usr/bin/env python3
"""Writes the text of a deep gated network: texts.py NODES. Each block of ten nodes has one parameter, every value
its type, so that a million nodes are 100,000 parameters and about 107 MB."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "samples"))
from models.text import Graph, model  # noqa: E402


def block(g, x, i):
    weight = g.param(f"highway.{i}.proj.weight", 256, 256)
    y = g.matmul(x, weight, f"highway_{i}_proj")
    gate = g.unary("Sigmoid", y, f"highway_{i}_gate")
    rest = g.unary("Neg", gate, f"highway_{i}_neg")
    left = g.mul(rest, x, f"highway_{i}_left")
    state = g.unary("Tanh", y, f"highway_{i}_state")
    gated = g.mul(gate, state, f"highway_{i}_gated")
    kept = g.add(x, left, f"highway_{i}_kept")
    out = g.add(kept, gated, f"highway_{i}_sum")
    out = g.dropout(out, 0.1, f"highway_{i}_drop")
    return g.unary("Identity", out, f"highway_{i}")


def build(nodes):
    g = Graph("deep")
    x = g.input("tokens", "float", 64, 256)
    for i in range(nodes // 10):
        x = block(g, x, i)
    g.output(g.node("ReduceMean", [x], "loss", (), keepdims=0))
    return model(g, f"A deep gated network of {nodes} nodes")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("usage: texts.py NODES")
    sys.stdout.write(build(int(sys.argv[1])))
