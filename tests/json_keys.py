#!/usr/bin/env python3
"""docs/json.md has every key that the programs print, and no other: the outputs of runs that between them show all
keys are compared with its tables.

usage: json_keys.py BUILD-FOLDER SOURCE-TREE
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

build, root = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
model = """<ir_version: 8, opset_import: ["" : 17, "my.domain" : 1],
 metadata_props: ["ddpc.not_taken": "m.py:7 if x: (true)"]>
g (float[2,3] x, bool turn) => (float loss)
<float[3,3] w, float[3,3] v, float[3] unused>
{
   h = MatMul <source = "m.py:3"> (x, w)
   f = my.domain.Fancy (h)
   k = If (turn) <
      then_branch = t () => (p) { p = MatMul (f, v) },
      else_branch = e () => (q) { q = Identity (f) }
   >
   loss = ReduceMean <keepdims = 0> (k)
}
"""
# A graph whose output "y" comes from two nodes, as a serialized ModelProto.
onnx = (b"\x08\x0a\x42\x02\x10\x11\x3a\x28" b"\x0a\x0f\x0a\x01x\x0a\x01w\x12\x01y\x22\x04Gemm"
        b"\x2a\x07\x08\x02\x10\x01\x42\x01w" b"\x5a\x05\x0a\x01x\x12\x00" b"\x62\x05\x0a\x01y\x12\x00")
twice = (b"\x08\x0a\x42\x02\x10\x11\x3a\x2a" + 2 * b"\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu"
         b"\x5a\x05\x0a\x01x\x12\x00" b"\x62\x05\x0a\x01y\x12\x00")
broken = model.replace("h = MatMul", "h = Relu (x)\n   h = MatMul")
VARYING = ("options", "passes_ms")


def keys(x, at=""):
    found = set()
    for k, v in x.items() if isinstance(x, dict) else ():
        path = f"{at}.NAME" if at in VARYING else f"{at}.{k}" if at else k
        if isinstance(v, list):
            found |= {f"{path}[]"} if v else set()
            for e in v:
                found |= keys(e, f"{path}[]")
        else:
            found |= {path} | keys(v, path)
    return found


def run(command, stream):
    """The keys of every object that the command prints, one after the other."""
    words = command.split()
    r = subprocess.run([build / words[0], *words[1:]], cwd=folder, capture_output=True, text=True)
    text, found, decoder = getattr(r, stream).strip(), set(), json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        found |= keys(value)
        text = text[end:].strip()
    return found


ops = "--assume-differentiable my.*"
runs = {
    "ddpc check --format=json": ["ddpc check m.ir --format=json --deny=never " + ops, "ddpc check m.onnx --format=json",
                                 "ddpc check bert.ir --format=json",
                                 "ddpc check m.ir --format=json --baseline old.json --policy policy " + ops],
    "ddpc dump --format=json": ["ddpc dump m.plan --format=json", "ddpc dump uniform.plan --format=json",
                                f"ddpc m.ir {ops} --emit=json"],
    "ddpc verify --format=json": ["ddpc verify m.plan --format=json"],
    "ddpc simulate --format=json": ["ddpc simulate m.plan --format=json --rank-jitter 1 --straggler 1:2 --against ddp"],
    "ddpc diff --format=json": ["ddpc diff m.plan frozen.plan --format=json"],
    "ddpc --diagnostics=json": ["ddpc check broken.ir --diagnostics=json", "ddpc check twice.onnx --diagnostics=json", "ddpc check m.ir --diagnostics=json --bad",
                                "ddpc check no.ir --diagnostics=json"],
    "ddpc --stats=json": ["ddpc mlp.ir -o x.plan --stats=json"],
    "ddprun --format=json": ["ddprun m.plan -n 2 --iters 2 --format=json",
                             "ddprun m.plan -n 2 --iters 2 --format=json --fault=skip:1@1",
                             "ddprun m.plan -n 2 --iters 2 --format=json --fault=kill:1@1"],
}
wrong = []
sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", (root / "docs/json.md").read_text(), re.MULTILINE | re.DOTALL))
wrong += [f"docs/json.md has a section on {s}, which is not tested" for s in sections if s not in runs]
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "m.ir").write_text(model)
    (folder / "broken.ir").write_text(broken)
    (folder / "twice.onnx").write_bytes(twice)
    (folder / "m.onnx").write_bytes(onnx)
    old = model.replace('MatMul <source = "m.py:3"> (x, w)', "Identity (x)").replace("MatMul (f, v)", "Identity (f)")
    (folder / "old.ir").write_text(old)
    (folder / "policy").write_text("allow conditional v reason=routed\nallow never w reason=stale\n")
    with (folder / "old.json").open("w") as report:
        subprocess.run([build / "ddpc", "check", "old.ir", "--format=json", *ops.split()], cwd=folder, check=True,
                       stdout=report)
    for name in ("bert.ir", "mlp.ir"):
        (folder / name).symlink_to(root / "samples" / name)
    for plan in ("m.plan", "frozen.plan --frozen v", "uniform.plan --uniform turn"):
        subprocess.run([build / "ddpc", "m.ir", *ops.split(), "-o", *plan.split()], cwd=folder, check=True,
                       stderr=subprocess.DEVNULL)
    for section, commands in runs.items():
        known = set(re.findall(r"^\| `([^`]+)` \|", sections[section], re.MULTILINE))
        stream = "stderr" if section.startswith("ddpc --") else "stdout"
        found = set().union(*(run(c, stream) for c in commands))
        wrong += [f"docs/json.md lacks {k} of {section}" for k in sorted(found - known)]
        wrong += [f"docs/json.md has {k} of {section}, which is not printed" for k in sorted(known - found)]
print("\n".join(wrong) or "docs/json.md has all keys")
sys.exit(bool(wrong))
