"""How pictures become tokens: feature points of a small convolution network, or patches of a vision transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rosa_server.models.panda.spatial_softmax import spatial_softmax

POINT_FEATURES = 3  # x, y and strength of a point
OCTAVES = 4


class PointEyes(nn.Module):
    """`(n, 3, 96, 96)` in -1..1 -> `(n, points, 3)`: where each feature is (spatial softmax), and how strong.

    Colours are taken relative to the picture's mean brightness, so a quarter of the light looks nearly the same; two
    channels tell where a pixel is, because a left and a right bin differ in nothing else.
    """

    cells = 24  # of a side of the maps

    def __init__(self, points: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(6, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.Conv2d(32, 40, 3, padding=1),
            nn.GroupNorm(4, 40),
            nn.ReLU(),
            nn.Conv2d(40, 40, 3, padding=2, dilation=2),
            nn.GroupNorm(4, 40),
            nn.ReLU(),
            nn.Conv2d(40, points, 1),
        )
        self.presence = nn.Parameter(torch.tensor([[1.0], [0.0]]).expand(2, points).clone())

    def maps(self, pictures: Tensor) -> Tensor:
        """`(n, points, 24, 24)`: how much each cell looks like each point."""
        light = 0.5 * (pictures + 1.0)
        brightest, darkest = light.amax(dim=1, keepdim=True), light.amin(dim=1, keepdim=True)
        mean = light.mean(dim=(1, 2, 3), keepdim=True)
        colour = light / (mean + 0.02) - 1.0
        vivid = (brightest - darkest) / (brightest + 0.25 * mean + 0.02)
        ways = torch.linspace(-1.0, 1.0, pictures.shape[-1], device=pictures.device, dtype=pictures.dtype)
        where = torch.stack([ways.expand(len(ways), -1), ways[:, None].expand(-1, len(ways))])
        seen = torch.cat([colour, vivid, where.expand(len(pictures), -1, -1, -1)], dim=1)
        maps: Tensor = self.layers(seen)
        return maps

    def points_of(self, maps: Tensor) -> Tensor:
        """Maps `(n, points, 24, 24)` -> x and y in -1..1 and the logit of being visible, `(n, points, 3)`."""
        x, y, peak = spatial_softmax(maps)
        return torch.stack([x, y, peak * self.presence[0] + self.presence[1]], dim=-1)

    def forward(self, pictures: Tensor) -> Tensor:
        """As the class. The strength is squashed to -1..1; x and y of what is not seen go to zero."""
        found = self.points_of(self.maps(pictures))
        seen = torch.sigmoid(found[..., 2:])
        return torch.cat([found[..., :2] * seen, 2.0 * seen - 1.0], dim=-1)


class PointTokens(nn.Module):
    """Points `(n, cameras, points, 3)` -> a token for each `(n, points, width)`: where each camera sees it."""

    def __init__(self, cameras: int, points: int, width: int) -> None:
        super().__init__()
        features = cameras * (POINT_FEATURES + 4 * OCTAVES)
        self.project = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width))
        self.which = nn.Parameter(torch.randn(points, width))

    def forward(self, points: Tensor) -> Tensor:
        octaves = 2.0 ** torch.arange(OCTAVES, device=points.device, dtype=points.dtype)
        angles = (points[..., :2, None] * octaves * torch.pi / 2).flatten(3)
        features = torch.cat([points, angles.sin(), angles.cos()], dim=-1)  # (n, cameras, points, 19)
        tokens: Tensor = self.project(features.transpose(1, 2).flatten(2)) + self.which
        return tokens
