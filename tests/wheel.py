#!/usr/bin/env python3
"""`pip install ./python`: a wheel from the tree, and one from the source distribution, carry commands that run, and the
package finds them. Builds without the network, so it takes an interpreter that has pip and scikit-build-core; exit 77,
skipped, where there is none.

usage: wheel.py PYTHON-FOLDER SAMPLES
"""
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile

folder, samples = (pathlib.Path(a).resolve() for a in sys.argv[1:])


def run(*command, **settings):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    if done.returncode:
        sys.exit(f"$ {' '.join(command)}\nexit {done.returncode}\n{done.stdout}")
    return done.stdout


def pip(*arguments):
    run(sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--disable-pip-version-check")


def try_out(wheel, site):
    """The wheel in a folder of its own, with an empty environment."""
    pip("install", wheel, "--target", site)
    here = {"PYTHONPATH": str(site)}
    version = run(sys.executable, "-c", "import ddpc; print(ddpc.__version__)", env=here).strip()
    assert version == wheel.name.split("-")[1], (version, wheel.name)
    found = run(sys.executable, "-c", "from ddpc import command; print(command.find())", env=here, cwd=site.parent)
    assert found.strip() == str(site / "ddpc" / "bin" / "ddpc"), found
    plan = site / "mlp.plan"
    for ddpc in ([site / "bin" / "ddpc"], [sys.executable, "-m", "ddpc"]):
        assert run(*ddpc, "--version", env=here) == f"ddpc {version}\n"
        run(*ddpc, samples / "mlp.ir", "-o", plan, env=here)
    assert "verified" in run(site / "bin" / "ddprun", plan, "-n", 2, "--iters", 1, env=here)
    for file in ("LICENSE", "NOTICE"):
        assert list(site.glob(f"ddpc-*.dist-info/licenses/{file}")), file
    needed = run("readelf", "-d", site / "ddpc" / "bin" / "ddpc")
    assert not any(library in needed for library in ("jansson", "libz")), \
        f"the wheel needs a library of the machine that it lands on:\n{needed}"


try:
    for name in ("pip", "scikit-build-core"):
        major = int(importlib.metadata.version(name).split(".")[0])
    if major < 1:
        raise importlib.metadata.PackageNotFoundError("scikit-build-core 1.0")
except importlib.metadata.PackageNotFoundError as missing:
    print(f"skipped: no {missing.name} in {sys.executable}")
    sys.exit(77)

with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    pip("wheel", "--no-build-isolation", "-w", scratch / "tree", folder)
    sdist = f"from scikit_build_core.build import build_sdist; build_sdist({str(scratch / 'sdist')!r})"
    run(sys.executable, "-c", sdist, cwd=folder)
    os.environ["SKBUILD_CMAKE_BUILD_TYPE"] = "Debug"  # compiles in half the time
    pip("wheel", "--no-build-isolation", "-w", scratch / "again", next(scratch.glob("sdist/ddpc-*.tar.gz")))
    for place in ("tree", "again"):
        try_out(next(scratch.glob(f"{place}/ddpc-*.whl")), scratch / f"site-{place}")
print("the wheels of the tree and of the source distribution work")
