#!/usr/bin/env python3
"""The pictures of `ddpc graph`: on each sample, folded and not, the SVG is well-formed XML inside whose frame everything
lies, names any file may have survive, and Graphviz (where it is installed) reads the DOT and sees the same vertices.

usage: graph.py DDPC MODEL...
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ddpc, models = sys.argv[1], sys.argv[2:]
SVG = "{http://www.w3.org/2000/svg}"
names = ["a.b", "a/b.c", "a..b", ".", "/", 'q"q', "b\\\\", "<b>", "&amp;", "\\n", "x" * 3000, ".".join("abcdefghijklmnopqrstuvwxyz"),
         "naïve.日本", "]]>", "-->", "a\tb"]
wrong = []


def graph(model, *flags):
    r = subprocess.run([ddpc, "graph", str(model), *flags], capture_output=True)
    if r.returncode:
        wrong.append(f"{model} {flags}: exit {r.returncode}: {r.stderr.decode()}")
    return r.stdout


def inside(where, root):
    """Every box and text anchor is within the frame."""
    width, height = (float(root.get(k)) for k in ("width", "height"))
    for e in root.iter():
        if e.tag not in (SVG + "rect", SVG + "text", SVG + "circle"):
            continue
        x, y = (float(e.get("c" + k if e.tag == SVG + "circle" else k)) for k in "xy")
        w, h = (float(e.get(k, 0)) for k in ("width", "height"))
        if min(x, y) < 0 or x + w > width + .02 or y + h > height + .02:
            wrong.append(f"{where}: {e.tag} at {x}, {y} is outside of {width} x {height}")
            return


def check(model, *flags):
    where = " ".join([str(model), *flags])
    text = graph(model, *flags, "--format=svg")
    if text != graph(model, *flags, "--format=svg"):
        wrong.append(f"{where}: not the same twice")
    inside(where, xml.fromstring(text))
    dot = graph(model, *flags, "--format=dot")
    if not shutil.which("dot"):
        return
    r = subprocess.run(["dot", "-Tplain"], input=dot, capture_output=True)
    if r.returncode or r.stderr:
        wrong.append(f"{where}: dot: {r.stderr.decode()}")
    seen = len(re.findall(rb"^node ", r.stdout, re.MULTILINE))
    told = len(re.findall(rb"^ *v\d+ \[", dot, re.MULTILINE))
    if seen != told or not told:
        wrong.append(f"{where}: {told} vertices, dot sees {seen}")


for model in models:
    check(model)
    check(model, "--depth", "1")
    if pathlib.Path(model).stat().st_size < 30000:
        check(model, "--depth", "99")
samples = pathlib.Path(models[0]).parent
if graph(samples / "gan.ir", "--format=svg") != (samples.parent / "docs/pictures/gan-graph.svg").read_bytes():
    wrong.append("docs/pictures/gan-graph.svg is not what `ddpc graph samples/gan.ir --format=svg` draws")
with tempfile.TemporaryDirectory() as folder:
    quoted = ['"' + n.replace("\\", "\\\\").replace('"', '\\"') + '"' for n in names]
    lines = ["<ir_version: 8, opset_import: [\"\" : 17]>", f"{quoted[5]} (float[3,3] x) => (float loss)", "<",
             ", ".join(f"float[3,3] {q}" for q in quoted), ">", "{"]
    for i, q in enumerate(quoted[:-2]):
        lines.append(f"[{q}] h{i} = MatMul ({f'h{i - 1}' if i else 'x'}, {q})")
    lines += [f"loss = ReduceMean <keepdims = 0> (h{len(quoted) - 3})", "}"]
    path = pathlib.Path(folder, "names.ir")
    path.write_text("\n".join(lines))
    check(path)
    check(path, "--depth", "1")
    path.write_bytes(path.read_bytes().replace(b"na\xc3\xafve", b"na\xefve \xff\xfe"))
    check(path)
    # A long chain without a name that says where it belongs, and many modules.
    for name, count in (("flat", 10000), ("deep", 10000)):
        param = (lambda i: f'"m.{i // 1000}.{i // 100}.{i}.w"') if name == "deep" else (lambda i: "w")
        path = pathlib.Path(folder, name + ".ir")
        declared = dict.fromkeys(param(i) for i in range(count // 2))
        path.write_text('<ir_version: 8, opset_import: ["" : 17]>\ng (float[3,3] x) => (float loss)\n<'
                        + ", ".join(f"float[3,3] {p}" for p in declared) + ">\n{\n"
                        + "".join(f"a{i} = MatMul ({f'b{i - 1}' if i else 'x'}, {param(i)})\nb{i} = Relu (a{i})\n"
                                  for i in range(count // 2))
                        + f"loss = ReduceMean <keepdims = 0> (b{count // 2 - 1})\n}}\n")
        check(path)
        vertices = graph(path, "--format=dot").count(b"label=")
        if not 3 <= vertices <= 50:
            wrong.append(f"{name}: {vertices} vertices of {count} nodes")
print("\n".join(wrong) or "the pictures are sound" + ("" if shutil.which("dot") else "; there is no dot to read them"))
sys.exit(bool(wrong))
