"""Which modules and names an exercise opens to its answers, and the sentences about others."""

from grader.core import allowed_tables
from grader.core.records import Exercise
from grader.worker.child.builtin_names import ORDINARY_DUNDERS, is_dunder

_OWN_PACKAGES = ("grader", "reference", "solutions", "exercises")
BREAKPOINT_LEFT = "a breakpoint was left in: take it out. `make debug` stops at it."
_DEBUGGERS = ("pdb", "ipdb", "pudb", "debugpy")
UNLISTED = f"is not on the list of what an answer may use ({allowed_tables.ALLOWED_PAGE_PATH})."


class ExerciseNames:
    """The names that one exercise allows.

    slugs  the other exercises, which an answer cannot import
    """

    def __init__(self, exercise: Exercise, slugs: frozenset[str]) -> None:
        self._exercise = exercise
        self._alone = slugs | set(_OWN_PACKAGES)
        self.modules = allowed_tables.load_importable_modules(exercise)
        self._refused = [name.removesuffix(".*") for name in exercise.not_allowed]
        self.last = {  # by its last part, each name that the exercise refuses
            name.split(".")[-1]: name
            for name in exercise.not_allowed
            if "." in name and not name.endswith(".*")
        }

    def reason_against_module(self, name: str) -> str:
        """Return why a module cannot be imported; "" if it can."""
        if name.split(".")[0] in self._alone:
            return f"an exercise stands alone: it does not import {name.split('.')[0]}."
        if name.split(".")[0] in _DEBUGGERS:
            return BREAKPOINT_LEFT
        if refused := self.reason_against_name(name):
            return refused
        return "" if name in self.modules else f"{name} {UNLISTED}"

    def reason_against_part(self, module: str, name: str) -> str:
        """Return why a name of a module is not allowed; "" if it is."""
        full = f"{module}.{name}"
        if why := self.reason_against_name(full):
            return why
        if name in self.last and module.split(".")[0] in ("torch", "numpy"):
            return self.refusal_with_cure(self.last[name])
        if full in self.modules or name in self.modules.get(module, ()):
            return ""
        return "" if is_dunder(name) and name in ORDINARY_DUNDERS else f"{full} {UNLISTED}"

    def reason_against_name(self, name: str) -> str:
        """Return why the exercise does not allow a dotted name; "" if it does."""
        refused = next(
            (r for r in self._refused if allowed_tables.is_within_dotted_name(name, r)), None
        )
        if refused:
            return self.refusal_with_cure(refused)
        only, top = self._exercise.only, name.split(".")[0]
        return self.refusal_with_cure(top) if only and top not in (*only, "__future__") else ""

    def refusal_with_cure(self, name: str) -> str:
        """Return the sentence about a name that the exercise refuses."""
        return f"{name} is not allowed in this exercise. {self._exercise.cure}".strip()
