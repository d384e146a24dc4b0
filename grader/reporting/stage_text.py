"""Says in words at which stage an attention is wrong, and draws a small map of its weights."""

import math
from collections.abc import Sequence

from grader.core.diagnosis_records import Stage
from grader.core.translation import Words

_SHADES = " ░▒▓█"
_COLUMN_GAP = "   "


def report_wrong_stage(stage: Stage, words: Words) -> str:
    """Say which stage is the first that is wrong; later stages were not checked."""
    if stage.name == "scores" and stage.factor is not None:
        return words(
            "The scores are {factor} times what they should be.", factor=f"{stage.factor:.3g}"
        )
    return {
        "scores": words("The scores are wrong already, before the softmax."),
        "mask": words("The scores may be right; the mask hides the wrong keys."),
        "weights": words("The weights of a row are no softmax: they do not sum to 1."),
        "output": words("The weights are right; what becomes of the values is not."),
    }[stage.name]


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
