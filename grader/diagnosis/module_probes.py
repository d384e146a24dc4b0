"""Properties of a module of attention, each with a small experiment, as in `weight_probes`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.core.diagnosis_records import Fact
from grader.core.records import DeclaredClass
from grader.diagnosis.cache_probes import find_chunks_fact
from grader.diagnosis.probed_function import (
    CLOSE,
    Array,
    ProbingEnded,
    begin_probing_case,
    distance,
    fact,
)
from grader.judging.case import StudentFault
from grader.judging.contract import count_required_parameters, list_judged_parameters
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.judging.student_calls import StudentObject
from grader.judging.tolerance import as_judged_numbers

TINY = 1e-5
HEADS = 2  # also the number of key/value heads, where there are fewer
SIZES = {"d_model": 4, "dim": 4, "hidden": 6}  # of the arguments of modules
MAX_CALLS = 60


class ProbedModule:
    """A module of one input (B, L, E), with drawn parameters, the same as the solution's."""

    def __init__(
        self, student: Student, declared: DeclaredClass, right: Student,
        caches: DeclaredClass | None = None,
    ) -> None:  # fmt: skip
        self._student, self._right, self._declared = student, right, declared
        self._caches = caches  # the class of caches of the exercise
        self._objects: dict[int, StudentObject] = {}
        self._calls = 0

    def __call__(self, x: Tensor, heads: int = HEADS) -> Array:
        """Return the output for x (B, L, E), as float64."""
        return as_judged_numbers(self._answer(x, heads)[0]).astype(np.float64)

    def weights(self, x: Tensor) -> Array | None:
        """Return the weights (B, H, Lq, Lk); None if none come back."""
        if "weights" not in self._declared.methods["forward"].returns:
            return None
        return as_judged_numbers(self._answer(x, HEADS)[1]).astype(np.float64)

    def in_chunks(self, x: Tensor, *counts: int) -> Array | None:
        """Return the output for x in chunks, each continuing the one before; None if it cannot."""
        forward, outputs = self._declared.methods["forward"], []
        with_cache = "cache" in list_judged_parameters(forward.signature)
        if "step" not in self._declared.methods and not (with_cache and self._caches):
            return None
        self._answer(x, HEADS)  # the object is made
        module = self._objects[HEADS]
        with begin_probing_case(self._student):
            past = None
            cache = self._make_cache(x) if with_cache else None
            for part in torch.split(x, list(counts), 1):
                if cache is not None:
                    output = module(part.clone(), cache=cache)
                else:
                    output, past = module.step(part.clone(), *(() if past is None else (past,)))
                outputs.append(as_judged_numbers(output).astype(np.float64))
        return np.concatenate(outputs, 1)

    def with_other_weight(self, name: str, x: Tensor) -> Array | None:
        """Return the output for x while one weight has other numbers; None if there is none."""
        self._answer(x, HEADS)  # the object is made
        with begin_probing_case(self._right):
            state = self._draw_state(HEADS)
        if name not in state:
            return None
        with begin_probing_case(self._student):
            module = self._objects[HEADS]
            module.load_state_dict({**state, name: state[name].flip(0) + 0.5}, strict=False)
            output = module(x.clone())
            module.load_state_dict(state, strict=False)
        return as_judged_numbers(output[0] if isinstance(output, tuple) else output)

    def _make_cache(self, x: Tensor) -> Any:
        assert self._caches is not None
        sizes = {"batch": len(x), "num_heads": HEADS, "max_len": x.shape[1]}
        sizes["head_dim"] = SIZES["d_model"] // HEADS
        names = list_judged_parameters(self._caches.signature)
        return getattr(self._student, self._caches.name)(*(sizes[n] for n in names if n in sizes))

    def _answer(self, x: Tensor, heads: int) -> list[Any]:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise ProbingEnded
        with begin_probing_case(self._right):
            state = {} if heads in self._objects else self._draw_state(heads)
        with begin_probing_case(self._student):
            if heads not in self._objects:
                self._objects[heads] = self._build(self._student, heads)
                self._objects[heads].load_state_dict(state, strict=False)
            answer = self._objects[heads](x.clone())
        return list(answer) if isinstance(answer, tuple | list) else [answer]

    def _draw_state(self, heads: int) -> dict[str, Tensor]:
        """Draw the parameters that the solution's module has."""
        draw = Draw("module", self._declared.name)
        state = self._build(self._right, heads).state_dict()
        return {name: draw.normal(*x.shape, scale=0.7) for name, x in state.items()}

    def _build(self, student: Student, heads: int) -> StudentObject:
        names = list_judged_parameters(self._declared.signature)
        needed = names[: count_required_parameters(self._declared.signature)]
        sizes = SIZES | {"num_heads": heads, "num_kv_heads": heads}
        made: StudentObject = getattr(student, self._declared.name)(*(sizes[n] for n in needed))
        return made


