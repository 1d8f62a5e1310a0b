"""A masked language model as people write them, with three things that DistributedDataParallel stumbles over: a pooler
that no loss reads, a token that nothing reads, and an adapter that only batches with images use.

    python3 -m ddpc.check samples/torch/mlm.py:build --batch samples/torch/mlm.py:text --loss samples/torch/mlm.py:loss
    python3 samples/torch/train.py                 # trains it on two ranks, watched
"""

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH = 100, 32


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.mask_token = nn.Parameter(torch.zeros(WIDTH))
        self.images = nn.Linear(48, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids, images=None):
        h = self.words(ids)
        if images is not None:
            h = h + self.images(images)[:, None]
        h = self.layers(h)
        return h, torch.tanh(self.pooler(h[:, 0]))


class MaskedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(WIDTH, WORDS)
        self.head.weight = self.encoder.words.weight

    def forward(self, ids, images=None):
        hidden, pooled = self.encoder(ids, images)
        return {"logits": self.head(hidden), "pooled": pooled}


def build():
    return MaskedLM()


def text():
    return [(torch.randint(0, WORDS, (2, 8)),), (torch.randint(0, WORDS, (2, 12)),)]


def images():
    return [(torch.randint(0, WORDS, (2, 8)), torch.randn(2, 48))]


def both():
    return [*text(), *images()]


def loss(output, ids, images=None):
    return F.cross_entropy(output["logits"].flatten(0, 1), ids.flatten())
