"""Each law of the house is broken once, and its complaint names the cure."""

import re
import sys

import pytest
from typer.testing import CliRunner

from grader.authoring import (
    exercise_index,
    exercise_rules,
    project_rules,
    proof_rules,
    suite_rules,
)
from grader.authoring.project_rules import ProjectState
from grader.authoring.proof_store import ProofStore
from grader.cli import app
from grader.core import translation
from grader.core.toml_file import BadFile
from grader.core.translation import Words
from grader.judging import drills, suite_runner
from grader.worker.parent import requirements
from tests.course import tiny
from tests.course.tiny import SLUG, SOLUTION, SUITE

MANIFEST, TESTS = f"{SUITE}/exercise.toml", f"{SUITE}/test_double.py"
WRONG, RIGHT, BENCH = f"{SUITE}/mistakes.py", f"{SUITE}/variants.py", f"{SUITE}/bench_double.py"
DRILLS, CHINESE, PAGE = f"{SUITE}/drills.toml", f"{SUITE}/zh.toml", "docs/exercises.md"
ASKED, GONE = f"{SUITE}/questions.toml", None


@pytest.fixture
def home(tmp_path, monkeypatch):
    yield tiny.build(tmp_path, monkeypatch)
    tiny.forget()


def change(path, old, new):
    """Put `new` in the place of `old`, of everything if that is empty; GONE removes the file."""
    if new is GONE:
        path.unlink()
    elif isinstance(new, bytes):
        path.write_bytes(new)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert not old or old in text
        path.write_text(text.replace(old, new) if old else new, encoding="utf-8")


