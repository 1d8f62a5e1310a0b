"""Ranks as processes: a function runs on each, over gloo, and what became of it comes back before a deadline."""

import os
import tempfile
import time
import traceback

import torch.distributed as dist
import torch.multiprocessing as mp

HUNG = "hung"


def _rank(target, rank, size, store, results, args):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    try:
        outcome = target(rank, *args)
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    results.send(outcome)
    results.close()
    os._exit(0)  # the destructors of a group with a broken peer may wait for it


def run(target, *args, ranks=2, deadline=60):
    """What `target(rank, *args)` returned on each rank: a value, the text of what it raised, or HUNG after `deadline`
    seconds. A rank ends as soon as it has returned or raised, as in a job."""
    context = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(ranks):
            end, far = context.Pipe(duplex=False)
            process = context.Process(target=_rank, args=(target, rank, ranks, f"{folder}/store", far, args), daemon=True)
            process.start()
            far.close()
            pipes.append(end)
            processes.append(process)
        end_time = time.monotonic() + deadline
        outcomes = []
        for pipe in pipes:
            try:
                outcomes.append(pipe.recv() if pipe.poll(max(0.0, end_time - time.monotonic())) else HUNG)
            except EOFError:
                outcomes.append("ended without a word")
        for process in processes:
            process.kill()
            process.join()
        return outcomes
