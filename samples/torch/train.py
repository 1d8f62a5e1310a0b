"""Trains mlm.py under stock DistributedDataParallel on two ranks of this host, over gloo, with the settings that a
check advises, watched.

    python3 samples/torch/train.py             # 20 steps on texts with images, as checked
    python3 samples/torch/train.py --text 7    # in step 7 the batch of rank 1 has no images: the watcher says what is missing
"""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import ddpc.torch
import mlm

RANKS, STEPS = 2, 20


def train(rank: int, port: int, text_in_step: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = mlm.build()
    check = ddpc.torch.check(model, mlm.images(), mlm.loss)
    settings = ddpc.torch.ddp_settings(check)
    ddp = DistributedDataParallel(settings.apply(model), **settings.ddp)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    with ddpc.torch.watch(ddp, check):
        for step in range(1, STEPS + 1):
            ids = torch.randint(0, mlm.WORDS, (2, 8))
            images = None if rank == 1 and step == text_in_step else torch.randn(2, 48)
            loss = mlm.loss(ddp(ids, images), ids)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if rank == 0:
        print(f"{STEPS} steps on {RANKS} ranks, find_unused_parameters={settings.find_unused_parameters}, "
              f"{len(settings.freeze)} parameters frozen, loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(train, (port, int(sys.argv[2]) if "--text" in sys.argv else 0), RANKS)
