#!/usr/bin/env python3
"""Every .onnx file of a folder through ddpc: read, printed as text, the text read and printed again, and checked with
its first output as the loss. Prints a table of the outcomes; exit 1 if a program crashed, a print did not read back to
itself, or text and binary differ in a report. Debian's package libonnx-testdata has about a thousand small models.

usage: onnx_corpus.py DDPC FOLDER [--list]    (--list: a line per model as well)
"""
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ddpc, folder = (pathlib.Path(a).resolve() for a in sys.argv[1:3])


def run(*words, **kw):
    return subprocess.run([ddpc, *words], capture_output=True, timeout=300, **kw)


def first_output(text):
    """The name of the first output in a canonical text, as --loss takes it."""
    m = re.search(r'^(?:"(?:[^"\\]|\\.)*"|[^\s"(]+) \(.*?\) => \((?:.*?[\])\w] )??("(?:[^"\\]|\\.)*"|\w+)[,)]', text,
                  re.MULTILINE)
    name = m.group(1) if m else ""
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name[:1] == '"' else name


def codes(r):
    found = re.findall(rb"error\[(DDP\d+)\]", r.stderr)
    return found[0].decode() if found else f"exit {r.returncode}"


def report(done):
    """What a check says, without the places that differ between the two forms."""
    r = json.loads(done.stdout)
    return [(s["losses"], r["verdict"], [(p["name"], p["kind"], p["class"], p["shape"], p["guard"])
                                         for p in s["parameters"]]) for s in r["steps"]]


def outcome(path):
    printed = run("fmt", path)
    if printed.returncode not in (0, 1) or b"Sanitizer" in printed.stderr:
        return "CRASH in fmt", f"exit {printed.returncode}"
    if printed.returncode:
        return "not read", codes(printed)
    with tempfile.TemporaryDirectory() as scratch:
        text = pathlib.Path(scratch, "m.onnxtxt")
        text.write_bytes(printed.stdout)
        again = run("fmt", text)
        if again.returncode or again.stdout != printed.stdout:
            return "PRINT differs", codes(again)
        name = first_output(printed.stdout.decode("utf-8", "replace"))
        flags = ["--format=json", *(["--loss", name] if name else [])]
        checks = [run("check", p, *flags) for p in (path, text)]
        if any(c.returncode not in (0, 1) or b"Sanitizer" in c.stderr for c in checks):
            return "CRASH in check", f"exit {[c.returncode for c in checks]}"
        if checks[0].returncode != checks[1].returncode or codes(checks[0]) != codes(checks[1]):
            return "TEXT differs", f"{codes(checks[0])} and {codes(checks[1])}"
        if checks[0].returncode:
            return "diagnostic", codes(checks[0])
        if report(checks[0]) != report(checks[1]):
            return "TEXT differs", "in the classes"
        n = sum(len(s["parameters"]) for s in json.loads(checks[0].stdout)["steps"])
        return "class table", "with parameters" if n else "without parameters"


paths = sorted(p for p in folder.rglob("*.onnx") if p.is_file())
with concurrent.futures.ThreadPoolExecutor() as pool:
    outcomes = list(pool.map(outcome, paths))
table = collections.Counter(outcomes)
for (what, how), n in sorted(table.items(), key=lambda x: (-x[1], x[0])):
    example = paths[outcomes.index((what, how))].relative_to(folder)
    print(f"{n:6}  {what:14} {how:22} e.g. {example}")
print(f"{len(paths):6}  models")
if "--list" in sys.argv:
    for path, (what, how) in zip(paths, outcomes):
        print(f"{path.relative_to(folder)}: {what}: {how}")
sys.exit(any(what.split()[0].isupper() for what, _ in table))
