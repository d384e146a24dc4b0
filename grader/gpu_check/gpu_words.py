"""Words a line of results, and the sum of all results, for the terminal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToldLines:
    """A sentence about a line, "" if there is none, and the kind of the line."""

    says: str
    wrong: bool = False
    counts: bool = False  # the line is a result, not a remark
    not_run: bool = False  # nothing of the line's step could be run here


@dataclass(slots=True)
class GpuTally:
    """The number of results, of wrong results, and of those that could not be run."""

    results: int = 0
    wrong: int = 0
    not_run: int = 0

    def add(self, told: ToldLines) -> None:
        """Count a line, and print its sentence."""
        self.results += told.counts
        self.wrong += told.wrong
        self.not_run += told.not_run
        if told.says:
            print(f"  {told.says}", flush=True)

    @property
    def right(self) -> bool:
        """Return whether there are results, none is wrong, and everything could be run."""
        return self.results > 0 and not self.wrong and not self.not_run

    def summary(self) -> str:
        """Return one sentence for the end of the run."""
        if not self.results:
            return "Nothing was run."
        left = f" {self.not_run} could not be run here." if self.not_run else ""
        return f"{self.results} results, {self.wrong} of them wrong.{left}"


def describe_gpu_check_line(line: Mapping[str, Any]) -> ToldLines:
    """Describe a line in a sentence."""
    match line:
        case {"about": "case", **rest}:
            return _describe_gpu_case(rest)
        case {"about": "exercise", **rest}:
            return _describe_gpu_exercise(rest)
        case {"about": "kernel", "name": name, "runs": runs}:
            return ToldLines(
                f"{name}: {'runs' if runs else 'does not run: ' + str(line.get('why'))}"
            )
        case {"about": "compiled", **rest}:
            return _describe_gpu_kernel(rest)
        case {"error": error}:
            return ToldLines(str(error), wrong=True, counts=True)
    return ToldLines(", ".join(f"{k} {v}" for k, v in line.items() if k != "about"))


def _describe_gpu_case(case: Mapping[str, Any]) -> ToldLines:
    """Describe a case of the fast path; the sentence is empty if the case is right."""
    name = f"{case['shape']} {case['dtype']} mask={case['mask']}"
    if error := case.get("error"):
        return ToldLines(f"{name}: {error}", wrong=True, counts=True)
    if not case["agrees"]:
        says = f"{name} on {case['backend']}: off by {case['largest_error']}"
        return ToldLines(
            f"{says}, the plain formula by {case['yardstick']}", wrong=True, counts=True
        )
    return ToldLines("", counts=True)


def _describe_gpu_kernel(kernel: Mapping[str, Any]) -> ToldLines:
    says = (
        f"{kernel['name']}: {kernel['registers']} registers, {kernel['spilled_bytes']} bytes "
        f"spilled, {kernel['shared_bytes'] >> 10} KiB shared"
    )
    return ToldLines(says, wrong=kernel["spilled_bytes"] > 0, counts=True)


def _describe_gpu_exercise(told_of: Mapping[str, Any]) -> ToldLines:
    """Describe the points of an exercise, its failed checks, and its speed."""
    report = told_of["report"]
    score, groups = report["score"], dict[str, list[str]]()
    for check in report["checks"]:
        if check["verdict"] != "passed":
            groups.setdefault(f"{check['verdict']}. {check['why']}", []).append(check["id"])
    lines = [f"  {', '.join(names)}: {why}" for why, names in groups.items()]
    lines += [
        f"  {text}" for text in (_describe_gpu_speed(report["speed"]), report["sentence"]) if text
    ]
    if score is not None and score["possible"] == 0:
        return ToldLines("\n  ".join(["not run", *lines]), not_run=True)
    right = score is not None and score["earned"] == score["possible"]
    points = "no score" if score is None else f"{score['earned']}/{score['possible']} points"
    says = "\n  ".join([f"{points}, {report['seconds']:.1f} s", *lines])
    return ToldLines(says, wrong=not right, counts=True)


def _describe_gpu_speed(speed: Mapping[str, Any] | None) -> str:
    """Describe the measured speed of an exercise, or why none was measured."""
    if speed is None:
        return ""
    if (measured := speed["measured"]) is None:
        return f"speed: {speed['verdict']}. {speed['why']}"
    parties = (f"{name} {value:.4g}" for name, value in measured["typical"].items())
    points = f"{speed['earned']}/{speed['points']} points"
    return f"speed: {points}; {measured['unit']}: {', '.join(parties)}"
