"""The tasks of a process that grades, and its results: values that can cross machines."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

VALUES, SPEED = "values", "speed"  # the two things that are asked, each in a lane of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeTerms:
    """The settings that all answers of one class run share."""

    seed_id: str
    device: str
    wall: str
    versions: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTask:
    """One answer to be judged, or to be timed once it is judged."""

    lane: str  # VALUES or SPEED
    terms: GradeTerms
    code: str  # the digest of the code that judges it: no other may
    slug: str
    student: str
    name: str  # of the file
    sha256: str
    state: str = "graded"  # or why there is nothing to grade, and the sentence on that
    sentence: str = ""
    content: bytes = b""
    judged: dict[str, Any] | None = None  # the report that lacks its speed

    @property
    def key(self) -> str:
        """Return the digest of everything that the result depends on, except times."""
        parts = {
            "lane": self.lane, "terms": asdict(self.terms), "code": self.code, "slug": self.slug,
            "student": self.student, "name": self.name, "sha256": self.sha256,
            "state": self.state, "sentence": self.sentence,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
