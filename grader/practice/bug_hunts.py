"""Writes bug hunts: the code of a solution with one mistake, and the names to choose from."""

import re
import secrets
from pathlib import Path

from grader.core import backup
from grader.core.advice import fit_advice
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES, Words
from grader.judging import drills
from grader.submission import answer_file
from grader.submission.solution_text import BEGIN, END, split_cells

SEED_COUNT = 10**6
_DRILL_NAME = re.compile(r'^    return "(ex\d\d_\w+ \d+)"$', re.MULTILINE)
_DRILL_TEMPLATE = '''\
"""{title}

{todo}
  1. {find}
  2. {name}
  3. {grade}

{choices}
"""

{imports}


def drill() -> str:
    """{drill}"""
    return "{number}"


def mistake() -> str:
    """{mistake}"""
    raise NotImplementedError("{mistake}")


{code}
'''


_IN_USE = "{name} has work of yours in it: `make drill ARGS=--again` keeps it and draws a new one."


class DrillInUse(UserError):
    """Raised if an answer has work in it. The message is a sentence."""


def new_drill_seed() -> int:
    return secrets.randbelow(SEED_COUNT)


def write_drill_text(name: str, hunt: Exercise, words: Words) -> str:
    """Return the file of a drill as a student gets it."""
    drawn = drills.drill(name)
    source = drawn.exercise.solution.read_text(encoding="utf-8")
    imports, code = _split_hunted_solution(drawn.applied(source))
    offered = [
        f"  {m.id}\n      {words.mistake(drawn.exercise.slug, m.id, m.says, m.mend)[0]}"
        for m in drills.choices(name)
    ]
    return _DRILL_TEMPLATE.format(
        title=words(
            "Bug hunt: an answer to {slug} with one mistake in it.", slug=drawn.exercise.slug
        ),
        todo=words("What to do:"),
        find=words("Find the mistake, and mend it where it is."),
        name=words("Have `mistake` return its name, one of those below."),
        grade=fit_advice(f"make grade EX={hunt.slug}"),
        choices="\n".join(offered),
        drill=words("Say which drill this is; leave it as it is."),
        number=name,
        mistake=words("Return the name of the mistake that you found."),
        imports=imports,
        code=code,
    )


def write_drill(
    path: Path, hunt: Exercise, drill: str, words: Words, *, again: bool
) -> Path | None:
    """Write a drill to `path`; with `again`, first save the work in that file as a copy beside it.

    Returns the path of the copy, if there was any work.
    """
    drawn = write_drill_text(drill, hunt, words)  # before anything is moved: it may fail
    used = path.exists() and not _is_untouched_drill(path, hunt)
    if used and not again:
        raise DrillInUse(words(_IN_USE, name=path.name))
    return next(iter(backup.write_with_backup(path, drawn, [path] if used else [])), None)


def _is_untouched_drill(path: Path, hunt: Exercise) -> bool:
    """Return whether the file is the skeleton, or a drill that nobody has edited."""
    if answer_file.is_submission_file_untouched(path):
        return True
    try:
        found = path.read_text(encoding="utf-8")
        name = _DRILL_NAME.search(found)
        return name is not None and any(
            found == write_drill_text(name[1], hunt, Words(language)) for language in LANGUAGES
        )
    except (OSError, UnicodeDecodeError, drills.NoDrill):
        return False


def _split_hunted_solution(source: str) -> tuple[str, str]:
    """Return a solution's first code cell (imports) and its other code, without region marks."""
    imports, *code = [
        _strip_hunted_region_marks(c.text) for c in split_cells(source) if c.kind == "code"
    ]
    return imports, _strip_hunted_region_marks("\n\n\n".join(code))


def _strip_hunted_region_marks(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip() not in (BEGIN, END)]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip()
