#!/usr/bin/env python3
"""What is read beyond the official grammar of ONNX's texts, and how it is printed: every form in both directions.

usage: tolerant.py DDPC [TEXT...]    TEXTs: further texts, each read, printed, and read again with the same print

Each form is read, and printed as the table says; the print reads as itself. With a Python that has the package onnx,
1.23 or later, its parser also has to accept every print of a form that it knows, and the print of every TEXT that it
accepts; text and print are then the same model to it.
"""
import pathlib
import subprocess
import sys

try:
    import onnx.parser

    if tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23):  # earlier ones read less
        onnx = None
except ImportError:
    onnx = None

HEADER = '<\n   ir_version: 10,\n   opset_import: ["" : 20, "aten" : 1, "pkg.torch" : 1]\n>\n'
UNKNOWN = "onnx's grammar has no such thing"  # so its parser is not asked
DROPPED = "what is ignored here is another model to onnx"  # nor here

# Nodes of a graph: as read, as printed.
NODES = [
    # names as older printers wrote them, without quotes
    ("y = Sum (gpu_0/x, /fc1/Gemm_output_0)", 'y = Sum ("gpu_0/x", "/fc1/Gemm_output_0")'),
    ("[n/1] y = Sum (onnx::Gemm_0, 11, a.b, é)", '["n/1"] y = Sum ("onnx::Gemm_0", "11", "a.b", "é")'),
    ("/y:0, w|1 = Op (x-1, x@2)", '"/y:0", "w|1" = Op ("x-1", "x@2")'),
    # subgraph names in quotes, empty, or words of the grammar
    ('y = If (c) <b = "torch-jit-export1" () => () {}>',
     'y = If (c) <b = "torch-jit-export1" () => () {\n   }>', UNKNOWN),
    ("y = If (c) <b = torch-jit-export1 () => () {}>",
     'y = If (c) <b = "torch-jit-export1" () => () {\n   }>', UNKNOWN),
    ('y = If (c) <b = "" () => () {}>', 'y = If (c) <b = "" () => () {\n   }>', UNKNOWN),
    ("y = If (c) <b: graph = () => () {}>", 'y = If (c) <b = "" () => () {\n   }>', UNKNOWN),
    ("y = If (c) <b = => () {}>", 'y = If (c) <b = "" () => () {\n   }>', UNKNOWN),
    ("y = If (c) <b = optional () => () {}>", 'y = If (c) <b = "optional" () => () {\n   }>', UNKNOWN),
    ("y = If (c) <b = seq => () {}>", 'y = If (c) <b = "seq" () => () {\n   }>', UNKNOWN),
    ("y = If (c) <b = inf_body () => () {}>", "y = If (c) <b = inf_body () => () {\n   }>", UNKNOWN),
    ("y = If (c) <b = inf () => () {}>", 'y = If (c) <b = "inf" () => () {\n   }>', UNKNOWN),
    # operators, domains and overloads that are no identifiers
    ("y = pkg.torch.2.1.0.Op (x)", 'y = pkg.torch."2.1.0.Op" (x)', UNKNOWN),
    ("y = aten_add|folded_0 (x)", 'y = "aten_add|folded_0" (x)', UNKNOWN),
    ("y = a-b (x)", 'y = "a-b" (x)', UNKNOWN),
    ("y = Op:1 (x)", 'y = Op:"1" (x)', UNKNOWN),
    ('y = "Op" (x)', "y = Op (x)"),
    ('y = "a b"."c d":"e f" (x)', 'y = "a b"."c d":"e f" (x)', UNKNOWN),
    # a domain that is imported ends the domain, and dots behind it are the operator's
    ("y = aten.add.Tensor (x)", "y = aten.add.Tensor (x)"),
    ("y = pkg.torch.nn.Linear (x)", "y = pkg.torch.nn.Linear (x)"),
    ('y = "aten.add".Tensor (x)', 'y = "aten.add".Tensor (x)', UNKNOWN),
    # attributes: names, references, kinds, places
    ('y = Op <a.b = 1, c-d = 2, "e f" = 3> (x)', 'y = Op <"a.b" = 1, "c-d" = 2, "e f" = 3> (x)', UNKNOWN),
    ('y = Op <"a" = 1, float = 2> (x)', "y = Op <a = 1, float = 2> (x)"),
    ("y = Op <a: int = @b.c, d: int = @x/1> (x)", 'y = Op <a: int = @"b.c", d: int = @"x/1"> (x)'),
    ("y = Op (x) <a = 1>", "y = Op <a = 1> (x)"),
    ("y = Op <> (x)", "y = Op (x)"),
    ("y = Op (x) <>", "y = Op (x)"),
    ("y = Op <a: int = 1, b: float = 2, c: string = \"s\", d: ints = [1, 2], e: floats = [1, 2.5]> (x)",
     "y = Op <a = 1, b = 2.0, c = \"s\", d = [1, 2], e = [1.0, 2.5]> (x)"),
    ('y = Op <a: strings = ["s"], b: tensor = float[1] {1}, c: type_proto = float[2]> (x)',
     'y = Op <a = ["s"], b = float[1] {1}, c = float[2]> (x)'),
    ("y = Op <a: undefined = 1> (x)", "y = Op <a = 1> (x)"),
    ("y = Op <t = undefined> (x)", "y = Op <t = undefined> (x)", UNKNOWN),
    ("y = Op <a: strings = ], b = 1> (x)", "y = Op <a: strings = [], b = 1> (x)"),
    # tensors: data left out, elsewhere, or sparse
    ("y = Constant <value = float[2] ...> ()", "y = Constant <value = float[2] ...> ()", UNKNOWN),
    ("y = Constant <value: tensor = bool...> ()", "y = Constant <value = bool ...> ()", UNKNOWN),
    ("y = Op <b = string[0] s }> (x)", "y = Op <b = string[0] s {}> (x)"),
    ('y = Constant <value = float[2] ["location": "w"]> ()', 'y = Constant <value = float[2] = ["location": "w"]> ()'),
    ('y = Constant <value = float[2] t ["location": "w"]> ()',
     'y = Constant <value = float[2] t ["location": "w"]> ()'),
    ("y = Op <s: sparse_tensor = float[3] {1, 2, 3}> ()", "y = Op <s: sparse_tensor = float[3] {1, 2, 3}> ()", UNKNOWN),
    ("y = Op <s = sparse_tensor(float[3]) {1}> ()",
     "y = Op <s: sparse_tensor = sparse_tensor(float[3]) {1}> ()", UNKNOWN),
    # commas before a closing bracket; slots that are left out
    ("y, z, = Op <a = [1, 2,], b = 1,> (x,)", "y, z = Op <a = [1, 2], b = 1> (x)"),
    ("y = Op (x, , z)", 'y = Op (x, "", z)'),
    # numbers
    ("y = Op <a = .5, b = +5, c = 1., d = -.5, e = [+.5, +5]> (x)",
     "y = Op <a = 0.5, b = 5, c = 1.0, d = -0.5, e = [0.5, 5.0]> (x)"),
    ("y = Op <a = 1.e5, b = 5e3, c = inf, d = -INFINITY, e = NaN> (x)",
     "y = Op <a = 100000.0, b = 5000.0, c = inf, d = -inf, e = nan> (x)"),
]

