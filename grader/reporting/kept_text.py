"""Says since when an answer and all that judges it have not changed."""

from datetime import datetime

from grader.core.records import ExerciseReport
from grader.core.translation import Words


def unchanged_sentence(e: ExerciseReport, words: Words) -> str:
    """Return "unchanged since 14:02", with the day if that is another; "" if it was judged now."""
    if not e.kept_since or e.state in ("not_started", "missing"):
        return ""
    since, now = datetime.fromisoformat(e.kept_since).astimezone(), datetime.now().astimezone()
    form = "%H:%M" if since.date() == now.date() else "%Y-%m-%d %H:%M"
    return words("unchanged since {time}", time=since.strftime(form))
