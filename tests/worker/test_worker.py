"""A worker: calls, handles, gradients, faults and limits, behind a real process."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from grader.worker.parent import faults
from grader.worker.parent.client import CALLABLE_ATTRIBUTE, ObjectHandle
from grader.worker.parent.faults import LoadFailed
from tests.worker.asking import call, worker

SOURCE = """
import ctypes, os, signal, sys, time
import os
from dataclasses import replace

import numpy as np
import torch

calls = 0

def twice(x):
    return x * 2

class Mute(UnboundLocalError):
    def __str__(self):
        raise KeyError

def mute(x):
    raise Mute

def unset(x):
    y = x
    z = w + y
    w = z

def count():
    global calls
    calls += 1
    return calls

def overwrite(x, y):
    y += 1
    return x

def reverse(rows, other):
    rows.reverse()
    return other

def fail():
    raise ValueError("width 7, heads 3")

def switch(on, error=None):
    torch.set_grad_enabled(on)
    if error:
        raise ValueError(error)

def several(x):
    return {"a": [x, (x, None)]}, "text", 3

def squares(x, y):
    return (x * x).sum(), y.detach()

def pid():
    return os.getpid()

def shout(n):
    print("x" * n)
    return n

def sleep(seconds):
    time.sleep(seconds)

def leave(code):
    os._exit(code)

def crash():
    ctypes.string_at(0)

def nameless():
    signal.raise_signal(40)

def hang_up():
    os.closerange(3, 100)
    time.sleep(20)

def leave_softly():
    sys.exit(0)

def devour():
    return torch.zeros(8 << 30, dtype=torch.uint8).shape[0]

def environment():
    return [f"{k}={v}" for k, v in os.environ.items()]

