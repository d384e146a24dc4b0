"""The commands that write a learner's folder, and bring what is new into it."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from grader import __version__
from grader.cli.options import (
    Lang,
    parse_language_option,
    stop_command,
    stop_command_for_unwritable,
)
from grader.core.advice import RECORD_FILE
from grader.core.catalog import ROOT
from grader.core.this_python import (
    SCRIPT,
    build_pip_install_command,
    find_own_command,
    is_grader_installed,
)
from grader.core.translation import Words
from grader.practice.folder.bring_files import BroughtFile, HandedState, bring_handed_files
from grader.practice.folder.handed_record import HandedRecord, read_handed_record

commands = typer.Typer()
Notebooks = Annotated[
    bool, typer.Option("--notebooks", help="Write a notebook for each exercise, too.")
]
Repository = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Link notebooks to Colab, which opens them from this repository."
    ),
]
_NOTHING = HandedRecord()  # handed out so far
_WITH_NOTEBOOKS = "notebooks/ has a notebook for each exercise: open it in Jupyter or VS Code."
_WRITTEN = "{folder} has {count} new files: exercises, lessons in docs/lessons, a Makefile, tasks for VS Code."  # noqa: E501
_NEXT = "Next: `cd {folder}`, read docs/lessons/ex01_softmax.{language}.md, write exercises/ex01_softmax.py, then `{command} grade ex01`."  # noqa: E501
_NEXT_HERE = "Next: read docs/lessons/ex01_softmax.{language}.md, write exercises/ex01_softmax.py, then `{command} grade ex01`."  # noqa: E501
_NOT_INSTALLED = (
    "The commands there need an installed grader, and this is a clone: first run `{command}`."
)
_ALREADY = "{folder} is such a folder already: `{command} update`, typed in it, brings what is new."
_ALREADY_WITHOUT_NOTEBOOKS = (
    "{folder} is such a folder already: `{command}`, typed in it, writes the notebooks."
)
_NO_RECORD = "There is no {file} here: go to the folder that `{command} init` wrote, or let `{command} init .` begin one here; your answers stay."  # noqa: E501
_STATES = {
    HandedState.ADDED: "{name} is new.",
    HandedState.REPLACED: "{name} was unchanged, and is the new version now.",
    HandedState.KEPT: "{name} has your work and stays. The new version is {beside}.",
}
_CHANGES = "{name} has your work and stays. The new version is {beside}, with these changes:"


@commands.command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where to write; . is this folder.")
    ] = Path(SCRIPT),
    notebooks: Notebooks = False,
    repository: Repository = None,
    lang: Lang = None,
) -> None:
    """Write a folder to work in: exercises, lessons in your language, a Makefile, VS Code tasks."""
    words = parse_language_option(lang)
    if read_handed_record(folder) is not None:
        _stop_for_begun_folder(folder, notebooks, repository, words)
    record = _ask_for_notebooks(_NOTHING, notebooks, repository, words)
    begin_learner_folder(folder, words, record)
    if record.notebooks:
        print(words(_WITH_NOTEBOOKS))
    told = words(
        _NEXT_HERE if folder.resolve() == Path.cwd() else _NEXT,
        folder=shlex.quote(str(folder)), language=words.language, command=find_own_command(),
    )  # fmt: skip
    if not is_grader_installed():
        print(words(_NOT_INSTALLED, command=build_pip_install_command(str(ROOT))))
    print(told)


@commands.command()
def update(notebooks: Notebooks = False, repository: Repository = None, lang: Lang = None) -> None:
    """Bring new skeletons and lessons into this folder, and say what changed; answers stay."""
    words, record = parse_language_option(lang), read_handed_record(Path())
    if record is None:
        stop_command(words(_NO_RECORD, file=RECORD_FILE, command=find_own_command()))
    record = _ask_for_notebooks(record, notebooks, repository, words)
    found = _bring_or_stop(Path(), record, words)
    for one in found:
        told = _CHANGES if one.changes else _STATES[one.state]
        print(words(told, name=one.name, beside=one.beside))
        for line in one.changes:
            print(f"    {line}")
    if record.version not in ("", __version__):
        print(
            words("This was version {old}, and is {new} now.", old=record.version, new=__version__)
        )
    if not found:
        print(words("Nothing is new here."))


def begin_learner_folder(folder: Path, words: Words, record: HandedRecord = _NOTHING) -> None:
    """Write the files of a learner's folder, and say so; what is there already stays."""
    found = _bring_or_stop(folder, record, words)
    new = [one for one in found if one.state is HandedState.ADDED]
    print(words(_WRITTEN, folder=_name_folder(folder), count=len(new)))
    for one in found:
        if one.state is HandedState.KEPT:
            print(words(_STATES[one.state], name=one.name, beside=one.beside))


def _stop_for_begun_folder(
    folder: Path, notebooks: bool, repository: str | None, words: Words
) -> NoReturn:
    """Name the command that does in a folder that is there already what the options ask for."""
    update = [find_own_command(), "update"]
    if repository is not None:
        update += ["--repository", shlex.quote(repository)]
    elif notebooks:
        update += ["--notebooks"]
    else:
        stop_command(words(_ALREADY, folder=_name_folder(folder), command=update[0]))
    told = words(_ALREADY_WITHOUT_NOTEBOOKS, folder=_name_folder(folder), command=" ".join(update))
    stop_command(told)


def _name_folder(folder: Path) -> str:
    """Return a folder as it was named, or the name of this one."""
    return folder.resolve().name if folder == Path() else str(folder)


def _ask_for_notebooks(
    record: HandedRecord, notebooks: bool, repository: str | None, words: Words
) -> HandedRecord:
    """Return the record with what the options say; stop if Colab cannot open such a repository."""
    address = record.repository if repository is None else repository
    wanted = record.notebooks or notebooks or repository is not None
    if wanted and address:
        from grader.authoring.learner_notebook import UnknownRepository, parse_repository_address

        try:
            parse_repository_address(address)
        except UnknownRepository as problem:
            stop_command(words.said(str(problem)))
    return replace(record, notebooks=wanted, repository=address)


def _bring_or_stop(folder: Path, record: HandedRecord, words: Words) -> list[BroughtFile]:
    """Bring the files; stop with a sentence if the folder cannot be written."""
    try:
        return bring_handed_files(folder, record, words.language)
    except OSError as error:
        stop_command_for_unwritable(folder, error)