FIT, TOML = "the solution does not fit the manifest.", f"{{home}}/{MANIFEST}:"
SKELETON = f"exercises/{SLUG}.py"
# The law; the file that is changed, what there, into what; the complaint.
BREACHES = [
    (exercise_rules.check_files_law, SOLUTION, "", GONE, f"{SOLUTION} is missing. Write it; it is the one source."),
    (exercise_rules.check_files_law, WRONG, "", GONE, "its suite needs either mistakes.py or a folder mistakes/ with an __init__.py."),
    (exercise_rules.check_files_law, f"{SUITE}/mistakes/__init__.py", "", "", "its suite needs either mistakes.py or a folder mistakes/ with an __init__.py."),
    (exercise_rules.check_files_law, RIGHT, "", GONE, "its suite needs one variants.py. Write it, or make it one file."),
    (exercise_rules.check_files_law, TESTS, "", GONE, "its suite needs one test_*.py. Write it, or make it one file."),
    (exercise_rules.check_files_law, f"{SUITE}/test_more.py", "", "", "its suite needs one test_*.py. Write it, or make it one file."),
    (exercise_rules.check_files_law, f"{SUITE}/bench_more.py", "", "", "its suite has several bench_*.py. Make it one file."),
    (exercise_rules.check_files_law, TESTS, "Doubling.", "As the reference.", f"reference/{SLUG}.py is missing. Write the oracle and the yardstick."),
    (suite_rules.check_hard_kinds_law, f"{SUITE}/hard.toml", "", GONE, "its suite needs a hard.toml. Write which check runs what."),
    (suite_rules.check_trials_law, f"{SUITE}/trials.py", "", GONE, "its suite needs one trials.py. Write how each name is called on random inputs."),
    (exercise_rules.check_sources_law, RIGHT, "def twice_1(", "def twice_0(", f"{RIGHT} defines twice_0 again in line 13, and the first is lost. Rename one."),
    (exercise_rules.check_sources_law, TESTS, "2 * x)", "2 *)", f"{TESTS} is not Python. Mend it: Line 11 is not valid Python (invalid syntax): same(student.double(x), 2 *)"),
    (exercise_rules.check_sources_law, WRONG, "return 3 * x", "return 3 *", f"{WRONG} is not Python. Mend it: Line 14 is not valid Python (invalid syntax): return 3 *"),
    (exercise_rules.check_sources_law, SOLUTION, "x + x", "x +", f"{SOLUTION} is not Python. Mend it: Line 17 is not valid Python (invalid syntax): return x +"),
    (exercise_rules.check_sources_law, f"{SUITE}/show.py", "", b"\xff", f"{SUITE}/show.py is not UTF-8 text. Save it as UTF-8."),
    (exercise_rules.check_modules_law, TESTS, "points=1", 'points="1"', "test_*.py cannot be imported (TypeError: points='1' is no whole number). Mend it."),
    (exercise_rules.check_modules_law, RIGHT, "", "raise SystemExit(3)\n", "variants.py cannot be imported (SystemExit: 3). Mend it."),
    (exercise_rules.check_modules_law, TESTS, "points=1", "point=1", "test_*.py cannot be imported (TypeError: check() got an unexpected keyword argument 'point'). Mend it."),
    (exercise_rules.check_modules_law, WRONG, "import test_nothing", "import test_nothin", "mistakes cannot be imported (ImportError: cannot import name 'test_nothin' from 'grader.suites.ex90_double.test_double' ({home}/suites/ex90_double/test_double.py)). Mend it."),
    (exercise_rules.check_modules_law, BENCH, "@speed(points=1)", "", f"bench_*.py cannot be imported (GraderFault: {SLUG} has a bench with 0 @speed, not one). Mend it."),
    (exercise_rules.check_signatures_law, MANIFEST, '"double"', '"treble"', f"{FIT} There is no treble in the file. Did you mean double?"),
    (exercise_rules.check_signatures_law, SOLUTION, "def double(x)", "def double(y)", f"{FIT} double takes (y), but should take (x)."),
    (exercise_rules.check_regions_law, SOLUTION, "    ### END SOLUTION\n", "", f"{SOLUTION}, in a cell, line 3: the region that begins here never ends: add ### END SOLUTION."),
    (exercise_rules.check_regions_law, SOLUTION, " SOLUTION", "", f"{SOLUTION} marks no answer. Put it between BEGIN and END SOLUTION."),
    (exercise_rules.check_regions_law, SOLUTION, '    """Double a tensor."""\n', "", f"{SOLUTION}, in a cell, line 2: double has no docstring to take its task from: write one."),
    (exercise_rules.check_regions_law, SOLUTION, "def double(x):", "if torch:", f"{SOLUTION}, in a cell, line 3: this region is in no function: put it into one."),
    (exercise_rules.check_prose_law, SOLUTION, '[markdown] lang="en"', '[markdown] lang="zh"', f"{SOLUTION} has no prose. Write a `# %% [markdown]` cell."),
    (exercise_rules.check_in_step_law, SKELETON, "", GONE, f"{SKELETON} is missing. Run `make skeletons`."),
    (exercise_rules.check_in_step_law, SOLUTION, "Double a tensor.", "Double it.", f"{SKELETON} is out of step. Run `make skeletons`."),
    (exercise_rules.check_in_step_law, SOLUTION, "Add a number", "Add one", f"docs/lessons/{SLUG}.en.md is out of step. Run `make skeletons`."),
    (exercise_rules.check_in_step_law, f"docs/lessons/{SLUG}.zh.md", "", GONE, f"docs/lessons/{SLUG}.zh.md is missing. Run `make skeletons`."),
    (exercise_rules.check_hints_law, MANIFEST, ', "It is a sum."', "", "double has 1 hint; it needs 2. Write more of them."),
    (exercise_rules.check_learned_law, MANIFEST, ', "It is linear."', "", "learned has 2 sentences; it needs 3. Write so many."),
    (exercise_rules.check_translations_law, CHINESE, "test_values =", "test_value =", "zh.toml has checks.test_value, which the suite has not. Remove it."),
    (exercise_rules.check_translations_law, CHINESE, "[checks]", "[checks", "{home}/suites/ex90_double/zh.toml is not valid TOML: Expected ']' at the end of a table declaration (at line 4, column 8). Mend that line."),
    (exercise_rules.check_translations_law, CHINESE, '"两倍"', "2", "{home}/suites/ex90_double/zh.toml: title is 2. Write text in quotes."),
    (suite_rules.check_checks_law, TESTS, "points=1", "points=0", "test_values has 0 points. Give it one at least."),
    (suite_rules.check_checks_law, MANIFEST, "[[functions]]", '[hints]\ntest_gone = ["x"]\n\n[[functions]]', "hints names test_gone, which is no check of the suite. Name a check."),
    (suite_rules.check_checks_law, TESTS, '"""double is twice x."""', "", "test_values has no docstring. Say what should hold."),
    (suite_rules.check_checks_law, TESTS, "@check(points=1)\ndef test_nothing", "def test_nothing", "test_nothing is no check, and never asked. Put @check(points=...) above it."),
    (suite_rules.check_totals_law, TESTS, "points=1", "points=2", "its checks give 4 points, but the syllabus has 2. Mend the points beside the checks."),
    (suite_rules.check_speed_law, BENCH, "", GONE, "speed has 0 points, but the syllabus has 1. Mend @speed(points=...)."),
    (suite_rules.check_speed_law, BENCH, "", GONE, "there are parties/ but no bench_*.py. Write it, or remove them."),
    (suite_rules.check_speed_law, BENCH, "points=1", "points=2", "speed has 2 points, but the syllabus has 1. Mend @speed(points=...)."),
    (suite_rules.check_speed_law, BENCH, '"""As fast as the sum."""', "...", "its bench has no docstring. Say what earns its points."),
    (suite_rules.check_speed_law, f"{SUITE}/parties/zero.py", "", GONE, "its bench needs one parties/zero.py. Write it, or make it one file."),
    (suite_rules.check_mistakes_law, WRONG, '@mistake(of="double", caught_by=test_values)\ndef times_3', "def times_3", "9 named mistakes; it needs 10. Name more."),
    (suite_rules.check_mistakes_law, WRONG, "\n    Take it twice.\n", "", "times_3 needs two paragraphs: what was done, how to mend it. Write them in its docstring."),
    (suite_rules.check_mistakes_law, WRONG, "caught_by=test_values)", "caught_by=mistake)", "times_3 names mistake, which is no check of the suite. Name the check that catches it."),
    (suite_rules.check_mistakes_law, WRONG, 'of="double"', 'of="treble"', "times_3 is of treble, which the manifest does not declare. Mend `of`."),
    (suite_rules.check_mistakes_law, WRONG, "caught_by=test_values)", 'caught_by=test_values, edits=[("y", "x")])', "times_3 does not fit the solution: 0 times in the solution, but should be once: y. Mend its edits."),
    (suite_rules.check_variants_law, RIGHT, '@variant(of="double")\ndef twice_0', "def twice_0", "4 right variants; it needs 5. Write more."),
    (suite_rules.check_variants_law, RIGHT, 'of="double"', 'of="treble"', "twice_0 is of treble, which the manifest does not declare. Mend `of`."),
    (suite_rules.check_allowed_law, MANIFEST, "torch.Tensor.mul", "torch.nn.functional.softmx", "[not_allowed] in exercise.toml has torch.nn.functional.softmx, which does not exist. Mend the name."),
    (suite_rules.check_allowed_law, MANIFEST, 'cure = "Write it with a sum."', "", "it does not say what to write with. Add `cure` to [not_allowed] in exercise.toml."),
    (suite_rules.check_drills_law, DRILLS, '"times_3"', '"times_4"', "4 drills; it needs 5 or none. Write more."),
    (suite_rules.check_drills_law, DRILLS, '"times_3"', '"times_99"', "drills.toml, times_99: it is no mistake that can be offered. Name another of the suite's."),
    (suite_rules.check_drills_law, DRILLS, '"times_3"', '"times_9"', "drills.toml, times_9: it is no mistake that can be offered. Name another of the suite's."),
    (suite_rules.check_drills_law, DRILLS, '"times_3"', '"times_3"\nalike = ["none"]', "drills.toml, times_3: it is alike none, which is no mistake. Name one of the suite's."),
    (suite_rules.check_drills_law, DRILLS, '"x + x", "3', '"y + y", "3', "drills.toml, times_3 does not fit the solution: 0 times in the solution, but should be once: y + y. Mend its edits."),
    (suite_rules.check_drills_law, DRILLS, "", "drills = 3", "{home}/suites/ex90_double/drills.toml: drills is no list of tables. Write [[drills]] above each of them."),
    (suite_rules.check_drills_law, DRILLS, '[["x + x", "3 * x"]]', '["x + x"]', "{home}/suites/ex90_double/drills.toml: drills.times_3.edits is ['x + x']. Write a list of pairs: what is found in the solution, and what comes there."),
    (suite_rules.check_drills_law, DRILLS, "[[drills]]", "[[drills", "{home}/suites/ex90_double/drills.toml is not valid TOML: Expected ']]' at the end of an array declaration (at line 1, column 9). Mend that line."),
    (suite_rules.check_questions_law, ASKED, "", GONE, "questions.toml has 0 questions; it needs 3. Write more."),
    (suite_rules.check_questions_law, ASKED, "", tiny.FILES[ASKED].split("[[questions]]\nid = \"what_1")[0], "questions.toml has 1 question; it needs 3. Write more."),
    (suite_rules.check_questions_law, ASKED, "", "questions = 3", "{home}/suites/ex90_double/questions.toml: questions is no list of tables. Write [[questions]] above each of them."),
    (suite_rules.check_questions_law, ASKED, 'asks = "What?"', "", "{home}/suites/ex90_double/questions.toml: questions.what_0.asks is missing. Add it."),
    (exercise_rules.list_new_exercise_todos, SOLUTION, "x + x", "x + x  # TODO: in one pass", "{home}/solutions/ex90_double.py line 17 is open: in one pass. Write it."),
    (project_rules.check_manifests_law, MANIFEST, "minutes = 5", 'minutes = "x"', f"{TOML} minutes is 'x'. Write a whole number."),
    (project_rules.check_manifests_law, MANIFEST, "minutes = 5", "", f"{TOML} minutes is missing. Add it."),
    (project_rules.check_manifests_law, MANIFEST, '"core"', '"cor"', f"{TOML} track is 'cor'. Write 'core' or 'further'."),
    (project_rules.check_manifests_law, MANIFEST, "order = 90", 'order = 90\nlanguage = "rust"', f"{TOML} language is 'rust'. Write 'python' or 'cuda'."),
    (project_rules.check_manifests_law, MANIFEST, "minutes", "minuets", f"{TOML} minutes is missing. Add it."),
    (project_rules.check_manifests_law, MANIFEST, "shapes =", "shaeps =", f"{TOML} functions.double.shaeps is an entry that nothing reads. Write shapes."),
    (project_rules.check_manifests_law, MANIFEST, '"(x)"', '"(x"', f"{TOML} functions.double.signature is '(x'. Write parameters in brackets, as in \"(q, k, v, keep=None)\"."),
    (project_rules.check_manifests_law, MANIFEST, '"attention"', '"softmx"', f"{TOML} not_allowed.groups is ['softmx']. Write a list of some of 'attention', 'softmax', 'norm', 'arithmetic'."),
    (project_rules.check_manifests_law, MANIFEST, "requires = []", "requires = []\nlimits = 4", f"{TOML} limits is 4. Write a table, [limits], and its entries under it."),
    (project_rules.check_manifests_law, MANIFEST, "requires = []", "requires = []\nlimits.memory_gib = -1", f"{TOML} limits.memory_gib is -1. Write a number above 0."),
    (project_rules.check_manifests_law, MANIFEST, "requires = []", 'requires = []\nprelude = "none.py"', f"{TOML} its prelude cannot be read. Name a text file here."),
    (project_rules.check_manifests_law, MANIFEST, "[not_allowed]", "[not_allowed", f"{{home}}/{MANIFEST} is not valid TOML: Expected ']' at the end of a table declaration (at line 8, column 13). Mend that line."),
    (project_rules.check_manifests_law, MANIFEST, "", b"\xff", f"{{home}}/{MANIFEST} is not UTF-8 text. Save it as UTF-8."),
    (project_rules.check_pages_law, MANIFEST, '"Twice as much"', '"Twice"', f"{PAGE} is not what the manifests say. Run `make skeletons`."),
    (project_rules.check_pages_law, PAGE, "", GONE, f"{PAGE} is not what the manifests say. Run `make skeletons`."),
    (project_rules.check_goals_law, "Makefile", "", ".PHONY: all\nall: ; true\n", "make all has no sentence. Write `## what it makes` behind the goal."),
    (project_rules.check_imports_law, SOLUTION, "import torch", "import torch, grader", f"{SOLUTION} imports grader. A solution stands alone: import what a student may."),
    (project_rules.check_file_lengths_law, "reference/long.py", "", "x = 1\n" * 301, "reference/long.py has 301 lines, more than 300. Cut it in two."),
]  # fmt: skip


