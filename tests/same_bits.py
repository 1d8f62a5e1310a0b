#!/usr/bin/env python3
"""The same plan, whatever compiled the compiler: every file of compiler/ that computes with doubles is compiled by gcc and
by clang, with -O0 and with -O3, each set linked with the rest of a build, and the plans of all samples compared byte by
byte with those of the build's own ddpc.

usage: same_bits.py BUILD SAMPLES    exit 77: the build is not Ninja's, or there is no second compiler
"""
import concurrent.futures
import itertools
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

TOPOLOGIES = ("h100x8", "h100x8-ib400-x64", "eth25-x16")
SCHEDULES = ("robust", "exact", "ddp")


def commands(build):
    """How Ninja makes ddpc: the lines that compile, and the last, which links."""
    done = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "ddpc"], stdout=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.splitlines() if line]
    if done.returncode or not lines:
        print("skipped: this build has no Ninja that would say how it makes ddpc")
        sys.exit(77)
    return [shlex.split(line) for line in lines]


def computes(words):
    """The source of a compilation, if it is a pass that knows doubles."""
    source = pathlib.Path(words[-1])
    if "-c" in words and source.parent.name == "compiler" and "double" in source.read_text():
        return source
    return None


def build_variant(build, lines, compiler, level, folder):
    """A ddpc in `folder` whose doubles went through another compiler."""
    objects = []

    def compile_one(words):
        to = folder / (computes(words).stem + ".o")
        flags = [w for w in words if w.startswith(("-I", "-D", "-f", "-std="))]
        subprocess.run([compiler, level, *flags, "-c", words[-1], "-o", str(to)], check=True, cwd=build)
        return str(to)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, filter(computes, lines)))
    link = lines[-1]
    link = link[link.index("&&") + 1:-2]  # ": && cc ... && :"
    at, to = link.index("-o"), folder / "ddpc"
    # Objects come before the archive, so that its members of the same names are not taken.
    subprocess.run([*link[:at], *objects, "-o", str(to), *link[at + 2:]], check=True, cwd=build)
    return to


def plan(ddpc, sample, topology, schedule, folder):
    to = folder / "plan"
    subprocess.run([str(ddpc), str(sample), "-o", str(to), "--topology", topology, "--schedule", schedule,
                    "--diagnostics=short"], check=True, stderr=subprocess.DEVNULL)
    return to.read_bytes()


def main(build, samples):
    build, samples = pathlib.Path(build), sorted(pathlib.Path(samples).glob("*.ir"))
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    lines = commands(build)
    if len(compilers) < 2:
        print("skipped: there are not both gcc and clang")
        sys.exit(77)
    cases = list(itertools.product(samples, TOPOLOGIES, SCHEDULES))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        want = [plan(build / "ddpc", *case, folder) for case in cases]
        for compiler, level in itertools.product(compilers, ("-O0", "-O3")):
            variant = folder / (compiler + level)
            variant.mkdir()
            ddpc = build_variant(build, lines, compiler, level, variant)
            for case, bytes_ in zip(cases, want):
                if plan(ddpc, *case, variant) != bytes_:
                    sys.exit(f"{compiler} {level}: another plan of {case[0].name} on {case[1]}, {case[2]}")
            print(f"{compiler} {level}: the same {len(cases)} plans")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
