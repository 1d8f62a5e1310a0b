"""Models in real sizes with random weights, recorded and compared with autograd: prints a table in Markdown.

    python python/bench/zoo.py                 what is installed of torchvision and transformers, and the tests' zoo
    python python/bench/zoo.py bert t5 resnet  those whose name contains one of the words

A model has its real width and depth, and small inputs: gradients flow the same way. Nothing is downloaded. One model
is in memory at a time; the largest has 880 M elements, and as many gradients. A row that is no agreement says what
went wrong, and the exit status is then 1. Columns: elements of all parameters; operators in the text; batches;
parameters on which text and autograd agree; of them never, conditional and frozen; seconds of export, and the same as
a multiple of a plain forward and backward over the same batches; size of the text; seconds of `ddpc check` on it.
"""
from __future__ import annotations

import gc
import importlib.util
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "tests")]

import conftest  # noqa: E402,F401  finds the ddpc command of this tree
from ddpc import command  # noqa: E402
from ddpc.torch.api import arguments, loss_of, recording  # noqa: E402


class Job(NamedTuple):
    """What export is given."""

    module: nn.Module
    batches: List[Any]
    loss: Optional[Callable[..., torch.Tensor]] = None
    steps: Optional[Dict[str, Any]] = None


Makers = Dict[str, Callable[[], Job]]


# ---- torchvision ----------------------------------------------------------------------------------------------------


def mean_square(output: Any, *batch: Any) -> torch.Tensor:
    """A loss over every tensor of the output, the same for all classifiers."""
    if isinstance(output, torch.Tensor):
        return output.pow(2).mean()
    items = output.values() if isinstance(output, dict) else output
    return sum(mean_square(item) for item in items)


def vision() -> Makers:
    import torchvision.models as models
    from torchvision.models import detection, segmentation

    bare = dict(weights=None)
    makers: Makers = {}

    def classifier(name: str, side: int = 64, batch: int = 2, loss: Any = mean_square, **options: Any) -> None:
        if hasattr(models, name):
            makers[name] = lambda: Job(getattr(models, name)(**bare, **options), [(torch.randn(batch, 3, side, side),)], loss)

    for name in ("resnet18", "resnet50", "resnext50_32x4d", "densenet121", "mobilenet_v3_large", "efficientnet_b0",
                 "convnext_tiny", "regnet_y_400mf", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11_bn"):
        classifier(name)
    for name in ("vit_b_16", "swin_t", "swin_v2_t", "maxvit_t"):
        classifier(name, side=224, batch=1)
    classifier("inception_v3", side=299, init_weights=False)
    classifier("googlenet", init_weights=False, aux_logits=True)
    makers["googlenet, loss without aux"] = lambda: Job(
        models.googlenet(**bare, init_weights=False, aux_logits=True), [(torch.randn(2, 3, 64, 64),)],
        lambda y, x: mean_square(y.logits))

    def segmenter(name: str, loss: Any, title: str) -> None:
        makers[title] = lambda: Job(
            getattr(segmentation, name)(weights=None, weights_backbone=None, aux_loss=True),
            [(torch.randn(2, 3, 64, 64),)], loss)

    segmenter("fcn_resnet50", mean_square, "fcn_resnet50")
    segmenter("deeplabv3_resnet50", mean_square, "deeplabv3_resnet50")
    segmenter("deeplabv3_resnet50", lambda y, x: mean_square(y["out"]), "deeplabv3_resnet50, loss without aux")

    def target(boxes: int) -> Dict[str, torch.Tensor]:
        return {
            "boxes": torch.tensor([[10.0, 12.0, 90.0, 100.0]] * boxes).reshape(boxes, 4),
            "labels": torch.ones(boxes, dtype=torch.int64),
            "masks": torch.ones(boxes, 128, 128, dtype=torch.uint8),
            "keypoints": torch.tensor([[[20.0, 20.0, 1.0]] * 17] * boxes).reshape(boxes, 17, 3),
        }

    def detector(name: str, **options: Any) -> None:
        makers[name] = lambda: Job(
            getattr(detection, name)(weights=None, weights_backbone=None, **options),
            [([torch.rand(3, 128, 128)] * 2, [target(n), target(1 if n else 0)]) for n in (2, 0)], mean_square)

    small = dict(min_size=128, max_size=160)
    few = dict(small, rpn_post_nms_top_n_train=50, box_batch_size_per_image=16)
    for name in ("fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2", "fasterrcnn_mobilenet_v3_large_fpn",
                 "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn"):
        detector(name, **few)
    for name in ("retinanet_resnet50_fpn", "fcos_resnet50_fpn"):
        detector(name, **small)
    detector("ssdlite320_mobilenet_v3_large")
    detector("ssd300_vgg16")
    makers["raft_small"] = lambda: Job(models.optical_flow.raft_small(weights=None),
                                       [(torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128))], mean_square)
    makers["r3d_18"] = lambda: Job(models.video.r3d_18(weights=None), [(torch.rand(1, 3, 4, 32, 32),)], mean_square)
    return makers


