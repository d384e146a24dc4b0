"""Makes a small sentence, and the vectors that stand for its tokens."""

from dataclasses import dataclass

import torch
from rich.cells import cell_len
from torch import Tensor

from grader.core.catalog import suggest_close_name
from grader.core.errors import UserError
from grader.judging.draw import Draw
from grader.worker.parent.harmless_text import clean_worker_text

EMBEDDINGS = ("drawn", "one-hot")
MAX_TOKENS = 16  # tokens: more do not fit beside each other
ONE_HOT_LENGTH = 8.0  # of a query; a query of length 1 would hardly tell the keys apart


class CannotShow(UserError, ValueError):
    """Raised if something cannot be shown; the message is a sentence for the learner."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook prints: the sentence, without a traceback of ours."""
        return [str(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSentence:
    """Tokens with the kind of their vectors: equal tokens become equal vectors."""

    tokens: tuple[str, ...]
    embedding: str = "drawn"

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Return the different tokens, in the order of their first use."""
        return tuple(dict.fromkeys(self.tokens))

    def heads(self, name: str, count: int, width: int) -> Tensor:
        """Return vectors (1, count, L, width) for the role `name`, which is q, k or v.

        One-hot vectors are as wide as the vocabulary, and the query of head h matches the token
        h places later in the vocabulary. Keys and values of head h have length 1 + h/2, so that
        heads in another order are visible.
        """
        if self.embedding == "one-hot":
            heads = torch.arange(count)[:, None]
            places = heads * (name == "q") + self._vocabulary_indices()  # (count, L)
            one_hot = torch.eye(len(self.vocabulary))[places % len(self.vocabulary)]
            return one_hot[None] * (ONE_HOT_LENGTH if name == "q" else 1 + heads[..., None] / 2)
        rows = [Draw("show", name, token).normal(count, width) for token in self.tokens]
        return torch.stack(rows, 1)[None]

    def embeddings(self, width: int) -> Tensor:
        """Return vectors (1, L, width); one-hot: (1, L, n*width), wide enough for all words."""
        if self.embedding == "one-hot":
            wide = -(-len(self.vocabulary) // width) * width
            return torch.eye(wide)[self._vocabulary_indices()][None]
        return torch.stack([Draw("show", token).normal(width) for token in self.tokens])[None]

    def _vocabulary_indices(self) -> Tensor:
        return torch.tensor([self.vocabulary.index(token) for token in self.tokens])


def split_sentence_to_show(text: str, embedding: str = "drawn") -> ShownSentence:
    """Cut `text` into a sentence, at blanks, or into characters if it is Chinese without blanks."""
    if embedding not in EMBEDDINGS:
        close = suggest_close_name(embedding, EMBEDDINGS)
        raise CannotShow(f"There is no embedding called {embedding}: drawn or one-hot.{close}")
    return ShownSentence(tokens=cut_tokens_to_show(text), embedding=embedding)


def cut_tokens_to_show(text: str) -> tuple[str, ...]:
    """Return the tokens of `text`: 1 to 16."""
    tokens = clean_worker_text(text).split()
    if len(tokens) == 1 and all(cell_len(letter) == 2 for letter in tokens[0]):
        tokens = list(tokens[0])
    if not 1 <= len(tokens) <= MAX_TOKENS:
        problem = f"Give 1 to {MAX_TOKENS} tokens with blanks between them, not {len(tokens)}."
        raise CannotShow(problem)
    return tuple(tokens)