# Items of a graph; "" where nothing is kept.
ITEMS = [
    ("float[3] w = ...", "float[3] w = ...", UNKNOWN),
    ("float[3] w = {}", "float[3] w = {}"),
    ("string[0] s = }", "string[0] s = {}"),
    ("float[4] w/1 = {.5, +5, 1., -.5}", 'float[4] "w/1" = {0.5, 5, 1., -0.5}'),
    ("float[3] w = {inf, -Infinity, nan}", "float[3] w = {inf, -Infinity, nan}"),
    ("bool[2] b = {1, 0,}", "bool[2] b = {1, 0}"),
    ("int4[3] a = {1, -2, 3}", "int4[3] a = {1, -2, 3}"),
    ("int4[3] a = {18, 3}", "int4[3] a = {18, 3}"),
    ("uint4[2] a = {255}", "uint4[2] a = {255}"),
    ("int2[5] a = {1, 2}", "int2[5] a = {1, 2}"),
    ("float4e2m1[3] a = {1, 2}", "float4e2m1[3] a = {1, 2}"),
    ("complex64[2] a = {1, 2, 3, 4}", "complex64[2] a = {1, 2, 3, 4}"),
    ("complex64[2] a = {1, 2}", "complex64[2] a = {1, 2}"),
    ("float8e4m3fn[2] a = {60, 1}", "float8e4m3fn[2] a = {60, 1}"),
    ("float8e4m3fn[2] a = {0.5, 1}", "float8e4m3fn[2] a = {0.5, 1}", UNKNOWN),
    ("float[2] e = [\"location\": \"f\",]", "float[2] e = [\"location\": \"f\"]"),
    ("float[2] = {1, 2}", ""),
    ('float[2] "" = {1, 2}', "", DROPPED),
    ("undefined z", "z"),
    ("float[2,] v", "float[2] v"),
    ('float[N, ?, "a b"] v', 'float[N,?,"a b"] v'),
]

GRAPH = "g (x) => (y) {\n   y = Relu (x)\n}\n"
CALL = "g (x) => (y) {\n   y = d.F (x, x)\n}\n"
FUNCTION = '<\n   domain: "d",\n   opset_import: ["" : 20]\n>\nF '

