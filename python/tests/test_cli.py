"""python -m ddpc.check and ddpc.export, as a user's shell sees them."""

import importlib
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from ddpc import check, export  # noqa: E402

MODEL = '''
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.pooler = nn.Linear(4, 4)
        self.pool = False

    def forward(self, x):
        h = self.body(x)
        if self.pool:
            h = self.pooler(h)
        return h


def build():
    return Net()


def build_wrapped():
    return nn.DataParallel(Net())


def build_in_eval_mode():
    return Net().eval()


def build_raises():
    return {}["size"]


def build_number():
    return 3


def build_with(config):
    return Net()


net = Net()


def batches():
    for _ in range(3):
        yield (torch.randn(2, 4),)


tensors = [torch.randn(2, 4)]
one = torch.randn(2, 4)
keywords = {"x": torch.randn(2, 4)}
of_another_shape = [torch.randn(2, 5)]
none = []


def endless():
    while True:
        yield torch.randn(2, 4)


def ends_badly():
    yield torch.randn(2, 4)
    raise RuntimeError("the data is gone")


def loss(output, x):
    return output.sum()


def other_loss(output, x):
    return output.mean()


labelled = [(torch.randn(2, 4), torch.ones(2, 4)), {"x": torch.randn(2, 4), "y": torch.ones(2, 4)}]


renamed = [{"input": torch.randn(2, 4)}]


def with_labels(output, x, y):
    return (output - y).square().mean()


def vector(output, x):
    return output.sum(1)


def number(output, x):
    return float(output.sum())
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "cli_model.py").write_text(MODEL)
    package = folder / "cli_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text("from . import parts\nbuild = parts.build\n")
    (package / "parts.py").write_text("from cli_model import build, batches, loss\n")
    (folder / "cli_needs.py").write_text("import no_such_package_at_all\n")
    (folder / "cli_broken.py").write_text("def f(:\n")
    return folder


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Runs a program's main; returns (exit status, standard output, standard error)."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(program, *args):
        importlib.invalidate_caches()
        try:
            code = program.main([str(a) for a in args])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


GOOD = ("cli_model:build", "--batch", "cli_model:batches", "--loss=cli_model:loss")


def test_a_report_with_lines_of_the_user(run):
    code, out, err = run(check, *GOOD)
    assert code == 0 and not err
    lines = out.splitlines()
    assert lines[0] == "VERDICT  flag not needed, after freezing 2 parameters"
    assert lines[-1] == "AUTOGRAD agrees on 3 batches: 4 of 4"
    if sys.version_info >= (3, 11):
        assert any("cli_model.py:15 if self.pool: (true)" in line for line in lines)
    assert "<stdin>" not in out


def test_flags_of_the_command_are_passed_on(run):
    code, out, err = run(check, "--deny", "never", *GOOD)
    assert code == 1 and "denied: 2 parameters of class never: pooler.weight, pooler.bias" in err
    assert run(check, *GOOD, "--deny=never", "--frozen", "pooler.*")[0] == 0
    for flags in (("--frozen=module.pooler.*",), ("--frozen", "module._orig_mod.pooler.*")):  # as a wrapped module names them
        code, _, err = run(check, *GOOD, "--deny=never", *flags)
        assert code == 0 and "DDP0508" not in err
    code, _, err = run(check, *GOOD, "--frozen=pooler.wieght")
    assert code == 2 and "did you mean 'pooler.weight'" in err
    code, out, err = run(check, *GOOD, "--dney=never")
    assert code == 2 and "there is no flag --dney; did you mean --deny" in err


def test_json_is_alone_on_standard_output(run, folder):
    code, out, err = run(check, *GOOD, "--format=json")
    answer = json.loads(out)
    assert code == 0 and answer["model"] == "cli_model:build" and answer["evidence"] == "observed"
    assert err == "AUTOGRAD agrees on 3 batches: 4 of 4\n"
    code, out, err = run(check, *GOOD, "--format", "json", "-o", "answer.json")
    assert code == 0 and not out and json.loads((folder / "answer.json").read_text()) == answer


def test_every_result_of_sarif_has_a_line_of_the_user(run):
    code, out, _ = run(check, *GOOD, "--format=sarif", "--deny=never")
    results = json.loads(out)["runs"][0]["results"]
    places = [r["locations"][0]["physicalLocation"] for r in results]
    assert code == 1 and len(places) == 2
    line = 1 + MODEL.splitlines().index("        self.pooler = nn.Linear(4, 4)")
    assert all(p["artifactLocation"]["uri"] == "cli_model.py" and p["region"]["startLine"] == line for p in places)


@pytest.mark.parametrize("module", ["cli_model:net", "cli_model:Net", "cli_model.py:build", "./cli_model.py:build",
                                    "cli_package.net:build", "cli_package/net.py:build", "cli_model:build_wrapped"])
def test_ways_to_name_a_module(run, module):
    code, out, _ = run(check, module, *GOOD[1:])
    assert code == 0 and "4 of 4" in out


@pytest.mark.parametrize("batches, said", [("tensors", "1 batch"), ("one", "1 batch"), ("keywords", "1 batch"),
                                           ("endless", "64 batches")])
def test_ways_to_give_batches(run, batches, said):
    code, out, err = run(check, "cli_model:build", f"--batch=cli_model:{batches}", "--loss=cli_model:loss")
    assert code == 0 and f"AUTOGRAD agrees on {said}: 4 of 4" in out
    assert ("--max-batches" in err) == (batches == "endless")


def test_labels_are_for_the_loss_alone(run):
    code, out, _ = run(export, "cli_model:build", "--batch=cli_model:labelled", "--loss=cli_model:with_labels")
    assert code == 0 and "(float[2,4] x, float[2,4] y) => (" in out and "variant" not in out
    code, _, err = run(export, "cli_model:build", "--batch=cli_model:labelled", "--loss=cli_model:loss")
    assert code == 2 and "the loss (output, x) cannot be called with the batch: too many positional arguments" in err
    code, _, err = run(export, "cli_model:build", "--batch=cli_model:renamed", "--loss=cli_model:loss")
    assert code == 2 and "Net.forward(x) cannot be called with the batch: missing a required argument: 'x'" in err


def test_steps(run):
    code, out, _ = run(check, *GOOD[:3], "--step", "d=cli_model:loss", "--step=g=cli_model:other_loss,cli_model:tensors")
    assert code == 0 and "STEP     d: " in out and "STEP     g: " in out and "agrees on 4 batches" in out


WITHOUT_LOSS = GOOD[:3]


@pytest.mark.parametrize("code, args, said", [
    (2, ("cli_model:buld", *GOOD[1:]), "cli_model has no buld; did you mean build"),
    (2, ("cli_modl:build", *GOOD[1:]), "there is no Python module cli_modl; did you mean cli_model?"),
    (2, ("cli_modl.py:build", *GOOD[1:]), "there is no file cli_modl.py; did you mean cli_model.py"),
    (2, ("cli_model", *GOOD[1:]), "it must be MODULE:NAME"),
    (2, ("cli_model:build_number", *GOOD[1:]), "cli_model:build_number gives a int, not a torch.nn.Module"),
    (2, ("cli_model:build_with", *GOOD[1:]), "takes arguments (config), but it is called without any"),
    (2, ("cli_model:build",), "there is no batch: --batch"),
    (2, (), "required: MODULE:NAME"),
    (2, ("cli_model:build", "--batch=cli_model:build_number"), "cannot be iterated"),
    (2, ("cli_model:build", "--batch=cli_model:none"), "there are no batches"),
    (2, WITHOUT_LOSS, "no loss was given"),
    (2, (*WITHOUT_LOSS, "--loss=cli_model:vector"), "the loss has shape [2]; it must be a scalar"),
    (2, (*WITHOUT_LOSS, "--loss=cli_model:number"), "the loss is a float, not a tensor"),
    (2, (*WITHOUT_LOSS, "--loss=cli_model:one"), "not a function loss(output, *batch)"),
    (2, (*GOOD, "--step=d=cli_model:loss"), "--loss and --step exclude each other"),
    (2, (*WITHOUT_LOSS, "--step=cli_model:loss"), "it must be STEP=LOSS"),
    (2, (*GOOD, "-o", "nowhere/report"), "cannot write nowhere/report: there is no folder nowhere"),
    (2, (*GOOD, "-o", ""), "-o names no file"),
    (2, (*GOOD, "--max-batches=0"), "at least 1"),
    (2, (*GOOD, "--deny=nver"), "never"),
    (1, ("cli_model:build_raises", *GOOD[1:]), "building cli_model:build_raises: KeyError in your code"),
    (1, ("cli_model:build", "--batch=cli_model:of_another_shape"), "batch 1: RuntimeError in your code"),
    (1, ("cli_model:build", "--batch=cli_model:ends_badly", "--loss=cli_model:loss"), "making batch 2: RuntimeError"),
    (1, ("cli_needs:build", *GOOD[1:]), "ModuleNotFoundError in your code"),
    (1, ("cli_broken:build", *GOOD[1:]), "SyntaxError in your code"),
])
def test_errors_are_messages(run, code, args, said):
    found, out, err = run(check, *args)
    assert (found, out) == (code, "") and said in err
    assert "ddpc.check: error: " in err or said == "never"
    assert "ddpc/torch" not in err, "frames of this package are nobody's concern"
    if code == 1:
        assert "cli_" in err.splitlines()[1] or "cli_" in err.splitlines()[0]
    else:
        assert "Traceback" not in err


def test_eval_mode_is_said(run):
    code, _, err = run(check, "cli_model:build_in_eval_mode", *GOOD[1:])
    assert code == 0 and "ddpc.check: note: the module is in eval mode" in err


def test_export_writes_whole_files_the_same_each_time(run, folder):
    for name in ("a.ir", "b.ir"):
        code, out, err = run(export, *GOOD, "-o", name)
        assert (code, out, err) == (0, "", "ddpc.export: autograd agrees on 3 batches: 4 of 4\n")
    assert (folder / "a.ir").read_bytes() == (folder / "b.ir").read_bytes()
    code, out, _ = run(export, *GOOD)
    assert code == 0 and out == (folder / "a.ir").read_text()
    assert not list(folder.glob("a.ir.*"))


def test_export_that_fails_leaves_the_file(run, folder):
    (folder / "kept.ir").write_text("old")
    assert run(export, *WITHOUT_LOSS, "-o", "kept.ir")[0] == 2
    assert (folder / "kept.ir").read_text() == "old"
    assert not list(folder.glob("kept.ir.*"))


def test_export_through_a_link_replaces_the_file_behind_it(run, folder):
    (folder / "real.ir").write_text("old")
    (folder / "link.ir").symlink_to("real.ir")
    assert run(export, *GOOD, "-o", "link.ir")[0] == 0
    assert (folder / "link.ir").is_symlink() and (folder / "real.ir").read_text().startswith("<")


def test_as_a_program(folder):
    done = subprocess.run([sys.executable, "-m", "ddpc.check", *GOOD, "--deny=never"], cwd=folder, capture_output=True,
                          text=True)
    assert done.returncode == 1 and "VERDICT" in done.stdout and "denied" in done.stderr


def test_a_python_without_pytorch_is_named(tmp_path):
    """Says which interpreter lacks it, in place of a traceback."""
    code = "import sys; sys.modules['torch'] = None; from ddpc import check; sys.exit(check.main(['a:b']))"
    hide = ("import importlib.util as u; find = u.find_spec; "
            "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a); ")
    done = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"ddpc.check: error: ddpc.torch needs PyTorch, which {sys.executable} does not have")


TINY = '''
import argparse
import sys

