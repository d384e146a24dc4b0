"""Other texts run in the place of an answer's, behind its wall, and leave nothing behind."""

from contextlib import closing
from pathlib import Path

import pytest

from grader.core.records import Limits, Submission
from grader.worker.parent import supervisor
from grader.worker.parent.faults import AnswerRaised, AnswerTimedOut, WorkerDied
from grader.worker.parent.in_process import call_without_wall, load_text_without_wall
from grader.worker.parent.supervisor import Supervisor
from tests.worker.asking import call, worker

SOURCE = "kept = []\n\ndef f(x):\n    kept.append(x)\n    return len(kept) + 1\n"
LESS, BROKEN = SOURCE.replace("+ 1", "- 1"), SOURCE.replace("+ 1", "+")
ENDLESS = SOURCE.replace("    return", "    while True:\n        pass\n    return")


@pytest.fixture
def started(nursery):
    text = Submission(slug="ex99_x", path=Path("x.py"), sha256="", source=SOURCE, theirs=True)
    with closing(Supervisor(nursery, text, Limits())) as it:
        it.load()
        yield it


def clients(started):
    module = load_text_without_wall(SOURCE, "ex99_x")
    return started.client(), call_without_wall(module, source=SOURCE)


def test_a_changed_text_runs_and_then_the_answer_again(started):
    for client in clients(started):
        assert client.text is not None and client.text.source == SOURCE
        assert call(client, "f", 1) == 2
        with client.text.change() as load:
            assert load(LESS) and call(client, "f", 1) == 0
            assert not load(BROKEN)
        assert call(client, "f", 1) in (2, 3)  # in a worker nothing is left of earlier calls


def test_what_a_changed_text_leaves_in_the_worker_ends_with_it(started):
    client = started.client()
    with client.text.change() as load:
        load(SOURCE.replace("kept = []", "import math\nmath.pi = 3"))
    assert call(client, "f", 1) == 2
    assert not started.disturbed


def test_a_changed_text_that_hangs_ends_the_search_and_costs_no_restart(started, monkeypatch):
    monkeypatch.setattr(supervisor, "CHANGED_CALL_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "MAX_RESTARTS", 0)
    client = started.client()
    with client.text.change() as load:
        load(ENDLESS)
        with pytest.raises(AnswerTimedOut):
            call(client, "f", 1)
        with pytest.raises(WorkerDied):
            load(LESS)
    assert call(client, "f", 1) == 2
    assert started._limits == Limits()


def test_the_text_of_a_module_of_ours_cannot_be_changed(nursery):
    text = Submission(slug="ex99_x", path=Path("x.py"), sha256="", source=SOURCE)
    with closing(Supervisor(nursery, text, Limits())) as it:
        assert it.client().text is None
    assert call_without_wall(load_text_without_wall(SOURCE, "ex99_x")).text is None


def test_ctrl_c_in_this_process_is_no_answer(nursery):
    source = "def softmax():\n    raise KeyboardInterrupt\n"
    module = load_text_without_wall(source, "ex99_x")
    with pytest.raises(KeyboardInterrupt):
        call(call_without_wall(module), "softmax")
    with worker(nursery, source) as (client, _), pytest.raises(AnswerRaised) as raised:
        call(client, "softmax")
    assert raised.value.kind == "KeyboardInterrupt"