# Whole texts.
TEXTS = [
    ("\ufeff" + HEADER + GRAPH, HEADER + GRAPH),
    ((HEADER + GRAPH).replace("\n", "\r\n"), HEADER + GRAPH),
    ("<> " + GRAPH, GRAPH),
    (HEADER + "g (x) = > (y) { y = Relu (x) }", HEADER + GRAPH),
    (HEADER + "g (x,) => (y,) { y = Relu (x) }", HEADER + GRAPH),
    (HEADER.replace('1]\n>', '1,],\n>') + GRAPH, HEADER + GRAPH),
    (HEADER + GRAPH.replace("g (", "torch-jit-export ("), HEADER + GRAPH.replace("g (", '"torch-jit-export" (')),
    (HEADER + GRAPH.replace("g (", "11 ("), HEADER + GRAPH.replace("g (", '"11" (')),
    (HEADER + GRAPH.replace("(x) =>", "(undefined x) =>"), HEADER + GRAPH),
    # formals that are called as types are
    (HEADER + CALL + FUNCTION + "(float, map, float[2] double) => (seq) { seq = Sum (float, map, double) }",
     HEADER + CALL + FUNCTION
     + '("float", "map", float[2] "double") => ("seq") {\n   "seq" = Sum ("float", "map", "double")\n}\n'),
    (HEADER + CALL + FUNCTION + '<a, "b", c: ints = [],> (x,) => (y,) { y = Op (x) }',
     HEADER + CALL + FUNCTION + "<a, b, c: ints = []> (x) => (y) {\n   y = Op (x)\n}\n"),
]

# What is refused, and what is said.
REFUSED = [
    ("y = Op <a = - 5> (x)", "DDP0105", "'-' is not a number"),
    ("y = Op <a = 1e> (x)", "DDP0105", "'1e' is not a number"),
    ("y = Op <a = 1e50> (x)", "DDP0104", "'1e50' does not fit into a float of 32 bits"),
    ("y = Op <a = 99999999999999999999> (x)", "DDP0104", "'99999999999999999999' does not fit into 64 bits"),
    ("y = Op <a = int64[1] {9223372036854775808}> (x)", "DDP0104", "'9223372036854775808' is out of range for int64"),
    ("y = Op <a = float[1] {1e50}> (x)", "DDP0104", "'1e50' is out of range for float"),
    ("y = Op <a = float[2,2] {1, 2, 3}> (x)", "DDP0112", "float[2,2] has 4 elements, but 3 are given"),
    ("y = Relu (x) } 5 {", "DDP0107", "'5' stands behind the model"),
]


def cases():
    for text, printed, *unknown in NODES:
        yield f"{HEADER}g (x, c) => (y) {{ {text} }}", f"{HEADER}g (x, c) => (y) {{\n   {printed}\n}}\n", not unknown
    for text, printed, *unknown in ITEMS:
        items = f"\n<\n   {printed},\n   last\n>\n" if printed else "\n<\n   last\n>\n"
        yield (f"{HEADER}g (x) => (y) <{text}, last> {{ y = Relu (x) }}",
               f"{HEADER}g (x) => (y){items}{{\n   y = Relu (x)\n}}\n", not unknown)
    for text, printed in TEXTS:
        yield text, printed, True


def fmt(ddpc, text):
    return subprocess.run([ddpc, "fmt", "-"], input=text.encode(errors="surrogateescape"), capture_output=True)


def parsed(text):
    """What onnx's parser makes of it, as bytes, or why it refuses, as text."""
    try:
        return onnx.parser.parse_model(text).SerializeToString(deterministic=True)
    except onnx.parser.ParseError as error:
        return " ".join(str(error).split())


def check(ddpc, text, printed, known):
    first = fmt(ddpc, text)
    out = first.stdout.decode(errors="surrogateescape")
    if first.returncode:
        return "is refused:\n" + first.stderr.decode(errors="replace")
    if printed is not None and out != printed:
        return f"prints\n{out}and not\n{printed}"
    again = fmt(ddpc, out)
    if again.stdout != first.stdout:
        return f"prints\n{out}\nwhich then prints\n{again.stdout.decode(errors='replace')}{again.stderr.decode()}"
    if onnx and known:
        theirs, ours = parsed(text), parsed(out)
        if isinstance(ours, str) and (printed is not None or isinstance(theirs, bytes)):
            return f"prints\n{out}\nwhich onnx refuses: {ours}"
        if isinstance(theirs, bytes) and ours != theirs:
            return f"prints\n{out}\nwhich is another model to onnx"
    return None


def main(ddpc, *texts):
    table = [(text, printed, known) for text, printed, known in cases()]
    table += [(pathlib.Path(t).read_text(errors="surrogateescape"), None, True) for t in texts]
    failed = 0
    for text, printed, known in table:
        why = check(ddpc, text, printed, known)
        if why:
            print(f"FAILED: {text[:2000]}\n{why}\n")
            failed += 1
    for node, code, message in REFUSED:
        got = fmt(ddpc, f"{HEADER}g (x) => (y) {{ {node} }}")
        if got.returncode != 1 or f"[{code}]: {message}" not in got.stderr.decode():
            print(f"FAILED: {node}\nis to be refused with {code}: {message}, but\n{got.stderr.decode()}")
            failed += 1
    with_onnx = "with" if onnx else "without"
    print(f"{len(table)} texts read and printed, {with_onnx} onnx's parser; {len(REFUSED)} refused; {failed} failed")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
