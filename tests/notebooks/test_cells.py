"""What is taken from a notebook, whatever was done to it."""

import json

import pytest

from grader.submission import notebook_cells
from grader.submission.notebook_cells import BadNotebook

TASK = "def softmax(x):\n    return np.exp(x)"
STUB = 'def softmax(x):\n    """A task."""\n    raise NotImplementedError("a task")'


def notebook(*sources) -> bytes:
    made = [s if isinstance(s, dict) else {"cell_type": "code", "source": s} for s in sources]
    return json.dumps({"cells": made, "nbformat": 4}).encode()


def taken(*sources, names=("softmax",)) -> list[str]:
    """The units of the answer, in order."""
    return [
        u
        for u in notebook_cells.read_submitted_notebook(notebook(*sources), names).source.split(
            "\n\n\n"
        )
        if u.strip()
    ]


def test_taken_are_the_task_and_what_it_needs():
    assert taken("import numpy as np", "import json", TASK, "softmax(3)") == [
        "import numpy as np", TASK + "\n"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sources",
    [
        (TASK, "import numpy as np"),
        ("print(1)", TASK + "\nimport numpy as np"),
        ("from numpy import exp\nimport numpy as np", TASK),
        ("import numpy as np\n" + TASK,),
        ("import numpy as np", STUB, TASK),
        ("import numpy as np", TASK, STUB),
        ("import numpy as np", "%matplotlib inline\n!pip install x\n" + TASK, "?softmax"),
        ("import numpy as np", "%%time\n" + TASK, "softmax?"),
        ("import numpy as np", TASK, "def half_written("),
        ("import numpy as np", TASK, "%%bash\nls -l"),
        ("import numpy as np", TASK, "name = input()", "x = softmax(torch.ones(3))"),
        ("import numpy as np", TASK, "import matplotlib.pyplot as plt\nplt.plot([1])"),
        ("import numpy as np\r\n", TASK.replace("\n", "\r\n")),
        ("import numpy as np", {"cell_type": "markdown", "source": TASK, "metadata": {"nbgrader": {"solution": True}}}),
        ("import numpy as np", {"cell_type": "code", "source": TASK.splitlines(keepends=True)}),
        ("import numpy as np", {"cell_type": "code", "input": TASK}),
        ("import numpy as np", TASK, {"cell_type": "code"}, {"source": 3}, {"cell_type": "code", "source": [1, None]}),
    ],
)  # fmt: skip
def test_it_does_not_matter_how_the_cells_lie(sources):
    made = "\n\n\n".join(taken(*sources))
    namespace = {}
    exec(compile(made, "answer", "exec"), namespace)
    assert namespace["softmax"](0.0) == 1.0


def test_helpers_constants_and_patches_come_along_in_their_order():
    source = [
        "LOW = -1\nHIGH = 3",
        "def helper():\n    return LOW",
        "def softmax(x):\n    return helper()",
    ]
    source += ["LOW = 2", "softmax.note = 1", "other = LOW"]
    assert [u.strip() for u in taken(*source)] == [
        "LOW = -1", "def helper():\n    return LOW", "def softmax(x):\n    return helper()",
        "LOW = 2", "softmax.note = 1",
    ]  # fmt: skip


def test_a_local_name_takes_nothing_of_the_same_name_along():
    assert taken("x = open('secret')", "def softmax(x):\n    y = x\n    return y", "y = 1 / 0") == [
        "def softmax(x):\n    y = x\n    return y\n"
    ]


def test_decorators_defaults_base_classes_and_annotations_are_needed():
    source = "@d\nclass A(B):\n    def f(self, x: C = D) -> 'C':\n        return self.E"
    one = ("d = 1", "B = 2", "C = 3", "D = 4", "E = 5", source)
    assert [u.strip() for u in taken(*one, names=("A",))] == [
        "d = 1",
        "B = 2",
        "C = 3",
        "D = 4",
        source,
    ]


