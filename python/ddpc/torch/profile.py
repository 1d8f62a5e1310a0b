"""When each gradient is ready, measured: the table that `ddpc --profile` reads.

A profiler's trace has these moments too, but names no parameters. Here a hook on each AccumulateGrad node takes the time:
of the host on CPUs, of an event on the gradient's stream on CUDA devices, where the host is ahead of the device.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch
from torch import nn

from .. import Error
from .api import Batch, Loss, arguments, loss_of, taken
from .module import accumulator, eager, parameters_of, state_kept, unwrap

class Moments:
    """The times of one backward pass, in µs from its beginning; to be read when it is over."""

    def __init__(self, devices: Iterable[torch.device]):
        self.start = {device: self._now(device) for device in devices}
        self.ready: Dict[str, Tuple[torch.device, Any]] = {}

    @staticmethod
    def _now(device: torch.device) -> Any:
        if device.type != "cuda":
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event

    def hit(self, name: str, device: torch.device) -> None:
        self.ready[name] = (device, self._now(device))

    def us(self) -> Dict[str, float]:
        for device in self.start:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        return {name: self.start[device].elapsed_time(now) * 1e3 if device.type == "cuda"
                else (now - self.start[device]) / 1e3 for name, (device, now) in self.ready.items()}


def quoted(name: str) -> str:
    """A name as the table spells it."""
    if name and not any(c.isspace() or c in '"\\#' for c in name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def profile(module: nn.Module, batches: Iterable[Batch], loss: Optional[Loss] = None, *, passes: int = 5) -> str:
    """The table of `ddpc --profile`: lines `ready PARAMETER µs`, from the start of the backward pass, earliest first.

    Arguments as in `ddpc.torch.export`. Each batch takes 1 + `passes` forward and backward passes; the first of them is not
    counted, and of all others the median is. Take batches of the size that trains, on the device that trains. It runs
    the module outside of DistributedDataParallel, so that communication takes no part, leaves parameters, buffers, gradients
    and random generators as they were, and takes as much memory as training without an optimizer.
    """
    if passes < 1:
        raise Error(f"passes is {passes}; at least 1 pass is measured", 2)
    module = unwrap(module)
    trained = {name: p for name, p in parameters_of(module).parameters.items() if p.requires_grad}
    if not trained:
        raise Error("no parameter requires a gradient\nhelp: profile the module as it trains", 2)
    devices = sorted({p.device for p in trained.values()}, key=str)
    measured: Dict[str, List[float]] = {}
    now: List[Moments] = []
    hooks = []
    count = 0
    with state_kept(module), torch.inference_mode(False), torch.enable_grad(), eager(module):
        for name, p in trained.items():
            node = accumulator(p)
            hooks.append((node, node.register_hook(
                lambda *_, name=name, device=p.device: now[-1].hit(name, device) if now else None)))
        try:
            for batch in batches:
                count += 1
                whole, keywords = arguments(batch)
                args, kwargs = taken(module, whole, keywords)
                for n in range(passes + 1):
                    value = loss_of(module(*args, **kwargs), loss, whole, keywords)
                    now[:] = [Moments(devices)]
                    value.backward()
                    times = now.pop().us()
                    for p in trained.values():
                        p.grad = None
                    for name, us in times.items() if n else ():
                        measured.setdefault(name, []).append(us)
        finally:
            for _, hook in hooks:
                hook.remove()
    if not count:
        raise Error("there are no batches; one of the size that trains is enough", 2)
    rows = sorted((statistics.median(times), name) for name, times in measured.items())
    where = ", ".join(map(str, devices))
    head = (f"# When each gradient is ready, in µs from the start of the backward pass: the median of {passes} passes for each "
            f"of {count} batch{'es' if count > 1 else ''}.\n# {type(module).__name__}, torch {torch.__version__}, {where}\n")
    return head + "".join(f"ready {quoted(name)} {us:.3f}\n" for us, name in rows)
