"""Missing names and wrong signatures are found on the syntax tree, each with its sentence."""

import pytest

from grader.core import catalog
from grader.submission import python_outline

NUMPY = "def softmax_numpy(x, axis=-1): ...\n"


def problems(source: str, slug: str = "ex01_softmax") -> dict[str, str]:
    return python_outline.compare_submission_with_manifest(
        python_outline.parse_submission(source), catalog.find_catalog_exercise(slug)
    )


@pytest.mark.parametrize(
    "source",
    [
        "def softmax(x, dim=-1): ...",
        "def softmax(x: Tensor, dim: int = -1) -> Tensor: ...",
        "def softmax(x, dim=-1, eps=0.0): ...",
        "def softmax(x, dim=-1, *, eps=0.0): ...",
        "def softmax(*args, **kwargs): ...",
        "softmax = make()",
        "if True:\n    def softmax(x, dim=-1): ...",
        "@compiled\ndef softmax(*a): ...",
        "from mine import softmax",
        "LAST = -1\ndef softmax(x, dim=LAST): ...",
        "def softmax(x=None, dim=-1): ...",
    ],
)
def test_it_fits(source):
    assert problems(NUMPY + source) == {}


@pytest.mark.parametrize(
    "source, says",
    [
        ("", "There is no softmax in the file. Did you mean softmax_numpy?"),
        ("def sofmax(x, dim=-1): ...", "There is no softmax in the file. Did you mean sofmax?"),
        ("def softmax(x, axis=-1): ...", "softmax takes (x, axis=-1), but should take (x, dim=-1)."),
        ("def softmax(x): ...", "softmax takes (x), but should take (x, dim=-1)."),
        ("def softmax(x, dim): ...", "softmax takes (x, dim), but should take (x, dim=-1)."),
        ("def softmax(x, dim=0): ...", "softmax takes (x, dim=0), but should take (x, dim=-1)."),
        ("def softmax(x, dim=-1, k): ...", None),
        ("def softmax(x, *, dim=-1): ...", "softmax takes (x, *, dim=-1), but should take (x, dim=-1)."),
        ("def softmax(x, /, dim=-1): ...", "softmax takes (x, /, dim=-1), but should take (x, dim=-1)."),
        ("class softmax: ...", "softmax is a class, but should be a function."),
        ("async def softmax(x, dim=-1): ...", "softmax is an async function, but should be a plain one."),
    ],
)  # fmt: skip
def test_it_does_not_fit(source, says):
    if says is None:
        with pytest.raises(python_outline.NotPython):
            problems(NUMPY + source)
    else:
        assert problems(NUMPY + source) == {"softmax": says}


CACHE = """
def attend_with_past(q, k, v, past=None): ...
class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=False): ...
    def forward(self, x, cache=None): ...
"""


@pytest.mark.parametrize(
    "source, says",
    [
        ("", "There is no KVCache in the file."),
        ("def KVCache(): ...", "KVCache is a function, but should be a class."),
        ("class KVCache:\n    def __init__(self, b): ...", "KVCache takes (b), but should take "),
        ("class KVCache:\n    def reset(self): ...", "KVCache has no method append."),
        (
            "class KVCache:\n    def apend(self, k, v): ...\n    def reset(self): ...",
            "KVCache has no method append. Did you mean apend?",
        ),
        (
            "class KVCache:\n    def append(self, v, k): ...\n    def reset(self): ...",
            "KVCache.append takes (v, k), but should take (k, v).",
        ),
    ],
)
def test_classes_are_held_to_their_methods(source, says):
    found = problems(CACHE + source, "ex06_kv_cache")
    assert found.keys() == {"KVCache"}
    assert found["KVCache"].startswith(says)


def test_inherited_methods_count():
    source = (
        "class A:\n    def append(self, k, v): ...\nclass KVCache(A):\n    def reset(self): ..."
    )
    assert problems(CACHE + source, "ex06_kv_cache") == {}


@pytest.mark.parametrize(
    "source, says",
    [
        ("x = (1,\ny = 2", "Line 1 is not valid Python ('(' was never closed): x = (1,"),
        ("(" * 10_000, "too many nested parentheses"),
        ("-" * 100_000 + "1", "The file is nested too deeply to be read."),
    ],
)
def test_what_does_not_parse_gets_a_sentence(source, says):
    with pytest.raises(python_outline.NotPython) as caught:
        python_outline.parse_submission(source)
    assert says in str(caught.value)
