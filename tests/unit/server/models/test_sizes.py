"""A size that cannot be names its class and itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_server.models.token_policy.config import PANDA
from rosa_server.models.vla.config import SHIPPED


@pytest.mark.parametrize(
    ("config", "change", "words"),
    [
        (PANDA, {"layers": 0}, "TokenPolicyConfig.layers: expected at least 1, got 0"),
        (PANDA, {"kv_heads": 3}, "TokenPolicyConfig.heads: 4 is no multiple of kv_heads 3"),
        (SHIPPED, {"cameras": -1}, "VlaConfig.cameras: expected at least 1, got -1"),
        (SHIPPED, {"kv_heads": 3}, "VlaConfig.heads: 4 is no multiple of kv_heads 3"),
        (SHIPPED, {"steps_per_token": 0}, "VlaConfig.steps_per_token: expected at least 1, got 0"),
        (SHIPPED, {"steps_per_token": 5}, "VlaConfig.horizon: 16 is no multiple of steps_per_token 5"),
    ],
)
def test_an_impossible_size_is_named(config, change, words):
    with pytest.raises(ValueError, match=words):
        replace(config, **change)