def of_the_exercise(law):
    return law in exercise_rules.EXERCISE_LAWS


def test_a_sound_exercise_breaks_no_law(home):
    assert project_rules.check_project_laws() == ProjectState()


@pytest.mark.parametrize("law, name, old, new, complaint", BREACHES)
def test_a_breach_is_found_by_its_law_with_the_cure(home, law, name, old, new, complaint):
    change(home / name, old, new)
    says = complaint.replace("{home}", str(home))
    found = law(*tiny.exercises()) if of_the_exercise(law) else law()
    assert says in list(found)
    assert (
        f"{SLUG}: {says}" if of_the_exercise(law) else says
    ) in project_rules.list_broken_project_laws()


def test_an_exercise_that_the_core_lacks_is_missed(home, monkeypatch):
    monkeypatch.setattr(
        suite_rules, "SYLLABUS_POINTS", {**suite_rules.SYLLABUS_POINTS, "ex91_treble": (9, 0)}
    )
    assert project_rules.list_broken_project_laws() == [
        "ex91_treble: the core track has no such exercise. Write it, or mend POINTS."
    ]


def test_a_bench_without_points_is_found_outside_the_core_too(home, monkeypatch):
    monkeypatch.setattr(suite_rules, "SYLLABUS_POINTS", {})
    change(home / BENCH, "points=1", "points=0")
    assert project_rules.list_broken_project_laws() == [
        f"{SLUG}: its bench has no points. Give it some in @speed(points=...), or remove it."
    ]