# ---- transformers ---------------------------------------------------------------------------------------------------


def text() -> Makers:
    import transformers as t

    def ids(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(5, high, shape)

    def lm(config: Any, model: Any, length: int = 16, batches: int = 1) -> Callable[[], Job]:
        def make() -> Job:
            c = config()
            module = model(c)
            words = [ids(min(c.get_text_config().vocab_size, 1000), 2, length) for _ in range(batches)]
            return Job(module, [dict(input_ids=w, labels=w) for w in words])

        return make

    def pixels(n: int, side: int, channels: int = 3) -> torch.Tensor:
        return torch.randn(n, channels, side, side)

    def clip() -> Job:
        return Job(t.CLIPModel(t.CLIPConfig()), [
            dict(input_ids=ids(1000, 2, 12), pixel_values=pixels(2, 224), return_loss=True)])

    def whisper(**more: Any) -> Callable[[], Job]:
        def make() -> Job:
            c = t.WhisperConfig(d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
                                decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072, **more)
            batch = dict(input_features=torch.randn(1, 80, 3000), labels=ids(1000, 1, 8))
            return Job(t.WhisperForConditionalGeneration(c), [batch] * (4 if more else 1))

        return make

    def speech() -> Job:
        c = t.Wav2Vec2Config(mask_time_length=4)
        batch = dict(input_values=torch.randn(2, 4000), labels=ids(30, 2, 4))
        return Job(t.Wav2Vec2ForCTC(c), [batch] * 4)

    def labelled(model: Any, config: Any, side: int = 224) -> Callable[[], Job]:
        return lambda: Job(model(config()), [dict(pixel_values=pixels(2, side), labels=torch.tensor([0, 1]))])

    def hidden(model: Any, config: Any) -> Callable[[], Job]:
        return lambda: Job(model(config()), [dict(input_ids=ids(1000, 2, 16))],
                           lambda out, **batch: out.last_hidden_state.pow(2).mean())

    def peft() -> Job:
        from peft import LoraConfig, get_peft_model

        module = get_peft_model(t.GPT2LMHeadModel(t.GPT2Config()), LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True))
        words = ids(1000, 2, 16)
        return Job(module, [dict(input_ids=words, labels=words)])

    def pretraining() -> Job:
        words = ids(1000, 2, 16)
        return Job(t.BertForPreTraining(t.BertConfig()),
                   [dict(input_ids=words, labels=words, next_sentence_label=torch.tensor([0, 1]))])

    def vit_masked() -> Job:
        mask = torch.rand(2, 196) > 0.5
        return Job(t.ViTForMaskedImageModeling(t.ViTConfig()), [dict(pixel_values=pixels(2, 224), bool_masked_pos=mask)])

    def experts() -> Job:
        c = t.MixtralConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
                            num_key_value_heads=4, vocab_size=4000, num_local_experts=8)
        words = [ids(1000, 1, n) for n in (3, 64)]
        return Job(t.MixtralForCausalLM(c), [dict(input_ids=w, labels=w) for w in words])

    return {
        "bert-base, masked LM": lm(t.BertConfig, t.BertForMaskedLM),
        "bert-base, pretraining": pretraining,
        "bert-base, hidden states": hidden(t.BertModel, t.BertConfig),
        "roberta-base": lm(t.RobertaConfig, t.RobertaForMaskedLM),
        "deberta-v2-xlarge": lm(t.DebertaV2Config, t.DebertaV2ForMaskedLM),
        "electra": lm(t.ElectraConfig, t.ElectraForMaskedLM),
        "gpt2": lm(t.GPT2Config, t.GPT2LMHeadModel, batches=2),
        "gpt2, LoRA": peft,
        "gpt2-medium": lm(lambda: t.GPT2Config(n_embd=1024, n_layer=24, n_head=16), t.GPT2LMHeadModel),
        "t5-small": lm(lambda: t.T5Config(decoder_start_token_id=0), t.T5ForConditionalGeneration),
        "t5-base": lm(lambda: t.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12,
                                         decoder_start_token_id=0), t.T5ForConditionalGeneration),
        "bart-base": lm(lambda: t.BartConfig(d_model=768, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=3072,
                                             decoder_ffn_dim=3072), t.BartForConditionalGeneration),
        "llama, 8 layers": lm(lambda: t.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                                    num_attention_heads=16), t.LlamaForCausalLM),
        "mixtral, small": experts,
        "vit-base": labelled(t.ViTForImageClassification, t.ViTConfig),
        "vit-base, masked images": vit_masked,
        "clip-base": clip,
        "whisper-small": whisper(),
        "whisper-small, LayerDrop": whisper(encoder_layerdrop=0.1, decoder_layerdrop=0.1),
        "wav2vec2-base": speech,
    }