@pytest.mark.parametrize(
    "wrap",
    ["if True:\n    {}\nelse:\n    pass", "try:\n    {}\nexcept ImportError:\n    np = None"],
)
def test_what_a_condition_binds_is_found(wrap):
    conditional = wrap.format("import numpy as np")
    assert taken(conditional, TASK) == [conditional, TASK + "\n"]


def test_the_future_comes_first():
    """It decides how annotations are read, though nobody uses its name."""
    task = "def softmax(x: Unknown):\n    return np.exp(x)"
    made = taken("import numpy as np", "from __future__ import annotations", task)
    assert made[0] == "from __future__ import annotations"
    exec("\n".join(made), {})


def test_nothing_written_is_an_empty_answer():
    assert notebook_cells.read_submitted_notebook(
        notebook("import numpy as np", STUB), ["softmax"]
    ) == notebook_cells.NotebookAnswer("", ())
    assert notebook_cells.read_submitted_notebook(notebook(), ["softmax"]).source == ""
    methods = "class A:\n    x: int\n    def __init__(self):\n        super().__init__()\n        raise NotImplementedError('a')"
    assert notebook_cells.read_submitted_notebook(notebook(methods), ["A"]).source == ""


def test_a_class_that_is_half_written_is_an_answer():
    half = "class A:\n    def f(self):\n        raise NotImplementedError\n    def g(self):\n        return 1"
    assert taken(half, names=("A",)) == [half + "\n"]


def test_every_line_knows_where_it_came_from():
    answer = notebook_cells.read_submitted_notebook(
        notebook("# a note", TASK, "1 + 1\nimport numpy as np"), ["softmax"]
    )
    lines = answer.source.splitlines()
    assert answer.lines[lines.index("import numpy as np")] == (3, 2)
    assert answer.lines[lines.index("    return np.exp(x)")] == (2, 2)
    assert len(answer.lines) >= len(lines)


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "The notebook is damaged"),
        (b"{", "The notebook is damaged"),
        (b"\xff\xfe\x00", "The notebook is damaged"),
        (b"[" * 100_000, "The notebook is damaged"),
        (b"[]", "The file is no notebook"),
        (b"3", "The file is no notebook"),
        (b'{"cells": 3}', "The file is no notebook"),
        (b'{"worksheets": [3]}', "The file is no notebook"),
    ],
)
def test_what_is_no_notebook_gets_a_sentence(content, says):
    with pytest.raises(BadNotebook, match=says):
        notebook_cells.read_submitted_notebook(content, ["softmax"])


def test_a_cell_that_cannot_be_read_is_named_where_a_task_is_missing():
    with pytest.raises(BadNotebook, match=r"Cell 2 is not valid Python \(.*\): def softmax\(x:"):
        notebook_cells.read_submitted_notebook(
            notebook("import numpy as np", "def softmax(x:\n    pass"), ["softmax"]
        )


def test_what_only_the_compiler_refuses_gets_a_sentence_too():
    task = "def softmax(x):\n    y = 1\n    global y\n    return x"
    with pytest.raises(
        BadNotebook, match=r"Cell 1 is not valid Python .*assigned to before global"
    ):
        notebook_cells.read_submitted_notebook(notebook(task), ["softmax"])
    assert taken("import numpy as np", TASK, task.replace("softmax", "scratch"))[1] == TASK + "\n"


def test_the_old_format_is_read_too():
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": "def softmax(x): pass"}]}]}
    assert (
        "def softmax"
        in notebook_cells.read_submitted_notebook(json.dumps(old).encode(), ["softmax"]).source
    )


@pytest.mark.parametrize("text", ["x = 1\x0cy = 2", "\ud800", "x\0 = 1", "(" * 5000, "a\rb = 2"])
def test_odd_characters_do_no_harm(text):
    assert taken("import numpy as np", TASK, text)[0] == "import numpy as np"


def test_definitions_are_told_by_name_and_in_order():
    found = notebook_cells.list_submitted_definitions(notebook(STUB, TASK), ["softmax", "other"])
    assert found == {"softmax": [STUB, TASK]}


