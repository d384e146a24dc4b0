"""Properties of caches, and of attention that continues a text, as in `weight_probes`.

A cache is a class with a `max_len`, whose `append` takes two tensors and returns all tokens so
far, again as two tensors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from grader.core.diagnosis_records import Fact
from grader.core.records import DeclaredClass
from grader.diagnosis.probed_function import (
    CLOSE,
    Array,
    ProbedFunction,
    begin_probing_case,
    distance,
    fact,
)
from grader.judging.case import StudentFault, find_case
from grader.judging.contract import list_judged_parameters
from grader.judging.draw import Draw
from grader.judging.student import Student
from grader.judging.student_calls import StudentObject
from grader.judging.tolerance import as_judged_numbers

ROOM = 5  # tokens that fit in a cache
SIZES = {"batch": 2, "num_heads": 2, "max_len": ROOM, "head_dim": 2, "kv_rank": 2, "rope_dim": 2}
LETTERS = {"B": "batch", "H": "num_heads", "D": "head_dim", "R": "kv_rank", "Dr": "rope_dim"}
TOKENS = "n"  # the letter of all tokens so far
TINY = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append returned, beside what it should return: the tokens of all appends so far."""

    before: int  # tokens of the appends before
    given: tuple[Array, Array]
    came: tuple[Array, Array]
    length: float


class ProbedCache:
    """A class of caches, of which each experiment makes new objects."""

    def __init__(self, student: Student, declared: DeclaredClass) -> None:
        self._student, self._declared = student, declared
        returns = declared.methods["append"].returns.values()
        self._letters = [str(shape).split()[1:] for shape in returns]
        self.axis = self._letters[0].index(TOKENS)

    def append_all(self, draw: Draw, *counts: int) -> list[Appended]:
        """Append so many drawn tokens, one count after the other, to a new cache."""
        with begin_probing_case(self._student):
            return list(self._append_each(self.make(), draw, counts))

    def append_after_reset(self, draw: Draw, first: int, then: int) -> Appended:
        """Return what an append to a cache returns that was filled before, and reset."""
        with begin_probing_case(self._student):
            cache = self.make()
            list(self._append_each(cache, draw, [first]))
            cache.reset()
            return next(self._append_each(cache, draw, [then]))

    def append_beside_another(self, draw: Draw) -> tuple[Appended, Appended]:
        """Return what no tokens more bring back, before and after another cache was filled."""
        with begin_probing_case(self._student):
            cache, other = self.make(), self.make()
            first = next(self._append_each(cache, draw, [2]))
            list(self._append_each(other, draw, [3]))
            *_, again = self._append_each(cache, draw, [0])
            return first, again

    def takes(self, draw: Draw, tokens: int) -> bool:
        """Return whether a new cache takes so many tokens at once."""
        try:
            self.append_all(draw, tokens)
        except StudentFault:
            return False
        return True

    def make(self) -> StudentObject:
        """Make a cache, of which anything may come back."""
        find_case().takes_any_form = True
        names = list_judged_parameters(self._declared.signature)
        made: StudentObject = getattr(self._student, self._declared.name)(
            *(SIZES[n] for n in names if n in SIZES)
        )
        return made

    def _append_each(
        self, cache: StudentObject, draw: Draw, counts: Sequence[int]
    ) -> Iterator[Appended]:
        given = [np.zeros(self._shape(letters, 0)) for letters in self._letters]
        for count in counts:
            before = given[0].shape[self.axis]
            new = [draw.normal(*self._shape(letters, count)) for letters in self._letters]
            came = cache.append(*(x.clone() for x in new))
            if not _are_two_tensors(came):
                raise StudentFault("append returned something else than two tensors")
            pairs = zip(given, new, strict=True)
            given = [np.concatenate([old, _read_cache_numbers(x)], self.axis) for old, x in pairs]
            yield Appended(
                before=before, given=(given[0], given[1]),
                came=(_read_cache_numbers(came[0]), _read_cache_numbers(came[1])),
                length=_read_cache_length(cache),
            )  # fmt: skip

    def _shape(self, letters: Sequence[str], tokens: int) -> list[int]:
        return [tokens if one == TOKENS else SIZES[LETTERS[one]] for one in letters]


def can_be_probed(declared: DeclaredClass) -> bool:
    """Return whether a class is one of caches whose sizes are known here."""
    if not {"append", "reset"} <= declared.methods.keys() or "length" not in declared.attributes:
        return False
    returns = [str(shape).split()[1:] for shape in declared.methods["append"].returns.values()]
    known = len(returns) == 2 and all(set(one) <= {*LETTERS, TOKENS} for one in returns)
    return known and "max_len" in list_judged_parameters(declared.signature)


