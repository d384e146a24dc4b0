"""`make gpu-check`: reads the command line, and checks that this Python has the packages."""

import argparse
import importlib.util
import sys
from pathlib import Path

NEEDED_MODULES = ("numpy", "torch", "pytest", "packaging")
OUTPUT = Path("gpu-check.json")


def run_gpu_check() -> int:
    """Run what the command line asks for; 0 if everything was run and is right."""
    if missing := [name for name in NEEDED_MODULES if importlib.util.find_spec(name) is None]:
        names = " ".join(missing)
        print(f"Not installed for this Python: {names}.")
        print(f"Run `{sys.executable} -m pip install {names}`.")
        return 1
    given = _build_gpu_check_parser().parse_args()
    import torch

    if not given.rehearse and not torch.cuda.is_available():
        print("This torch sees no CUDA device, so there is nothing to check. "
              "ARGS=--rehearse tries the command itself on the CPU.")  # fmt: skip
        return 1
    from grader.gpu_check import gpu_session, plan
    from grader.gpu_check.gpu_results import GpuResults

    device = "cpu" if given.rehearse else "cuda"
    try:
        steps = plan.plan_gpu_steps(given.exercises, device, speed=not given.no_speed)
    except ValueError as unknown:
        print(unknown)
        return 2
    results = GpuResults.resume(given.output, device, fresh=given.fresh)
    try:
        return 0 if gpu_session.run_gpu_steps(steps, results, minutes=given.minutes) else 1
    except KeyboardInterrupt:
        print(f"\nStopped. {given.output} has what was found; run the same command to go on.")
        return 130


def _build_gpu_check_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make gpu-check", description=run_gpu_check.__doc__)
    parser.add_argument("exercises", nargs="*", help="exercises by name; all, if none is named")
    parser.add_argument("--rehearse", action="store_true", help="run on the CPU instead")
    parser.add_argument("--no-speed", action="store_true", help="leave out what is timed")
    parser.add_argument("--minutes", type=float, help="stop in order after so many minutes")
    parser.add_argument("--fresh", action="store_true", help="keep nothing of an earlier run")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, help="the file of results")
    return parser


if __name__ == "__main__":
    sys.exit(run_gpu_check())
