#!/usr/bin/env python3
"""What `cmake --build build --target bench` prints: how fast ddpc reads and compiles texts, and how fast onnx's own
parser reads one of them, as medians of several runs; how long 100,000 gradients take to schedule and to verify; and
what schedules lose where predictions are off; and how fast a profiler's trace is read.

usage: bench.py BUILD TEXTS [PYTHON]    BUILD: where bench_read and ddpc are; TEXTS: a folder for the generated texts;
                                        PYTHON: one that has the package onnx, to compare with

Times are processor seconds with wall seconds behind them in parentheses; on a machine that others share, the first
mean something. MB are 10^6 bytes. Reading is measured on a text that is in memory already; compiling is a whole run
of `ddpc MODEL -o PLAN`, as are its passes, and the peak of its memory counts the mapped text too.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

RUNS = 5
TRACE_MB = 500
BERT = {"bert, 200,000 nodes": "layers=5263 hidden=64 heads=4 vocabulary=1000"}
SCHEDULED = ("resnet50", "bert-large", "gpt2-xl")
DEEP = {"deep, 200,000 nodes": 200_000, "deep, 500,000 nodes": 500_000, "deep, 1,000,000 nodes": 1_000_000}
HERE = pathlib.Path(__file__).resolve().parent
ONNX_PARSER = """
import sys, time
from onnx import onnx_cpp2py_export
text = open(sys.argv[1]).read()
cpu, wall = time.process_time(), time.perf_counter()
ok = onnx_cpp2py_export.parser.parse_model(text)[0]
print(time.process_time() - cpu, time.perf_counter() - wall)
sys.exit(not ok)
"""


def median(times):
    """Of (processor, wall) pairs, each by itself."""
    return tuple(statistics.median(column) for column in zip(*times))


def pairs(output):
    return [tuple(map(float, line.split())) for line in output.splitlines()]


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout


def generate(folder):
    """Writes what is not there yet; a text goes by what made it."""
    folder.mkdir(parents=True, exist_ok=True)
    makers = {name: [HERE.parents[1] / "samples/generate.py", "bert", *keys.split()] for name, keys in BERT.items()}
    makers |= {name: [HERE / "texts.py", nodes] for name, nodes in DEEP.items()}
    texts = {name: folder / (name.replace(" ", "-").replace(",", "") + ".ir") for name in makers}
    for name, path in texts.items():
        if not path.exists():  # not through memory of ours, which would count as the peak of what we start
            with open(path.with_suffix(".new"), "w") as out:
                subprocess.run([sys.executable, *map(str, makers[name])], check=True, stdout=out)
            path.with_suffix(".new").replace(path)
    return texts


def traces(folder):
    """A trace of PyTorch's profiler, plain and packed; MB are those of the plain one."""
    plain, packed = folder / "trace.json", folder / "trace.json.gz"
    if not packed.exists():
        with open(plain, "w") as out:
            subprocess.run([sys.executable, str(HERE / "trace.py"), str(TRACE_MB)], check=True, stdout=out)
        with open(packed, "wb") as out:
            subprocess.run(["gzip", "-1", "-c", str(plain)], check=True, stdout=out)
    return {"trace": plain, "trace, packed by gzip": packed}


def compile_once(ddpc, path, plan=None, *flags):
    """(processor, wall) seconds of the process, and what --stats=json says."""
    command = [ddpc, path, "-o", plan or path.with_suffix(".plan"), "--stats=json", *flags]
    before, start = os.times(), os.times().elapsed
    stats = subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return (cpu, after.elapsed - start), json.loads(stats.splitlines()[-1])


def main(build, texts, python=""):
    build = pathlib.Path(build)
    folder = pathlib.Path(texts)
    texts = generate(folder)
    reading, compiling = {}, {}

    print(f"reading, medians of {RUNS}          MB      MB/s              nodes/s")
    for name, path in texts.items():
        nodes = compile_once(build / "ddpc", path)[1]["nodes"]
        cpu, wall = reading[name] = median(pairs(run(build / "bench_read", path, RUNS)))
        size = path.stat().st_size / 1e6
        print(f"  {name:26} {size:6.1f} {size / cpu:7.0f} ({size / wall:4.0f}) {nodes / cpu:14,.0f}", flush=True)
    if python:
        for name in (next(iter(BERT)), next(iter(DEEP))):
            cpu, wall = median([pairs(run(python, "-c", ONNX_PARSER, texts[name]))[0] for _ in range(RUNS)])
            size = texts[name].stat().st_size / 1e6
            print(f"  onnx's parser on the same {size:7.1f} {size / cpu:7.0f} ({size / wall:4.0f})   ddpc is "
                  f"{cpu / reading[name][0]:.1f} ({wall / reading[name][1]:.1f}) times as fast: {name}", flush=True)
    else:
        print("  not compared with onnx's parser: cmake -DDDPC_PYTHON_ONNX=PYTHON names a Python that has onnx")

    print(f"\ncompiling, medians of {RUNS}   seconds        nodes/s  peak MB  passes, wall ms")
    for name, path in texts.items():
        runs = [compile_once(build / "ddpc", path) for _ in range(RUNS)]
        cpu, wall = compiling[name] = median([times for times, _ in runs])
        stats = [stats for _, stats in runs]
        passes = {p: statistics.median(s["passes_ms"][p] for s in stats) for p in stats[0]["passes_ms"]}
        peak = max(s["peak_rss_bytes"] for s in stats) / 1e6
        shown = " ".join(f"{p} {ms:.0f}" for p, ms in passes.items())
        print(f"  {name:22} {cpu:6.2f} ({wall:.2f}) {stats[0]['nodes'] / cpu:10,.0f} {peak:7.0f}  {shown}", flush=True)
    half, whole = compiling["deep, 500,000 nodes"], compiling["deep, 1,000,000 nodes"]
    print(f"  twice the nodes take {whole[0] / half[0]:.2f} ({whole[1] / half[1]:.2f}) times as long")

    print(f"\nprofiles, medians of {RUNS}       MB      MB/s       peak MB")
    for name, path in traces(folder).items():
        model = HERE.parents[1] / "samples/mlp.ir"
        runs = [compile_once(build / "ddpc", model, folder / "mlp.plan", "--profile", path) for _ in range(RUNS)]
        cpu, wall = median([times for times, _ in runs])
        peak = max(stats["peak_rss_bytes"] for _, stats in runs) / 1e6
        print(f"  {name:24} {TRACE_MB:6} {TRACE_MB / cpu:7.0f} ({TRACE_MB / wall:4.0f}) {peak:9.1f}", flush=True)

    print(flush=True)
    subprocess.run([str(build / "bench_schedule")], check=True)
    print("\nwhere predictions are off, by policy:", flush=True)
    for model in SCHEDULED:
        path = folder / f"{model}.ir"
        if not path.exists():
            path.write_text(run(sys.executable, HERE.parents[1] / "samples/generate.py", model))
        subprocess.run([str(build / "bench_robust"), str(path), "h100x8", "h100x8-ib400-x64"], check=True)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