@pytest.mark.parametrize(
    "before",
    [
        "W = []\nW.append(np.exp)",
        "W = [None]\nfor i in range(1):\n    W[i] = np.exp",
        "with np.errstate(all='ignore'):\n    W = [np.exp]",
        "(W := [np.exp])",
        "class K: pass\nsetattr(K, 'f', np.exp)\nW = [K.f]",
        "W = [lambda x: 0]\ndel W[0]\nW += [np.exp]",
        "W = [[]]\nif True:\n    W[0] = np.exp",
        "match 1:\n    case one:\n        W = [np.exp]",
        "while True:\n    W = [np.exp]\n    break",
        "W = []\n[W.append(f) for f in [np.exp]]",
    ],
)
def test_whatever_changes_a_name_that_is_used_comes_along(before):
    made = "\n".join(taken("import numpy as np", before, "def softmax(x):\n    return W[0](x)"))
    namespace = {}
    exec(compile(made, "answer", "exec"), namespace)
    assert namespace["softmax"](0.0) == 1.0


def test_an_import_stays_behind_what_it_overrides():
    source = ("np = 3", "import numpy as np", TASK)
    assert [u.strip() for u in taken(*source)] == ["np = 3", "import numpy as np", TASK]


OTHER = "def other(x):\n    return x"


@pytest.mark.parametrize("broken", ["print(", "def half(:", "%%time\nx = ("])
def test_a_cell_that_is_not_python_costs_nothing_where_it_defines_nothing(broken):
    found = notebook_cells.read_submitted_notebook(
        notebook(TASK, broken, STUB.replace("softmax", "other")), ("softmax", "other")
    )
    assert (dict(found.problems), "np.exp" in found.source) == ({}, True)
    assert notebook_cells.read_submitted_notebook(notebook(STUB, broken), ("softmax",)).source == ""


@pytest.mark.parametrize("broken", ["def other(x:\n    return x", "other = = 3", "class other(\n"])
def test_a_cell_that_is_not_python_costs_the_task_that_it_defines(broken):
    found = notebook_cells.read_submitted_notebook(notebook(TASK, broken), ("softmax", "other"))
    assert list(found.problems) == ["other"]
    assert found.problems["other"].startswith("Cell 2 is not valid Python")
    assert "np.exp" in found.source
    assert (
        dict(
            notebook_cells.read_submitted_notebook(
                notebook(TASK, broken, OTHER), ("softmax", "other")
            ).problems
        )
        == {}
    )


def test_statements_that_share_a_line_are_taken_one_by_one():
    source = ("import sys; print(sys.path); import numpy as np; np.seterr(all='raise')", TASK)
    assert [u.strip() for u in taken(*source)] == ["import numpy as np", TASK]


def test_what_fetches_our_check_is_no_part_of_an_answer():
    setup = {"cell_type": "code", "source": "import numpy as np\nfrom grader.notebook import check",
             "metadata": {"nbgrader": {"grade_id": "setup"}}}  # fmt: skip
    helper = "def check(x):\n    return x"
    source = "def softmax(x):\n    return check(x)"
    assert "grader" not in "".join(taken(setup, helper, source))
    assert "grader" not in "".join(taken("from grader.notebook import check", helper, source))


@pytest.mark.parametrize("magic", ["files = !ls", "t = %timeit -o 3", "a, b = %sx ls"])
def test_what_a_magic_gives_is_nothing(magic):
    assert taken("import numpy as np", f"%%time\n{magic}\n{TASK}") == [
        "import numpy as np",
        TASK + "\n",
    ]


def test_the_line_that_is_quoted_is_the_wrong_one():
    with pytest.raises(BadNotebook, match=r"def softmax\(x:$"):
        notebook_cells.read_submitted_notebook(
            notebook("%matplotlib inline\ndef softmax(x:"), ("softmax",)
        )
