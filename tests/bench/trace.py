#!/usr/bin/env python3
"""Prints a trace of so many MB: the events of a small real one over and over, with times and sequence numbers that go
on, and a kernel on a device behind every operator.

usage: trace.py MB >TRACE
"""
import gzip
import json
import pathlib
import sys

REAL = pathlib.Path(__file__).resolve().parents[1] / "data/traces/torch-2.15-shapes.json.gz"
KERNEL = ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >"
          "(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)")


def pieces(size):
    """The text in pieces, `size` bytes or little more."""
    events = [e for e in json.loads(gzip.open(REAL).read())["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    start, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
    numbers = 1 + max(e["args"].get("Sequence number", 0) for e in events)
    length, rounds, launches, comma = 0, 0, 0, ""
    yield '{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [\n'
    while length < size:
        for event in events:
            moved = dict(event, ts=round(event["ts"] + rounds * (end - start + 1000), 3), args=dict(event["args"]))
            if "Sequence number" in moved["args"]:
                moved["args"]["Sequence number"] += rounds * numbers
            texts = [moved]
            if event["name"].startswith("aten::"):
                launches += 1
                texts += [dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=1, tid=1, ts=moved["ts"], dur=2,
                               args={"External id": launches, "cbid": 211, "correlation": launches}),
                          dict(ph="X", cat="kernel", name=KERNEL, pid=0, tid=7, ts=moved["ts"] + 90, dur=3,
                               args={"External id": launches, "device": 0, "stream": 7, "correlation": launches,
                                     "grid": [64, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 30})]
            text = comma + ",\n".join(map(json.dumps, texts))
            length, comma = length + len(text), ",\n"
            yield text
        rounds += 1
    yield "]}\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    sys.stdout.writelines(pieces(int(sys.argv[1]) * 10 ** 6))