# ---- the tests' zoo -------------------------------------------------------------------------------------------------


def small() -> Makers:
    import zoo

    def job(model: Any) -> Callable[[], Job]:
        def make() -> Job:
            s = model.setup()
            return Job(s.module, s.batches, s.loss, s.steps)

        return make

    return {name: job(model) for name, model in zoo.MODELS.items()}


# ---- the table ------------------------------------------------------------------------------------------------------


def seed() -> None:
    torch.manual_seed(0)


def plain_seconds(job: Job) -> float:
    """Forward and backward over all batches of all steps, without the recorder."""
    seed()
    start = time.perf_counter()
    for batches, loss in (job.steps or {"": (job.batches, job.loss)}).values():
        for batch in batches:
            args, kwargs = arguments(batch)
            loss_of(job.module(*args, **kwargs), loss, args, kwargs).backward()
    job.module.zero_grad(set_to_none=True)
    return time.perf_counter() - start


def row(name: str, make: Callable[[], Job]) -> Tuple[str, bool]:
    """A line of the table, and whether text and autograd agree."""
    seed()
    try:
        job = make()
        elements = sum(p.numel() for p in job.module.parameters())
        plain_seconds(job)  # the first run pays for what torch sets up once
        plain = plain_seconds(job)
        seed()
        start = time.perf_counter()
        result = recording(job.module, job.batches, job.loss, steps=job.steps)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        answer = command.check(result.text)
        check_seconds = time.perf_counter() - start
    except Exception as error:  # the row says it, and the table goes on
        said = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
        return f"| {name} | {said[:300].replace('|', '/')} |", False
    kinds: Counter = Counter(p["class"] for s in answer["steps"] for p in s["parameters"] if p["kind"] == "parameter")
    ops = len(re.findall(r"^ +.* = torch\.", result.text, re.M))
    return (f"| {name} | {elements / 1e6:.2f} M | {ops} | {result.batches} | {result.parameters} of {result.parameters} | "
            f"{kinds['never']} / {kinds['conditional']} / {kinds['frozen']} | {seconds:.2f} | {seconds / plain:.1f}× | "
            f"{len(result.text.encode()) / 1000:.0f} kB | {check_seconds:.2f} |"), True


def rows(words: List[str]) -> Iterator[bool]:
    for group in (text, vision, small):
        try:
            makers = group()
        except ImportError as error:
            print(f"no {group.__name__} models: {error}", file=sys.stderr)
            continue
        for name, make in makers.items():
            if not words or any(word in name for word in words) or group.__name__ in words:
                line, good = row(name, make)
                print(line, flush=True)
                gc.collect()
                yield good


def main() -> int:
    versions = ", ".join(f"{m} {importlib.import_module(m).__version__}" for m in ("torch", "torchvision", "transformers")
                         if importlib.util.find_spec(m))
    print(f"{versions}\n\n| model | elements | operators | batches | agree | never / conditional / frozen | export s | "
          "plain steps | text | check s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    return 0 if all(list(rows(sys.argv[1:]))) else 1


if __name__ == "__main__":
    sys.exit(main())
