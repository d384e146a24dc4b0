"""`from grader.notebook import show`, on functions of one's own."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from grader.notebook import show
from tests.conftest import ROOT


def scaled_dot_product_attention(q, k, v, keep=None, scale=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = torch.softmax(scores if keep is None else scores.masked_fill(~keep, -torch.inf), -1)
    return weights @ v, weights


def causal_attention(q, k, v):
    raise IndexError("too far")


def test_a_function_is_found_by_its_name():
    view = show.attention(scaled_dot_product_attention, lang="en")
    assert view.trace.title == "ex03_sdpa"
    assert "differ" not in str(view)


def test_a_mask_that_is_ignored_is_seen():
    def unmasked(q, k, v, keep=None, scale=None):
        return scaled_dot_product_attention(q, k, v)

    view = show.attention(unmasked, like="scaled_dot_product_attention", lang="en")
    assert view.trace.first_wrong.name == "output, one key hidden"


def test_another_name_is_taken_for_the_one_it_is_like():
    def mine(q, k, v, keep=None, scale=None):
        return scaled_dot_product_attention(q, k, 2 * v)

    view = show.attention(mine, like="scaled_dot_product_attention", lang="en")
    assert view.trace.first_wrong.name == "output"


def test_a_class_of_ones_own():
    class MultiHeadAttention(torch.nn.Module):
        def __init__(self, d_model, num_heads, bias=False):
            super().__init__()
            self.w_q, self.w_k, self.w_v, self.w_o = (
                torch.nn.Linear(d_model, d_model, bias=bias) for _ in range(4)
            )
            self.heads = num_heads

        def forward(self, x, context=None, keep=None):
            q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                       for w in (self.w_q, self.w_k, self.w_v))  # fmt: skip
            output, weights = scaled_dot_product_attention(q, k, v)
            return self.w_o(output.transpose(1, 2).flatten(2)), weights

    view = show.attention(MultiHeadAttention, lang="en")
    assert [s.name for s in view.trace.steps if s.yours is not None] == ["weights", "output"]
    assert view.trace.first_wrong is None


def test_what_fails_is_said_and_the_reference_is_shown():
    text = str(show.attention(causal_attention, tokens="a b", lang="en"))
    assert "IndexError: too far  [causal_attention(float32 (1, 2, 2, 4)" in text
    assert "b ▒.33 ▓.67" in text


def test_a_notebook_is_given_text_and_a_picture():
    html = show.weights(np.eye(2), tokens="<b>cat dog")._repr_html_()
    assert html.startswith("<pre")
    assert "&lt;b&gt;cat" in html
    assert "<b>cat" not in html


@pytest.mark.parametrize(
    "ask, sentence",
    [
        (lambda: show.attention(), "Which function?"),
        (lambda: show.attention(lambda q: q), "No exercise has a function called <lambda>"),
        (lambda: show.attention(causal_attention, like="causal_attentoin"), "Did you mean causal_attention?"),
        (lambda: show.attention(causal_attention, tokens=" "), "Give 1 to 16 tokens"),
        (lambda: show.attention(causal_attention, tokens="x " * 17), "not 17."),
        (lambda: show.attention(causal_attention, embedding="onehot"), "Did you mean one-hot?"),
        (lambda: show.attention(causal_attention, head=2), "There is no head 2: the heads are 0 to 1."),
        (lambda: show.attention(causal_attention, head=-1), "There is no head -1"),
        (lambda: show.weights([0.5, 0.5]), "have shape"),
        (lambda: show.weights(np.zeros((0, 2))), "have shape"),
        (lambda: show.weights([["a", "b"]]), "These are no weights"),
        (lambda: show.weights([[1, 2], [3]]), "These are no weights"),
        (lambda: show.weights(np.eye(2), tokens="one"), "There are 1 tokens, but weights for 2 keys."),
        (lambda: show.weights(np.eye(2), against=np.eye(3)), "but those beside them"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_said_in_a_sentence(ask, sentence):
    with pytest.raises(ValueError) as raised:
        ask()
    assert sentence in str(raised.value)
    assert type(raised.value).__name__ == "CannotShow"


def test_importing_the_grader_stays_cheap():
    code = "import sys; from grader.notebook import show; print(*(m for m in ('torch', 'numpy', 'rich', 'matplotlib') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_without_matplotlib_there_is_the_text_and_a_cure(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    view = show.weights(np.eye(2))
    assert "<img" not in view._repr_html_()
    with pytest.raises(ValueError, match="-m pip install matplotlib"):
        view.save(tmp_path / "weights.png")