def test_an_exercise_that_asks_for_nothing_is_found(home):
    text = tiny.FILES[MANIFEST]
    change(home / MANIFEST, "", text[: text.index("[[functions]]")])
    assert any(
        "its manifest declares nothing." in line
        for line in project_rules.list_broken_project_laws()
    )


def test_a_function_of_cuda_without_its_declaration_is_found(home):
    change(home / MANIFEST, "order = 90", 'order = 90\nlanguage = "cuda"')
    (home / SOLUTION).rename(home / SOLUTION.replace(".py", ".cu"))
    assert list(exercise_rules.check_signatures_law(*tiny.exercises())) == [
        "double has no declaration in C. Add it to exercise.toml."
    ]


def test_a_suite_whose_packages_are_missing_is_not_checked_and_its_files_are(home):
    change(home / MANIFEST, "requires = []", 'requires = ["no-such-package"]')
    change(home / RIGHT, "", "import no_such_package\n")
    change(home / PAGE, "", exercise_index.render_generated_page())
    assert project_rules.check_project_laws() == ProjectState(
        unchecked=(
            f"{SLUG}: its suite is not checked. It {requirements.find_unmet_worker_requirement(['no-such-package'])}",
        )
    )
    change(home / MANIFEST, ', "It is a sum."', "")
    assert (
        f"{SLUG}: double has 1 hint; it needs 2. Write more of them."
        in project_rules.list_broken_project_laws()
    )


