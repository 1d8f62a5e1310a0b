#!/usr/bin/env python3
"""Binary .onnx files against texts: small models over all constructs, written here field by field in protobuf's wire
format, must print the text that stands next to them, and give the same plan and report as it. Then the unhappy ways:
cut-off and mutated files, deep nesting, wrong lengths, and a sparse file of 2 GB, for which little memory is taken.
Where the Python package onnx is present, its printer's text of every model must print the same.

usage: onnx_binary.py BUILD-FOLDER
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
ddpc = build / "ddpc"
wrong = []


# ---- protobuf's wire format, and ONNX's messages: the numbers are those of onnx.proto ----

def varint(x):
    x &= (1 << 64) - 1
    out = b""
    while x > 127:
        out, x = out + bytes([x & 127 | 128]), x >> 7
    return out + bytes([x])


def num(field, x):
    return varint(field << 3) + varint(x)


def raw(field, x):
    """A string, bytes, or a message of fields."""
    x = x.encode() if isinstance(x, str) else x if isinstance(x, bytes) else b"".join(x)
    return varint(field << 3 | 2) + varint(len(x)) + x


def f32(field, x):
    return varint(field << 3 | 5) + struct.pack("<f", x)


def entry(field, key, value):
    return raw(field, [raw(1, key), raw(2, value)])


FLOAT, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, COMPLEX64, UINT4, INT4 = 1, 6, 7, 8, 9, 10, 11, 14, 21, 22


def shape(*dims):
    return raw(2, [raw(1, [] if d is None else [raw(2, d)] if isinstance(d, str) else [num(1, d)]) for d in dims])


def tensor_type(dtype, *dims):
    return raw(1, [num(1, dtype), shape(*dims)])


def value(field, name, *kind, meta=()):
    return raw(field, [raw(1, name), raw(2, list(kind)) if kind else b"", *(entry(4, k, v) for k, v in meta)])


def tensor(field, name, dtype, dims, *data):
    return raw(field, [*(num(1, d) for d in dims), num(2, dtype), *data, raw(8, name)])


def node(field, op, inputs, outputs, *attrs, name=None, domain=None, overload=None, doc="a doc string", meta=()):
    """Attributes are (name, type, field, ...)."""
    return raw(field, [*(raw(1, i) for i in inputs), *(raw(2, o) for o in outputs), raw(3, name) if name else b"",
                       raw(4, op), *(raw(5, a) for a in attrs), raw(6, doc), raw(7, domain) if domain else b"",
                       raw(8, overload) if overload else b"", *(entry(9, k, v) for k, v in meta)])


def attr(name, kind, *values, ref=None):
    return [raw(1, name), num(20, kind) if kind else b"", raw(21, ref) if ref else b"", *values]


def model(graph, *more, ir=10, opset=21):
    return b"".join([num(1, ir), raw(7, graph), raw(8, [raw(1, ""), num(2, opset)]), *more])


# ---- the models, each with the text that it must print as ----

models = {}

models["data"] = model([
    node(1, "Identity", ["f"], ["y"]), raw(2, "g"),
    tensor(5, "f", FLOAT, [2, 2], raw(4, struct.pack("<4f", 1, .1, -2.5e-8, float("inf")))),
    tensor(5, "unpacked", FLOAT, [2], f32(4, 1), f32(4, 2)),
    tensor(5, "raw", FLOAT, [2], raw(9, struct.pack("<2f", 3, 1 / 3))),
    tensor(5, "d", DOUBLE, [1], raw(10, struct.pack("<d", .1))),
    tensor(5, "i8", 3, [3], raw(9, b"\1\xff\x80")), tensor(5, "i32", INT32, [2], raw(5, varint(-5) + varint(7))),
    tensor(5, "i64", INT64, [3], num(7, 1), raw(7, varint(-2) + varint(3))),
    tensor(5, "u64", 13, [1], raw(11, varint(2 ** 64 - 1))), tensor(5, "u32", 12, [1], raw(9, b"\xff\xff\xff\xff")),
    tensor(5, "b", BOOL, [3], raw(9, b"\0\1\1")), tensor(5, "b32", BOOL, [1], num(5, 1)),
    tensor(5, "h", FLOAT16, [2], raw(5, varint(15360) + varint(64512))),
    tensor(5, "bf", 16, [1], raw(9, b"\x80\x3f")), tensor(5, "f8", 17, [2], raw(9, b"\x38\xb8")),
    tensor(5, "u4", UINT4, [3], raw(9, b"\x21\x0f")), tensor(5, "i4", INT4, [3], raw(5, varint(0xf1) + varint(7))),
    tensor(5, "c", COMPLEX64, [1], raw(4, struct.pack("<2f", 1, -1))),
    tensor(5, "s", STRING, [2], raw(6, "a\"b"), raw(6, "é")), tensor(5, "none", FLOAT, [0]),
    tensor(5, "scalar", INT64, [], num(7, 7)),
    tensor(5, "ext", FLOAT, [1024], entry(13, "location", "w.bin"), entry(13, "offset", "4096"), num(14, 1)),
    raw(15, [tensor(1, "sp", FLOAT, [1], f32(4, 5)), tensor(2, "", INT64, [1], num(7, 3)), num(3, 10)]),
    raw(12, [raw(1, "y")]),
]), """<
   ir_version: 10,
   opset_import: ["" : 21]
