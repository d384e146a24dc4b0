"""Look at attention: what goes in, what each step makes of it, and who attends to whom.

For notebooks and for a Python prompt, on functions of your own, in your own process, without marks:

    from grader.notebook import show

    show.attention(causal_attention)                       # beside the reference
    show.attention(my_version, like="causal_attention", tokens="you may use your own words")
    show.weights(weights, tokens="the cat sat", against=other_weights)

Both return a `View`: a notebook draws it, `print` writes it, `.save("weights.png")` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grader.core.running_sentence import RUNNING_SENTENCE

if TYPE_CHECKING:  # torch and matplotlib are imported when something is shown
    from grader.practice.show.show_view import View

__all__ = ["attention", "weights"]


def attention(
    *functions: Callable[..., Any], like: str = "", tokens: str = RUNNING_SENTENCE,
    embedding: str = "drawn", head: int | None = None, lang: str = "",
) -> View:  # fmt: skip
    """Your functions beside the reference, on a small sentence.

    functions  functions or classes of one exercise, under the names that it gives them
    like       the name of the first one in its exercise, if you call it otherwise
    tokens     words with blanks between them; Chinese without blanks is cut into characters
    embedding  "drawn" (random numbers, the same for the same word) or "one-hot"
    head       the head whose weights are shown; None shows the first as text, all in a picture
    lang       "en" or "zh"; by default that of the environment
    raises     `CannotShow`, a ValueError, with a sentence
    """
    from grader.practice.show.show_in_notebook import show_beside_reference

    return show_beside_reference(functions, like, tokens, embedding, head, lang)


def weights(
    weights: Any, tokens: str = "", against: Any = None, head: int | None = None, lang: str = ""
) -> View:
    """Attention weights of your own: an array or a tensor (..., Lq, Lk).

    tokens   a label for each key, as for `attention`; 1, 2, 3, ... if there are none. The queries
             are the last Lq of them
    against  weights of the same shape to be shown beside them, with the difference
    raises   `CannotShow`, a ValueError, with a sentence
    """
    from grader.practice.show.show_in_notebook import show_weights_in_notebook

    return show_weights_in_notebook(weights, tokens, against, head, lang)