def test_a_mistake_that_make_mutants_saw_pass_is_a_breach_until_a_file_changes(home, monkeypatch):
    """`MISSED` is what the table of `make mutants` calls it."""
    monkeypatch.setattr(ProofStore.__init__, "__defaults__", (home / ".proof",))
    change(home / PAGE, "", exercise_index.render_generated_page())
    [exercise] = tiny.exercises()
    found = {m.id: {"verdict": "failed", "says": "", "earned": (), "faults": (), "named": ()}
             for m in suite_runner.list_suite_mistakes(exercise)}  # fmt: skip
    ProofStore().write_results("caught", exercise, found)
    assert project_rules.list_broken_project_laws() == []
    found["times_3"]["verdict"] = "passed"
    ProofStore().write_results("mistakes", exercise, found)
    assert project_rules.list_broken_project_laws() == [
        f"{SLUG}: times_3 is passed by test_values. Make the check stricter, or take the mistake out."
    ]
    change(home / WRONG, "return 3 * x", "return 3.0 * x")
    tiny.forget()
    assert project_rules.list_broken_project_laws() == []


def test_every_file_of_a_folder_of_mistakes_is_read_and_each_mistake_once(home):
    folder, text = (home / WRONG).with_suffix(""), (home / WRONG).read_text(encoding="utf-8")
    (home / WRONG).unlink()
    change(folder / "__init__.py", "", "")
    change(folder / "many.py", "", text.replace("from .test_double", "from ..test_double"))
    change(folder / "more.py", "", "from .many import times_3\n")
    [exercise] = tiny.exercises()
    assert list(exercise_rules.check_files_law(exercise)) == []
    assert [m.id for m in suite_runner.list_suite_mistakes(exercise)] == [
        f"times_{i}" for i in range(3, 13)
    ]
    assert list(suite_rules.check_mistakes_law(exercise)) == []
    tiny.forget()
    change(folder / "more.py", "", text.replace("from .test_double", "from ..test_double"))
    assert "times_3 is the name of 2 mistakes. Rename all but one." in list(
        suite_rules.check_mistakes_law(exercise)
    )


