"""The table of `make diagnose-trial`: what reports say about wrong answers to each exercise."""

from collections.abc import Iterator, Sequence
from statistics import mean

from rich.table import Table

from grader.authoring.feedback_class import FeedbackClass
from grader.authoring.feedback_run import Feedback

COLUMNS = tuple(kind.value for kind in FeedbackClass)
NUMBERS = ("answers", *COLUMNS, "skipped")
GOALS = {1: 80, 2: 60}  # % named, pinned or told, of answers with so many mistakes
HELP_GOAL = 95  # % with something that helps
SECONDS_ALLOWED = 2.0  # for the diagnosis of an answer
_EXACT = (FeedbackClass.NAMED, FeedbackClass.PINNED, FeedbackClass.TOLD)
_USELESS = (FeedbackClass.NOTHING, FeedbackClass.FALSE)


def count_feedback(found: Sequence[Feedback]) -> list[int]:
    """Return the numbers of a row, in the order of `NUMBERS`."""
    classed = [f for f in found if f.kind is not None]
    kinds = [sum(f.kind is kind for f in classed) for kind in FeedbackClass]
    return [len(classed), *kinds, len(found) - len(classed)]


def list_feedback_rows(found: Sequence[Feedback], mistakes: int) -> Iterator[list[str]]:
    """Yield a row for each exercise: its name, and its numbers for so many mistakes."""
    ours = [f for f in found if f.mistakes == mistakes]
    for slug in sorted({f.slug for f in ours}):
        yield [slug, *(f"{n:,}" for n in count_feedback([f for f in ours if f.slug == slug]))]


def build_feedback_table(found: Sequence[Feedback], mistakes: int) -> Table:
    """Return the table of the answers with so many mistakes, with sums and shares below."""
    title = "One mistake" if mistakes == 1 else "Two mistakes"
    table = Table(title, *NUMBERS, box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for row in list_feedback_rows(found, mistakes):
        table.add_row(*row)
    counts = count_feedback([f for f in found if f.mistakes == mistakes])
    table.add_row("all", *(f"{n:,}" for n in counts))
    table.add_row(
        "%", "", *(f"{_compute_trial_percentage(n, counts[0]):.0f}" for n in counts[1:-1]), ""
    )
    return table


def describe_feedback_goals(found: Sequence[Feedback]) -> Iterator[str]:
    """Yield a sentence for each goal: the share that was reached, and the share that is asked."""
    for mistakes, goal in GOALS.items():
        classed = [f for f in found if f.mistakes == mistakes and f.kind is not None]
        if not classed:
            continue
        exact = _compute_trial_percentage(sum(f.kind in _EXACT for f in classed), len(classed))
        helped = _compute_trial_percentage(
            sum(f.kind not in _USELESS for f in classed), len(classed)
        )
        false = sum(f.kind is FeedbackClass.FALSE for f in classed)
        yield (
            f"{mistakes} mistake(s), {len(classed)} answers: {false} false (goal 0), "
            f"{exact:.0f} % named, pinned or told (goal {goal} %), "
            f"{helped:.0f} % with something that helps (goal {HELP_GOAL} %)."
        )
    yield _describe_lines([f for f in found if f.lines])
    if classed := [f for f in found if f.kind is not None]:
        slow = sum(f.diagnosed > SECONDS_ALLOWED for f in classed)
        longest = max(classed, key=lambda f: f.diagnosed)
        yield (
            f"Diagnosis took {mean(f.diagnosed for f in classed):.2f} s of the processor an answer,"
            f" {longest.diagnosed:.2f} s at most ({longest.slug} {longest.id}); {slow} of "
            f"{len(classed)} took more than {SECONDS_ALLOWED:g} s (goal 0)."
        )


def _describe_lines(found: Sequence[Feedback]) -> str:
    unknown = sum(not f.known_lines for f in found)
    wrong = sum(f.misplaced for f in found)
    told = f"{len(found)} reports give a line: {wrong} only one where nothing is wrong"
    return f"{told}; {unknown} are on written answers, whose wrong lines are not known."


def describe_feedback(one: Feedback) -> str:
    """Return lines about one answer: what is wrong in it, and what the report says."""
    lines = [f"{one.skipped or one.kind}: {one.slug} {one.id} ({one.diagnosed:.1f} s)"]
    lines += [f"  {text}" for text in one.says.split("; ")]
    lines += [f"  - {why}" for why in one.whys]
    lines += [f"  named: {name}" for name in one.named]
    aside = "  (nothing is wrong there)" if one.misplaced else ""
    lines += [f"  line: {text}{aside}" for text in one.texts]
    for false in one.false:
        told = false.told
        lines.append(f"  FALSE {' or '.join(false.ids)}: {told.why}  [{told.calls}]")
        lines.append(f"    trial {told.trial}, draw {told.number}, {told.elements} numbers")
    return "\n".join(lines)


def _compute_trial_percentage(part: int, whole: int) -> float:
    """Return a share in %."""
    return 100 * part / whole if whole else 0.0
