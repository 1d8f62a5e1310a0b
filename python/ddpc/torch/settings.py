"""`ddp_settings`: the advice of a check as arguments for DistributedDataParallel and what is built on it.

The advice is one flag, and a list of parameters to freeze before wrapping. Each framework has another word for the flag;
all of them end in DistributedDataParallel's constructor. A check that does not know gives no advice: it is an error here.
"""

from __future__ import annotations

import difflib
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .. import Error
from .expect import plain, steps_of
from .module import parameters_of, unwrap


@dataclass(frozen=True)
class Settings:
    """What to set in DistributedDataParallel, and what to freeze before wrapping."""

    find_unused_parameters: bool
    static_graph: bool
    freeze: List[str]  #: parameters that never get a gradient, as the check names them
    evidence: str  #: proved, observed or unknown: what the check rests on
    unread: List[str]  #: those of `freeze` that no recorded batch used, while Python branches were not taken
    not_taken: List[str]  #: these branches

    @property
    def ddp(self) -> Dict[str, bool]:
        """For `DistributedDataParallel(module, **settings.ddp)`."""
        return {"find_unused_parameters": self.find_unused_parameters, "static_graph": self.static_graph}

    @property
    def accelerate(self) -> Dict[str, bool]:
        """For `Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(**settings.accelerate)])`."""
        return self.ddp

    @property
    def lightning(self) -> Dict[str, bool]:
        """For `Trainer(strategy=DDPStrategy(**settings.lightning))`."""
        return self.ddp

    @property
    def trainer(self) -> Dict[str, bool]:
        """For Hugging Face's `TrainingArguments(..., **settings.trainer)`, which has no word for static_graph."""
        if self.static_graph:
            raise Error("TrainingArguments cannot set static_graph; ask for settings without it", 2)
        return {"ddp_find_unused_parameters": self.find_unused_parameters}

    def apply(self, module: nn.Module) -> nn.Module:
        """Freezes what never trains, and returns the module. Before wrapping: DDP waits for what it once took. Warns if
        a branch that was not recorded may use what it freezes: nothing will, then, train it."""
        if isinstance(module, (DataParallel, DistributedDataParallel)):
            raise Error("freeze before wrapping: DistributedDataParallel waits for every parameter that required grad "
                        "when it was built", 2)
        if self.unread:
            warnings.warn(f"freezing {some(self.unread)}, which no recorded batch used; if training takes one of the branches "
                          f"that were not taken, record a batch that does: {some(self.not_taken)}", stacklevel=2)
        freeze(module, self.freeze)
        return module


def some(items: List[str]) -> str:
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")


def freeze(module: nn.Module, names: Iterable[str]) -> None:
    """Sets requires_grad=False on the named parameters; wrappers' prefixes and which name of a tie is used do not count.
    A name that the module does not have is an error, and then none is frozen."""
    owned = parameters_of(unwrap(module))
    index = {plain(n): p for n, p in owned.parameters.items()}
    index.update({plain(alias): owned.parameters[first] for alias, first in owned.ties.items()})
    chosen = []
    for name in names:
        p = index.get(plain(name))
        if p is None:
            near = difflib.get_close_matches(plain(name), index, 1)
            raise Error(f"the module has no parameter {name}" + (f"; near: {near[0]}" if near else ""), 2)
        chosen.append(p)
    for p in chosen:
        p.requires_grad_(False)


def ddp_settings(check: Mapping[str, Any], step: Optional[str] = None, *, static_graph: bool = False) -> Settings:
    """The advice of a check (the dict of `ddpc.torch.check`, or of `ddpc check --format=json`).

    Without `step` it is for one wrapper around the model in all its steps; with it, for a wrapper that only this step
    uses, such as one around a GAN's discriminator. `static_graph=True` asks for that flag as well, which is an error
    where the check does not vouch for it. Raises `ddpc.Error` where the verdict is unknown: there is nothing to advise.

        settings = ddpc.torch.ddp_settings(ddpc.torch.check(model, batches, loss))
        model = DistributedDataParallel(settings.apply(model), **settings.ddp)
    """
    steps = steps_of(check)
    if "verdict" not in check:
        raise Error("a plan has no verdict; pass the dict of `ddpc check --format=json`", 2)
    if step is not None and step not in steps:
        raise Error(f"the check has no step {step!r}; it has {', '.join(steps)}", 2)
    advice = {s["name"]: s["ddp"] for s in check["steps"]}
    verdict = check["verdict"] if step is None else advice[step]["verdict"]
    chosen = [steps[step]] if step is not None else list(steps.values())
    if verdict not in ("flag_needed", "flag_not_needed"):
        raise Error(why_unknown(check, chosen))

    never = [{p["name"] for p in rows if p["class"] == "never"} for rows in chosen]
    flag = verdict == "flag_needed"
    if static_graph:
        vouched = len(chosen) == 1 and advice[step if step is not None else next(iter(advice))]["static_graph"]
        if flag or not vouched:
            raise Error("the check does not say that static_graph=True is safe: gradients must come from the same paths in "
                        "every step, and the evidence must be proved")
    names = [p["name"] for p in chosen[0] if all(p["name"] in n for n in never)]
    not_taken = check.get("not_taken", [])
    used = {p["name"] for rows in chosen for p in rows if p.get("uses")}
    return Settings(flag, static_graph, names, check["evidence"],
                    [n for n in names if n not in used] if not_taken else [], not_taken)


def why_unknown(check: Mapping[str, Any], chosen: List[List[Dict[str, Any]]]) -> str:
    if not any(p["class"] in ("always", "conditional") for rows in chosen for p in rows):
        return "the verdict is unknown: no parameter gets a gradient; is the loss the right one, or is everything frozen?"
    return ("the verdict is unknown: the model may lack parameters that the module has; "
            "use ddpc.torch.check, or pass --params to `ddpc check`")