def test_make_house_says_what_was_not_checked(monkeypatch):
    monkeypatch.setattr(
        project_rules, "check_project_laws", lambda: ProjectState(unchecked=("ex90: It needs x",))
    )
    done = CliRunner().invoke(app.app, ["house"])
    assert (done.exit_code, done.output) == (0, "ex90: It needs x\nWhat was checked is in order.\n")


def test_every_law_is_broken_by_a_test():
    broken = {law for law, *_ in BREACHES} | {
        project_rules.check_core_track_law,
        proof_rules.check_caught_law,
    }
    assert broken == {*exercise_rules.EXERCISE_LAWS, *project_rules.PROJECT_LAWS}


def test_the_laws_are_a_numbered_list():
    said = CliRunner().invoke(app.app, ["house", "--laws"]).stdout.splitlines()
    assert [int(line.split(".")[0]) for line in said] == list(range(1, len(said) + 1))
    assert len(said) == len(exercise_rules.EXERCISE_LAWS) + len(project_rules.PROJECT_LAWS)
    assert all(line.endswith(".") and len(line) > 30 for line in said)


def asked():
    done = CliRunner().invoke(app.app, ["house"])
    return done.exit_code, done.stdout.splitlines()


def test_what_a_draft_lacks_is_listed_and_no_breach(home):
    change(home / MANIFEST, "order = 90", "order = 90\ndraft = true")
    tiny.write_skeletons()  # a draft is not on the page of exercises
    change(home / RIGHT, 'of="double"', 'of="treble"')
    code, said = asked()
    assert code == 0
    assert said[0].startswith(f"draft {SLUG}: twice_0 is of treble")
    assert said[-1] == "The house is in order."


