"""`python -m ddpc.export --verify`: what differs is said in the model's terms, and only what matters fails."""

import sys

import pytest

torch = pytest.importorskip("torch")

from ddpc import Error, export  # noqa: E402
from ddpc.torch import drift  # noqa: E402
from ddpc.torch import export as record  # noqa: E402
from ddpc.torch.read import parse  # noqa: E402

MODEL = '''
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)
        self.c.weight = self.a.weight
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, mode=0):
        h = self.norm(self.a(x))
        h = F.relu(self.b(h))
        if mode == 1:
            h = self.c(h)
        return h

def batches():
    return [(torch.randn(2, 4), 0), (torch.randn(2, 4), 1)]

def loss(output, x, mode=0):
    return output.sum()
'''


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """A folder with a model and its recording; returns verify(*replacements) -> (exit status, lines of the report)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(*args):
        sys.modules.pop("drifting", None)
        code = export.main(["drifting:Net", "--batch=drifting:batches", "--loss=drifting:loss", *args])
        return code, capsys.readouterr().out.splitlines()

    (tmp_path / "drifting.py").write_text(MODEL)
    run("-o", "model.ir")

    def verify(*replacements):
        text = MODEL
        for old, new in replacements:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tmp_path / "drifting.py").write_text(text)
        before = (tmp_path / "model.ir").read_bytes()
        import linecache

        linecache.checkcache()
        result = run("--verify", "model.ir")
        assert (tmp_path / "model.ir").read_bytes() == before, "verify never writes"
        return result

    return verify


def test_the_same_model_is_no_drift(project):
    assert project() == (0, ["model.ir is what drifting:Net is"])


@pytest.mark.parametrize("replacements, note", [
    ([("        h = self.norm", "        pass\n        h = self.norm")], "note: lines moved: drifting.py:16 → drifting.py:17"),
    ([("(torch.randn(2, 4), 0)", "(torch.randn(7, 4), 0)")], "note: sizes of activations differ"),
    ([("(torch.randn(2, 4), 0)", "(torch.randn(2, 4), 0)] + [(torch.randn(2, 4), 0)")], "note: observed 3 batches instead of 2"),
])
def test_what_does_not_matter_is_said_and_passes(project, replacements, note):
    code, lines = project(*replacements)
    assert code == 0 and any(line.startswith(note) for line in lines)
    assert lines[-1] == "model.ir is what drifting:Net is; write it again to refresh it"


INIT = "        self.norm = nn.BatchNorm1d(4)\n"


@pytest.mark.parametrize("replacements, said", [
    ([(INIT, INIT + "        self.d = nn.Linear(3, 3)\n")],
     ["parameter d.weight: added: float32[3,3], never: nothing reads it"]),
    ([("        self.c.weight = self.a.weight\n", "")], ["parameter c.weight: no longer tied to a.weight"]),
    ([(INIT, INIT + "        self.b.weight = self.a.weight\n")], ["parameter b.weight: now tied to a.weight"]),
    ([(INIT, INIT + "        self.b.requires_grad_(False)\n")], ["parameters b.weight, b.bias: always → frozen"]),
    ([("self.b = nn.Linear(4, 4)", "self.b = nn.Linear(4, 4, bias=False)")],
     ["parameter b.bias: removed; it was float32[4], always", "drifting.py:17: linear(b.weight, b.bias), relu → linear(b.weight), relu"]),
    ([(INIT, "        self.norm = nn.BatchNorm1d(4, track_running_stats=False)\n")],
     ["buffers norm.running_mean, norm.running_var: removed; it was float32[4]"]),
    ([("F.relu(self.b(h))", "F.dropout(F.relu(self.b(h)), 0.5)")], ["drifting.py:17: linear, relu → linear, relu, dropout"]),
    ([("F.relu(self.b(h))", "self.b(h)")], ["drifting.py:17: linear, relu → linear"]),
    ([("F.relu(self.b(h))", "F.relu(self.b(h)).detach()")],
     ["parameters a.bias, b.weight, b.bias, norm.weight, norm.bias: always → never: ", "StopGradient(detach)"]),
    ([("F.relu(self.b(h))", "F.relu(self.b(x))")], ["parameters a.bias, norm.weight, norm.bias: always → never"]),
    ([("h = F.relu(self.b(h))", "y = self.b(h); h = y * F.relu(y) + h")], ["drifting.py:17: linear, relu → linear, relu, mul, add"]),
    ([("        return h\n", "        return h, h * 2\n"), ("output.sum", "output[0].sum")], ["output output_1: added"]),
    ([("(torch.randn(2, 4), 1)]", "(torch.randn(2, 4), 0)]")],
     ["parameter c.bias: conditional → never", "no batch takes it any more"]),
    ([("(self, x, mode=0)", "(self, x, mode=0, more=None)"), ("torch.randn(2, 4), 1)", "torch.randn(2, 4), 1, x)"),
      ("def batches", "x = torch.ones(1)\ndef batches"), ("(output, x, mode=0)", "(output, x, mode=0, more=None)")],
     ["input more: added"]),
])
def test_drift_is_told_in_the_models_terms(project, replacements, said):
    code, lines = project(*replacements)
    assert code == 1
    for words in said:
        assert any(words in line and not line.startswith("note") for line in lines), lines
    assert lines[-1].startswith("model.ir is no longer what drifting:Net is: ") and "-o" in lines[-1]


def test_wiring_counts():
    class Net(torch.nn.Module):
        def forward(self, x, swapped):
            a, b = x * 2, x + 1
            c = torch.relu(b if swapped else a)
            return (a + b + c).sum()

    x = torch.ones(2, requires_grad=True)
    texts = [record(Net(), [(x, swapped)]) for swapped in (False, True)]
    found = drift.compare(parse(texts[0]), texts[1])
    assert len(found.changes) == 1 and found.changes[0].endswith("relu reads other values")


def test_steps():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    batch = torch.ones(1, 2)

    def total(output, x):
        return output.sum()

    def nothing(output, x):
        return output.detach().sum()

    one = record(net, steps={"g": ([batch], total), "d": ([batch], total)})
    other = record(net, steps={"g": ([batch], nothing), "e": ([batch], total)})
    changes = drift.compare(parse(one), other).changes
    assert "step d: removed" in changes and "step e: added" in changes
    assert any("always → never" in c and c.endswith("in step g") for c in changes)


@pytest.mark.parametrize("content, said", [
    ("", "it names no producer"),
    ("this is no model\n", "no recording of ddpc.export"),
    ('<ir_version: 10, producer_name: "pytorch">\ng () => () {}\n', "its producer is 'pytorch', not 'ddpc.torch'"),
    ('<ir_version: 10, opset_import: ["" : 21], producer_name: "ddpc.torch">\ng (float x) => (float y) {\n', "line "),
    (b"\xff\xfe", "not UTF-8"),
])
def test_other_files_are_refused(tmp_path, content, said):
    file = tmp_path / "m.ir"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Error) as caught:
        drift.read(file)
    assert said in str(caught.value) and caught.value.code == 2


def test_a_broken_recording_is_refused(project, tmp_path, capsys):
    broken = (tmp_path / "model.ir").read_text().replace("output = ", "twice, twice = ").replace("ddpc.loss", "ddpc.lose", 1)
    broken = broken.replace("torch.linear", "nosuch.linear")
    with pytest.raises(Error, match="the recording to compare with is broken") as caught:
        drift.compare(parse(broken), (tmp_path / "model.ir").read_text())
    assert caught.value.code == 2
    (tmp_path / "cut.ir").write_text(broken[:1000])
    with pytest.raises(SystemExit) as ended:
        export.main(["drifting:Net", "--batch=drifting:batches", "--verify", "cut.ir"])
    assert ended.value.code == 2 and "cut.ir is no recording of ddpc.export" in capsys.readouterr().err


def test_reading_back_is_whole(tmp_path):
    import subprocess

    from ddpc import command

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    text = record(net, [torch.ones(2, 2)], lambda output, x: output.sum())
    done = subprocess.run([command.find(), "fmt", "-"], input=text, capture_output=True, text=True, check=True)
    found = drift.compare(parse(done.stdout), text)
    assert not found.changes and found.notes == ["the text differs in layout or names only"]
