"""What crossing to a worker and back costs, beside the reference's time: `make bench-crossing`.

On the CPU the same inputs go to a function that returns an answer which it had beforehand. On CUDA
(ARGS=cuda) it is a chain without links: the draws, the digest and its way back.
"""

import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from grader.core import catalog
from grader.core.records import Submission
from grader.judging.case import CURRENT_CASE, Case
from grader.judging.student import Student
from grader.submission import answer_file
from grader.suites.ex08_cuda_sdpa.bench_cuda_sdpa import ON_CUDA
from grader.timing import meters
from grader.timing.meters import Party
from grader.worker.child.chain import Chain
from grader.worker.parent import walls
from grader.worker.parent.nursery import Nursery
from grader.worker.parent.supervisor import Supervisor

ROUNDS = 30
CASES = {
    "ex03_sdpa": ("scaled_dot_product_attention", (1, 4, 512, 64)),
    "ex05_causal_mask": ("causal_attention", (1, 1, 1536, 64)),
}
IDLE = """
import torch
OUTPUT, WEIGHTS = torch.zeros(1, 1, 1536, 64), (torch.zeros(1, 4, 512, 64), torch.zeros(1, 4, 512, 512))
def causal_attention(q, k, v): return OUTPUT
def scaled_dot_product_attention(q, k, v, keep=None, scale=None): return WEIGHTS
"""


def main(device: str) -> None:
    torch.set_num_threads(1)
    table = Table("exercise", "crossing, ms", "reference, ms", "share")
    with (
        Nursery(walls.choose_wall("auto", on_cuda=device != "cpu")) as nursery,
        ExitStack() as stack,
    ):
        rows = on_the_cpu(nursery, stack) if device == "cpu" else on_cuda(nursery, stack, device)
        for name, (empty, full) in rows.items():
            table.add_row(name, f"{1e3 * empty:.2f}", f"{1e3 * full:.2f}", f"{empty / full:.0%}")
    Console().print(table)


def on_the_cpu(nursery: Nursery, stack: ExitStack) -> dict[str, tuple[float, float]]:
    found = {}
    for slug, (name, shape) in CASES.items():
        idle, reference = (party(nursery, slug, text, stack) for text in (IDLE, None))
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            inputs = [torch.randn(shape) for _ in range(3)]
            for one, kept in zip((idle, reference), times, strict=True):
                one.student.begin_case()
                kept.append(measured(meters.time_party_call, one, name, inputs))
        found[slug] = (median(times[0]), median(times[1]))
    return found


def on_cuda(nursery: Nursery, stack: ExitStack, device: str) -> dict[str, tuple[float, float]]:
    one = party(nursery, "ex08_cuda_sdpa", None, stack, on_cuda=True)
    times: dict[int, list[float]] = {0: [], ON_CUDA["links"]: []}
    for seed in range(ROUNDS):
        for links, kept in times.items():
            chain = replace(Chain(seed=seed, device=device, **ON_CUDA), links=links)
            CURRENT_CASE.set(Case())
            call = lambda c=chain: one.student.run_chain("fast_attention", c, causal=True)  # noqa: E731
            kept.append(meters.time_elapsed_seconds(one, call)[0])
    return {"ex08_cuda_sdpa": (median(times[0]), median(times[ON_CUDA["links"]]))}


def measured(meter: meters.Meter, one: Party, name: str, inputs: list[torch.Tensor]) -> float:
    CURRENT_CASE.set(Case())
    return meter(one, lambda: getattr(one.student, name)(*inputs))[0]


def party(
    nursery: Nursery, slug: str, text: str | None, stack: ExitStack, *, on_cuda: bool = False
) -> Party:
    exercise = catalog.find_catalog_exercise(slug)
    answer = answer_file.read_submission(exercise.folder / "parties/reference.py", slug)
    if text is not None:
        answer = Submission(slug=slug, path=answer.path, sha256="", source=text)
    worker = Supervisor(
        nursery, answer, exercise.limits, on_cuda=on_cuda, core=meters.find_timing_processor()
    )
    stack.enter_context(closing(worker))
    client = worker.client(watch=False)
    worker.load()
    return Party("reference", Student(exercise, client), worker, client)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "cpu")
