#!/usr/bin/env python3
"""The installed runtime is whole: a program outside of the tree builds against the shared and the static library by
hand, with pkg-config and with CMake, and runs. The commands alone, laid out as in a Python wheel (wheel.py makes real
ones), are found by the package. And the demo builds all that is installed.

usage: install.py BUILD SAMPLES CMAKE CC
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

build, samples, cmake, cc = sys.argv[1:]


def run(*command, **settings):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    if done.returncode:
        sys.exit(f"$ {' '.join(command)}\nexit {done.returncode}\n{done.stdout}")
    return done.stdout


CONSUMER = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(ddpc 0.1 REQUIRED)
add_executable(shared train.c)
target_link_libraries(shared PRIVATE ddpc::ddprt)
add_executable(static train.c)
target_link_libraries(static PRIVATE ddpc::ddprt_static)
"""

with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    prefix, outside = scratch / "prefix", scratch / "outside"
    run(cmake, "--install", build, "--prefix", str(prefix))
    outside.mkdir()
    (outside / "train.c").write_text((pathlib.Path(samples) / "train.c").read_text())
    (outside / "CMakeLists.txt").write_text(CONSUMER)
    lib = next(prefix.rglob("libddprt.a")).parent

    run(cc, "train.c", f"-I{prefix}/include", f"-L{lib}", f"-Wl,-rpath,{lib}", "-lddprt", "-o", "by-hand", cwd=outside)
    run(cc, "train.c", f"-I{prefix}/include", f"{lib}/libddprt.a", "-pthread", "-o", "by-hand-static", cwd=outside)
    search = dict(os.environ, PKG_CONFIG_PATH=f"{lib}/pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "ddprt", env=search).split()
    run(cc, "train.c", *flags, f"-Wl,-rpath,{lib}", "-o", "by-pkg-config", cwd=outside)
    run(cmake, "-S", ".", "-B", ".", "-G", "Ninja", f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=outside)
    run(cmake, "--build", ".", cwd=outside)

    run(f"{prefix}/bin/ddpc", f"{samples}/mlp.ir", "-o", "mlp.plan", cwd=outside)
    for program in ("by-hand", "by-hand-static", "by-pkg-config", "shared", "static"):
        assert "checksum" in run(f"./{program}", "mlp.plan", "2", cwd=outside), program
    needed = run("readelf", "-d", "by-hand", cwd=outside)
    assert "libddprt.so.0" in needed, needed

    site = scratch / "site"
    shutil.copytree(pathlib.Path(samples).parent / "python" / "ddpc", site / "ddpc")
    run(cmake, "--install", build, "--component", "commands", "--prefix", str(site / "ddpc"))
    carried = {str(p.relative_to(site / "ddpc")) for p in site.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert {p for p in carried if not p.endswith((".py", "py.typed"))} == {"bin/ddpc", "bin/ddprun"}, carried
    alone = {"PYTHONPATH": str(site), "PATH": "/nowhere"}
    version = run(sys.executable, "-c", "import ddpc; print(ddpc.__version__)", env=alone)
    assert run(sys.executable, "-m", "ddpc", "--version", env=alone) == f"ddpc {version}"

    built = {p.name for p in pathlib.Path(build).iterdir() if p.is_file()} | {"libddprt.a"}
    installed = {p.name for p in prefix.rglob("*") if p.is_file() and not p.is_symlink()} & built
    assert {"ddpc", "ddprun", "libddprt.a"} <= installed, installed
    of_demo = {pathlib.Path(line).name for line in run("ninja", "-C", build, "-t", "inputs", "demo").split()}
    assert installed <= of_demo, f"the demo does not build {', '.join(sorted(installed - of_demo))}"
