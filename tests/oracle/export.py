#!/usr/bin/env python3
"""The export recipe of docs/onnx.md, taken from there word for word and run twice, on a small model with everything that makes
printers differ: a mask and a training flag as constants of a type that older ones leave out, a buffer, an unused
parameter. Exit 77, skipped, where torch is missing.

usage: export.py DDPC onnx.md
"""
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ddpc, readme = (pathlib.Path(a).resolve() for a in sys.argv[1:])
recipe = re.search(r"```python\n(import .*?torch\.onnx\.export.*?)```", readme.read_text(), re.DOTALL).group(1)
if "dynamo" in inspect.signature(torch.onnx.export).parameters:  # as the recipe says
    recipe = recipe.replace("do_constant_folding=False", "do_constant_folding=False, dynamo=False")


class Model(torch.nn.Module):
    def __init__(self, with_loss):
        super().__init__()
        self.with_loss = with_loss
        self.emb = torch.nn.Embedding(50, 16)
        self.enc = torch.nn.Linear(16, 16)
        self.unused = torch.nn.Linear(16, 16)
        self.drop = torch.nn.Dropout(0.1)
        self.dec = torch.nn.Linear(16, 50)
        self.register_buffer("mask", torch.ones(16) > 0)

    def forward(self, ids, labels):
        h = self.drop(self.enc(self.emb(ids)))
        h = torch.where(self.mask & torch.tensor([True] * 16), h, torch.tensor(0.0))
        logits = self.dec(h)
        if not self.with_loss:
            return logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def check(*flags):
    done = subprocess.run([ddpc, "check", "m.onnx", "--params", "m.params", *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "flag not needed, after freezing 2 parameters" in done.stdout, done.stdout
    assert "unused.*  never" in done.stdout, done.stdout
    assert "5 of 7 parameters always" in done.stdout, done.stdout


ids = torch.zeros(2, 5, dtype=torch.long)
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    seen = []
    for _ in range(2):
        exec(recipe, {"model": Model(True), "batch": (ids, ids)})
        check()
        seen.append(sorted((p.name, p.stat().st_size) for p in pathlib.Path().iterdir() if p.suffix != ".onnxtxt"))
    assert seen[0] == seen[1], f"a second run leaves other files: {seen}"
    # As docs/onnx.md says where the loss is outside of forward.
    exec(recipe.replace('["loss"]', '["logits"]'), {"model": Model(False), "batch": (ids, ids)})
    check("--loss", "logits")
    os.chdir("/")
print("the recipe of docs/onnx.md works, twice")
