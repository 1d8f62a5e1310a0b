"""The zoo: small copies of real modules, each with the answer that a person would give.

A model is a function that returns a `Setup` (module, batches, loss), registered by `@model` with what is
true of its parameters: which never get a gradient and why, which only in some batches, which are frozen.
All others always get one. Names are globs; a rule is

    why("is detached", at="generator")          words of the reason, and the line that the reason must name
    why("nothing reads it")                     no line: there is none to name

`at` is a mark, a comment `# @generator` on that line of the file where the model is written, or
`(file, text)` for a line of a library: the one where `text` ends in `file`.

Widths and inputs are small, everything is seeded, nothing is downloaded.
"""
from __future__ import annotations

import fnmatch
import importlib
import inspect
import os
import random
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

Batches = List[Tuple[Any, ...]]
Loss = Callable[..., torch.Tensor]


class Setup(NamedTuple):
    """What export, check and DDP are given. With `steps`, batches and loss are those of the first step."""

    module: nn.Module
    batches: Batches
    loss: Loss
    steps: Optional[Dict[str, Tuple[Batches, Loss]]] = None

    def each(self) -> Dict[str, Tuple[Batches, Loss]]:
        """Step name -> (batches, loss); a model of one step calls it `train`."""
        return self.steps or {"train": (self.batches, self.loss)}


class Why(NamedTuple):
    """What the reason must say: words (a regular expression), and a line (a file, the text before its end)."""

    words: str
    file: Optional[str] = None
    text: Optional[str] = None

    def line(self) -> Optional[Tuple[str, int]]:
        """(base name, line from 1) that the reason must name, or None."""
        if self.file is None:
            return None
        with open(self.file) as f:
            before, *after = f.read().split(self.text)
        if len(after) != 1:
            raise LookupError(f"{len(after)} places of {self.file} say {self.text!r}")
        return os.path.basename(self.file), (before + self.text.rstrip("\n")).count("\n") + 1


def why(words: str, at: Any = None) -> Why:
    """A rule; `at` is a mark in the caller's file, or (module or file, text)."""
    if at is None:
        return Why(words)
    if isinstance(at, str):
        return Why(words, inspect.stack()[1].filename, f"# @{at}\n")
    where, text = at
    return Why(words, where if isinstance(where, str) else inspect.getsourcefile(where), text)


Rules = Dict[str, Why]


class Model(NamedTuple):
    """One animal. Rules of a step are found under `STEP:GLOB`, those of all steps under `GLOB`."""

    name: str
    make: Callable[[], Setup]
    never: Rules
    conditional: Rules
    frozen: Tuple[str, ...]
    ddp: Optional[str]  # why stock DDP cannot train it whatever the flag says; None: it can
    verdict: str

    def setup(self) -> Setup:
        """A fresh module and batches, the same at every call; the random state is what it is then."""
        seed()
        return self.make()

    def expected(self, step: str, parameter: str) -> Tuple[str, Optional[Why]]:
        """Class and rule of a parameter in a step."""
        for kind, rules in (
            ("frozen", {g: None for g in self.frozen}), ("never", self.never), ("conditional", self.conditional),
        ):
            for key, rule in rules.items():
                of, glob = key.split(":") if ":" in key else (step, key)
                if of == step and matches(parameter, glob):
                    return kind, rule
        return "always", None


MODELS: Dict[str, Model] = {}


def model(*, never: Rules = {}, conditional: Rules = {}, frozen: Tuple[str, ...] = (), ddp: Optional[str] = None,
          verdict: Optional[str] = None) -> Callable[[Callable[[], Setup]], Callable[[], Setup]]:
    """Register a function that makes a Setup. The verdict follows from the rules unless it is given."""

    def register(make: Callable[[], Setup]) -> Callable[[], Setup]:
        name = make.__name__
        if name in MODELS:
            raise KeyError(f"two models are called {name}")
        says = verdict or ("flag_needed" if conditional else "flag_not_needed")
        MODELS[name] = Model(name, make, never, conditional, frozen, ddp, says)
        return make

    return register


def matches(name: str, glob: str) -> bool:
    """A parameter's name and a glob; `*` crosses dots."""
    return fnmatch.fnmatchcase(name, glob)


def seed() -> None:
    """One state of all random numbers."""
    random.seed(0)
    torch.manual_seed(0)


def tokens(*shape: int, high: int = 12) -> torch.Tensor:
    """int64[shape] below `high`."""
    return torch.randint(0, high, shape)


for _file in ("language", "vision", "generative", "representation", "training", "tensors"):
    try:
        importlib.import_module(f"{__name__}.{_file}")
    except ModuleNotFoundError as error:  # without torchvision the rest stays
        if error.name != "torchvision":
            raise