def can_import(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True

def threads():
    return torch.get_num_threads()

class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w = torch.nn.Linear(width, width, bias=False)
        self.width = width

    def forward(self, x):
        return self.w(x)

def width_of(layer):
    return layer.width
"""


@pytest.fixture
def client(nursery):
    with worker(nursery, SOURCE) as (client, _):
        yield client


def test_arrays_and_tensors_cross_both_ways(client):
    assert torch.equal(call(client, "twice", torch.arange(3.0)), torch.tensor([0.0, 2.0, 4.0]))
    assert call(client, "twice", np.ones(2)).tolist() == [2.0, 2.0]


def test_structures_cross(client):
    value, text, number = call(client, "several", torch.ones(1))
    assert torch.equal(value["a"][1][0], torch.ones(1))
    assert value["a"][1][1] is None
    assert (text, number) == ("text", 3)


def test_the_process_is_another_one(client):
    assert call(client, "pid") != os.getpid()


def test_state_lasts_from_call_to_call(client):
    assert [call(client, "count"), call(client, "count")] == [1, 2]


def test_arguments_that_were_changed_are_named(client):
    x = torch.zeros(2)
    y = torch.zeros(2)
    assert client.call(None, "overwrite", [x, y], {}, graph=False).modified == ("1",)
    assert client.call(None, "overwrite", [x], {"y": y}, graph=False).modified == ("y",)
    assert client.call(None, "overwrite", [x, x], {}, graph=False).modified == ("0", "1")
    assert torch.equal(x, torch.zeros(2))


def test_lists_that_were_changed_are_named(client):
    rows = [[1, 2.5], [math.nan, True]]
    answer = client.call(None, "reverse", [rows], {"other": rows}, graph=False)
    assert answer.modified == ("0",)
    assert answer.value[0] == rows[0] == [1, 2.5]


def test_objects_stay_and_are_reached_by_handle(client):
    layer = call(client, "Layer", 3)
    assert isinstance(layer, ObjectHandle)
    assert client.get(layer, "width") == 3
    assert client.get(layer, "forward") is CALLABLE_ATTRIBUTE
    call(client, "load_state_dict", {"w.weight": torch.eye(3) * 2}, on=layer)
    assert torch.equal(call(client, "", torch.ones(1, 3), on=layer), torch.full((1, 3), 2.0))
    client.set(layer, "width", 5)
    assert call(client, "width_of", layer) == 5


def test_attributes_are_read_together_up_to_one_that_raises(client):
    layer = call(client, "Layer", 3)
    weight, method = client.get_first(layer, ["w.weight", "forward", "missing", "width"])
    assert weight.shape == (3, 3)
    assert method is CALLABLE_ATTRIBUTE
    with pytest.raises(faults.AnswerRaised, match="AttributeError"):
        client.get_first(layer, ["missing", "width"])


def test_gradients_are_asked_of_the_worker(client):
    x, y = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    answer = client.call(None, "squares", [x, y], {}, graph=True)
    for _ in range(2):  # a kept graph may be asked again
        got = client.backward(answer.graph, [torch.tensor(1.0), None])
        assert torch.equal(got[0], torch.tensor([2.0, 4.0]))
        assert got[1] is None


def test_gradients_of_parameters_can_be_read(client):
    layer = call(client, "Layer", 2)
    x = torch.ones(1, 2, requires_grad=True)
    answer = client.call(layer, "", [x], {}, graph=True)
    client.backward(answer.graph, [torch.ones(1, 2)])
    assert torch.equal(client.get(layer, "w.weight.grad"), torch.ones(2, 2))


def test_a_dropped_object_is_gone(client):
    layer = call(client, "Layer", 2)
    client.drop_handle(layer)
    with pytest.raises(faults.AnswerRaised, match="KeyError"):
        client.get(layer, "width")


def test_an_exception_crosses_with_its_line(client):
    with pytest.raises(faults.AnswerRaised) as caught:
        call(client, "fail")
    assert (caught.value.kind, caught.value.message) == ("ValueError", "width 7, heads 3")
    assert SOURCE.splitlines()[caught.value.line - 1].strip() == (
        'raise ValueError("width 7, heads 3")'
    )


def test_a_call_that_leaves_gradients_switched_is_refused_and_the_next_one_is_as_ever(client):
    x = torch.ones(2, requires_grad=True)
    for args in [(False,), (False, "width 7"), (False,)]:
        with pytest.raises(faults.AnswerRaised, match="recording of gradients") as raised:
            call(client, "switch", *args)
        assert raised.value.kind == "RuntimeError"
        assert call(client, "twice", x).requires_grad
    with torch.no_grad():
        call(client, "switch", False)  # as it was
        with pytest.raises(faults.AnswerRaised, match="recording of gradients"):
            call(client, "switch", True)


def test_sys_exit_is_an_exception_like_others(client):
    with pytest.raises(faults.AnswerRaised, match="SystemExit"):
        call(client, "leave_softly")
    assert call(client, "count") == 1


@pytest.mark.parametrize(
    "name, args, fault, says",
    [
        ("leave", [0], faults.WorkerDied, r"ended itself \(exit code 0\)"),
        ("crash", [], faults.WorkerDied, "segmentation fault"),
        ("sleep", [30], faults.AnswerTimedOut, "no answer within 0.5 s"),
        ("nameless", [], faults.WorkerDied, "crashed .signal 40."),
        ("hang_up", [], faults.WorkerDied, "closed its connection"),
    ],
)
def test_after_a_fault_the_next_call_meets_a_fresh_worker(nursery, name, args, fault, says):
    with worker(nursery, SOURCE) as (client, supervisor):
        call(client, "count")
        patient = supervisor._limits
        if fault is faults.AnswerTimedOut:  # of no other call, however busy the machine is
            supervisor._limits = replace(patient, call_seconds=0.5)
        with pytest.raises(fault, match=says):
            call(client, name, *args)
        supervisor._limits = patient
        assert call(client, "count") == 1


def test_memory_is_limited(client):
    with pytest.raises(faults.AnswerRaised, match=r"allocate memory|MemoryError"):
        call(client, "devour")
    assert call(client, "count") == 1


def test_the_time_of_all_calls_is_limited(nursery):
    with worker(nursery, SOURCE, exercise_seconds=1.0, call_seconds=0.4) as (client, _):
        for _ in range(2):
            with pytest.raises(faults.AnswerTimedOut):
                call(client, "sleep", 5)
        with pytest.raises(faults.AnswerTimedOut, match=r"used up its 1 seconds|no answer"):
            [call(client, "sleep", 0.15) for _ in range(3)]


def test_a_worker_that_keeps_dying_is_given_up(nursery):
    with worker(nursery, SOURCE) as (client, _):
        for _ in range(6):
            with pytest.raises(faults.WorkerDied):
                call(client, "leave", 1)
        with pytest.raises(faults.WorkerDied, match="nothing more was asked"):
            call(client, "count")


def test_printing_is_kept_apart_and_capped(nursery):
    with worker(nursery, SOURCE) as (client, supervisor):
        assert call(client, "shout", 5) == 5
        assert supervisor.output() == "xxxxx\n"
        assert call(client, "shout", 50_000_000) == 50_000_000
        assert call(client, "count") == 1
        assert supervisor.output().endswith("x" * 1900 + " ...")
        assert len(supervisor.output()) == 2004


def test_the_environment_tells_nothing(client, monkeypatch):
    monkeypatch.setenv("SECRET_SEED", "42")
    names = {pair.split("=")[0] for pair in call(client, "environment")}
    assert names <= {
        "HOME", "LANG", "LD_LIBRARY_PATH", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_",
        "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONUTF8",
        "TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "LC_CTYPE",
        "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "TORCHINDUCTOR_CACHE_DIR", "PWD",
        "TRITON_INTERPRET",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["grader", "reference", "solutions", "exercises", "wire"])
def test_nothing_of_ours_can_be_imported(client, name):
    assert call(client, "can_import", name) is False


def test_a_worker_computes_with_one_thread(client):
    assert call(client, "threads") == 1


@pytest.mark.parametrize(
    "source, kind", [("1 / 0", "ZeroDivisionError"), ("import nothing_such", "ModuleNotFoundError")]
)
def test_a_file_that_cannot_be_loaded_says_why(nursery, source, kind):
    with worker(nursery, source) as (_, supervisor), pytest.raises(LoadFailed) as caught:
        supervisor.load()
    assert (caught.value.problem.kind, caught.value.problem.line) == (kind, 1)


def test_what_is_slow_to_import_is_found_imported(nursery):
    source = "import sys\nthere = 'tabnanny' in sys.modules\ndef f(): return int(there)\n"
    with worker(nursery, source) as (client, _):
        assert call(client, "f") == 0
    with worker(nursery, source, preload=["no_such_module", "tabnanny"]) as (client, _):
        assert call(client, "f") == 1


@pytest.mark.parametrize("preload", [[], ["filecmp"]], ids=["at once", "after an import"])
def test_what_nobody_holds_is_collected_in_a_worker(nursery, preload):
    """The nursery collects nothing while it imports; its workers do."""
    source = (
        "import weakref\n"
        "class Ring: pass\n"
        "def f():\n"
        "    kept = []\n"
        "    for _ in range(2000):\n"
        "        ring = Ring()\n"
        "        ring.me = ring\n"
        "        kept.append(weakref.ref(ring))\n"
        "    return sum(one() is not None for one in kept)\n"
    )
    with worker(nursery, source, preload=preload) as (client, _):
        assert call(client, "f") < 2000


def test_the_line_that_reads_an_unset_variable_is_told_however_often_it_runs(nursery):
    """Python joins two instructions that it has run often, and gives the line of the first."""
    line = SOURCE.splitlines().index("    z = w + y") + 1
    with worker(nursery, SOURCE) as (client, _):
        for _ in range(40):
            with pytest.raises(faults.AnswerRaised) as raised:
                client.call(None, "unset", [torch.ones(1)], {}, graph=False)
            assert raised.value.line == line


def test_an_unset_variable_that_cannot_be_told_does_not_end_the_worker(nursery):
    with worker(nursery, SOURCE) as (client, _):
        for _ in range(2):
            with pytest.raises(faults.AnswerRaised) as raised:
                client.call(None, "mute", [torch.ones(1)], {}, graph=False)
            assert (raised.value.kind, raised.value.message) == ("Mute", "")
