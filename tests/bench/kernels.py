"""`make bench-kernels`: the Triton solution beside PyTorch's fused kernels, over lengths, on CUDA.

For docs/gpu.md. Every party gets the same tensors in turn, round by round, with the L2 cache
emptied before each call; shown are the medians, as TFLOP/s of the 4*B*H*L*L*D that attention takes
(half of it if causal), and as the share of what one matrix product reaches in the same run.
`ARGS=--tiles` compares tiles of the solution instead, at one length.
"""

import statistics
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from grader.authoring.mutants import write_variant_to_prove
from grader.core import catalog
from grader.judging import suite_runner
from grader.worker.parent.in_process import load_file_without_wall, load_text_without_wall

TOKENS, HEADS, WIDTH, DTYPE = 16384, 16, 128, torch.bfloat16
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TILED_AT = 8192
FUSED = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
OURS = {"one loop": "one_loop", "descriptors": "tensor_descriptors"}  # variants of the solution
ROUNDS, WARM = 30, 5
L2_BYTES = 256 << 20
Party = Callable[[Tensor, Tensor, Tensor], Tensor]


def work(length: int, *, causal: bool) -> float:
    """The floating point operations of one forward pass."""
    whole = 4.0 * TOKENS * HEADS * length * WIDTH
    return whole / 2 if causal else whole


@cache
def answers() -> dict[str, ModuleType]:
    """The solution, and it with each of the other kernels."""
    exercise = catalog.find_catalog_exercise("ex14")
    found = {"triton": load_file_without_wall(exercise.solution, exercise.slug)}
    variants = {variant.id: variant for variant in suite_runner.list_suite_variants(exercise)}
    for name, variant in OURS.items():
        found[name] = load_text_without_wall(
            write_variant_to_prove(exercise, variants[variant]), variant
        )
    return found


def parties(*, causal: bool) -> dict[str, Party]:
    """Ours, and each of PyTorch's fused kernels by itself."""

    def ours(module: ModuleType) -> Party:
        return lambda q, k, v: module.flash_attention(q, k, v, causal=causal)

    def pinned(backend: SDPBackend) -> Party:
        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    found = {name: ours(module) for name, module in answers().items()}
    return found | {name: pinned(backend) for name, backend in FUSED.items()}


def tiles() -> dict[str, Party]:
    """The solution with each of the tiles that `compiled.py` of its suite lists."""
    folder = catalog.find_catalog_exercise("ex14").folder
    listed = load_file_without_wall(folder / "compiled.py", "compiled").TILES
    solution = answers()["triton"]

    def tiled(one: Mapping[str, int]) -> Party:
        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            solution._tiles = lambda width, dtype: dict(one)
            return solution.flash_attention(q, k, v, causal=True)

        return run

    name = "{BLOCK_Q} x {BLOCK_K}, {num_warps} warps, {num_stages} stages"
    return {name.format(**one): tiled(one) for one in listed}


def speeds(length: int, found: Mapping[str, Party], *, causal: bool) -> dict[str, float]:
    """The TFLOP/s of every party that runs; each answer is held to PyTorch's."""
    shape = (TOKENS // length, HEADS, length, WIDTH)
    q, k, v = (torch.randn(shape, device="cuda", dtype=DTYPE) for _ in range(3))
    right = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    able = {}
    for name, party in found.items():
        try:
            torch.testing.assert_close(party(q, k, v), right, atol=2e-2, rtol=2e-2)
        except (RuntimeError, AssertionError) as error:  # it will not run here, or it is wrong
            print(f"{name} at {length}: {str(error).strip().splitlines()[0]}", flush=True)
            continue
        able[name] = party
    seconds = in_turn({name: lambda p=p: p(q, k, v) for name, p in able.items()})
    return {name: work(length, causal=causal) / s / 1e12 for name, s in seconds.items()}


def in_turn(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each, measured round by round."""
    cleared = torch.empty(L2_BYTES, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(WARM + ROUNDS):
        for name, call in calls.items():
            cleared.zero_()
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


def shares(found: Mapping[str, float], product: float) -> str:
    """Ours as a share of PyTorch's fastest, and of a matrix product; "-" where it does not run."""
    best = max((found[name] for name in FUSED if name in found), default=0.0)
    ours = found.get("triton")
    if ours is None or not best:
        return "-"
    return f"{ours / best:.0%} of the fastest, {ours / product:.0%} of a matrix product"


def by_length(product: float) -> None:
    """Print a line for each length as soon as it is known."""
    names = ("triton", *OURS, *FUSED)
    print("causal", "L", *names, "triton is", sep=" | ")
    for causal in (False, True):
        for length in LENGTHS:
            found = speeds(length, parties(causal=causal), causal=causal)
            row = (f"{found[name]:.0f}" if name in found else "-" for name in names)
            print(causal, length, *row, shares(found, product), sep=" | ", flush=True)


def by_tile(product: float) -> None:
    """Print the tiles, the fastest first."""
    found = speeds(TILED_AT, tiles(), causal=True)
    for name, speed in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{speed:.0f} TFLOP/s, {speed / product:.0%} of a matrix product: {name}")


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("This torch sees no CUDA device, so there is nothing to time.")
    product = peak()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    print(f"TFLOP/s, {DTYPE}, D={WIDTH}, {TOKENS} tokens; a matrix product: {product:.0f}")
    (by_tile if "--tiles" in sys.argv[1:] else by_length)(product)


if __name__ == "__main__":
    main()
