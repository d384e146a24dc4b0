"""Says since when an answer and all that judges it have not changed."""

from datetime import datetime

from grader.core.records import ExerciseReport
from grader.core.translation import Words


def report_unchanged_answer(e: ExerciseReport, words: Words) -> str:
    """Return "unchanged since 14:02", with the day if that is another; "" if it was judged now."""
    if not e.kept_since or e.state in ("not_started", "missing"):
        return ""
    since, now = datetime.fromisoformat(e.kept_since).astimezone(), datetime.now().astimezone()
    return words("unchanged since {time}", time=report_short_time(since, now))


def report_short_time(moment: datetime, now: datetime) -> str:
    """Return the time of day of a moment, with its date if that is not today's."""
    return moment.strftime("%H:%M" if moment.date() == now.date() else "%Y-%m-%d %H:%M")
