"""Says in words at which stage an attention is wrong, and draws a small map of its weights."""

import math
from collections.abc import Sequence

from grader.core.diagnosis_records import Stage
from grader.core.translation import Words

_SHADES = " ░▒▓█"
_COLUMN_GAP = "   "


# Why the scores of the example, 6 tokens of width 4, are so many times too large.
_FACTORS = {
    2.0: "as if they were not divided by sqrt(4)",
    0.5: "as if they were divided by 4 instead of sqrt(4)",
    (4 / 6) ** 0.5: "as if they were divided by sqrt(6) instead of sqrt(4), the width of q and k",
}


def report_wrong_stage(stage: Stage, words: Words) -> str:
    """Say which stage is the first that is wrong; later stages were not checked."""
    if stage.name == "scores" and stage.factor is not None:
        said = _report_score_factor(stage.factor, words)
    else:
        said = words(_STAGES[stage.name])
    return words("In an example with 6 tokens of width 4: {said}", said=said)


def _report_score_factor(factor: float, words: Words) -> str:
    much = f"{factor:.3g}"
    for known, why in _FACTORS.items():
        if abs(factor / known - 1) < 1e-3:
            return words(
                "The scores are {factor} times what they should be, {why}.",
                factor=much, why=words(why),
            )  # fmt: skip
    return words("The scores are {factor} times what they should be.", factor=much)


_STAGES = {
    "scores": "The scores are wrong already, before the softmax.",
    "mask": "The scores may be right; the mask hides the wrong keys.",
    "weights": "The weights of a row are no softmax: they do not sum to 1.",
    "output": "The weights are right; what becomes of the values is not.",
}


def render_stage_weights(stage: Stage, words: Words) -> list[str]:
    """Draw the weights of a small example, yours beside the right ones, a row per query."""
    if not stage.got:
        return []
    width = len(stage.got[0]) * 2 + 2
    head = _pad_report_column(words("yours"), width) + _COLUMN_GAP + words("right")
    rows = [
        f"│{_render_shaded_row(got)}│{_COLUMN_GAP}│{_render_shaded_row(right)}│"
        for got, right in zip(stage.got, stage.right, strict=True)
    ]
    return [head, *rows]


def report_stage_maps(stage: Stage, words: Words) -> list[tuple[str, list[list[float]]]]:
    """Return the same weights and their differences as numbers; NaN where one is no number."""
    if not stage.got:
        return []
    got, right = ([list(row) for row in rows] for rows in (stage.got, stage.right))
    rows = zip(got, right, strict=True)
    apart = [[abs(x - y) for x, y in zip(*pair, strict=True)] for pair in rows]
    return [(words("yours"), got), (words("right"), right), (words("difference"), apart)]


def _render_shaded_row(row: Sequence[float]) -> str:
    return "".join(2 * _render_weight_shade(x) for x in row)


def _render_weight_shade(x: float) -> str:
    if not math.isfinite(x):
        return "?"
    place = math.ceil(min(max(x, 0.0), 1.0) * (len(_SHADES) - 1) - 1e-2)
    return _SHADES[max(place, 0)]


def _pad_report_column(text: str, width: int) -> str:
    """Pad `text` with blanks to `width` columns; a Chinese character takes two columns."""
    taken = sum(2 if ord(c) > 0x2E80 else 1 for c in text)
    return text + " " * (width - taken)
