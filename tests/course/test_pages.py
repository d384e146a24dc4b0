"""The pages for people: both READMEs say the same, and what a page names is there."""

import re
import subprocess
from pathlib import Path

import pytest
import typer

from grader.cli.app import app
from grader.core.catalog import ROOT

ABOUT_STUDENTS = [
    "submissions", "submissions.zip", "clones", "roster.csv", "times.csv", "submitted.csv", "results",
    "returned", "rehearsal", "rehearsed", "similar.html", "week3/.secret",
]  # fmt: skip
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
TEACHING = [ROOT / f"docs/{p}.md" for p in ("instructors", "classes", "nbgrader", "packs", "scale")]
PAGES = [ENGLISH, CHINESE, *TEACHING, ROOT / ".devcontainer/README.md"]
GOALS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMANDS = set(typer.main.get_command(app).commands)
each = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def headings(page: Path) -> list[str]:
    outside_code = re.sub(r"```.*?```", "", text(page), flags=re.DOTALL)
    return re.findall(r"^(#+) ", outside_code, re.MULTILINE)


def code(page: Path) -> list[list[str]]:
    """Every block of code, without comments and without what a reader chooses."""
    blocks = re.findall(r"```\w*\n(.*?)```", text(page), re.DOTALL)
    plain = (re.sub(r'TOKENS=".*?"', "", re.sub(r" +# .*", "", block)) for block in blocks)
    return [[line.rstrip() for line in block.splitlines()] for block in plain]


def test_git_passes_over_what_the_commands_of_the_pages_write_about_students():
    def git(*arguments: str, content: str = "") -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, input=content, capture_output=True, text=True).stdout

    if not (ROOT / ".git").exists():
        pytest.skip("This is no clone.")
    names = "\n".join(f"{name}/x" if "." not in name else name for name in ABOUT_STUDENTS)
    assert git("check-ignore", "--no-index", "--stdin", content=names).split() == names.split()
    assert git("ls-files", "--ignored", "--cached", "--exclude-standard") == ""


def rows(page: Path) -> list[tuple[str, str]]:
    """Of every row of a table, the exercise if it is one, and its points."""
    return re.findall(r"^\|(?: (ex\d\d\w+) )?.*?\|(?: ([\d +]+) \|)?$", text(page), re.MULTILINE)


def test_both_readmes_have_the_same_headings():
    assert headings(ENGLISH) == headings(CHINESE)
    assert len(headings(ENGLISH)) > 5


def test_both_readmes_show_the_same_commands_and_code():
    assert code(ENGLISH) == code(CHINESE)


def test_both_readmes_have_the_same_tables():
    assert rows(ENGLISH) == rows(CHINESE)
    assert ("ex03_sdpa", "13 + 3") in rows(ENGLISH)


def test_both_readmes_lead_to_the_same_pages():
    """Where a page is there in Chinese, the Chinese one leads to that."""
    found = [
        [
            re.sub(r"\.(en|zh)\.md|/zh-cn(?=/)", lambda m: ".md" * bool(m[1]), link)
            for link in re.findall(r"\]\((.*?)\)", text(page))
        ]
        for page in (ENGLISH, CHINESE)
    ]
    assert found[0] == found[1]


def test_both_readmes_name_the_same_commands_and_files_in_their_sentences():
    found = []
    for page in (ENGLISH, CHINESE):
        sentences = re.sub(r"```.*?```", "", text(page), flags=re.DOTALL)
        named = re.findall(r"`([^`\n]*)`", sentences)
        found.append(sorted("needs CUDA" if name == "需要 CUDA" else name for name in named))
    assert found[0] == found[1]


@each
def test_every_link_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(page))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


@each
def test_every_command_that_is_named_exists(page):
    goals = set(re.findall(r"(?:`|^)make ([a-z-]+)", text(page), re.MULTILINE))
    commands = set(re.findall(r"python -m grader ([a-z-]+)", text(page)))
    assert goals | commands
    assert goals - GOALS == set()
    assert commands - COMMANDS == set()
