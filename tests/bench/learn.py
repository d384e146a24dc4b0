"""How fast the page is: from the command to a page that is ready, from a pause to the verdict.

`make bench-learn`. Chromium types a wrong and a right answer in turn; the time begins when the
pause is over, so a typed text waits a third of a second longer. Ready means that the editor shows
the file. The promise is 3 s for the page, and 1 s for the verdicts on ex01 to ex07.
"""

import statistics
import tempfile
import time
from pathlib import Path

from grader.learn.editor_pane import PAUSE_SECONDS
from tests.conftest import solution
from tests.learn.learn_process import HEADLINE, READY, LearnProcess, learning, write
from tests.reporting.browser import Page, browser

SLUGS = (
    "ex01_softmax", "ex02_masking", "ex03_sdpa", "ex04_heads", "ex05_causal_mask", "ex06_kv_cache",
    "ex07_mqa_gqa",
)  # fmt: skip
ROUNDS = 5
DIAGNOSED = "!document.querySelector('.busy').textContent"
WRONG = "\n\ndef {name}(*args, **kwargs):\n    raise ValueError('round {number}')\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "answers"
        place.mkdir()
        for slug in SLUGS:
            (place / f"{slug}.py").write_text(solution(slug), encoding="utf-8")
        with browser(Path(folder) / "profile") as page:
            page.open("about:blank")
            started = time.perf_counter()
            with learning(place, SLUGS[0]) as served:
                printed = time.perf_counter() - started
                page.open(served.address)
                page.until(READY)
                ready = time.perf_counter() - started
                print(f"address printed after {printed:.2f} s, page ready after {ready:.2f} s")
                time.sleep(20)  # until the list shows what is passed
                for slug in SLUGS:
                    _print_waits(slug, _time_answers(page, served, slug))


def _time_answers(page: Page, served: LearnProcess, slug: str) -> dict[str, list[float]]:
    from grader.core.catalog import find_catalog_exercise

    name = find_catalog_exercise(slug).names[0]
    waits: dict[str, list[float]] = {"wrong": [], "named": [], "right": []}
    page.open(served.page(slug))
    page.until(READY)
    page.until(f"{HEADLINE} && {DIAGNOSED}")
    for number in range(ROUNDS):
        wrong = solution(slug) + WRONG.format(name=name, number=number)
        started = time.perf_counter() + PAUSE_SECONDS
        write(page, wrong)
        page.until(f"document.querySelector('.verdict').textContent.includes('round {number}')")
        waits["wrong"].append(time.perf_counter() - started)
        page.until(DIAGNOSED)
        waits["named"].append(time.perf_counter() - started)
        started = time.perf_counter() + PAUSE_SECONDS
        write(page, solution(slug))
        page.until("document.querySelector('.passed').textContent")
        waits["right"].append(time.perf_counter() - started)
        page.until(DIAGNOSED)
    return waits


def _print_waits(slug: str, waits: dict[str, list[float]]) -> None:
    told = {"wrong": "first verdicts", "named": "with the diagnosis", "right": "all passed"}
    for kind, seconds in waits.items():
        middle, longest = statistics.median(seconds), max(seconds)
        print(f"{slug:17} {told[kind]:18} median {middle:5.2f} s   longest {longest:5.2f} s")


if __name__ == "__main__":
    main()
