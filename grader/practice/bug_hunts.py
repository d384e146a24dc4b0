"""Writes bug hunts: the code of a solution with one mistake in it, and what it may be called."""

import re
import secrets
from pathlib import Path

from grader.core import backup
from grader.core.errors import UserError
from grader.core.records import Exercise
from grader.core.translation import LANGUAGES, Words
from grader.judging import drills
from grader.submission import answer_file
from grader.submission.solution_text import BEGIN, END, cells

MOST = 10**6
_MADE = re.compile(r'^    return "(ex\d\d_\w+ \d+)"$', re.MULTILINE)
_TEXT = '''\
"""{title}

{todo}
  1. {find}
  2. {name}
  3. make grade EX={slug}

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


class Occupied(UserError):
    """There is an answer that somebody has worked on. The message is a sentence."""


def new_seed() -> int:
    return secrets.randbelow(MOST)


def text(name: str, hunt: Exercise, words: Words) -> str:
    """The file of a drill, as a student gets it."""
    drawn = drills.drill(name)
    source = drawn.exercise.solution.read_text(encoding="utf-8")
    imports, code = _code(drawn.applied(source))
    offered = [
        f"  {m.id}\n      {words.mistake(drawn.exercise.slug, m.id, m.says, m.mend)[0]}"
        for m in drills.choices(name)
    ]
    return _TEXT.format(
        title=words(
            "Bug hunt: an answer to {slug} with one mistake in it.", slug=drawn.exercise.slug
        ),
        todo=words("What to do:"),
        find=words("Find the mistake, and mend it where it is."),
        name=words("Have `mistake` return its name, one of those below."),
        slug=hunt.slug,
        choices="\n".join(offered),
        drill=words("Say which drill this is; leave it as it is."),
        number=name,
        mistake=words("Return the name of the mistake that you found."),
        imports=imports,
        code=code,
    )


def put(path: Path, hunt: Exercise, drill: str, words: Words, *, again: bool) -> Path | None:
    """Write a drill to `path`. What somebody has worked on there is kept beside it with `again`.

    Returns where an earlier answer went, if there was one.
    """
    drawn = text(drill, hunt, words)  # before anything is moved: it may fail
    used = path.exists() and not _is_fresh(path, hunt)
    if used and not again:
        raise Occupied(words(_IN_USE, name=path.name))
    return next(iter(backup.put(path, drawn, [path] if used else [])), None)


def _is_fresh(path: Path, hunt: Exercise) -> bool:
    """Whether this is the skeleton, or a drill that nobody has touched."""
    if answer_file.is_untouched(path):
        return True
    try:
        found = path.read_text(encoding="utf-8")
        name = _MADE.search(found)
        return name is not None and any(
            found == text(name[1], hunt, Words(language)) for language in LANGUAGES
        )
    except (OSError, UnicodeDecodeError, drills.NoDrill):
        return False


def _code(source: str) -> tuple[str, str]:
    """The imports, and the other code cells of a solution, without the marks of its regions."""
    imports, *code = [_unmarked(c.text) for c in cells(source) if c.kind == "code"]
    return imports, _unmarked("\n\n\n".join(code))


def _unmarked(code: str) -> str:
    lines = [line for line in code.splitlines() if line.strip() not in (BEGIN, END)]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).strip()