def can_be_probed(declared: DeclaredClass) -> bool:
    """Return whether a module is built from sizes that are known here, and called with x alone."""
    names = list_judged_parameters(declared.signature)
    needed = names[: count_required_parameters(declared.signature)]
    forward = declared.methods.get("forward")
    if forward is None or not needed or not set(needed) <= {*SIZES, "num_heads", "num_kv_heads"}:
        return False
    return list_judged_parameters(forward.signature)[:1] == ("x",) and (
        count_required_parameters(forward.signature) == 1
    )


def probe_memory(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """The same input gives the same output again, after another input too."""
    one, other = draw.normal(1, 3, 4), draw.normal(1, 3, 4)
    first, second = f(one), f(one)
    f(other)
    change = max(distance(first, second), distance(first, f(one)))
    return fact("second_call", change=change) if change > TINY else None


def probe_row_sums(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """The weights of a row are not negative, and sum to one."""
    weights = f.weights(draw.normal(1, 4, 4))
    if weights is None or not np.isfinite(weights).all():
        return None
    if weights.min() < -TINY:
        return fact("negative_weights", least=weights.min())
    sums = weights.sum(-1).ravel()
    far = sums[np.abs(sums - 1).argmax()]
    if abs(far - 1) <= TINY:
        return None
    columns = np.abs(weights.sum(-2) - 1).max() <= TINY
    return fact("columns_sum" if columns else "row_sums", sum=far)


def probe_heads(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """What is right for one head and one sequence is right for two."""
    one, two = draw.normal(1, 3, 4), draw.normal(2, 3, 4)
    if _is_probed_module_right(f, right, one, 1) and not _is_probed_module_right(
        f, right, one, HEADS
    ):
        return fact("one_head_only", heads=HEADS)
    if _is_probed_module_right(f, right, one, HEADS) and not _is_probed_module_right(
        f, right, two, HEADS
    ):
        return fact("one_batch_only", batch=2)
    return None


def probe_other_batch(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """The output of a sequence does not depend on the others in the batch."""
    x = draw.normal(2, 3, 4)
    other = torch.cat([x[:1], draw.normal(1, 3, 4)])
    change = distance(f(x)[0], f(other)[0])
    return fact("other_batch", change=change) if change > CLOSE else None


def probe_attended_tokens(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """The output of a token depends on the tokens that it may see, and on no other."""
    x, new = draw.normal(1, 3, 4), draw.normal(1, 3, 4)

    def seen(one: ProbedModule) -> Array:
        """Return for each token (rows) how far each token (columns) moves its output."""
        before, moved = one(x)[0], []
        for token in range(x.shape[1]):
            other = x.clone()
            other[:, token] = new[:, token]
            moved.append(np.abs(one(other)[0] - before).max(-1))
        return np.stack(moved, -1)

    ours, theirs = seen(f), seen(right)
    if not np.isfinite(ours).all():
        return None
    for row, token in np.argwhere((ours > CLOSE) & (theirs == 0)):
        return fact("later_token_seen" if token > row else "forbidden_token_seen",
                    row=row, token=token)  # fmt: skip
    for row, token in np.argwhere((ours == 0) & (theirs > CLOSE)):
        return fact("token_missed", row=row, token=token)
    return None


def probe_chunks(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """A text has the same outputs in chunks as in one."""
    x = draw.normal(1, 4, 4)
    whole, chunks = f.in_chunks(x, 4), f.in_chunks(x, 2, 2)
    return None if whole is None or chunks is None else find_chunks_fact(whole, chunks, 2)


def probe_ignored_weights(f: ProbedModule, right: ProbedModule, draw: Draw) -> Fact | None:
    """The output depends on the weights of every projection."""
    x = draw.normal(1, 3, 4)
    output = f(x)
    for projection in ("w_q", "w_k", "w_v", "w_o"):
        other = f.with_other_weight(f"{projection}.weight", x)
        if other is not None and distance(output, other) == 0:
            return fact(f"ignores_{projection}")
    return None


def _is_probed_module_right(f: ProbedModule, right: ProbedModule, x: Tensor, heads: int) -> bool:
    wanted = right(x, heads)
    try:
        return distance(f(x, heads), wanted) <= CLOSE
    except StudentFault:
        return False


MODULE_PROBES = (
    probe_memory, probe_ignored_weights, probe_chunks, probe_row_sums, probe_heads,
    probe_other_batch, probe_attended_tokens,
)  # fmt: skip
