"""The arms of Python code that no batch took are listed, those that can hide a gradient path first."""

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
if sys.version_info < (3, 11):
    pytest.skip("positions of instructions are there from Python 3.11 on", allow_module_level=True)

from ddpc.torch.branches import Branches  # noqa: E402

NET = '''
import logging
import torch
from torch import nn

log = logging.getLogger()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.pooler = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.extra = nn.ModuleList()
        self.names = ["a"]
        self.scale = 2.0

    def head(self, x):
        return self.pooler(x)

    def forward(self, x, mode=0, mask=None):
        if mask is None:
            mask = torch.ones(1)
        if mode == 1:                                   # 1
            x = self.pooler(x)
        if mode == 2:
            log.warning("two")
        if mode == 3:
            raise ValueError
        if torch.jit.is_scripting() or torch.jit.is_tracing():
            x = self.pooler(x)
        scale = self.scale if mode == 4 else 1.0        # 4
        for block in self.extra:                        # for
            x = block(x)
        for layer in self.layers:
            if mode == 5:                               # 5
                continue
            x = layer(x)
        y = self.head(x) if mode == 6 else x            # 6
        z = mode == 7 and self.head(x)                  # 7
        try:
            w = {0: 1, 1: 2}[mode]
        except KeyError:                                # handler
            w = 3
        if mode == 8:                                   # 8
            return y.detach()
        elif mode != 9:                                 # 9
            x = x * mask
        while mode > 10:                                # while
            mode -= 1
        if mode > -1: x = x * scale                     # -1
        match mode:
            case 0:
                w = 1
            case 1:                                     # case
                w = 2
        rest = [e(x) for e in self.extra]               # element
        return x + w * y + sum(rest)

    def unused(self, x):
        if x:
            return self.pooler(x)
'''


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    folder = tmp_path_factory.mktemp("net")
    (folder / "net_of_branches.py").write_text(NET)
    sys.path.insert(0, str(folder))
    try:
        import net_of_branches
    finally:
        sys.path.remove(str(folder))
    return net_of_branches


def told(branches):
    """(mark of the line, arm) of each branch not taken."""
    found = []
    for text in branches.not_taken():
        line = NET.splitlines()[int(text.split(":")[1].split()[0]) - 1]
        found.append((line.split("# ")[-1] if "# " in line else line.strip(), text[text.rindex("(") + 1:-1]))
    return found


def ran(net, *modes, **more):
    model, watched = net.Net(), Branches(net)
    for mode in modes:
        with watched:
            model(torch.ones(1, 4), mode=mode, **more)
    return watched


ALL = {("1", "true"), ("4", "true"), ("for", "body"), ("5", "true"), ("6", "true"), ("7", "right side"),
       ("handler", "handler"), ("8", "true"), ("9", "false"), ("while", "body"), ("-1", "false"), ("case", "body"),
       ("element", "element")}


@pytest.mark.skipif(sys.gettrace() is not None and sys.version_info < (3, 12), reason="a debugger or coverage traces")
class TestWatched:
    def test_every_kind_of_branch(self, net):
        assert set(told(ran(net, 0))) == ALL

    @pytest.mark.parametrize("mode, seen", [
        (1, {("1", "true"), ("case", "body")}),
        (4, {("4", "true"), ("handler", "handler")}),
        (5, {("5", "true")}),
        (6, {("6", "true")}),
        (7, {("7", "right side")}),
        (8, {("8", "true")}),
        (9, {("9", "false")}),
        (11, {("while", "body")}),
        (-1, {("-1", "false")}),
    ])
    def test_each_is_seen_when_it_is_taken(self, net, mode, seen):
        left = set(told(ran(net, 0, mode)))
        assert left <= ALL
        assert ALL - left - {("handler", "handler")} == seen - {("handler", "handler")}

    def test_the_side_that_was_not_taken(self, net):
        assert {("1", "false"), ("8", "false")} & set(told(ran(net, 1))) == {("1", "false")}

    def test_those_that_lead_to_a_parameter_come_first(self, net):
        order = [mark for mark, _ in told(ran(net, 0))]
        assert set(order[:4]) == {"1", "6", "7", "8"}
        assert order[4] == "5", "then those that leave the code that follows"

    def test_text_and_place(self, net, monkeypatch):
        monkeypatch.chdir("/")
        first = ran(net, 0).not_taken()[0]
        line = 1 + next(i for i, l in enumerate(NET.splitlines()) if l.endswith("# 1"))
        assert first.endswith(f"net_of_branches.py:{line} if mode == 1: (true)")

    def test_an_error_of_the_model_passes_and_tracing_ends(self, net):
        with pytest.raises(ValueError):
            ran(net, 3)
        assert sys.gettrace() is None

    def test_only_files_of_the_module(self, net):
        watched = Branches(torch.nn.Linear(4, 4))
        assert watched.files == set()
        with watched:
            net.Net()(torch.ones(1, 4))
        assert watched.not_taken(), "a file that is not installed is always watched"
        assert net.__file__ in Branches(net.Net()).files


def test_a_tracer_that_was_there_stays(net):
    script = textwrap.dedent("""
        import sys
        from ddpc.torch.branches import Branches
        def tracer(*_): pass
        sys.settrace(tracer)
        watched = Branches()
        with watched:
            pass
        assert sys.gettrace() is tracer
        print(watched.note)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "debugger or coverage" in done.stdout or sys.version_info >= (3, 12)