>
g () => (y)
<
   float[2,2] f = {1, 0.1, -2.5e-08, inf},
   float[2] unpacked = {1, 2},
   float[2] raw = {3, 0.33333334},
   double[1] d = {0.1},
   int8[3] i8 = {1, -1, -128},
   int32[2] i32 = {-5, 7},
   int64[3] i64 = {1, -2, 3},
   uint64[1] u64 = {18446744073709551615},
   uint32[1] u32 = {4294967295},
   bool[3] b = {0, 1, 1},
   bool[1] b32 = {1},
   float16[2] h = {15360, 64512},
   bfloat16[1] bf = {16256},
   float8e4m3fn[2] f8 = {56, 184},
   uint4[3] u4 = {33, 15},
   int4[3] i4 = {241, 7},
   complex64[1] c = {1, -1},
   string[2] s = {"a\\"b", "é"},
   float[0] none = {},
   int64 scalar = {7},
   float[1024] ext = ["location": "w.bin", "offset": "4096"],
   sparse_tensor(float[10]) sp = ...
>
{
   y = Identity (f)
}
"""

models["types"] = model([
    node(1, "Identity", ["x"], ["t"], name="n/1"), node(1, "Identity", ["t"], ["y"]), raw(2, "main graph"),
    value(11, "x", tensor_type(FLOAT, "batch", 3, None, "a b", "")), value(11, "any", raw(1, [num(1, FLOAT)])),
    value(11, "scalar", tensor_type(INT64)), value(11, "seq", raw(4, [raw(1, [tensor_type(FLOAT, 2)])])),
    value(11, "opt", raw(9, [raw(1, [raw(4, [raw(1, [tensor_type(STRING)])])])])),
    value(11, "map", raw(5, [num(1, INT64), raw(2, [tensor_type(FLOAT)])])),
    value(11, "sp", raw(8, [num(1, FLOAT), shape(2, 3)])), value(11, "opaque", raw(7, [raw(1, "dom"), raw(2, "kind")])),
    value(11, "untyped"), value(11, "w", tensor_type(FLOAT, 1)),
    value(12, "y", tensor_type(FLOAT)), value(13, "t", tensor_type(FLOAT, -1)),
    tensor(5, "w", FLOAT, [1], f32(4, 0)),
], raw(2, "maker"), raw(3, "1.0"), raw(4, "org.x"), num(5, 3), raw(6, "doc \"quoted\""), entry(14, "a key", "a value"),
    entry(14, "second", "")), """<
   ir_version: 10,
   opset_import: ["" : 21],
   producer_name: "maker",
   producer_version: "1.0",
   domain: "org.x",
   model_version: 3,
   doc_string: "doc \\"quoted\\"",
   metadata_props: ["a key": "a value", "second": ""]
>
"main graph" (float[batch,3,?,"a b",?] x, float[] any, int64 scalar, seq(float[2]) "seq", optional(seq(string)) opt, \
map(int64, float) "map", sparse_tensor(float[2,3]) sp, opaque(dom,kind) "opaque", untyped, float[1] w) => (float y)
<
   float[1] w = {0},
   float[?] t
>
{
   ["n/1"] t = Identity (x)
   y = Identity (t)
}
"""

inner = [node(1, "Add", ["x", "x"], ["p"]), raw(2, "then"), value(12, "p")]
models["attributes"] = model([
    node(1, "Op", ["x", "", "x"], ["y", "", "z"], attr("f", 1, f32(2, .5)), attr("i", 2, num(3, -3)),
         attr("s", 3, raw(4, "text")), attr("t", 4, tensor(5, "", INT64, [1], num(7, 9))),
         attr("fs", 6, f32(7, 1), raw(7, struct.pack("<2f", 2, 3))), attr("is", 7, num(8, 1), raw(8, varint(-2))),
         attr("ss", 8, raw(9, "a"), raw(9, "")), attr("ts", 9, tensor(10, "n", FLOAT, [], f32(4, 1))),
         attr("tp", 13, raw(14, [tensor_type(FLOAT, 2)])), attr("tps", 14, raw(15, [tensor_type(INT64)])),
         attr("none", 7), attr("zero", 2), attr("untyped", 0, num(3, 4)), domain="my.domain", overload="v2"),
    node(1, "If", ["c"], ["r"], attr("then_branch", 5, raw(6, inner)),
         attr("else_branch", 5, raw(6, [node(1, "Neg", ["x"], ["q"]), raw(2, "else"), value(12, "q")]))),
    raw(2, "g"), value(11, "x", tensor_type(FLOAT, 2)), value(11, "c", tensor_type(BOOL)), value(12, "r"),
], raw(8, [raw(1, "my.domain"), num(2, 1)])), """<
   ir_version: 10,
   opset_import: ["" : 21, "my.domain" : 1]
>
g (float[2] x, bool c) => (r) {
   y, "", z = my.domain.Op:v2 <f = 0.5, i = -3, s = "text", t = int64[1] {9}, fs = [1.0, 2.0, 3.0], is = [1, -2], \
ss = ["a", ""], ts: tensors = [float n {1}], tp = float[2], tps: type_protos = [int64], none: ints = [], \
zero = 0, untyped = 4> (x, "", x)
   r = If (c) <then_branch = then () => (p) {
      p = Add (x, x)
   }, else_branch = else () => (q) {
      q = Neg (x)
   }>
}
"""

models["functions"] = model([
    node(1, "F", ["x"], ["y"], attr("beta", 1, f32(2, 2)), domain="d"), raw(2, "g"),
    value(11, "x", tensor_type(FLOAT, 2)), value(12, "y", tensor_type(FLOAT, 2)),
], raw(8, [raw(1, "d"), num(2, 1)]),
    raw(25, [raw(1, "F"), raw(4, "a"), raw(5, "b"), raw(6, "beta"), raw(11, attr("alpha", 1, f32(2, 1))),
             node(7, "Elu", ["a"], ["t"], attr("alpha", 1, ref="alpha")),
             node(7, "Elu", ["t"], ["b"], attr("alpha", 1, ref="beta")), raw(8, "doc"),
             raw(9, [raw(1, ""), num(2, 18)]), raw(10, "d"), value(12, "t", tensor_type(FLOAT, 2))]),
    raw(25, [raw(1, "F"), raw(4, "a"), raw(5, "b"), node(7, "Neg", ["a"], ["b"]), raw(9, [num(2, 18)]), raw(10, "d"),
             raw(13, "neg")])), """<
   ir_version: 10,
   opset_import: ["" : 21, "d" : 1]
>
g (float[2] x) => (float[2] y) {
   y = d.F <beta = 2.0> (x)
}
<
   domain: "d",
   opset_import: ["" : 18],
   doc_string: "doc"
>
F <beta, alpha = 1.0> (a) => (b)
<
   float[2] t
>
{
   t = Elu <alpha: float = @alpha> (a)
   b = Elu <alpha: float = @beta> (t)
}
<
   domain: "d",
   overload: "neg",
   opset_import: ["" : 18]
>
F (a) => (b) {
   b = Neg (a)
}
"""

# IR version 3: initializers are inputs too. The fields come in an unusual order, with unknown ones among them.
kind = "pkg.torch.export.graph_signature.InputSpec.kind"
dense = [value(11, "x", tensor_type(FLOAT, 4, 3)), value(11, "flag", tensor_type(BOOL)),
         node(1, "MatMul", ["x", "w"], ["h"], name="fc"), node(1, "Add", ["h", "scale"], ["k"]),
         node(1, "If", ["flag"], ["b"],
              attr("then_branch", 5, raw(6, [node(1, "MatMul", ["k", "v"], ["p"]), raw(2, "t"), value(12, "p")])),
              attr("else_branch", 5, raw(6, [node(1, "Neg", ["k"], ["q"]), raw(2, "e"), value(12, "q")]))),
         node(1, "ReduceMean", ["b"], ["loss"], attr("keepdims", 2, num(3, 0))),
         tensor(5, "w", FLOAT, [3, 3], raw(9, bytes(36))), tensor(5, "v", FLOAT, [3, 3], raw(9, bytes(36))),
         tensor(5, "scale", FLOAT, [3], raw(9, bytes(12))), raw(2, "net"), value(12, "loss", tensor_type(FLOAT)),
         value(13, "w", tensor_type(FLOAT, 3, 3), meta=[(kind, "PARAMETER")]),
         value(13, "scale", tensor_type(FLOAT, 3), meta=[("other", "x"), (kind, "BUFFER")]), raw(30, b"?"), num(999, 1)]
models["training"] = b"".join([
    raw(20, [entry(4, "w", "w_new"), entry(4, "v", "v_new"), entry(4, "momentum", "m_new")]), raw(7, dense),
    raw(8, [num(2, 17)]), num(1, 3), entry(14, "ddpc.uniform", "flag")]), """<
   ir_version: 3,
   opset_import: ["" : 17],
   metadata_props: ["ddpc.uniform": "flag", "ddpc.buffers": "scale", "ddpc.trainable": "w v"]
>
net (float[4,3] x, bool flag) => (float loss)
<
   float[3,3] w = {0, 0, 0, 0, 0, 0, 0, 0, 0},
   float[3,3] v = {0, 0, 0, 0, 0, 0, 0, 0, 0},
   float[3] scale = {0, 0, 0},
   float[3,3] w,
   float[3] scale
>
{
   [fc] h = MatMul (x, w)
   k = Add (h, scale)
   b = If (flag) <then_branch = t () => (p) {
      p = MatMul (k, v)
   }, else_branch = e () => (q) {
      q = Neg (k)
   }>
   loss = ReduceMean <keepdims = 0> (b)
}
"""

# What PyTorch's exporters note at nodes: the stack, of which the innermost line outside of PyTorch becomes the attribute
# `source`, and that an optimizer was at work.
stack = "pkg.torch.onnx.stack_trace"
site = "/opt/venv/lib/python3.11/site-packages/"
bert = (site + "transformers/models/bert.py", 665)


def frames(*places):
    return "\n".join(f'  File "{file}", line {n}, in forward\n    return f(x)' for file, n in places)


def script(*places):
    return "".join(f"{file}({n}): forward\n" for file, n in places)


def noted(folder):
    """The model, its own files in that folder."""
    torch, begin = (site + "torch/nn/modules/linear.py", 134), (site + "torch/jit/_trace.py", 131)
    mine = [(f"{folder}/model/net.py", 12), (f"{folder}/model/outer.py", 40)]
    return model([
        node(1, "Relu", ["x"], ["a"], meta=[(stack, frames(("/home/a b/train.py", 7), bert, torch))]),
        node(1, "Elu", ["a"], ["b"], attr("alpha", 1, f32(2, 2)),
             meta=[("namespace", "m"), (stack, frames(bert, ("/usr/m.py", 88)))]),
        node(1, "Relu", ["b"], ["c"], meta=[(stack, frames(torch))]),
        node(1, "Relu", ["c"], ["d"], meta=[(stack, 'File "cut off'), ("pkg.onnxscript.rewriter.rule_name", "R")]),
        node(1, "Relu", ["d"], ["e"], doc=script(torch, *mine, begin, (f"{folder}/export.py", 3))),
        node(1, "Relu", ["e"], ["f"], doc=script(torch, begin, (f"{folder}/export.py", 3))),
        node(1, "Relu", ["f"], ["i"], attr("source", 3, raw(4, "mine.py:1")), meta=[(stack, frames(bert))]),
        node(1, "Constant", [], ["k"], attr("value_int", 2, num(3, 1)), meta=[(stack, frames(bert))]), raw(2, "g"),
        value(11, "x", tensor_type(FLOAT, 2)), value(12, "i", tensor_type(FLOAT, 2))]), """<
   ir_version: 10,
   opset_import: ["" : 21],
   metadata_props: ["ddpc.folded": "true"]
>
g (float[2] x) => (float[2] i) {
   a = Relu <source = "transformers/models/bert.py:665"> (x)
   b = Elu <alpha = 2.0, source = "/usr/m.py:88"> (a)
   c = Relu (b)
   d = Relu (c)
   e = Relu <source = "model/net.py:12"> (d)
   f = Relu (e)
   i = Relu <source = "mine.py:1"> (f)
   k = Constant <value_int = 1> ()
}
"""


# ---- what must hold ----

def run(*words, **kw):
    return subprocess.run([ddpc, *words], cwd=folder, capture_output=True, timeout=300, **kw)


def expect(what, ok, *seen):
    if not ok:
        wrong.append("\n".join([what, *map(str, seen)]))


def check_texts():
    for name, (binary, text) in models.items():
        (folder / f"{name}.onnx").write_bytes(binary)
        (folder / f"{name}.onnxtxt").write_text(text)
        printed = run("fmt", f"{name}.onnx")
        expect(f"{name}.onnx prints another text", printed.stdout.decode() == text, printed.stdout.decode(),
               printed.stderr.decode())
        expect(f"{name}.onnx from standard input", run("fmt", "-", input=binary).stdout == printed.stdout)
        again = run("fmt", f"{name}.onnxtxt")
        expect(f"the text of {name}.onnx does not print itself", again.stdout.decode() == text, again.stdout.decode(),
               again.stderr.decode())


def check_plans():
    plans = []
    for file in ("training.onnx", "training.onnxtxt"):
        run(file, "-o", f"{file}.plan")
        plans.append(run("dump", f"{file}.plan", "--format=json").stdout)
        table = run("check", file).stdout.decode()
        expect(f"check {file}", "1 of 2 parameters always, 0 never, 1 conditional" in table, table)
        why = run("explain", file, "v")
        expect(f"explain {file}", why.returncode == 0 and why.stdout, why.stderr.decode())
    expect("the plans of binary and text differ", plans[0] and plans[0] == plans[1], *plans)
    place = run("check", "training.onnx", "--format=json").stdout
    expect("a parameter has no path", b'"path": "graph.initializer[1]"' in place, place.decode())


def check_onnx():
    """What the package onnx prints of the same bytes."""
    try:
        import onnx
        import onnx.printer
    except ImportError:
        print("the package onnx is not here: its texts are not compared")
        return
    for name in ("types",):
        text = onnx.printer.to_text(onnx.load_from_string(models[name][0]))
        (folder / "official.onnxtxt").write_text(text)
        printed = run("fmt", "official.onnxtxt")
        expect(f"onnx's text of {name}.onnx", printed.stdout.decode() == models[name][1], text,
               printed.stdout.decode(), printed.stderr.decode())


def check_refused():
    deep = [node(1, "Neg", ["x"], ["y"])]
    for _ in range(300):
        deep = [node(1, "If", ["c"], ["y"], attr("then_branch", 5, raw(6, deep)))]
    kind = tensor_type(FLOAT)
    for _ in range(300):
        kind = raw(4, [raw(1, [kind])])
    whole = models["training"][0]
    cases = {
        "deep graphs": (model(deep), "DDP0106"), "deep types": (model([value(11, "x", kind)]), "DDP0106"),
        "cut off": (model(dense)[:-40], "DDP0120"), "behind it": (model(dense) + b"\x3a\xff\xff\xff\xff\x0f", "DDP0120"),
        "a group": (num(1, 10) + b"\x3b" + whole, "DDP0120"), "no graph": (num(1, 10), "DDP0121"),
        "endless number": (num(1, 10) + b"\x28" + 11 * b"\xff", "DDP0120"),
        "an element type": (model([tensor(5, "w", 99, [1])]), "DDP0121"),
        "a kind of attribute": (model([node(1, "Neg", ["x"], ["y"], attr("a", 77))]), "DDP0121"),
        "a nameless input": (model([value(11, "")]), "DDP0121"),
        "a name with a NUL": (model([value(11, "a\0b")]), "DDP0121"),
        "too few elements": (model([tensor(5, "w", FLOAT, [2, 3], raw(9, bytes(20)))]), "DDP0112"),
        "a cut element": (model([tensor(5, "w", FLOAT, [2], raw(9, bytes(9)))]), "DDP0121"),
        "a cut packed number": (model([tensor(5, "w", DOUBLE, [1], raw(10, bytes(9)))]), "DDP0121"),
        "two graphs": (model([value(11, "x")]) + model([value(11, "y")]), "holds two graphs"),
        "no version": (num(1, 10) + raw(7, [node(1, "If", ["c"], ["y"]), value(11, "c")]) + raw(8, [raw(1, "")]), "DDP0218"),
        "a newer field first": (raw(99, "new") + raw(7, [node(1, "", ["x"], ["y"])]), "DDP0121"),
        "an attribute twice": (model([node(1, "Neg", ["x"], ["y"], attr("a", 2, num(3, 1)), attr("a", 2, num(3, 1))),
                                      value(11, "x")]), "x.onnx:graph.node[0].attribute[1]: error[DDP0217]"),
        "a nameless initializer": (model([tensor(5, "", FLOAT, [1], f32(4, 0))]), "DDP0113"),
        "twice": (model([node(1, "Neg", ["x"], ["y"]), node(1, "Abs", ["x"], ["y"]), value(11, "x"), value(12, "y")]),
                  "x.onnx:graph.node[1].output[0]: error[DDP0201]"),
    }
    for what, (binary, message) in cases.items():
        (folder / "x.onnx").write_bytes(binary)
        r = run("check", "x.onnx")
        expect(f"{what}: exit {r.returncode}", r.returncode == 1 and message in r.stderr.decode(), r.stderr.decode())


def check_mutants():
    files = [f"{name}.onnx" for name in models]
    r = subprocess.run([build / "mutate", "1", "3000", *files], cwd=folder, capture_output=True, text=True, timeout=600)
    expect("mutants", r.returncode == 0 and f"{3000 * len(models)} mutants" in r.stdout, r.stdout, r.stderr[-4000:])


def check_large():
    """2 GB of weights inside the file, which has holes in their place."""
    n, each = 4, 500_000_000
    head = b"".join([num(1, 8), raw(8, [num(2, 17)])])
    nodes = b"".join(node(1, "Mul", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"]) for i in range(n))
    nodes += node(1, "ReduceMean", [f"h{n}"], ["loss"], attr("keepdims", 2, num(3, 0)))
    nodes += value(11, "x", tensor_type(FLOAT, each // 4)) + value(12, "loss", tensor_type(FLOAT))
    tensors = []
    for i in range(n):
        fields = num(1, each // 4) + num(2, FLOAT) + raw(8, f"w{i}") + varint(9 << 3 | 2) + varint(each)
        tensors.append(varint(5 << 3 | 2) + varint(len(fields) + each) + fields)
    size = len(nodes) + sum(len(t) + each for t in tensors)
    with (folder / "large.onnx").open("wb") as f:
        f.write(head + varint(7 << 3 | 2) + varint(size) + nodes)
        for t in tensors:
            f.write(t)
            f.seek(each, 1)
        f.truncate()
    # The peak counts pages of the file too, so it is more than what is claimed. A shell in between, for a program's peak
    # begins with that of who started it.
    r = subprocess.run(["/bin/sh", "-c", f"'{ddpc}' check large.onnx --stats=json; exit $?"], cwd=folder,
                       capture_output=True)
    table, stats = r.stdout.decode(), r.stderr.decode()
    expect("2 GB: the table", "4 of 4 parameters always" in table, table, stats)
    peak = [json.loads(line)["peak_rss_bytes"] for line in stats.splitlines() if "peak_rss_bytes" in line]
    sanitized = b"__asan_init" in (build / "ddpc").read_bytes()
    expect("2 GB: the memory", sanitized or (peak and peak[0] < 50 << 20), stats)
    if peak:
        print(f"a file of {(folder / 'large.onnx').stat().st_size} bytes is checked in {peak[0] >> 10} KiB")


def check_order():
    """Protobuf lets a message's fields come in any order."""
    kind = entry(4, "pkg.torch.onnx.graph_signature.InputSpec.kind", "BUFFER"), raw(1, "mean"), raw(2, [tensor_type(FLOAT, 3)])
    texts = set()
    for fields in (kind, kind[::-1], kind[1:] + kind[:1]):
        (folder / "x.onnx").write_bytes(model([tensor(5, "mean", FLOAT, [3]), raw(13, fields)]))
        texts.add(run("fmt", "x.onnx").stdout.decode())
    expect("a note before the name", len(texts) == 1 and '"ddpc.buffers": "mean"' in min(texts), *texts)


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch).resolve()
    models["noted"] = noted(folder)
    check_texts()
    check_plans()
    check_onnx()
    check_refused()
    check_order()
    check_mutants()
    check_large()
print("\n\n".join(wrong) or f"{len(models)} binary models print and compile as their texts do")
sys.exit(bool(wrong))
