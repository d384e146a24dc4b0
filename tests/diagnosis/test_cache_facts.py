"""Facts about wrong caches, and about texts that are continued wrongly."""

import pytest
import torch

from grader.core import catalog
from grader.diagnosis import cache_probes
from grader.judging import suite_runner
from reference.ex06_kv_cache import PlainKVCache
from tests.diagnosis.test_facts import probed


def cache(**methods):
    """A right cache, but for these methods."""
    return type("Wrong", (PlainKVCache,), methods)


def reset_nothing(self):
    self.keys.zero_()


def written(start=None, keys=None, values=None, batch=slice(None)):
    """A cache that writes elsewhere, or other numbers."""

    def write(self, here, k, v):
        at = slice(here if start is None else start, None)
        rows = slice(at.start, at.start + k.shape[2])
        self.keys[batch, :, rows] = (k if keys is None else keys(k, v))[batch]
        self.values[batch, :, rows] = (v if values is None else values(k, v))[batch]

    return cache(write=write)


class OneMemory(PlainKVCache):
    memory = {}  # noqa: RUF012 (that is the mistake)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys = self.memory.setdefault("keys", self.keys)


@pytest.mark.parametrize(
    "wrong, keys",
    [
        (cache(advance=lambda self, t: setattr(self, "length", self.length + 1)), ["cache_length"]),
        (cache(so_far=lambda self: (self.keys, self.values)), ["cache_count"]),
        (written(keys=lambda k, v: v, values=lambda k, v: k), ["cache_exchanged"]),
        (written(values=lambda k, v: k), ["keys_as_values"]),
        (written(keys=lambda k, v: v), ["values_as_keys"]),
        (written(start=0), ["earlier_token_changed"]),
        (written(start=1), ["new_token_missed"]),
        (written(batch=slice(1)), ["sequence_not_stored"]),
        (cache(reset=reset_nothing), ["length_after_reset"]),
        (OneMemory, ["other_cache"]),
        (cache(check=lambda self, k, v: 1 / (self.length + k.shape[2] < 5)), ["full_refused"]),
        (cache(check=lambda self, k, v: None, write=lambda self, *_: None), ["overflow_taken"]),
    ],
)  # fmt: skip
def test_a_wrong_cache_is_told_what_it_lacks(wrong, keys):
    found = {one.key for one in probed("ex06_kv_cache", "KVCache", wrong)}
    assert set(keys) <= found


@pytest.mark.parametrize("slug, name", [("ex06_kv_cache", "KVCache"), ("ex13_mla", "LatentCache")])
def test_a_right_cache_lacks_nothing_however_it_is_written(slug, name):
    exercise = catalog.find_catalog_exercise(slug)
    right = [v for v in suite_runner.list_suite_variants(exercise) if v.of == name and not v.edits]
    assert right and cache_probes.can_be_probed(exercise.classes[name])
    assert {v.id: probed(slug, name, v.answer) for v in right} == {v.id: [] for v in right}


def continued(join=lambda old, new: torch.cat([old, new], -2), see=lambda joined, new: joined):
    """attend_with_past, but for how the past is joined, and what of it is seen."""

    def attend(q, k, v, past=None):
        joined = (k, v) if past is None else tuple(map(join, past, (k, v)))
        keys, values = see(joined, (k, v))
        keep = torch.ones(q.shape[-2], keys.shape[-2]).tril(keys.shape[-2] - q.shape[-2]).bool()
        scores = (q @ keys.mT / q.shape[-1] ** 0.5).masked_fill(~keep, -torch.inf)
        return torch.softmax(scores, -1) @ values, joined

    return attend


@pytest.mark.parametrize(
    "wrong, key",
    [
        (continued(see=lambda joined, new: new), "chunks"),
        (continued(join=lambda old, new: new), "past_count"),
        (continued(join=lambda old, new: torch.cat([new, old], -2)), "past_changed"),
    ],
)
def test_an_attention_that_forgets_is_told_so(wrong, key):
    assert key in {one.key for one in probed("ex06_kv_cache", "attend_with_past", wrong)}


@pytest.mark.parametrize(
    "slug, name, mistake",
    [
        ("ex06_kv_cache", "CachedAttention", "CacheNotRead"),
        ("ex07_mqa_gqa", "GroupedQueryAttention", "PastNotUsed"),
    ],
)
def test_a_layer_that_forgets_is_told_so(slug, name, mistake):
    exercise = catalog.find_catalog_exercise(slug)
    [answer] = [m.answer for m in suite_runner.list_suite_mistakes(exercise) if m.id == mistake]
    assert "chunks" in {one.key for one in probed(slug, name, answer)}
