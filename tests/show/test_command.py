"""`grader show`: answers behind a wall."""

import io
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from grader.core import catalog
from grader.core.translation import Words
from grader.practice.show import recorded_answers
from grader.practice.show.sentence import CannotShow
from grader.practice.show.show_command import show_example
from grader.worker.parent.walls import PROCESS
from tests.conftest import solution

SLUG = "ex05_causal_mask"


@pytest.fixture
def ask(tmp_path, nursery, monkeypatch):
    """What is printed of a text as the answer to an exercise; one nursery for all of them."""
    monkeypatch.setattr(recorded_answers, "Nursery", lambda wall: nullcontext(nursery))

    def run(source: str | None, slug: str = SLUG, tokens: str = "a b", **how) -> str:
        console = Console(file=io.StringIO(), width=100, color_system=None)
        path: Path = tmp_path / f"{slug}.py"
        if source is not None:
            path.write_text(source)
        show_example(catalog.find_catalog_exercise(slug), tmp_path, console, wall=PROCESS, words=Words("en"), tokens=tokens,
             **how)  # fmt: skip
        return console.file.getvalue()

    return run


def test_a_right_answer(ask, monkeypatch):
    monkeypatch.undo()  # in a nursery of its own
    text = ask(solution(SLUG))
    steps = [" ".join(line.split()) for line in text.splitlines()]
    assert "q B H Lq D (1, 2, 2, 4) given" in steps
    assert "mask Lq Lk (2, 2) the same" in steps
    assert "scores B H Lq Lk (1, 2, 2, 2) internal, not returned" in steps
    assert "HEAD=1 shows another head" in text


def test_weights_and_gradients_come_from_the_worker(ask):
    source = solution("ex03_sdpa").replace("1 / math.sqrt(q.shape[-1])", "1.0")
    text = ask(source, "ex03_sdpa", tokens="the cat sat")
    assert "The first step that differs: weights." in text
    assert "cat ░.14 ░.00 █.86   cat ▒.27 ░.05 ▓.68   cat -.13 -.05 +.18" in text
    assert "q Yours        0 █.34     0" in text


def test_the_numpy_version_is_shown_while_the_other_is_not_written(ask):
    body = solution("ex03_sdpa")
    start = body.index(
        "    ### BEGIN SOLUTION\n    _check_shapes(q, k, v)\n    dtype = q.dtype\n    if dtype in"
    )
    text = ask(body[:start] + '    raise NotImplementedError("Later.")\n', "ex03_sdpa")
    assert "scaled_dot_product_attention is not written yet: Later." in text
    assert "weights B H Lq Lk (1, 2, 2, 2) the same" in " ".join(text.split())
    assert "Only PyTorch keeps gradients" in text


@pytest.mark.parametrize(
    "source, sentence",
    [
        (None, "ex05_causal_mask.py is not there. `make reset EX=ex05_causal_mask` writes it."),
        ("def causal_mask(:", "Line 1 is not valid Python"),
        ("1 / 0", "The file cannot be imported: line 1: ZeroDivisionError"),
        ("x = 1\n", "There is no causal_mask in the file."),
        ("import torch\nx = torch.nn.functional.scaled_dot_product_attention", "is not allowed in this exercise"),
    ],
)  # fmt: skip
def test_without_an_answer_there_is_a_sentence_and_the_reference(ask, source, sentence):
    text = ask(source)
    assert sentence in text
    assert "b ▒.33 ▓.67" in text
    assert "Traceback" not in text


def test_a_file_that_ends_its_process_is_told(ask, list_open):
    assert "While the file was loaded, the process" in ask("import os\nos._exit(0)")


@pytest.mark.parametrize(
    "body, sentence",
    [
        ("raise NotImplementedError('Later.')", "causal_attention is not written yet: Later."),
        ("return v.sum(-1)", "output.shape is (1, 2, 2), but should be (1, 2, 2, 4)"),
        ("return None", "output is None, but should be a tensor"),
        ("return q.to(torch.complex64)", "complex64 is no type of numbers that can be shown"),
        ("import os; os._exit(1)", "the process ended itself"),
        ("return [][1]", "IndexError: list index out of range"),
    ],
)
def test_what_is_wrong_with_one_function_costs_no_other(ask, list_open, body, sentence):
    start = solution(SLUG).index("def causal_attention")
    text = ask(solution(SLUG)[:start] + f"def causal_attention(q, k, v):\n    {body}\n")
    assert sentence in text.replace("\n", " ")
    assert "mask     Lq Lk      (2, 2)        the same" in text
    assert "output   B H Lq Dv  (1, 2, 2, 4)  cannot be compared" in text


def test_heat_maps(ask, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    text = ask(solution(SLUG), output=tmp_path / "weights.png")
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")
    assert "Heat maps: " in text


@pytest.mark.parametrize(
    "how", [{"tokens": ""}, {"head": 7}, {"embedding": "hot"}, {"output": Path("weights.gif")}]
)
def test_a_wrong_question_is_refused_before_anything_is_run(ask, how):
    with pytest.raises(CannotShow):
        ask("while True: pass", **how)
