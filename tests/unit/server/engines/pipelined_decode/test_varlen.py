"""A GPU's attention is used only where it answers as scaled dot products do."""

from __future__ import annotations

import pytest
import torch

from rosa_server.engines.pipelined_decode import varlen
from tests.unit.server.engines.pipelined_decode.test_tokens import varlen_by_hand

CPU = torch.device("cpu")


def sees_all(query, key, value, queries_at, keys_at, used, max_queries, max_keys):
    """Knows nothing of `used`."""
    whole = torch.full_like(used, max_keys)
    return varlen_by_hand(query, key, value, queries_at, keys_at, whole, max_queries, max_keys)


def fails(*inputs):
    raise TypeError("varlen_attn() got an unexpected keyword argument 'seqused_k'")


def test_the_right_one_has_no_problem_and_others_say_theirs():
    assert varlen.problem(varlen_by_hand, CPU, torch.float32) == ""
    assert "off by" in varlen.problem(sees_all, CPU, torch.float32)
    assert "seqused_k" in varlen.problem(fails, CPU, torch.float32)


@pytest.mark.parametrize(("found", "used"), [(varlen_by_hand, True), (sees_all, False), (fails, False)])
def test_one_with_a_problem_is_not_used(monkeypatch, found, used):
    monkeypatch.setattr(varlen, "_flash", lambda: found)
    assert (varlen.gpu_varlen(CPU, torch.bfloat16) is found) == used
    assert varlen.gpu_varlen(CPU, torch.float32) is None, "32 bits have none"


def test_a_torch_without_it_does_without(monkeypatch):
    def missing():
        raise ImportError("no module named 'torch.nn.attention.varlen'")

    monkeypatch.setattr(varlen, "_flash", missing)
    assert varlen.gpu_varlen(CPU, torch.bfloat16) is None
