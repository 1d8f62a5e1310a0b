"""Lines of the user's code are found, and named the same on every machine."""

import functools
import os
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from ddpc.torch import source  # noqa: E402


def test_files_are_named_from_where_a_person_stands(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "net" / "blocks"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    model = str(package / "vit.py")
    monkeypatch.chdir(tmp_path)
    assert source.place(model, 7) == os.path.join("lib", "net", "blocks", "vit.py") + ":7"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert source.place(model, 7) == os.path.join("net", "blocks", "vit.py") + ":7"
    assert source.place(str(tmp_path / "train.py"), 1) == "train.py:1"
    installed = str(tmp_path / "elsewhere" / ".venv" / "site-packages" / "a" / "b.py")
    assert source.place(installed, 3) == os.path.join("a", "b.py") + ":3"


class Seen(torch.overrides.TorchFunctionMode):
    """The line of the user's code at each call of torch."""

    def __init__(self):
        super().__init__()
        self.places = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        frame = source.user_frame(sys._getframe(1))
        self.places.append((os.path.basename(frame.f_code.co_filename), frame.f_lineno))
        return function(*args, **(kwargs or {}))


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())

    def forward(self, x):
        return self.layer(x)  # the line that the tests want


def test_the_innermost_frame_outside_of_torch():
    with Seen() as seen:
        Small()(torch.ones(1, 2))
    line = 1 + next(i for i, l in enumerate(open(__file__)) if "the line that the tests want" in l)
    assert (os.path.basename(__file__), line) in seen.places


def test_where_only_torch_runs_it_is_the_layer(monkeypatch):
    frames = []
    linear = torch.nn.functional.linear

    def seen(*args):
        frames.append(source.user_frame(sys._getframe(1)))
        return linear(*args)

    monkeypatch.setattr(torch.nn.functional, "linear", seen)
    run = functools.partial(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.ones(1, 2))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert source.place(frames[0]).startswith("torch/nn/modules/linear.py:")


def test_generated_code_and_torch_are_not_the_users():
    assert not source.is_user("<string>")
    assert not source.is_user(torch.nn.functional.__file__)
    assert not source.is_user(source.__file__)
    assert not source.is_user(os.__file__)
    assert source.is_user(__file__)
