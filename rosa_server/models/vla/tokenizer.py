"""A small byte-level BPE (Sennrich et al. 2016): any text can be encoded, and the task's words are one token each."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

BYTES = 256
END = 256  # an answer is complete
ACT, PLAN, SAFETY, MONITOR = 257, 258, 259, 260  # end a prompt, and say what is asked for
FIRST_MERGE = 261
LONGEST_TEXT = 1000  # characters of a prompt
PIECES = re.compile(r" ?[^\W_]+|.", re.DOTALL)  # a word with the space before it, or one other character


class Tokenizer:
    """Texts to token numbers and back; token `FIRST_MERGE + i` joins the two tokens of `merges[i]`."""

    def __init__(self, merges: Sequence[tuple[int, int]]) -> None:
        """Raises `ValueError` for a merge of tokens that do not exist before it."""
        self.merges = [(int(left), int(right)) for left, right in merges]
        self._bytes = [bytes([one]) for one in range(BYTES)] + [b""] * (FIRST_MERGE - BYTES)
        for left, right in self.merges:
            if not (0 <= left < len(self._bytes) and 0 <= right < len(self._bytes)):
                raise ValueError(f"Tokenizer: merge ({left}, {right}) names a token that does not exist yet")
            self._bytes.append(self._bytes[left] + self._bytes[right])
        self._rank = {pair: number for number, pair in enumerate(self.merges)}
        self._piece = lru_cache(maxsize=4096)(self._encode_piece)

    @property
    def size(self) -> int:
        """Tokens in all."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text. Raises `ValueError` for more than `LONGEST_TEXT` characters."""
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"expected a text of at most {LONGEST_TEXT} characters, got {len(text)}")
        return [token for piece in PIECES.findall(text) for token in self._piece(piece)]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; special tokens say nothing, broken UTF-8 becomes a replacement character."""
        return b"".join(self._bytes[one] for one in tokens).decode(errors="replace")

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        tokens = list(piece.encode())
        while len(tokens) > 1:
            pairs = list(itertools.pairwise(tokens))
            best = min(pairs, key=lambda pair: self._rank.get(pair, len(self._rank)))
            if best not in self._rank:
                break
            tokens = _merged(tokens, best, FIRST_MERGE + self._rank[best])
        return tuple(tokens)

    @staticmethod
    def train(texts: Iterable[str], size: int) -> Tokenizer:
        """Merge the most frequent pair within the words of `texts`, until there are `size` tokens or no pairs left."""
        counts = Counter(piece for text in texts for piece in PIECES.findall(text))
        words = {piece: list(piece.encode()) for piece in counts}
        merges: list[tuple[int, int]] = []
        while FIRST_MERGE + len(merges) < size:
            pairs: Counter[tuple[int, int]] = Counter()
            for piece, tokens in words.items():
                for pair in itertools.pairwise(tokens):
                    pairs[pair] += counts[piece]
            if not pairs:
                break
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            words = {
                piece: _merged(tokens, best, FIRST_MERGE + len(merges)) for piece, tokens in words.items()
            }
            merges.append(best)
        return Tokenizer(merges)


def _merged(tokens: list[int], pair: tuple[int, int], into: int) -> list[int]:
    out: list[int] = []
    for token in tokens:
        if out and (out[-1], token) == pair:
            out[-1] = into
        else:
            out.append(token)
    return out
