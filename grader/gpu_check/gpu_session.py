"""Runs the steps one after another, each in its own process, and prints their results."""

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from grader.core.catalog import ROOT
from grader.gpu_check.gpu_results import GpuRecord, GpuResults
from grader.gpu_check.gpu_words import GpuTally, describe_gpu_check_line
from grader.gpu_check.plan import GpuStep

MAX_STEP_SECONDS = 900.0  # for one step: a device that hangs must not take the whole run
MAX_ERROR_CHARACTERS = 500  # of what a process printed at its end


def run_gpu_steps(
    steps: Sequence[GpuStep], results: GpuResults, *, minutes: float | None = None
) -> bool:
    """Run the unfinished steps; return whether every step is finished and right."""
    print(", ".join(f"{name} {value}" for name, value in results.about.items()), flush=True)
    end = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    tally = GpuTally()
    for step in steps:
        record = results.record(step.name)
        kept = len(record.lines)
        print(f"\n{step.name}{' (from an earlier run)' if record.finished else ''}", flush=True)
        for line in record.lines:
            tally.add(describe_gpu_check_line(line))
        if not record.finished and (seconds := min(MAX_STEP_SECONDS, end - time.monotonic())) > 0:
            _finish_gpu_step(step, record, results, seconds, tally)
        if not record.finished:
            print(f"  not at its end: {len(record.lines) - kept} new results")
    left = [step.name for step in steps if not results.record(step.name).finished]
    results.save()
    print(f"\n{tally.summary()}\nwritten to {results.path}")
    if left:
        print(f"Left: {', '.join(left)}. Run the same command again to go on.")
    return not left and tally.right


def _finish_gpu_step(
    step: GpuStep, record: GpuRecord, results: GpuResults, seconds: float, tally: GpuTally
) -> None:
    """Run a step to its end, again after each line at which its process dies."""
    end = time.monotonic() + seconds
    while not record.finished and time.monotonic() < end:
        known = len(record.lines)
        started = time.monotonic()
        failed = _run_gpu_step_process(step, record, results, end - started, tally)
        record.seconds += time.monotonic() - started
        record.finished = not failed
        if failed and failed != _OUT_OF_TIME:
            if not (record.lines[known:] and record.lines[-1].get("error")):  # not written down yet
                record.lines.append({"error": failed})
                tally.add(describe_gpu_check_line(record.lines[-1]))
            record.finished = not step.by_line
        results.save()


_OUT_OF_TIME = "the time was over"


def _run_gpu_step_process(
    step: GpuStep, record: GpuRecord, results: GpuResults, seconds: float, tally: GpuTally
) -> str:
    """Run a step's process once and keep each line; return why it failed, else an empty string."""
    command = [*step.command, *(["--after", str(len(record.lines))] if step.by_line else [])]
    over = threading.Event()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        )

        def stop() -> None:
            over.set()
            child.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            assert child.stdout is not None
            for text in child.stdout:
                if (line := _parse_gpu_step_line(text)) is not None:
                    record.lines.append(line)
                    tally.add(describe_gpu_check_line(line))
                    results.save()
            child.wait()
        finally:
            timer.cancel()
            child.kill()
            child.wait()
        if over.is_set():
            return _OUT_OF_TIME
        return "" if child.returncode == 0 else _describe_gpu_step_exit(child.returncode, errors)


def _parse_gpu_step_line(text: str) -> dict[str, Any] | None:
    """Parse a line of results; None for what a library prints between results."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _describe_gpu_step_exit(code: int, errors: IO[bytes]) -> str:
    errors.seek(0)
    said = errors.read().decode("utf-8", "replace").strip()
    how = f"signal {-code}" if code < 0 else f"status {code}"
    return f"the process ended with {how}: {said[-MAX_ERROR_CHARACTERS:]}"