def probe_length(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """`length` counts the tokens."""
    for one in f.append_all(draw, 2, 1):
        tokens = one.given[0].shape[f.axis]
        if one.length != tokens:
            return fact("cache_length", tokens=tokens, length=one.length)
    return None


def probe_count(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """As many tokens come back as were appended."""
    for one in f.append_all(draw, 2, 1):
        tokens, came = one.given[0].shape[f.axis], one.came[0]
        count = came.shape[f.axis] if came.ndim > f.axis else 0
        if count != tokens:
            return fact("cache_count", tokens=tokens, count=count)
    return None


def probe_roles(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """Keys come back as keys, values as values."""
    [one] = f.append_all(draw, 3)
    keys, values = one.given
    values_first, keys_last = (
        distance(one.came[i], x) <= TINY for i, x in enumerate((values, keys))
    )
    if values_first and keys_last:
        return fact("cache_exchanged")
    if values_first:
        return fact("values_as_keys")
    return fact("keys_as_values") if keys_last else None


def probe_contents(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """Every append returns the tokens of all appends, in order and unchanged."""
    for number, one in enumerate(f.append_all(draw, 2, 1, 1), 1):
        for given, came in zip(one.given, one.came, strict=True):
            if given.shape != came.shape:
                return None
            wrong = ~np.isclose(given, came, atol=TINY)
            if not wrong.any():
                continue
            sequence = _find_first_wrong_place(wrong, 0)
            token = _find_first_wrong_place(wrong, f.axis)
            if sequence > 0:
                return fact("sequence_not_stored", sequence=sequence)
            if token < one.before:
                return fact("earlier_token_changed", token=token, append=number)
            return fact("new_token_missed", token=token, append=number)
    return None


def probe_reset(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """After `reset` the cache is as good as new."""
    one = f.append_after_reset(draw, 3, 1)
    if one.length != 1:
        return fact("length_after_reset", length=one.length)
    same = all(distance(a, b) <= TINY for a, b in zip(one.given, one.came, strict=True))
    return None if same else fact("wrong_after_reset")


def probe_other_cache(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """What a cache holds does not change with another cache."""
    first, again = f.append_beside_another(draw)
    same = all(distance(a, b) <= TINY for a, b in zip(first.came, again.came, strict=True))
    return None if same else fact("other_cache")


def probe_room(f: ProbedCache, right: ProbedCache, draw: Draw) -> Fact | None:
    """As many tokens fit as `max_len` says, and no more."""
    if not f.takes(draw, ROOM - 1):
        return None
    if not f.takes(draw, ROOM):
        return fact("full_refused", room=ROOM)
    return fact("overflow_taken", room=ROOM, tokens=ROOM + 1) if f.takes(draw, ROOM + 1) else None


CACHE_PROBES = (
    probe_length, probe_count, probe_roles, probe_contents, probe_reset, probe_other_cache,
    probe_room,
)  # fmt: skip


def probe_chunks(f: ProbedFunction, right: ProbedFunction, draw: Draw) -> Fact | None:
    """A text in two chunks has the outputs that it has at once, and a past that grows."""
    q, k, v = (draw.normal(1, 1, 4, 2) for _ in "qkv")
    outputs, pasts = f.continue_text(q, k, v, 2)
    for tokens, past in zip((2, 4), pasts, strict=True):
        for x, whole in zip(past, (k, v), strict=True):
            if x.shape[-2] != tokens:
                return fact("past_count", tokens=tokens, count=x.shape[-2])
            wrong = ~np.isclose(x, whole[..., :tokens, :], atol=TINY)
            if wrong.any():
                return fact("past_changed", token=_find_first_wrong_place(wrong, 2))
    return find_chunks_fact(f(q, k, v), outputs, 2)


def find_chunks_fact(whole: Array, chunks: Array, first: int) -> Fact | None:
    """Return the first token (axis -2) whose output is another in chunks than at once."""
    if whole.shape != chunks.shape or not np.isfinite(whole).all():
        return None
    change = np.abs(whole - chunks).max(-1)
    tokens = np.flatnonzero(~(change <= CLOSE).all(tuple(range(change.ndim - 1))))
    if not len(tokens):
        return None
    then = whole.shape[-2] - first
    return fact("chunks", first=first, then=then, token=tokens[0], change=np.nanmax(change))


def _find_first_wrong_place(wrong: Array, axis: int) -> int:
    """Return the first place along an axis at which something is wrong."""
    others = tuple(i for i in range(wrong.ndim) if i != axis)
    return int(wrong.any(others).argmax())


def _are_two_tensors(came: object) -> bool:
    return isinstance(came, tuple | list) and len(came) == 2 and all(
        isinstance(x, Tensor) for x in came
    )  # fmt: skip


def _read_cache_numbers(x: Tensor) -> Array:
    return as_judged_numbers(x).astype(np.float64)


def _read_cache_length(cache: StudentObject) -> float:
    length = cache.read("length")
    if isinstance(length, bool) or not isinstance(length, int):
        raise StudentFault("length is no int")
    return length
