"""Models of images: torchvision's, narrowed, and what is written around them."""
from __future__ import annotations

import importlib
from functools import partial
from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
import torchvision.models as zoo
from torch import nn
from torchvision.models import segmentation
from torchvision.models.detection import FasterRCNN, RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.segmentation import _utils as segmentation_file
from torchvision.ops import FeaturePyramidNetwork, StochasticDepth, deform_conv2d, roi_align

from . import Batches, Setup, model, why

googlenet = importlib.import_module("torchvision.models.googlenet")  # the package has a function of that name


def images(n: int = 2, side: int = 32) -> torch.Tensor:
    """float[n, 3, side, side]"""
    return torch.randn(n, 3, side, side)


def labels_loss(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Cross entropy with labels 0, 1, …"""
    return F.cross_entropy(y, torch.arange(len(x)) % y.shape[1])


@model()
def resnet18() -> Setup:
    net = zoo.ResNet(zoo.resnet.BasicBlock, [2, 2, 2, 2], num_classes=4, zero_init_residual=True)
    return Setup(net, [(images(),), (images(3),)], labels_loss)


@model()
def vit() -> Setup:
    net = zoo.VisionTransformer(32, 16, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=16, num_classes=4)
    return Setup(net, [(images(),)], labels_loss)


@model()
def mobilenet() -> Setup:
    """Depthwise convolutions, squeeze-excitation, hard swish."""
    setting = [
        partial(zoo.mobilenetv3.InvertedResidualConfig, width_mult=0.25)(16, 3, 16, 16, True, "RE", 2, 1),
        partial(zoo.mobilenetv3.InvertedResidualConfig, width_mult=0.25)(16, 3, 32, 24, True, "HS", 2, 1),
    ]
    return Setup(zoo.MobileNetV3(setting, 16, num_classes=4), [(images(),)], labels_loss)


@model()
def swin() -> Setup:
    """Shifted windows: rolls, a table of relative positions, stochastic depth."""
    net = zoo.SwinTransformer([4, 4], 8, [2], [2], [2, 2], stochastic_depth_prob=0.1, num_classes=4)
    return Setup(net, [(images(),)], labels_loss)


def _googlenet() -> nn.Module:
    class Narrow(googlenet.InceptionAux):
        def __init__(self, channels: int, classes: int, *rest: object, **named: object):
            super().__init__(channels, classes)
            self.fc1, self.fc2 = nn.Linear(2048, 8), nn.Linear(8, classes)

    class Conv(googlenet.BasicConv2d):
        pass

    return googlenet.GoogLeNet(num_classes=4, aux_logits=True, init_weights=False, blocks=[Conv, googlenet.Inception, Narrow])


@model()
def googlenet_aux_used() -> Setup:
    return Setup(
        _googlenet(), [(images(2, 33),)],
        lambda y, x: labels_loss(y.logits, x) + 0.3 * (labels_loss(y.aux_logits1, x) + labels_loss(y.aux_logits2, x)),
    )


@model(never={
    "aux1.*": why("aux_logits", at=(googlenet, "x = self.fc2(x)")),
    "aux2.*": why("aux_logits", at=(googlenet, "x = self.fc2(x)")),
})
def googlenet_aux_unused() -> Setup:
    """The main head alone is in the loss."""
    return Setup(_googlenet(), [(images(2, 33),)], lambda y, x: labels_loss(y.logits, x))


def _segmentation(head: nn.Module) -> nn.Module:
    backbone = nn.ModuleDict({"low": nn.Conv2d(3, 8, 3, stride=4), "high": nn.Conv2d(8, 8, 3, stride=2)})

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = backbone

        def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
            low = F.relu(self.parts["low"](x), inplace=True)
            return {"aux": low, "out": F.relu(self.parts["high"](low), inplace=True)}

    return segmentation.fcn.FCN(Backbone(), head, segmentation.fcn.FCNHead(8, 4))


def pixels_loss(y: torch.Tensor) -> torch.Tensor:
    """Cross entropy of y[n, classes, height, width] with class 0 everywhere."""
    return F.cross_entropy(y, torch.zeros(len(y), *y.shape[2:], dtype=torch.int64))


@model()
def fcn_aux_used() -> Setup:
    net = _segmentation(segmentation.fcn.FCNHead(8, 4))
    return Setup(net, [(images(),)], lambda y, x: pixels_loss(y["out"]) + 0.5 * pixels_loss(y["aux"]))


@model(never={
    "aux_classifier.*": why("aux", at=(segmentation_file, "x = self.aux_classifier(x)\n            x = F.interpolate")),
})
def deeplab_aux_unused() -> Setup:
    class Head(segmentation.deeplabv3.DeepLabHead):
        def __init__(self) -> None:
            nn.Sequential.__init__(
                self, segmentation.deeplabv3.ASPP(8, [2, 4], 8), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
            )

    return Setup(_segmentation(Head()), [(images(),)], lambda y, x: pixels_loss(y["out"]))


class Tiny(nn.Sequential):
    """A backbone of two convolutions."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3, stride=4, padding=1))
        self.out_channels = 8


def detector_batches() -> Batches:
    """Images with a box, then images without."""
    box = {"boxes": torch.tensor([[4.0, 4.0, 40.0, 44.0]]), "labels": torch.tensor([1])}
    none = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    return [([torch.rand(3, 48, 48)], [box]), ([torch.rand(3, 48, 48)], [none])]


def detector_loss(losses: Dict[str, torch.Tensor], *batch: object) -> torch.Tensor:
    """The sum of all losses, as in torchvision's reference scripts."""
    return sum(losses.values())


ANCHORS = dict(sizes=((16, 32),), aspect_ratios=((1.0,),))


@model()
def faster_rcnn() -> Setup:
    """Without positives the box head gets zeros: torchvision indexes with an empty list rather than to skip it."""
    net = FasterRCNN(
        Tiny(), min_size=48, max_size=48, rpn_anchor_generator=AnchorGenerator(**ANCHORS),
        rpn_post_nms_top_n_train=8, box_batch_size_per_image=8, box_head=nn.Sequential(nn.Flatten(), nn.Linear(8 * 49, 8)),
        box_predictor=zoo.detection.faster_rcnn.FastRCNNPredictor(8, 3),
    )
    return Setup(net, detector_batches(), detector_loss)


@model()
def retinanet() -> Setup:
    net = RetinaNet(Tiny(), 3, min_size=48, max_size=48, anchor_generator=AnchorGenerator(**ANCHORS))
    return Setup(net, detector_batches(), detector_loss)


class Detector(nn.Module):
    """A box head that runs on positives only, as hand-written detectors have it."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = FeaturePyramid()
        self.objectness = nn.Conv2d(8, 1, 1)
        self.box_head, self.box = nn.Linear(8 * 9, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, boxes: List[torch.Tensor]) -> Dict[str, torch.Tensor]:
        features = self.backbone(x)
        losses = {"objectness": self.objectness(features).sigmoid().mean()}
        if sum(map(len, boxes)):
            crops = roi_align(features, boxes, 3, spatial_scale=0.25)
            found = self.box(self.box_head(crops.flatten(1)).relu())  # @box_head
            losses["box"] = F.smooth_l1_loss(found, torch.cat(boxes) / 48)
        return losses


class FeaturePyramid(nn.Module):
    """Two levels, the finer one returned."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.pyramid = FeaturePyramidNetwork([8, 8], 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = self.low(x).relu()
        return self.pyramid({"low": low, "high": self.high(low).relu()})["low"]


@model(
    never={"backbone.pyramid.layer_blocks.1.*": why("nothing reads")},
    conditional={"box*": why("only in batch 1 of 2", at="box_head")},
)
def detector_without_positives() -> Setup:
    def batch(*boxes: torch.Tensor) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        return torch.rand(len(boxes), 3, 48, 48), list(boxes)

    some, none = torch.tensor([[4.0, 4.0, 40.0, 44.0]]), torch.zeros(0, 4)
    return Setup(Detector(), [batch(some, none), batch(none, none)], detector_loss)


@model()
def stochastic_depth() -> Setup:
    """torchvision multiplies by zero: a block that is dropped is still used."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 3)
            self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU()) for _ in range(2))
            self.drop = StochasticDepth(0.5, "row")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            for block in self.blocks:
                x = x + self.drop(block(x))
            return self.head(x.mean((2, 3)))

    return Setup(Residual(), [(images(4, 12),), (images(4, 12),)], labels_loss)


class UNet(nn.Module):
    """Pooling with indices, unpooling, transposed convolution, skip, pixel shuffle, sampling at learned places."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.shuffle = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 4, 1)
        self.offset, self.weight = nn.Conv2d(1, 18, 3, padding=1), nn.Parameter(torch.randn(2, 1, 3, 3))
        self.theta = nn.Linear(2, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.down(x)
        pooled, where = F.max_pool2d(skip, 2, return_indices=True)
        x = F.max_unpool2d(self.middle(pooled), where, 2)
        x = torch.cat([skip, self.up(F.avg_pool2d(x, 2))], 1)
        x = F.pixel_shuffle(self.shuffle(x), 2)
        x = deform_conv2d(x, self.offset(x), self.weight, padding=1)
        theta = self.theta(x.mean((2, 3))).view(-1, 2, 3)
        return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


@model()
def unet_and_samplers() -> Setup:
    return Setup(UNet(), [(images(1, 8),)], lambda y, x: y.abs().mean())
