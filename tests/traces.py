#!/usr/bin/env python3
"""Traces that profilers wrote, read and broken: mutants of them, plain and packed, end with a plan or a diagnostic and
never otherwise; packed and plain give the same plan; a long one takes little memory.

usage: traces.py BUILD-FOLDER [MUTANTS [SEED]]    MUTANTS: of each trace, 60; SEED: 1
"""
import gzip
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))
import trace  # noqa: E402

build = pathlib.Path(sys.argv[1]).resolve()
mutants = int(sys.argv[2]) if len(sys.argv) > 2 else 60
chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
sanitized = "DDPC_SANITIZE:BOOL=ON" in (build / "CMakeCache.txt").read_text()
wrong = []

# The module of the traces: Linear(6, 8), Tanh, Linear(8, 8), Linear(8, 2).
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4,6] x) => (float loss)
<float[8,6] "0.weight", float[8] "0.bias", float[8,8] "2.weight", float[8] "2.bias", float[2,8] "3.weight", float[2] "3.bias">
{
   a = Gemm <transB = 1> (x, "0.weight", "0.bias")
   b = Tanh (a)
   c = Gemm <transB = 1> (b, "2.weight", "2.bias")
   d = Gemm <transB = 1> (c, "3.weight", "3.bias")
   e = Mul (d, d)
   loss = ReduceMean <keepdims = 0> (e)
}
"""
TOKENS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-1", b"1e99", b"\xff", b"\\ud800", b"\0", b"\n",
          b'"ph":"B",', b'"ph":"E",', b'"Input Dims": [[9007199254740993]],', b'"name": "ready w",', b"[" * 300,
          b"9" * 400, b'"' + b"x" * 9000 + b'",']


def check(what, truth, more=""):
    if not truth:
        wrong.append(f"{what}: {more}")


def profile(path, folder):
    done = subprocess.run([build / "ddpc", "m.ir", "-o", "plan", "--profile", path, "--stats=json"], cwd=folder,
                          capture_output=True)
    return done.returncode, done.stderr.decode(errors="replace")


def mutant(data):
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, kind = chance.randrange(len(data)), chance.randrange(5)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at:at + chance.randint(1, 200)] = b""
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            digits = [m.span() for m in re.finditer(rb"\d+", data)] or [(0, 0)]
            start, end = chance.choice(digits)
            data[start:end] = chance.choice([b"0", b"-7", b"1e308", b"18446744073709551616", b"NaN", b"0.0000000001"])
        else:
            del data[at:]
        if not data:
            return b"["
    return bytes(data)


def judge(what, path, folder):
    code, said = profile(path, folder)
    fine = code == 0 or (code in (1, 2) and re.search(r"error\[DDP0(720|705|901|103)\]", said))
    check(what, fine and "Sanitizer" not in said and "runtime error" not in said, f"exit {code}: {said[:300]}")
    return code


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "m.ir").write_text(MODEL)
        codes = {}
        for path in sorted((HERE / "data/traces").glob("*.json.gz")):
            packed, plain = path.read_bytes(), gzip.decompress(path.read_bytes())
            plans = []
            for text, kind in ((packed, "packed"), (plain, "plain")):
                (folder / "t").write_bytes(text)
                code, said = profile("t", folder)
                check(f"{path.name}, {kind}", code == 0, said)
                plans.append((folder / "plan").read_bytes())
                for i in range(mutants):
                    (folder / "t").write_bytes(mutant(text))
                    code = judge(f"{path.name}, {kind}, mutant {i}", "t", folder)
                    codes[code] = codes.get(code, 0) + 1
            check(path.name, plans[0] == plans[1], "packed and plain give different plans")
        check("mutants", codes.get(0, 0) > 0 and codes.get(1, 0) > 0, f"they end in one way alone: {codes}")

        megabytes = 10 if sanitized else 40
        with gzip.open(folder / "long.json.gz", "wt", compresslevel=1) as out:
            out.writelines(trace.pieces(megabytes * 10 ** 6))
        code, said = profile("long.json.gz", folder)
        check("a long trace", code == 0 and "of 6 gradients 4 by a shape" in said, said)
        if code == 0 and not sanitized:
            peak = json.loads(said.splitlines()[-1])["peak_rss_bytes"]
            check("a long trace", peak < 30e6, f"{megabytes} MB took {peak / 1e6:.0f} MB of memory")
    for line in wrong[:10]:
        print(line)
    print(f"{sum(codes.values())} mutants: " + ", ".join(f"{n} ended with {code}" for code, n in sorted(codes.items())))
    return bool(wrong)


sys.exit(main())
