"""Models of text and sequences."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from . import Setup, model, tokens, why

WIDTH, WORDS = 8, 12


def last_token_loss(logits: torch.Tensor, ids: torch.Tensor, *rest: object) -> torch.Tensor:
    """Next-token cross entropy of logits[batch, time, WORDS]."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class SelfAttention(nn.Module):
    """Multi-head attention written out, as in most repositories."""

    def __init__(self, width: int = WIDTH, heads: int = 2, causal: bool = False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = (
            f(x).view(batch, time, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if self.causal:
            scores = scores.masked_fill(torch.ones(time, time).triu(1).bool(), float("-inf"))
        if mask is not None:
            scores = scores + (1 - mask[:, None, None].float()) * -1e4
        mixed = F.dropout(scores.softmax(-1), 0.1, self.training) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))  # @mix


class Block(nn.Module):
    """Post-norm encoder or decoder block."""

    def __init__(self, causal: bool = False):
        super().__init__()
        self.attention = SelfAttention(causal=causal)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(16, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.mask_token = nn.Parameter(torch.zeros(WIDTH))
        self.layer = nn.ModuleList(Block() for _ in range(2))
        self.pooler = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Dict[str, torch.Tensor]:
        h = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        for layer in self.layer:
            h = layer(h, mask)
        pooled = torch.tanh(self.pooler(h[:, 0]))  # @pooler
        return {"logits": self.head(h), "pooler_output": pooled}


@model(never={
    "pooler.*": why("pooler_output", at="pooler"),
    "mask_token": why("nothing reads it"),
})
def bert_dead_pooler() -> Setup:
    """The encoder of issues without number: a pooler whose output the loss leaves alone."""
    batches = [(tokens(2, 6), torch.ones(2, 6, dtype=torch.int64)) for _ in range(2)]
    return Setup(Bert(), batches, lambda out, ids, mask: F.cross_entropy(out["logits"].flatten(0, 1), ids.flatten()))


class Experts(nn.Module):
    """Top-1 routing: a token goes to the expert that its gate prefers; experts without tokens do not run."""

    def __init__(self, n: int = 4):
        super().__init__()
        self.gate = nn.Linear(n, n, bias=False)
        nn.init.eye_(self.gate.weight)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(n, WIDTH), nn.ReLU(), nn.Linear(WIDTH, n)) for _ in range(n))
        self.head = nn.Linear(n, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero(as_tuple=True)[0]
            if rows.numel():
                y = y.index_add(0, rows, weight[rows, None] * expert(x[rows]))  # @expert
        return self.head(x + y)


@model(conditional={"experts.3.*": why("only in batch 1 of 2", at="expert")})
def routed_experts() -> Setup:
    def batch(*chosen: int) -> Tuple[torch.Tensor]:
        return (F.one_hot(torch.tensor(chosen), 4).float() * 3 + torch.rand(len(chosen), 4),)

    return Setup(Experts(), [batch(0, 1, 2, 3, 0), batch(0, 1, 2, 2, 1)], lambda y, x: y.pow(2).mean())


class Lora(nn.Module):
    """A frozen linear layer and its low-rank correction."""

    def __init__(self, base: nn.Linear, rank: int = 2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + F.dropout(x, 0.1, self.training) @ self.lora_a.t() @ self.lora_b.t()


@model(frozen=("*.base.*", "words.*", "head.*", "block.norm*", "block.up.*", "block.down.*", "*.key.*", "*.out.*"))
def lora() -> Setup:
    """A frozen base; only the corrections of query and value train."""

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.block, self.head = nn.Embedding(WORDS, WIDTH), Block(), nn.Linear(WIDTH, WORDS)
            self.requires_grad_(False)
            attention = self.block.attention
            attention.query, attention.value = Lora(attention.query), Lora(attention.value)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.block(self.words(ids)))

    return Setup(Adapted(), [(tokens(2, 6),)], last_token_loss)


class Decoder(nn.Module):
    """A small GPT; `tied`: the head is the embedding."""

    def __init__(self, tied: bool = True, drop: float = 0.0, layers: int = 2):
        super().__init__()
        self.drop = drop
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH)
        self.h = nn.ModuleList(Block(causal=True) for _ in range(layers))
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            if self.training and self.drop and torch.rand(()).item() < self.drop:
                continue
            x = block(x)
        return self.lm_head(x)


@model()
def decoder_tied() -> Setup:
    return Setup(Decoder(), [(tokens(2, 6),), (tokens(2, 4),)], last_token_loss)


@model(conditional={"h.*.attention.out.*": why("only in batch", at="mix"), "h.*": why("only in batch")})
def layer_drop() -> Setup:
    """Each block is left out with probability one half, batch by batch."""
    return Setup(Decoder(tied=False, drop=0.5), [(tokens(2, 5),) for _ in range(6)], last_token_loss)


