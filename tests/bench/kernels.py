"""`make bench-kernels`: the Triton solution beside PyTorch's fused kernels, over lengths, on CUDA.

For docs/gpu.md. Every party gets the same tensors in turn, round by round, with the L2 cache
emptied before each call; shown are the medians, as TFLOP/s of the 4*B*H*L*L*D that attention takes
(half of it if causal), and as the share of what one matrix product reaches in the same run.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from grader.catalog import ROOT
from grader.worker.in_process import load

TOKENS, HEADS, WIDTH, DTYPE = 16384, 16, 128, torch.bfloat16
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
FUSED = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
ROUNDS, WARM = 30, 5
L2_BYTES = 256 << 20
Party = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One length: the TFLOP/s of every party that ran."""

    length: int
    causal: bool
    speeds: dict[str, float]

    @property
    def of_the_fastest(self) -> float:
        """Ours over the fastest of PyTorch's."""
        return self.speeds["triton"] / max(
            self.speeds[name] for name in FUSED if name in self.speeds
        )


def work(length: int, *, causal: bool) -> float:
    """The floating point operations of one forward pass."""
    whole = 4.0 * TOKENS * HEADS * length * WIDTH
    return whole / 2 if causal else whole


def parties(*, causal: bool) -> dict[str, Party]:
    """Ours, and each of PyTorch's fused kernels by itself."""
    path = ROOT / "solutions/ex14_triton.py"
    flash_attention = load(path, path.stem).flash_attention

    def pinned(backend: SDPBackend) -> Party:
        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    ours: dict[str, Party] = {"triton": lambda q, k, v: flash_attention(q, k, v, causal=causal)}
    return ours | {name: pinned(backend) for name, backend in FUSED.items()}


def row(length: int, *, causal: bool) -> Row:
    """Every party at one length, its answer held to the first's."""
    shape = (TOKENS // length, HEADS, length, WIDTH)
    q, k, v = (torch.randn(shape, device="cuda", dtype=DTYPE) for _ in range(3))
    able = {}
    for name, party in parties(causal=causal).items():
        try:
            answer = party(q, k, v)
        except RuntimeError as error:  # a kernel that will not run here
            print(f"{name} does not run at {length}: {str(error).splitlines()[0]}")
            continue
        right = able["triton"][1] if able else answer
        torch.testing.assert_close(answer, right, atol=2e-2, rtol=2e-2)
        able[name] = party, answer
    seconds = in_turn({name: lambda p=p: p(q, k, v) for name, (p, _) in able.items()})
    flop = work(length, causal=causal)
    return Row(
        length=length, causal=causal,
        speeds={name: flop / s / 1e12 for name, s in seconds.items()},
    )  # fmt: skip


def in_turn(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each, measured round by round."""
    cache = torch.empty(L2_BYTES, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(WARM + ROUNDS):
        for name, call in calls.items():
            cache.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if number >= WARM:
                times[name].append(start.elapsed_time(end) / 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def peak() -> float:
    """The TFLOP/s of one large matrix product, which is what can be reached here."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=DTYPE) for _ in range(2))
    return 2 * 8192**3 / in_turn({"product": lambda: a @ b})["product"] / 1e12


def table(rows: list[Row], product: float) -> Table:
    names = ("triton", *FUSED)
    found = Table("causal", "L", *names, "of the fastest", "of a matrix product")
    for one in rows:
        speeds = (f"{one.speeds[n]:.0f}" if n in one.speeds else "-" for n in names)
        found.add_row(
            "yes" if one.causal else "no", str(one.length), *speeds,
            f"{one.of_the_fastest:.0%}", f"{one.speeds['triton'] / product:.0%}",
        )  # fmt: skip
    return found


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("This torch sees no CUDA device, so there is nothing to time.")
    product = peak()
    rows = [row(n, causal=c) for c in (False, True) for n in LENGTHS]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    print(f"TFLOP/s, {DTYPE}, D={WIDTH}, {TOKENS} tokens; a matrix product: {product:.0f}")
    Console(width=110).print(table(rows, product))


if __name__ == "__main__":
    main()
