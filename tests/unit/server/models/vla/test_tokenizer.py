"""Any text comes back from its tokens, and the words of the training texts are one token each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.models.vla.tokenizer import FIRST_MERGE, LONGEST_TEXT, Tokenizer

TEXTS = ["put the red block into the left bin", "put the blue block into the right bin", "unsafe", "safe"] * 3
TOKENIZER = Tokenizer.train(TEXTS, 400)


@given(st.text(max_size=60))
def test_any_text_comes_back(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_known_words_are_one_token_each_and_unknown_ones_are_spelled():
    assert len(TOKENIZER.encode("put the red block into the right bin")) == 8
    assert len(TOKENIZER.encode("safe")) == len(TOKENIZER.encode("unsafe")) == 1
    assert len(TOKENIZER.encode("zzz")) == 3


def test_training_stops_at_the_size():
    small = Tokenizer.train(TEXTS, FIRST_MERGE + 5)
    assert small.size == FIRST_MERGE + 5 == FIRST_MERGE + len(small.merges)


def test_the_same_merges_give_the_same_tokens():
    again = Tokenizer(TOKENIZER.merges)
    assert again.encode(TEXTS[0]) == TOKENIZER.encode(TEXTS[0])


def test_a_text_without_bounds_and_a_merge_of_nothing_are_refused():
    with pytest.raises(ValueError, match="characters"):
        TOKENIZER.encode("a" * (LONGEST_TEXT + 1))
    with pytest.raises(ValueError, match="does not exist"):
        Tokenizer([(97, FIRST_MERGE)])
