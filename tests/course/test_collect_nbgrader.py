"""nbgrader's folders: a course's `submitted`, and an exchange's `inbound`."""

import warnings
from datetime import datetime

import pytest
from nbgrader.utils import parse_utc

from grader.core.catalog import ROOT
from tests.classes.handing import laid
from tests.course.collected import OTHER, SLUG, collect, files, times

CELLS = b'{"cells": []}'
STAMP = b"2026-03-01 17:00:00.5 UTC"
HERE, THERE = f"{SLUG}/{SLUG}.ipynb", f"{OTHER}/{OTHER}.ipynb"


@pytest.mark.parametrize("place", ["course", "course/submitted"])
def test_a_course_becomes_submissions_with_the_times_of_its_stamps(tmp_path, place):
    laid(tmp_path / "course/submitted", {
        f"ada-l/{HERE}": CELLS, f"ada-l/{SLUG}/timestamp.txt": STAMP,
        f"ada-l/{THERE}": b"2", f"ada-l/{OTHER}/timestamp.txt": b"2026-03-02 17:00:00\n",
        f"ben/{HERE}": b"3", f"ben/{SLUG}/timestamp.txt": STAMP,
    })  # fmt: skip
    done = collect(tmp_path, tmp_path / place)
    assert (done.exit_code, "a nbgrader course or exchange" in done.output) == (0, True), (
        done.output
    )
    assert files(tmp_path) == {
        f"ada/{SLUG}.ipynb": CELLS, f"ada/{OTHER}.ipynb": b"2", f"ben/{SLUG}.ipynb": b"3"
    }  # fmt: skip
    stamp = "2026-03-01T17:00:00.500000+00:00"
    assert times(tmp_path) == [
        f"ada,{OTHER},2026-03-02T17:00:00+00:00", f"ada,{SLUG},{stamp}", f"ben,{SLUG},{stamp}"
    ]  # fmt: skip


def test_of_an_exchange_the_last_time_counts_by_the_stamp(tmp_path):
    earlier, later = f"ada+{SLUG}+2026-03-09 UTC+x", f"ada+{SLUG}+2026-03-01 UTC+y"
    laid(tmp_path / "x/inbound", {
        f"{earlier}/{SLUG}.ipynb": b"1", f"{earlier}/timestamp.txt": STAMP,
        f"{later}/{SLUG}.ipynb": b"2", f"{later}/timestamp.txt": b"2026-03-02 00:00:00 UTC",
    })  # fmt: skip
    assert collect(tmp_path, tmp_path / "x").exit_code == 0
    assert files(tmp_path) == {f"ada/{SLUG}.ipynb": b"2"}
    done = collect(tmp_path, tmp_path / "x", "--until", "2026-03-01T18:00:00Z")
    assert files(tmp_path) == {f"ada/{SLUG}.ipynb": b"1"}, done.output


def both(folder):
    laid(folder / f"11/{SLUG}", {f"{SLUG}.ipynb": b"2", "timestamp.txt": STAMP})


def a_link(folder):
    (folder / f"ada/{SLUG}/{SLUG}.ipynb").unlink()
    (folder / f"ada/{SLUG}/{SLUG}.ipynb").symlink_to("/etc/passwd")


def nobody(folder):
    (folder / "ada").rename(folder / "mallory")


def no_time(folder):
    (folder / f"ada/{SLUG}/timestamp.txt").write_bytes(b"\xff" * 2000)


ODD = [
    (both, [], "11 and ada are of one student, ada"),
    (a_link, [], f"{SLUG}.ipynb is a link: hand in the file itself."),
    (nobody, [], "mallory belongs to nobody in the roster"),
    (no_time, ["--until", "2026-03-09T00:00:00Z"], "has no timestamp.txt with a time: it was left"),
    (lambda _: None, ["--until", "2026-02-09T00:00:00Z"], f"ada/{SLUG} was handed in after"),
]


@pytest.mark.parametrize("make, options, says", ODD)
def test_what_is_not_clear_is_left_alone(tmp_path, make, options, says):
    submitted = laid(
        tmp_path / "submitted", {f"ada/{HERE}": CELLS, f"ada/{SLUG}/timestamp.txt": STAMP}
    )
    make(submitted)
    done = collect(tmp_path, submitted, *options)
    assert (done.exit_code, says in done.output) == (1, True), done.output
    assert files(tmp_path) == {}


def test_a_time_that_nbgrader_only_guesses_is_none_as_its_page_says(tmp_path):
    guessed = "2027-03-03 16:00:00 Mars"
    laid(
        tmp_path / "submitted",
        {f"ada/{HERE}": CELLS, f"ada/{SLUG}/timestamp.txt": guessed.encode()},
    )
    done = collect(tmp_path, tmp_path / "submitted")
    assert f"ada/{SLUG} has no timestamp.txt with a time: it is not known." in done.output
    with warnings.catch_warnings(action="ignore"):
        assert parse_utc(guessed) == datetime(2027, 3, 3, 16)
    assert f"`{guessed}` it takes 16:00 UTC" in (ROOT / "docs/nbgrader.md").read_text()


def test_without_a_stamp_the_answer_is_there_and_its_time_is_not(tmp_path):
    laid(tmp_path / "submitted", {f"ada/{HERE}": CELLS})
    done = collect(tmp_path, tmp_path / "submitted")
    assert (done.exit_code, times(tmp_path)) == (1, [])
    assert list(files(tmp_path)) == [f"ada/{SLUG}.ipynb"]
