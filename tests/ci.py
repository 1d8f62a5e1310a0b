#!/usr/bin/env python3
"""The workflow in samples/ci is one that runs: its commands, taken from the file, pass on an unchanged repository and
fail on one in which a parameter stopped training.

What GitHub does itself (`uses:`) and what installs is left out. With PyTorch and the package's export the repository is a
Python module that is recorded; without, it holds a model's text and that one step is left out too. 77: no PyYAML.

usage: ci.py BUILD-FOLDER SOURCE-TREE [PYTHON-WITH-PYTORCH]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("skipped: there is no PyYAML")
    sys.exit(77)

build, root = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
python = sys.argv[3] if len(sys.argv) > 3 else ""
ci = root / "samples/ci"
export = bool(python) and (root / "python/ddpc/export.py").exists()

# The module of the repository: `head` trains, and with DEAD nothing reads what `spare` makes.
MODULE = """import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.spare, self.head = (torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        h = self.body(x)
        s = self.spare(h)
        return self.head(h@DEAD@)

def build():
    return Net()

def batches():
    return [(torch.ones(2, 4),)]

def loss(output, x):
    return output.sum()
"""
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4] x) => (float loss)
<float[4,4] body.weight, float[4,4] spare.weight, float[4,4] head.weight>
{
   h = MatMul (x, body.weight)
   s = MatMul (h, spare.weight)
   k = Add (h, @DEAD@)
   y = MatMul (k, head.weight)
   loss = ReduceMean <keepdims = 0> (y)
}
"""


def sh(command, status=0):
    r = subprocess.run(["/bin/sh", "-ec", command], cwd=repo, env=environment, capture_output=True, text=True)
    assert r.returncode == status, f"{command}\nended with {r.returncode}, not {status}\n{r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def write(dead):
    if export:
        (repo / "pkg/mod.py").write_text(MODULE.replace("@DEAD@", "" if dead else " + s"))
    else:
        (repo / "model.ir").write_text(TEXT.replace("@DEAD@", "h" if dead else "s"))


def record():
    if export:
        sh(commands["verify"].replace("--verify", "-o"))


workflow = yaml.safe_load((ci / "ddpc-check.yml").read_text())
assert set(workflow) == {"name", True, "permissions", "jobs"}, "`on` is a boolean to YAML 1.1"
assert workflow["permissions"]["security-events"] == "write"
(job,) = workflow["jobs"].values()
steps = job["steps"]
assert all(("run" in s) != ("uses" in s) and set(s) <= {"name", "run", "uses", "with", "if"} for s in steps)
runs = [s["run"] for s in steps if "run" in s and s["name"] != "Install"]
assert "ddpc.export" in runs[0] and "--verify" in runs[0], "it is the first step after installing"
assert len(runs) == 3, runs
commands = dict(zip(("verify", "check", "diff"), runs))
assert "ddpc.check" in commands["check"], "the gate is of the code, whether or not the text has followed it"
if not export:
    commands["check"] = re.sub(r"^python -m ddpc\.check .* (?=--baseline)", "ddpc check model.ir ", commands["check"])
upload = next(s for s in steps if "upload-sarif" in s.get("uses", ""))
assert upload["with"]["sarif_file"] in commands["check"] and upload["with"]["sarif_file"] in upload["if"]

with tempfile.TemporaryDirectory() as folder:
    repo = pathlib.Path(folder)
    (repo / "pkg").mkdir()
    (repo / "pkg/__init__.py").write_text("")
    (repo / "bin").mkdir()
    if export:
        (repo / "bin/python").symlink_to(pathlib.Path(python).resolve())
    environment = {"PATH": f"{repo}/bin:{build}:/usr/bin:/bin", "PYTHONPATH": f"{root}/python:{repo}", "LC_ALL": "C.UTF-8",
                   "OMP_NUM_THREADS": "1", "DDPC": str(build / "ddpc"), "HOME": folder}
    environment.update({k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "LSAN_"))})

    write(dead=False)
    record()
    sh("ddpc check model.ir --format=json -o check.json && ddpc model.ir -o released.plan")
    for name in ("verify", "check", "diff"):
        if name != "verify" or export:
            sh(commands[name])
    assert json.loads((repo / "ddpc.sarif").read_text())["runs"][0]["results"] == []

    write(dead=True)
    if export:
        print(sh(commands["verify"], 1))
    said = sh(commands["check"], 1)
    assert "newly of class never: spare.weight" in said, said
    results = json.loads((repo / "ddpc.sarif").read_text())["runs"][0]["results"]
    assert {(r["level"], r["baselineState"]) for r in results} == {("error", "new")}, results
    if export:
        (line,) = {r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in results}
        assert "self.spare(h)" in (repo / "pkg/mod.py").read_text().split("\n")[line - 1], line
    record()
    sh(commands["diff"], 1)

    # A reviewer accepts it in the policy; and the sample's own policy reads.
    (repo / ".ddpccheck").write_text('allow never spare.* reason="kept for the old checkpoint"\n')
    sh(commands["check"])
    (repo / ".ddpccheck").write_text((ci / ".ddpccheck").read_text())
    said = sh(commands["check"], 1)
    assert said.count("DDP1006") == 2 and "DDP1005" not in said, said
print("the workflow's commands do what they should" + ("" if export else "; without PyTorch the export was left out"))
