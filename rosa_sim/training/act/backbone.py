"""A ResNet18 with a quarter of the channels, which a CPU can train, and the ResNet18 of LeRobot's ACT that it becomes.

The other channels of the wide one are zero and stay so: its convolutions carry nothing into them. So it answers as the
narrow one does, and is a checkpoint like any other. The narrow one is trained with batch normalisation, whose
statistics then become those of the frozen normalisation in the wide one, as with weights that come from torchvision.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock

WIDTHS = (16, 32, 64, 128)
CELLS = 9  # of the feature map of a 96 x 96 picture, 3 x 3
WIDE = 512


class NarrowResNet(nn.Module):
    """`(n, 3, 96, 96)` -> `(n, 128, 3, 3)`; its parameters have torchvision's names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        before = WIDTHS[0]
        for number, width in enumerate(WIDTHS, start=1):
            self.add_module(f"layer{number}", _layer(before, width, stride=1 if number == 1 else 2))
            before = width
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: Tensor) -> Tensor:
        maps: Tensor = self.maxpool(self.relu(self.bn1(self.conv1(pictures))))
        for number in range(1, len(WIDTHS) + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return maps


def _layer(before: int, width: int, stride: int) -> nn.Sequential:
    shortcut = None
    if stride != 1 or before != width:
        shortcut = nn.Sequential(
            nn.Conv2d(before, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
        )
    return nn.Sequential(BasicBlock(before, width, stride, shortcut), BasicBlock(width, width))


def widened(narrow: Mapping[str, Tensor], wide: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state of `wide`'s shapes that answers as `narrow` does in its first channels, and 0 in the others."""
    state = {}
    for name, like in wide.items():
        grown = torch.ones_like(like) if name.endswith("running_var") else torch.zeros_like(like)
        grown[tuple(slice(0, size) for size in narrow[name].shape)] = narrow[name]
        state[name] = grown
    return state


def padded(maps: Tensor) -> Tensor:
    """`(n, 128, 3, 3)` -> `(n, 512, 3, 3)`, as the wide network has them."""
    return nn.functional.pad(maps, (0, 0, 0, 0, 0, WIDE - maps.shape[1]))


class Given(nn.Module):
    """In the place of a policy's backbone: what it is given are feature maps already."""

    def forward(self, maps: Tensor) -> dict[str, Tensor]:
        return {"feature_map": maps}
