"""Walks docs/nbgrader.md with its gradebook in a real PostgreSQL server."""

import csv
import re

import pytest

from grader.core.catalog import ROOT
from tests.notebooks.course import SLUG, answered, hand_in, released
from tests.walks.pages import read_page_commands, walk
from tests.walks.postgresql import PASSWORD, find_server_programs, postgresql_server

PROGRAMS = find_server_programs()
pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(PROGRAMS is None, reason="needs a server: apt-get install postgresql"),
]
MAKE, _, *NBGRADER = read_page_commands("nbgrader.md", under="With nbgrader")
INSTALL, AGAIN = read_page_commands("nbgrader.md", under="The gradebook in PostgreSQL")
SETTING = re.search(
    r"^c\.CourseDirectory\.db_url = .*", (ROOT / "docs/nbgrader.md").read_text(), re.M
)


@pytest.fixture
def course(tmp_path):
    """The released course, whose settings have the page's line with the address of a server."""
    walk(MAKE, ROOT, EX=SLUG, OUT=tmp_path / "out", ARGS="--no-speed")
    with postgresql_server(PROGRAMS) as server:
        with (tmp_path / "out/course/nbgrader_config.py").open("a") as config:
            config.write(SETTING[0].replace("user:password@host", server) + "\n")
        yield tmp_path / "out/course"


def test_the_page_installs_the_driver_of_the_extra():
    assert 'postgresql = ["psycopg[binary]>=' in (ROOT / "pyproject.toml").read_text()
    assert INSTALL.endswith("'psycopg[binary]'")


def test_the_sequence_runs_on_an_empty_server(course):
    given = {"EX": SLUG, "OUT": course.parent, "ARGS": "--no-speed"}
    before = (course / "gradebook.db").read_bytes()
    walk(AGAIN, ROOT, **given)
    hand_in(course, "ada", answered(course))
    hand_in(course, "ben", released(course))
    for command in NBGRADER:
        walk(command, course)
    rows = csv.DictReader((course / "grades.csv").open(newline=""))
    assert {row["student_id"]: float(row["score"]) for row in rows} == {"ada": 10, "ben": 0}
    assert (course / "gradebook.db").read_bytes() == before
    walk(AGAIN, ROOT, **given)  # which finds the database and its grades


def test_a_server_that_refuses_is_a_sentence_without_the_password(course):
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text().replace("%20", "+"))
    said = walk(AGAIN, ROOT, status=2, EX=SLUG, OUT=course.parent, ARGS="--no-speed")
    assert "cannot be opened: " in said and "See db_url in nbgrader_config.py." in said
    assert PASSWORD not in said and "a+secret" not in said
