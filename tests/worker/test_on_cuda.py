"""What a worker does for a GPU, as far as it can be seen without one."""

import ctypes
from types import ModuleType, SimpleNamespace

import pytest
import torch

from grader.cuda import compiled_answer, compiler, gpu
from grader.worker.child import arrays, received_arguments, sandbox, wire
from grader.worker.parent import readable_paths
from grader.worker.parent.faults import WorkerDied
from grader.worker.parent.in_process import call_without_wall
from tests.conftest import solution
from tests.cuda.kernels import EXERCISE
from tests.worker.asking import call, worker

LOST = """
import torch
def synchronize():
    raise RuntimeError("CUDA error: an illegal memory access was encountered")
torch.cuda.is_initialized = lambda: True
torch.cuda.synchronize = synchronize
"""
KERNELS = """
import os
def keep(text):
    with open(os.path.join(os.environ["TRITON_CACHE_DIR"], "kernel"), "w") as file:
        file.write(text)
def kept():
    with open(os.path.join(os.environ["TRITON_CACHE_DIR"], "kernel")) as file:
        return file.read()
def fails():
    os._exit(3)
"""


@pytest.fixture
def copied(monkeypatch):
    """Inputs are copies for the answer, as those on a GPU are."""

    def copy(form, arena):
        there = arrays.view_tensor_in_arena(form, arena)
        flat = torch.frombuffer(arena.take(form["at"], form["bytes"]), dtype=there.dtype).clone()
        moved = flat.as_strided(there.shape, there.stride(), there.storage_offset())
        return moved.requires_grad_(there.requires_grad)

    monkeypatch.setattr(wire, "view_tensor_in_arena", copy)
    monkeypatch.setattr(
        received_arguments, "needs_arena_copy", lambda x: isinstance(x, torch.Tensor)
    )


@pytest.mark.parametrize("x", [torch.ones(3, 4), torch.ones(4, 3).T, torch.ones(3, 8)[:, ::2]])
def test_a_change_of_a_copied_input_is_seen(copied, x):
    module = ModuleType("submission")
    module.doubled = lambda x: x.mul_(2)
    module.sum_of = lambda x: x.sum()
    client = call_without_wall(module)
    assert client.call(None, "doubled", [x], {}, graph=False).modified == ("0",)
    assert client.call(None, "sum_of", [x + 0], {}, graph=False).modified == ()


def test_gradients_of_a_call_are_those_of_its_own_numbers_though_it_was_called_again(copied):
    module = ModuleType("submission")
    module.square = lambda x: (x * x).sum()
    client = call_without_wall(module)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    answer = client.call(None, "square", [x], {}, graph=True)
    with torch.no_grad():
        x.mul_(7)
    client.call(None, "square", [x], {}, graph=True)
    [gradient] = client.backward(answer.graph, [torch.tensor(1.0)])
    assert gradient.tolist() == [2.0, 4.0]


def test_an_error_of_the_gpu_ends_the_worker_and_the_next_call_meets_another(nursery):
    source = "def fails():\n    raise ValueError('kernel')\ndef right():\n    return 7\n"
    with worker(nursery, source, prelude=LOST) as (client, _):
        with pytest.raises(WorkerDied, match="a kernel broke off on the GPU"):
            call(client, "fails")
        assert call(client, "right") == 7


def test_an_error_of_python_ends_no_worker(nursery):
    initialized = "import torch\ntorch.cuda.is_initialized = lambda: True\ntorch.cuda.synchronize = lambda: None"
    source = "seen = []\ndef fails():\n    seen.append(1)\n    raise ValueError\ndef count():\n    return len(seen)\n"
    with worker(nursery, source, prelude=initialized) as (client, _):
        with pytest.raises(Exception, match="ValueError"):
            call(client, "fails")
        assert call(client, "count") == 1


def test_workers_of_one_answer_find_the_kernels_that_were_compiled(nursery):
    with worker(nursery, KERNELS, on_cuda=True) as (client, _):
        call(client, "keep", "compiled")
        with pytest.raises(WorkerDied):
            call(client, "fails")
        assert call(client, "kept") == "compiled"
    with worker(nursery, KERNELS, on_cuda=True) as (client, _):  # judged before, timed now
        assert call(client, "kept") == "compiled"


def test_nvcc_is_told_the_architecture_of_the_device(monkeypatch):
    given = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 9))
    monkeypatch.setattr(compiler, "find_cuda_sanitizer", lambda: "")
    monkeypatch.setattr(
        compiler, "compile_cuda_for_gpu", lambda *args: given.append(args) or (b"", b"")
    )
    compiled_answer._build_cuda_for_gpu(solution("ex15"), EXERCISE, {}, None)
    assert gpu.find_cuda_architecture() == "sm_89" and given[0][2] == "sm_89"


def test_the_folder_of_the_driver_is_where_its_library_was_loaded(monkeypatch, tmp_path):
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 00:00 0    /usr/lib64-nvidia/libcuda.so.570.1\n"
        "7f01-7f02 r--p 00000000 00:00 0    /usr/lib64-nvidia/libcuda.so.570.1\n"
        "7f02-7f03 r-xp 00000000 00:00 0    /usr/lib/libc.so.6\n"
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
    assert readable_paths.find_worker_driver_folders(maps) == ["/usr/lib64-nvidia"]


def test_a_wall_is_tried_by_a_context_and_work_on_the_device(monkeypatch):
    called = []

    def driver(**codes):
        return lambda name: SimpleNamespace(
            **{
                n: lambda *args, n=n: called.append(n) or codes.get(n, 0)
                for n in ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
                          "cuMemAlloc_v2", "cuMemsetD8_v2", "cuCtxSynchronize")
            }
        )  # fmt: skip

    monkeypatch.setattr(ctypes, "CDLL", driver())
    sandbox._start_cuda_in_sandbox()
    assert called[-2:] == ["cuMemsetD8_v2", "cuCtxSynchronize"]
    monkeypatch.setattr(ctypes, "CDLL", driver(cuCtxSynchronize=700))
    with pytest.raises(OSError, match="cuCtxSynchronize") as error:
        sandbox._start_cuda_in_sandbox()
    assert error.value.errno == 700
