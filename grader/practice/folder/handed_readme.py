"""Writes the README of a learner's folder: where things are, and the commands."""

from grader.core.translation import Words

_COMMANDS = {
    "grade ex01": "what is right, what went wrong, and what to do next",
    "watch": "grade on every save",
    "learn": "a page with the lessons, an editor, and verdicts as you write",
    "hint ex01": "the next hint on the first failed check",
    "show ex01": "every step of an example, yours beside the right one",
}
_BEGINNING = "Read a lesson in [docs/lessons](docs/lessons), write the answer in [exercises](exercises), and grade it. The first are [the lesson on softmax](docs/lessons/ex01_softmax.{language}.md) and [its exercise](exercises/ex01_softmax.py)."  # noqa: E501
_MORE = "`{command} --help` lists all commands. `make` does too, where it is installed; in VS Code they are tasks."  # noqa: E501
_UPDATING = "`{command} update`, typed in this folder, brings new exercises and lessons. Your answers stay as they are: a new skeleton is written beside them. To get a newer version of the command itself, install it anew."  # noqa: E501


def write_handed_readme(command: str, words: Words) -> str:
    """Return the README; `command` is how the learner calls the grader."""
    lines = {f"{command} {arguments}": words(does) for arguments, does in _COMMANDS.items()}
    width = max(map(len, lines))
    return "\n".join([
        f"# {words('Attention by Hand')}", "",
        words(_BEGINNING, language=words.language), "",
        "```sh", *(f"{line:{width}}   # {does}" for line, does in lines.items()), "```", "",
        words(_MORE, command=command), "",
        words(_UPDATING, command=command), "",
    ])  # fmt: skip
