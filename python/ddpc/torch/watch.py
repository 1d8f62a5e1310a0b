"""`watch`: stock DistributedDataParallel, and a missing gradient is named in the step in which it is missing.

DDP counts which parameters' gradients are ready. What it says when the count is wrong comes one step late and without a
name, or on another rank, or never. A watcher counts too, in a hook before each parameter's AccumulateGrad node; that is
the node after which DDP counts, so both see the same, gradients that are undefined (None) included. Nothing is
communicated and no gradient is touched.

What DDP does, and the watcher follows (torch 1.13 to 2.x):

- A forward with gradients enabled, outside of no_sync(), *arms* DDP; an eval forward does, too. Of several forwards
  before one backward the last one counts. Whether the *forward* was inside of no_sync() matters, not the backward.
- While armed, each parameter's gradient is expected once. When all have come, DDP is disarmed and averages. A second
  gradient of one parameter is an error if it comes before that, and after it silently stays this rank's own.
- While not armed, gradients are accumulated locally: no_sync() windows, a second backward after one forward, a loss that
  did not come through DDP's forward.
- If a gradient is missing, DDP waits: the next armed forward of this rank fails, and the other ranks stay in their
  all-reduce. If no gradient at all came, nobody on this rank waits.
- torch.autograd.grad, as in a gradient penalty, is a backward that accumulates nothing: DDP does not see it. So a
  backward without any gradient is judged only when the next forward begins, if no other backward came in between.

So `step` below is a backward through the output of an armed forward; it is judged at its end, as the last of the
callbacks of the autograd engine. Hooks on the grad_fn of the outputs tell which backward is one.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .. import Error
from .api import named_tensors
from .expect import Expectation, Model, Row, expect, together
from .module import accumulator

ANY = sys.maxsize  #: times that a gradient may come
MOST = 1000  #: warnings, and findings that are kept: a run may have millions of steps


@dataclass(frozen=True)
class Finding:
    """A gradient that is not as the check or DDP has it."""

    kind: str  #: missing, extra, unexpected or unaveraged
    parameter: str
    rank: int
    step: str  #: name of the step; "" if the watcher was not told which
    number: int  #: of the step, from 1
    reason: str  #: what the check says about the parameter


class GradientError(Error):
    """Gradients are not as the check or DDP has them; `findings` lists them."""

    def __init__(self, text: str, findings: Sequence[Finding]):
        super().__init__(text)
        self.findings = list(findings)


HEADLINES = {
    "missing": "no gradient in this backward",
    "extra": "more gradients in this backward than DistributedDataParallel counts",
    "unexpected": "a gradient that the check says there is not",
    "unaveraged": "a gradient that DistributedDataParallel does not average, so that ranks now differ",
}


def uncompiled(method: Callable) -> Callable:
    """A hook that torch.compile calls and does not trace."""

    def hook(*args: Any) -> None:
        method(*args)

    hook._torchdynamo_disable = True
    return hook


class Rules:
    """A step as the hooks need it: how often a gradient of each parameter may come, and which must."""

    def __init__(self, rows: List[Row], must: Iterable[int], limit: List[int], want: Optional[List[int]] = None):
        self.rows, self.limit = rows, limit
        self.must = sorted(must)
        self.want = [1] * len(rows) if want is None else want
        self._pick = itemgetter(*self.must) if self.must else None
        self._picked = self._pick(self.want) if self._pick else None
        self.loose = [i for i, r in enumerate(rows) if r.kind == "conditional" or r.elsewhere]

    def complete(self, seen: List[int]) -> bool:
        return self._pick is None or self._pick(seen) == self._picked


class Watcher:
    """Made by `watch`; see there."""

    def __init__(self, ddp: DistributedDataParallel, expected: Expectation, on: str):
        self.ddp, self.on = ddp, on
        self.names, self.parameters = expected.names, expected.parameters
        self.rank = dist.get_rank()
        self._rows = dict(expected.steps)
        alone = len(self._rows) == 1
        self._together = [together(r) for r in zip(*self._rows.values())]
        self._ignored = {id(p) for n, p in ddp.module.named_parameters() if n in set(ddp.parameters_to_ignore)}
        self._managed = [p.requires_grad and id(p) not in self._ignored for p in self.parameters]
        self._check_managed()

        n = len(self.names)
        self._seen, self._limit, self._closed = [0] * n, [0] * n, [0] * n
        self._armed = self._open = self._through = self._sync = self._blind = False
        self._surplus: List[int] = []
        self._silent: Optional[str] = None  # name of the step of a backward without any gradient, while it is not judged
        self._first: Optional[List[int]] = None  # of a static graph: how often each gradient came in the first step
        self._known: Dict[str, Rules] = {}
        self._handles: List[Any] = []
        self._nodes: Dict[int, Any] = {}
        self._late: Set[int] = set()  # switched on after DDP was built
        self._said_outside = False
        self._warned = 0

        self.number = 0
        self._counts: Dict[str, int] = {}
        self._no_sync = self._outside = 0
        self._present: Dict[str, List[int]] = {}
        self._elsewhere: Dict[str, int] = {}
        self.findings: List[Finding] = []

        for i, p in enumerate(self.parameters):
            if p.requires_grad:
                self._hook(i)
        self._handles.append(ddp.register_forward_pre_hook(uncompiled(self._before_forward)))
        self._handles.append(ddp.register_forward_hook(uncompiled(self._after_forward)))
        self.step(next(iter(self._rows)) if alone else "")

    def _check_managed(self) -> None:
        managed = self.ddp._get_ddp_logging_data().get("num_parameter_tensors")
        if managed is not None and managed != sum(self._managed):
            raise Error(f"DistributedDataParallel averages {managed} parameters, but {sum(self._managed)} require grad "
                        "now: call watch() before requires_grad is switched, and freeze before wrapping")

    # What is expected

    def step(self, name: str) -> "Watcher":
        """Chooses the step that the next backward is of; "" is all steps together."""
        if name and name not in self._rows:
            raise Error(f"the check has no step {name!r}; it has {', '.join(self._rows)}", 2)
        self._name = name
        if name not in self._known:
            self._known[name] = self._rules(self._rows[name] if name else self._together)
        self._now = self._known[name]
        if self._open:
            self._limit[:] = self._now.limit
        return self

    def _renew(self) -> None:
        self._known.clear()
        self.step(self._name)

    def _rules(self, rows: List[Row]) -> Rules:
        must = {i for i, r in enumerate(rows) if r.kind == "always"}
        once = ANY if self.ddp.static_graph else 1
        limit = [once if r.kind in ("always", "conditional") or r.elsewhere else 0 for r in rows]
        want = None
        if self._first is not None:
            must |= {i for i, times in enumerate(self._first) if times}
            limit = [min(a, b) for a, b in zip(limit, self._first)]
            want = [max(times, 1) for times in self._first]
        elif self._counts_all():
            must |= {i for i, managed in enumerate(self._managed) if managed}
        return Rules(rows, must, [0 if i in self._late else x for i, x in enumerate(limit)], want)

    def _counts_all(self) -> bool:
        """DDP waits for every parameter that it manages."""
        return not (self.ddp.find_unused_parameters or self.ddp.static_graph)

    # Hooks

    def _hook(self, i: int) -> None:
        seen, limit, over = self._seen, self._limit, self._over

        def ready(_: Any) -> None:
            if seen[i] >= limit[i]:
                over(i)
            seen[i] += 1

        self._nodes[i] = node = accumulator(self.parameters[i])  # kept: its hooks live as long as it does
        self._handles.append(node.register_prehook(ready))

    def _over(self, i: int) -> None:
        """A gradient that comes while none is expected: at the begin of a backward, or one too many."""
        if not self._open:
            self._begin()
            self._through |= self._blind
            self._sync |= self._blind
            if self._seen[i] < self._limit[i]:
                return
        if self._limit[i] == 0 and not (self._first and self._now.rows[i].kind in ("always", "conditional")):
            self._surplus.append(i)
        elif self._armed:
            self._tell([("extra", i)], "DistributedDataParallel counts a parameter once for each forward: reentrant "
                       "checkpoints that share it, or a second backward, break that. static_graph=True allows several "
                       "if their number stays the same; checkpoint(..., use_reentrant=False) makes them one.")

    def _before_forward(self, _module: nn.Module, _args: Any) -> None:
        self._open = False  # of a backward that raised, the end was never seen
        if self._silent is not None and torch.is_grad_enabled() and self.ddp.require_backward_grad_sync:
            now, name = self._name, self._silent
            try:
                self.step(name)._judge()
            finally:
                self.step(now)
        if torch.is_grad_enabled() and self.ddp.require_backward_grad_sync:
            self._reset()
        if len(self._nodes) < len(self.parameters):
            for i, p in enumerate(self.parameters):
                if i not in self._nodes and p.requires_grad:
                    self._late.add(i)
                    self._hook(i)
                    self._renew()

    def _after_forward(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if not torch.is_grad_enabled():
            return
        sync = self.ddp.require_backward_grad_sync
        self._armed |= sync
        tensors = [t for _, t in named_tensors(output, "")]
        self._blind = sync and not tensors  # a type of its own: any backward is taken to come through it
        for node in {t.grad_fn for t in tensors if t.grad_fn is not None}:
            node.register_prehook(partial(self._output, sync))

    def _output(self, sync: bool, _: Any) -> None:
        """The gradient of an output: a backward through DDP's forward has begun."""
        if not self._open:
            self._begin()
        self._through = True
        self._sync |= sync

    def _begin(self) -> None:
        self._open, self._through, self._sync = True, False, False
        self._limit[:] = self._now.limit
        engine = torch.autograd.Variable._execution_engine
        # Queued again when it runs: DDP waits for its collectives in such a callback, and comes before the judgement.
        engine.queue_callback(lambda: engine.queue_callback(self._end))

    def _reset(self) -> None:
        self._seen[:] = self._closed
        self._limit[:] = self._closed
        self._surplus.clear()

    # Judgement

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        self._limit[:] = self._closed
        if self._armed and (self._through and self._sync or self._silent is not None):
            if any(self._seen) or not any(self.parameters[i].requires_grad for i in self._now.must):
                self._judge()
            else:
                self._silent = self._name
            return
        wrong: List[Tuple[str, int]] = [("unexpected", i) for i in dict.fromkeys(self._surplus)]
        self._surplus.clear()
        if self._armed:  # a loss of its own, before the backward that is waited for
            self._tell(wrong, "")
            return
        got = [i for i, times in enumerate(self._seen) if times and self._managed[i]]
        self._reset()
        if not self._through:
            self._outside += 1
            self._say_outside(got)
        elif self._sync:
            self._tell([("unaveraged", i) for i in got], "This backward is not the first after its forward: "
                       "DistributedDataParallel averages the first one alone. Add up the losses, or call forward again.")
        else:
            self._no_sync += 1
        self._tell(wrong, "")

    def _judge(self) -> None:
        """At the end of the backward in which DDP averages."""
        seen, rules = self._seen, self._now
        self._silent = None
        self.number += 1
        fired = any(seen)
        wrong: List[Tuple[str, int]] = []
        if not rules.complete(seen):
            wrong += [("missing", i) for i in rules.must
                      if seen[i] < rules.want[i] and (fired or rules.rows[i].kind == "always")]
        wrong += [("unaveraged" if i in self._late else "unexpected", i) for i in dict.fromkeys(self._surplus)]
        for i in rules.loose:
            if rules.rows[i].elsewhere:
                if seen[i]:
                    self._elsewhere[self.names[i]] = self._elsewhere.get(self.names[i], 0) + 1
            else:
                self._present.setdefault(self.names[i], [0, 0])[not seen[i]] += 1
        self._counts[self._name] = self._counts.get(self._name, 0) + 1
        waits = self._counts_all() and any(kind == "missing" and self._managed[i] for kind, i in wrong)
        advice = self._advice(waits and fired, rules, wrong)
        if fired and self.ddp.static_graph and self._first is None:
            self._first = list(seen)
            self._renew()
        if fired and not waits:
            self._armed = False
        if not waits:
            self._reset()
        self._surplus.clear()
        self._tell(wrong, advice, self.number)

    def _advice(self, waits: bool, rules: Rules, wrong: List[Tuple[str, int]]) -> str:
        if self._first is not None and any(kind == "missing" for kind, _ in wrong):
            return "static_graph=True: DistributedDataParallel expects in every step what came in the first."
        if not waits:
            return ""
        rest = {rules.rows[i].kind for kind, i in wrong if kind == "missing"}
        freeze = "freeze what never trains before wrapping" if rest == {"never"} else ""
        flag = "" if rest == {"never"} else "set find_unused_parameters=True"
        return ("DistributedDataParallel waits for what is missing: its next forward fails, and ranks that have it "
                f"stay in their all-reduce. If the model is meant so, {freeze or flag}.")

    def _tell(self, wrong: List[Tuple[str, int]], advice: str, number: Optional[int] = None) -> None:
        if not wrong:
            return
        number = self.number + 1 if number is None else number
        found = [Finding(kind, self.names[i], self.rank, self._name, number, self._why(kind, i)) for kind, i in wrong]
        self.findings += found[:MOST - len(self.findings)]
        lines = [f"rank {self.rank}, step {number}" + (f" ({self._name})" if len(self._rows) > 1 and self._name else "")]
        for kind, headline in HEADLINES.items():
            some = [f for f in found if f.kind == kind]
            if some:
                lines.append(f"  {headline}:")
                lines += [f"    {f.parameter}  {f.reason}" for f in some[:10]]
                if len(some) > 10:
                    lines.append(f"    and {len(some) - 10} more")
        if advice:
            lines.append("  " + advice)
        if self.on == "raise":
            self._open = False
            raise GradientError("\n".join(lines), found)
        self._warned += 1
        if self._warned == MOST:
            lines.append(f"  This is warning {MOST} of this watcher, and its last.")
        if self._warned <= MOST:
            warnings.warn("\n".join(lines), stacklevel=2)

    def _why(self, kind: str, i: int) -> str:
        said = self._now.rows[i].text
        if i in self._late:
            return f"requires_grad was switched on after DistributedDataParallel was built; {said}"
        if kind == "missing" and not self.parameters[i].requires_grad:
            return f"requires_grad is False; {said}"
        return said

    def _say_outside(self, got: List[int]) -> None:
        if self._said_outside or not got:
            return
        self._said_outside = True
        names = ", ".join(self.names[i] for i in got[:3]) + (f" and {len(got) - 3} more" if len(got) > 3 else "")
        warnings.warn(
            f"rank {self.rank}: a backward that did not come through the forward of DistributedDataParallel brought "
            f"gradients to {names}; they are not averaged. That is right for a loss of the parameters alone, which is "
            "the same on every rank, and wrong for one that depends on data: call the wrapper, not its module. "
            "(This is said once; report() counts them.)", stacklevel=2)

    # What was seen, and the end

    def report(self) -> Dict[str, Any]:
        """What was seen so far.

        rank: of this process. steps: backwards judged, by name of the step. no_sync: backwards in no_sync() windows.
        outside: backwards that did not come through DDP's forward. conditional: for each conditional parameter in how
        many steps it had a gradient (present) and had none (absent). ignored: parameters frozen in a step and trained
        in another, and how many gradients they got in the former. findings: the first
        thousand, as dicts.
        """
        return {
            "rank": self.rank,
            "steps": dict(self._counts),
            "no_sync": self._no_sync,
            "outside": self._outside,
            "conditional": {n: {"present": p, "absent": a} for n, (p, a) in self._present.items()},
            "ignored": dict(self._elsewhere),
            "findings": [asdict(f) for f in self.findings],
        }

    def close(self) -> None:
        """Removes every hook; what was seen stays."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()
        self._open = False

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def watch(ddp_model: nn.Module, model_or_plan: Model, on: str = "raise", *, prefix: str = "") -> Watcher:
    """Watches the gradients of a DistributedDataParallel module against a check, on this rank.

    `model_or_plan` is the dict of `ddpc.torch.check`, a file with the JSON of `ddpc check --format=json`, a model's text
    or file, or a plan. Call it on every rank, once, right after wrapping; the module may be inside of torch.compile, or
    have been compiled before wrapping. With `prefix` (as "netD.") the wrapped module is that part of the model.

    A wrong gradient is named with parameter, rank and number of the step, from 1, and what the check says about it. It
    is raised out of `loss.backward()` as `GradientError`, or with `on="warn"` is a warning, and training goes on as far
    as DDP lets it. There are four kinds:

    - missing: a parameter that is always used had no gradient in a step, or any parameter that DDP waits for, where it
      has neither find_unused_parameters nor static_graph. With the flag, conditional parameters may be absent. A step
      in which there is no gradient at all is named when the next forward begins.
    - extra: a second gradient of one parameter, which DDP refuses or fails to average; with static_graph, another
      number of them than in the first step.
    - unexpected: a parameter that never gets one, or is frozen, got a gradient.
    - unaveraged: a gradient that DDP leaves to this rank alone: from a second backward after one forward, or of a
      parameter whose requires_grad was switched on after DDP was built.

    A check of several steps, as of a GAN: `watcher.step("d")` before the backward of d. Without it, a parameter is
    expected only if it is so in every step. What is frozen in one step and trained in another is ignored in the former.

    The watcher does not communicate. Where a gradient is missing on this rank only, this rank raises; the others,
    which have it, wait in DDP's own all-reduce for this one. What they see: with gloo, once this process ends,
    "Connection closed by peer" or "Connection reset by peer"; with NCCL nothing until the timeout of
    `init_process_group` (torch 1.13 heeds it only if NCCL_ASYNC_ERROR_HANDLING=1 or NCCL_BLOCKING_WAIT=1), or until the
    launcher ends them, as torchrun does when one rank fails. The cause is in the output of the rank that raised.

    Limits: two backwards that share a forward, each bringing a part of the gradients, look like a missing gradient after
    the first; add up the losses. Autograd must run AccumulateGrad nodes: compiled autograd does not.

    `watcher.report()` tells what was seen; `watcher.close()`, or the end of a `with` block, removes all hooks.
    """
    ddp = ddp_model
    while not isinstance(ddp, DistributedDataParallel) and isinstance(getattr(ddp, "_orig_mod", None), nn.Module):
        ddp = ddp._orig_mod
    if not isinstance(ddp, DistributedDataParallel):
        raise Error(f"watch() takes a DistributedDataParallel module, not {type(ddp_model).__name__}; "
                    "wrap it first: the watcher sees what the wrapper counts", 2)
    if on not in ("raise", "warn"):
        raise Error(f'on is "raise" or "warn", not {on!r}', 2)
    return Watcher(ddp, expect(ddp.module, model_or_plan, prefix), on)