import torch


def build():
    argparse.ArgumentParser().parse_args()
    print("noise")
    return torch.nn.Linear(2, SIZE)


def quits():
    sys.exit(0)


def batches():
    return [torch.ones(1, 2)]


def wide():
    return [torch.ones(1, 3)]


def loss(output, x):
    return output.sum()
'''


@pytest.mark.parametrize("file", ["one/json.py", "one/torch.py", "one/my-model.v2.py", "one/plain", "one/mödel.py"])
def test_a_file_is_imported_whatever_its_name(run, tmp_path, file):
    (tmp_path / "one").mkdir()
    (tmp_path / file).write_text(TINY.replace("SIZE", "1"), encoding="utf-8")
    f = str(tmp_path / file)
    code, out, err = run(check, f"{f}:build", f"--batch={f}:batches", f"--loss={f}:loss", "--format=json")
    assert code == 0 and json.loads(out)["verdict"] == "flag_not_needed", "what the user's code prints is not the report"
    assert "noise" in err


def test_files_of_one_name_are_two(run, tmp_path):
    for folder, size in (("one", "1"), ("two", "5")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(TINY.replace("SIZE", size))
    one, two = (str(tmp_path / folder / "same.py") for folder in ("one", "two"))
    for f, shape in ((one, [1, 2]), (two, [5, 2])):
        _, out, _ = run(check, f"{f}:build", f"--batch={one}:batches", f"--loss={two}:loss", "--format=json")
        assert json.loads(out)["steps"][0]["parameters"][0]["shape"] == shape


def test_code_that_ends_the_program_is_no_success(run, tmp_path):
    f = tmp_path / "quits.py"
    f.write_text(TINY)
    code, out, err = run(check, f"{f}:quits", f"--batch={f}:batches", f"--loss={f}:loss")
    assert (code, out) == (1, "") and "building" in err and "your code ends the program: sys.exit(0)" in err


def test_a_module_of_torch_alone_that_fails_is_the_users(run, tmp_path):
    f = tmp_path / "wide.py"
    f.write_text(TINY.replace("SIZE", "1"))
    code, _, err = run(check, f"{f}:build", f"--batch={f}:wide", f"--loss={f}:loss")
    assert code == 1 and "batch 1: RuntimeError in your code" in err and "ddpc/torch" not in err


@pytest.mark.parametrize("program", ["check", "export"])
def test_standard_output_that_is_full_or_closed(folder, program):
    command = [sys.executable, "-m", f"ddpc.{program}", *GOOD]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, encoding="utf-8")
    assert done.returncode == 2
    assert done.stderr.endswith(f"ddpc.{program}: error: cannot write standard output: No space left on device\n")
    assert "Traceback" not in done.stderr and "ignored" not in done.stderr
