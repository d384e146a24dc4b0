"""`python -m tests.lowest` prints constraints that pin what pyproject.toml allows to its lowest.

For the weekly workflow, which installs both ends of every range.
"""

import tomllib
from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement

from grader.core.catalog import ROOT


def lowest(project: dict[str, Any]) -> Iterator[str]:
    """Give `name==version` for each requirement of a project that has a lower bound."""
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted_by_name = {r.name: r for texts in lists for r in map(Requirement, texts)}
    for _, wanted in sorted(wanted_by_name.items()):
        for bound in wanted.specifier:
            if bound.operator == ">=":
                yield f"{wanted.name}=={bound.version}"


if __name__ == "__main__":
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    print(*lowest(tomllib.loads(text)["project"]), sep="\n")
