#!/usr/bin/env python3
"""What `watch` costs: a training step of DistributedDataParallel alone, watched, and with find_unused_parameters=True.

Two ranks on this machine, gloo. Two models, in which every parameter is used: `wide`, many tiny parameters, where the
cost per parameter shows; and `deep`, few parameters and a long chain of operators, where the flag's walk over the
autograd graph shows. Steps of the three kinds alternate, so that all see the same machine; printed are medians over the
steps of rank 0, in µs, and ratios to DDP alone within the run: of the time of a step, which includes what the ranks
wait for each other and for the processors, and of the processor time of the thread that trains, where the hooks and the
walk are.

    DDPC=build/ddpc PYTHONPATH=python OMP_NUM_THREADS=1 python3 python/bench/watch.py [--steps N]
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpc import command
from ddpc.torch import watch


class Wide(nn.Module):
    """`n` parameters of 4 elements, each used once."""

    def __init__(self, n: int):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(n)])

    def forward(self, x):
        return (torch.stack(list(self.w)) * x).sum()


class Deep(nn.Module):
    """Two parameters of 4 elements and `n` operators between them."""

    def __init__(self, n: int):
        super().__init__()
        self.n = n
        self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

    def forward(self, x):
        h = x * self.a
        for _ in range(self.n):
            h = h + 1.0
        return (h * self.b).sum()


MODELS = [("wide, 100 parameters", Wide, 100), ("wide, 2000 parameters", Wide, 2000),
          ("deep, 2000 operators", Deep, 2000), ("deep, 20000 operators", Deep, 20000)]
KINDS = ("DDP alone", "DDP + watch", "DDP with the flag")


def build(make, n, kind):
    model = make(n)
    ddp = DistributedDataParallel(model, find_unused_parameters=kind == KINDS[2])
    if kind == KINDS[1]:
        lines = [f"{name} float32 [4]\n" for name, _ in model.named_parameters()]
        watch(ddp, command.check("".join(lines), "--from-list"))
    return ddp


def step(ddp, x):
    for p in ddp.module.parameters():
        p.grad = None
    dist.barrier()
    start = time.perf_counter(), time.thread_time()
    ddp(x).backward()
    return (time.perf_counter() - start[0]) * 1e6, (time.thread_time() - start[1]) * 1e6


def rank_main(rank, store, steps):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    if rank == 0:
        print(f"torch {torch.__version__}, 2 ranks, gloo; medians of {steps} steps, µs")
        print(f"{'':24}{'':18}" + "".join(f"{k:>20}" for k in KINDS) + f"{'watch, a parameter':>20}")
    for title, make, n in MODELS:
        models = [build(make, n, kind) for kind in KINDS]
        x = torch.ones(4)
        times = [[] for _ in KINDS]
        for i in range(steps + 3):
            for which, ddp in enumerate(models):
                took = step(ddp, x)
                if i >= 3:
                    times[which].append(took)
        if rank == 0:
            parameters = sum(1 for _ in models[0].parameters())
            for what, column in (("step", 0), ("processor", 1)):
                alone, *others = (statistics.median(t[column] for t in kind) for kind in times)
                print(f"{title:24}{what:18}{alone:20.0f}"
                      + "".join(f"{t:12.0f} ({t / alone:4.2f}x)" for t in others)
                      + (f"{(others[0] - alone) / parameters:20.2f}" if make is Wide and column else ""), flush=True)
    dist.barrier()
    os._exit(0)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=20)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (f"{folder}/store", arguments.parse_args().steps), nprocs=2)


if __name__ == "__main__":
    main()
