"""Grade one solution on a device: `python -m grader.gpu_check.grade_solution SLUG DEVICE`."""

import argparse
import json

from grader.core import catalog
from grader.core.catalog import ROOT
from grader.grading.session import grade_all_exercises
from grader.reporting import as_json


def grade_solution_on_gpu() -> None:
    """Print the report as one line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("slug")
    parser.add_argument("device")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    exercise, solutions = catalog.find_catalog_exercise(given.slug), ROOT / "solutions"
    report = grade_all_exercises(
        [exercise], solutions, student="gpu-check", device=given.device, speed=given.speed
    )
    [found] = report.exercises
    print(json.dumps({"about": "exercise", "report": as_json.convert_exercise_report(found)}))


if __name__ == "__main__":
    grade_solution_on_gpu()