def test_the_same_is_a_breach_of_what_is_finished(home):
    change(home / RIGHT, 'of="double"', 'of="treble"')
    code, said = asked()
    assert code == 1
    assert said[0].startswith(f"{SLUG}: twice_0 is of treble")


@pytest.mark.parametrize(
    "name, old, new, note",
    [
        (CHINESE, "", GONE, "zh.toml is missing, so that its sentences stay English. Write it."),
        (CHINESE, 'title = "两倍"\n', "", "zh.toml has no title. Write it."),
        (CHINESE, 'twice_1 = "两倍。"\n', "", "zh.toml has no variants.twice_1. Write it."),
        (CHINESE, 'what_0 = { asks = "什么？", ', "what_0 = { ", "zh.toml has no questions.what_0.asks. Write it."),
        (SOLUTION, '# %% [markdown] lang="zh"\n# # 两倍\n# 把一个数加上它自己。\n\n', "", "in its lesson not every English cell has a Chinese one after it. Add them."),
    ],
)  # fmt: skip
def test_what_is_told_in_english_only_is_a_note(home, name, old, new, note):
    change(home / name, old, new)
    tiny.write_skeletons()
    assert asked() == (0, [f"note {SLUG}: {note}", "The house is in order."])


@pytest.mark.parametrize("mistake", ["times_99", "times_9"])
def test_a_drill_of_no_mistake_is_a_sentence_to_who_draws_it(home, mistake):
    change(home / DRILLS, "", tiny.FILES[DRILLS].split("[[drills]]")[1].join(["[[drills]]", ""]))
    change(home / DRILLS, "times_3", mistake)
    with pytest.raises(drills.BadDrills, match=f"{mistake} is no mistake that can be offered"):
        drills.choices(f"{SLUG} 1")


def test_a_chinese_reader_gets_a_sentence_too(home, monkeypatch):
    change(home / CHINESE, "[hints]", "[hint]")
    monkeypatch.setattr(
        translation, "_read_suite_translations", translation._read_suite_translations.__wrapped__
    )
    with pytest.raises(BadFile, match=r"hint is an entry that nothing reads\. Write hints\."):
        Words("zh").title(*tiny.exercises())


def test_skeletons_are_not_made_of_a_region_without_end(home):
    change(home / SOLUTION, "    ### END SOLUTION\n", "")
    done = CliRunner().invoke(app.app, ["skeletons"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{SOLUTION}, in a cell, line 3: the region that begins here")


def test_any_command_says_what_is_wrong_with_a_manifest(home, monkeypatch, capsys):
    change(home / MANIFEST, '"core"', '"cor"')
    monkeypatch.setattr(sys, "argv", ["grader", "skeletons"])
    with pytest.raises(SystemExit) as ended:
        app.run_command_line()
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err
        == f"{home}/{MANIFEST}: track is 'cor'. Write 'core' or 'further'.\n"
    )


@pytest.mark.parametrize("kind", ["bool array N", "ndarray N", "", "tensors"])
def test_a_return_of_no_known_kind_is_told_with_those_there_are(home, kind, monkeypatch, capsys):
    text = (home / MANIFEST).read_text()
    changed = re.sub(r'(returns = \{ \w+ = )"[^"]*"', rf'\1"{kind}"', text, count=1)
    assert changed != text
    (home / MANIFEST).write_text(changed)
    monkeypatch.setattr(sys, "argv", ["grader", "skeletons"])
    with pytest.raises(SystemExit):
        app.run_command_line()
    assert "Write a kind of value (tensor, array, bool tensor, rows" in capsys.readouterr().err
