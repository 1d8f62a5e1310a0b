"""Two processes that train models of the zoo under stock DistributedDataParallel, one model after another.

The processes start once, since that takes longer than all models together. A model has a deadline; if a rank is
still silent then, both processes are ended and the next model gets new ones.
"""
from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from datetime import timedelta
from typing import Any, List, Mapping, Optional, Sequence, Tuple

RANKS = 2


def train(name: str, settings: Mapping[str, Any], freeze: Sequence[str], steps: int) -> None:
    """Trains a model for some steps; its training steps take turns. What DDP raises is the caller's."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from . import MODELS, seed

    setup = MODELS[name].setup()
    for parameter in freeze:
        setup.module.get_parameter(parameter).requires_grad_(False)
    model = DistributedDataParallel(setup.module, **settings)
    optimizer = torch.optim.SGD([p for p in setup.module.parameters() if p.requires_grad], lr=1e-4)
    turns = list(setup.each().values())
    seed()
    for i in range(steps):
        batches, loss = turns[i % len(turns)]
        batch = batches[i // len(turns) % len(batches)]
        loss(model(*batch), *batch).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def serve(rank: int, meeting: str, pipe: Any) -> None:
    """What a process does: takes orders from the pipe, answers each with None or the error."""
    import warnings

    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS,
                            timeout=timedelta(seconds=30))
    from . import MODELS  # noqa: F401  before the first deadline begins

    pipe.send("ready")
    for order in iter(pipe.recv, None):
        try:
            train(*order)
            pipe.send(None)
        except Exception as error:  # the order's answer, whatever it is
            pipe.send(f"{type(error).__name__}: {error}")
    dist.destroy_process_group()


class Ranks:
    """The processes. A context manager."""

    def __init__(self) -> None:
        self._processes: List[Tuple[Any, Any]] = []

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *exc: object) -> None:
        self._end(polite=True)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        meeting = os.path.join(tempfile.mkdtemp(), "meeting")
        for rank in range(RANKS):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, meeting, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append((process, ours))
        for rank, (_, pipe) in enumerate(self._processes):
            if not pipe.poll(300) or pipe.recv() != "ready":
                raise RuntimeError(f"rank {rank} did not start")

    def _end(self, polite: bool = False) -> None:
        for process, pipe in self._processes:
            if polite:
                pipe.send(None)
                process.join(5)
            process.kill()
            process.join()
            pipe.close()
        self._processes = []

    def run(self, name: str, settings: Mapping[str, Any], freeze: Sequence[str], steps: int = 20,
            seconds: float = 60) -> Optional[str]:
        """None if every rank trained all steps, else what the first rank that did not says."""
        if not self._processes:
            self._start()
        for _, pipe in self._processes:
            pipe.send((name, dict(settings), list(freeze), steps))
        deadline, answers = time.monotonic() + seconds, []
        for rank, (_, pipe) in enumerate(self._processes):
            try:
                if not pipe.poll(max(0.0, deadline - time.monotonic())):
                    raise EOFError(f"rank {rank} said nothing for {seconds:.0f} s")
                answers.append(pipe.recv())
            except EOFError as error:
                self._end()
                return f"{type(error).__name__}: {error or f'rank {rank} is gone'}"
        return next((a for a in answers if a is not None), None)
