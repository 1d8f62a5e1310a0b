"""Measured ready times: the table names every gradient in the order in which autograd gives them, and ddpc takes it."""

import json
import os
import subprocess

import pytest
import torch
from torch import nn

import ddpc
from ddpc.torch import export, profile
from ddpc.torch.profile import quoted

DDPC = os.environ.get("DDPC", "ddpc")


class Net(nn.Module):
    """A shared layer, one that nothing reads, a frozen one, and one that some batches take."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.dead, self.frozen, self.sometimes = nn.Linear(2, 2), nn.Linear(8, 8), nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x, extra=False):
        h = self.shared(self.norm(self.first(x)).relu()).relu()
        h = self.shared(self.frozen(h)).relu()
        if extra:
            h = self.sometimes(h)
        return self.last(h)


def loss(output, *_):
    return output.square().mean()


def table(text):
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert all(len(row) == 3 and row[0] == "ready" for row in rows)
    return [(name, float(us)) for _, name, us in rows]


def arrival(module, batch):
    """The order in which hooks on the gradients themselves see them."""
    seen = []
    hooks = [p.register_hook(lambda _, n=n: seen.append(n)) for n, p in module.named_parameters() if p.requires_grad]
    loss(module(*batch)).backward()
    for hook in hooks:
        hook.remove()
    module.zero_grad()
    return seen


def test_every_gradient_in_the_order_of_autograd():
    net, batch = Net(), (torch.randn(64, 8),)
    rows = table(profile(net, [batch], loss))
    assert [name for name, _ in rows] == arrival(net, batch)
    times = [us for _, us in rows]
    assert times == sorted(times) and times[0] > 0
    assert not {"dead.weight", "frozen.weight", "sometimes.weight"} & {name for name, _ in rows}


def test_what_only_some_batches_give():
    rows = table(profile(Net(), [(torch.randn(4, 8), False), (torch.randn(4, 8), True)], loss, passes=2))
    assert {"sometimes.weight", "sometimes.bias"} <= {name for name, _ in rows}


def test_nothing_is_left_behind():
    net = Net()
    net.first.weight.grad = torch.ones(8, 8)
    before = {name: t.clone() for name, t in net.state_dict().items()}
    batch, random = torch.randn(4, 8), torch.get_rng_state()
    profile(net, [batch], loss, passes=1)
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(net.first.weight.grad, torch.ones(8, 8)) and net.last.weight.grad is None
    assert all(not m._forward_hooks and not m._backward_hooks for m in net.modules())


def test_ddpc_takes_it(tmp_path):
    net, batch = Net(), (torch.randn(16, 8),)
    (tmp_path / "net.ir").write_text(export(net, [batch], loss))
    text = profile(net, [batch], loss)
    (tmp_path / "table").write_text(text)
    done = subprocess.run([DDPC, "net.ir", "-o", "plan", "--profile", "table"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    dump = subprocess.run([DDPC, "dump", "plan", "--format=json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    step = json.loads(dump.stdout)["steps"][0]
    names, times = zip(*table(text))
    assert step["schedule"]["backward_us"] == pytest.approx(times[-1])
    assert [name for bucket in step["buckets"] for name in bucket["parameters"]] == list(names)


@pytest.mark.parametrize("name,spelt", [("a.b", "a.b"), ("a b", '"a b"'), ('a"b', '"a\\"b"'), ("a\\b", '"a\\\\b"'), ("", '""')])
def test_quoted(name, spelt):
    assert quoted(name) == spelt


@pytest.mark.parametrize("batches,passes,says", [([], 1, "no batches"), ([(torch.ones(2, 8),)], 0, "at least 1")])
def test_refused(batches, passes, says):
    with pytest.raises(ddpc.Error, match=says):
        profile(Net(), batches, loss, passes=passes)


def test_nothing_trains():
    net = Net().requires_grad_(False)
    with pytest.raises(ddpc.Error, match="no parameter requires a gradient"):
        profile(net, [torch.ones(2, 8)], loss)