@model()
def transformer_encoder() -> Setup:
    """torch's own encoder, with a padding mask."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True), 2)
            self.head = nn.Linear(WIDTH, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.words(ids), src_key_padding_mask=ids == 0).mean(1))

    ids = tokens(3, 5)
    ids[:, 0] = 1
    return Setup(Encoder(), [(ids,)], lambda y, ids: F.cross_entropy(y, torch.arange(len(ids)) % 3))


@model()
def transformer_translation() -> Setup:
    """nn.Transformer with one embedding for source, target and output, as in the paper."""

    class Translate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Embedding(WORDS, WIDTH)
            self.transformer = nn.Transformer(WIDTH, 2, 1, 1, 16, batch_first=True)
            self.out = nn.Linear(WIDTH, WORDS)
            self.out.weight = self.shared.weight

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.out(self.transformer(self.shared(source), self.shared(target), tgt_mask=mask))

    return Setup(
        Translate(), [(tokens(2, 5), tokens(2, 4))], lambda y, s, t: F.cross_entropy(y.flatten(0, 1), t.flatten())
    )


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, kdim=6, vdim=4, batch_first=True)
        self.score = nn.Linear(5, 1)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        y, weights = self.attention(q, k, v, need_weights=True, average_attn_weights=False)
        return y, self.score(weights)


@model()
def attention_weights() -> Setup:
    """The weights of attention are used as well as its result."""
    batch = (torch.randn(2, 3, WIDTH), torch.randn(2, 5, 6), torch.randn(2, 5, 4))
    return Setup(Attend(), [batch], lambda out, *_: out[0].pow(2).mean() + out[1].mean())


@model(never={
    "attention.v_proj_weight": why("nothing reads", at="only_weights"),
    "attention.out_proj.*": why("nothing reads", at="only_weights"),
})
def attention_weights_only() -> Setup:
    """Only the weights are used: value and output projection train for nothing."""

    class Pointer(Attend):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            _, weights = self.attention(q, k, v)  # @only_weights
            return self.score(weights)

    batch = (torch.randn(2, 3, WIDTH), torch.randn(2, 5, 6), torch.randn(2, 5, 4))
    pointer = Pointer()
    pointer.attention.in_proj_bias = None  # its thirds cannot be told apart
    return Setup(pointer, [batch], lambda y, *_: y.pow(2).mean())


class Tasks(nn.Module):
    """One trunk, a head for each task, one task a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, WIDTH)
        self.heads = nn.ModuleDict({"tags": nn.Linear(WIDTH, 3), "names": nn.Linear(WIDTH, 2), "mood": nn.Linear(WIDTH, 1)})

    def forward(self, task: str, x: torch.Tensor) -> torch.Tensor:
        return self.heads[task](torch.relu(self.trunk(x)))  # @task


@model(
    never={"heads.mood.*": why("nothing reads it")},
    conditional={"heads.tags.*": why("only in batch 1 of 2", at="task"), "heads.names.*": why("only in batch 2 of 2", at="task")},
)
def task_heads() -> Setup:
    return Setup(Tasks(), [("tags", torch.randn(3, 4)), ("names", torch.randn(3, 4))], lambda y, task, x: y.pow(2).mean())


@dataclass
class Answer:
    """What Hugging Face models return, more or less."""

    logits: torch.Tensor
    extra: Dict[str, List[torch.Tensor]]


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.probe = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        self.forgotten = nn.Linear(4, 2)

    def forward(self, x: Dict[str, Tuple[torch.Tensor, ...]]) -> Answer:
        h = self.body(x["pair"][0]) * x["pair"][1]
        self.forgotten(h)  # @forgotten
        return Answer(self.head(h), {"probes": [h.relu(), self.probe(h)]})  # @probe


@model(never={"probe.*": why("output", at="probe"), "forgotten.*": why("nothing reads", at="forgotten")})
def nested_outputs() -> Setup:
    return Setup(
        Nested(), [({"pair": (torch.randn(2, 4), torch.randn(2, 4))},)],
        lambda out, x: out.logits.pow(2).mean() + out.extra["probes"][0].mean(),
    )


class Recurrent(nn.Module):
    """LSTM on packed sequences, then a GRU in both directions, then cells by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, 6, num_layers=2, dropout=0.1, batch_first=True, proj_size=5)
        self.gru = nn.GRU(5, 4, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(8, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        y, _ = self.gru(y)
        h = c = y.new_zeros(len(ids), 3)
        for t in range(y.shape[1]):
            h, c = self.cell(y[:, t], (h, c))
        return self.head(h)


@model()
def recurrent_packed() -> Setup:
    return Setup(
        Recurrent(), [(tokens(3, 5), torch.tensor([5, 2, 3]))], lambda y, ids, lengths: y.logsumexp(-1).mean()
    )


@model()
def recurrent_first_layer() -> Setup:
    """Only the first layer's last state is used; the second gets zeros, since the states are one stacked tensor."""

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 4, num_layers=2, batch_first=True).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y, (h, c) = self.lstm(x)
            return h[0]

    return Setup(First(), [(torch.randn(2, 3, 4).double(),)], lambda h, x: h.pow(2).sum())


@model()
def embedding_sparse() -> Setup:
    """Sparse gradients, a padding row, a bag with weights."""

    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0, sparse=True)
            self.bag = nn.EmbeddingBag(WORDS, WIDTH, mode="sum")
            self.weight = nn.Parameter(torch.ones(4))
            self.head = nn.Linear(WIDTH, 1)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            weights = self.weight.expand(ids.shape)
            return self.head(self.words(ids).mean(1) + self.bag(ids, per_sample_weights=weights))

    return Setup(Bags(), [(tokens(3, 4),)], lambda y, ids: y.pow(2).mean())


@model(frozen=("body.*",), conditional={"second.*": why("only in batch 2 of 2", at="early")})
def early_exit() -> Setup:
    """A soft prompt before a frozen body; confident batches leave after the first head."""

    class Prompted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prompt = nn.Parameter(torch.randn(2, WIDTH))
            self.body = Block().requires_grad_(False)
            self.first, self.second = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.cat([self.prompt.expand(len(x), -1, -1), x], 1)
            x = self.body(x)
            y = self.first(x.mean(1))
            if x.shape[1] > 5:
                y = y + self.second(x.amax(1))  # @early
            return y

    return Setup(Prompted(), [(torch.randn(2, 2, WIDTH),), (torch.randn(2, 5, WIDTH),)], lambda y, x: y.pow(2).mean())
