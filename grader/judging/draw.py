"""Draws inputs from a secret: the same for one case of one attempt, new for any other."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from grader.judging import hard
from grader.judging.case import find_case
from grader.judging.covering import build_covering_array
from grader.judging.hard import Hard, Sizes

T = TypeVar("T")
MOST_DEALT = 64  # numbers that are dealt; of more, one is drawn


class Draw:
    """The draws of one case, made on the CPU, rounded to `dtype`, and moved to the device."""

    def __init__(self, seed: str, *names: str, device: str = "cpu") -> None:
        digest = hashlib.blake2b("\0".join((seed, *names)).encode(), digest_size=8).digest()
        self._generator = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
        self._device = device

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        """Draw normal numbers with standard deviation `scale`."""
        x = torch.randn(shape, generator=self._generator, dtype=torch.float64) * scale
        return x.to(self._device, dtype)

    def logits(self, *shape: int, bound: float, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw normal numbers, each row shifted by an offset of up to plus or minus `bound`."""
        x = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        rows = (*shape[:-1], 1) if shape else ()
        offset = torch.rand(rows, generator=self._generator, dtype=torch.float64) * 2 - 1
        return (x + offset * bound).clamp(-bound, bound).to(self._device, dtype)

    def keep(self, *shape: int, share: float = 0.6) -> Tensor:
        """Draw a boolean mask that keeps about `share`, and at least one key of every row."""
        keep = torch.rand(shape, generator=self._generator) < share
        one = torch.randint(shape[-1], (*shape[:-1], 1), generator=self._generator)
        return keep.scatter(-1, one, True).to(self._device)

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number from `low` to `high`, both included."""
        return int(torch.randint(low, high + 1, (), generator=self._generator))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Draw whole numbers (int64) from `low` to `high`, both included."""
        return torch.randint(low, high + 1, shape, generator=self._generator).to(self._device)

    def permutation(self, n: int) -> Tensor:
        """Draw an order of the numbers 0 to n - 1 other than the ascending one (for n > 1)."""
        while True:
            order = torch.randperm(n, generator=self._generator)
            if n < 2 or not torch.equal(order, torch.arange(n)):
                return order.to(self._device)

    def rows(self, n: int, few: int = 16, all_in: int = 20) -> Tensor:
        """Draw the rows of n to verify: a `few` of them, or once in `all_in` times all rows."""
        if self.integer(1, all_in) == 1:
            return torch.arange(n).to(self._device)
        return torch.randperm(n, generator=self._generator)[:few].to(self._device)

    def strided(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw normal numbers in a tensor whose last two dimensions are transposed in memory."""
        swapped: Sequence[int] = (*shape[:-2], shape[-1], shape[-2])
        return self.normal(*swapped, dtype=dtype).mT

    def choice(self, *options: T) -> T:
        """Draw one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def hard(
        self, kind: Hard, limits: Mapping[str, int] | None = None, /, **sizes: int
    ) -> list[Sizes]:
        """Announce a kind of hard case; return the sizes of its calls, if the kind is one of sizes.

        limits  for `Hard.LONG`: how far each size goes at most, if 1024 costs too much; 0 for a
                size that stays as it is; a batch (B) goes to 64 unless `limits` says otherwise
        sizes   ordinary sizes by name, lengths beginning with L: B=2, H=3, Lq=5, Lk=7, D=4
        """
        find_case().hard.add(kind.value)
        match kind:
            case Hard.SQUARE:
                return list(hard.make_square_case_sizes(sizes))
            case Hard.ONE:
                return list(hard.make_unit_case_sizes(sizes))
            case Hard.LONG:
                return list(hard.make_long_case_sizes(sizes, limits or {}))
        return [sizes] if sizes else []

    def combined(
        self, *, strength: int = 3, only: Mapping[str, Any] | None = None, **factors: Sequence[Any]
    ) -> list[dict[str, Any]]:
        """Announce `Hard.COMBINED`; return calls, of each of which one choice is made per factor.

        Any choices of `strength` factors meet in at least one call. The calls are always the same.

        only     the choices of those calls that are returned: {"dtype": float32}
        factors  the choices of each: dtype=(float32, float64), causal=(False, True)
        """
        find_case().hard.add(Hard.COMBINED.value)
        rows = build_covering_array(tuple(len(choices) for choices in factors.values()), strength)
        calls = [{f: factors[f][c] for f, c in zip(factors, row, strict=True)} for row in rows]
        return [call for call in calls if not only or only.items() <= call.items()]

    def scores(self, *shape: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """Announce `Hard.SCORES`; return scores (..., n) by what is hard about their rows.

        falling   from left to right, so that a running maximum never grows
        rising    from left to right, so that it grows at every step
        negative  all of them below -200, so that they vanish beside a maximum that began with 0
        jumping   by hundreds, up and down, from one run of 16 keys to the next
        """
        find_case().hard.add(Hard.SCORES.value)
        noise = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        steps = torch.arange(shape[-1], dtype=torch.float64)
        jumps = torch.randint(-3, 4, ((shape[-1] + 15) // 16,), generator=self._generator) * 100.0
        found = {
            "falling": noise.sort(-1, descending=True).values - 0.1 * steps,
            "rising": noise.sort(-1).values + 0.1 * steps,
            "negative": -200 - noise.abs(),
            "jumping": noise + jumps.repeat_interleave(16)[: shape[-1]],
        }
        return {name: x.to(self._device, dtype) for name, x in found.items()}

    def ties(self, rows: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Announce `Hard.TIES`; return queries (rows, width) and keys (width, width).

        Their scores, with the default scale, are about 512 (4,096 in float16) and lie within about
        1 of each other: as close as two neighbours in half precision. Key j is 0 outside column j,
        so that a query that is scaled before it is widened tells the keys apart wrongly as well; if
        the width is no power of 4, whose root scales without a rounding.
        """
        find_case().hard.add(Hard.TIES.value)
        coarse = torch.bfloat16 if dtype.itemsize > 2 else dtype
        score = 4096 if dtype is torch.float16 else 512
        sign = self.integers(0, 1, width) * 2 - 1
        keys = self.integers(128, 255, width) / 16.0 * sign  # 8 bits, as bfloat16 has
        queries = (score + self.normal(rows, width)) * width**0.5 / keys
        return queries.to(coarse).to(dtype), keys.diag().to(dtype)

    def low(
        self, rows: int, keys: int, width: int, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Announce `Hard.LOW`; return queries (rows, width) and keys (keys, width).

        Every score, with the default scale and a width of up to 10, is below -1e30, in float16
        below -1e9: lower than what people write for a hidden score. No two keys have the same
        score, so that one of the seen keys takes all the weight, however the answer rounds.
        """
        find_case().hard.add(Hard.LOW.value)
        size = 6.5e4 if dtype is torch.float16 else 1e16
        q, k = (torch.zeros(n, width, dtype=dtype, device=self._device) for n in (rows, keys))
        q[:, 0], k[:, 0] = -size, size * (1 - self.permutation(keys) / (4 * keys))
        return q, k

    def sizes(self, **sizes: int) -> Sizes:
        """Draw the sizes of one call of a trial: ordinary sizes from 1 up, or those of a hard kind.

        sizes   the largest ordinary size of each, lengths beginning with L
        """
        drawn = {name: self.integer(1, n) for name, n in sizes.items()}
        kinds = [
            [drawn],
            [drawn],
            list(hard.make_unit_case_sizes(drawn)),
            list(hard.make_trial_case_sizes(drawn)),
        ]
        if any(name.startswith("L") for name in sizes):
            kinds.append(list(hard.make_square_case_sizes(drawn)))
        return self.choice(*self.choice(*kinds))


class DealtDraw(Draw):
    """The draws of one input in a series of inputs, over which `integer` and `choice` are even.

    Where a script draws one of m numbers, each comes once in m inputs, in an order that is drawn.
    So the first few inputs have every option among them, whatever the seed.
    """

    def __init__(self, seed: str, *names: str, number: int, device: str = "cpu") -> None:
        """Take the names of the series, and the number of the input in it, from 0."""
        super().__init__(seed, *names, str(number), device=device)
        self._series, self._number, self._places = (seed, *names), number, 0

    def integer(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        many = high - low + 1
        if many > MOST_DEALT:
            return super().integer(low, high)
        self._places += 1
        hand, place = divmod(self._number, many)
        dealer = Draw(*self._series, f"place {self._places}", f"hand {hand}")
        return low + int(torch.randperm(many, generator=dealer._generator)[place])
