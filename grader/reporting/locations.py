"""Says in words where an answer is wrong."""

from collections.abc import Sequence

from grader.core.diagnosis_records import WrongPlaces
from grader.core.translation import Words

_AXIS_NOUNS = {
    "batch": ("batch entry", "batch entries"),
    "head": ("head", "heads"),
    "kv_head": ("key/value head", "key/value heads"),
    "leading": ("leading index", "leading indices"),
    "row": ("row", "rows"),
    "key": ("key", "keys"),
}
_MAX_LISTED_NUMBERS = 6  # numbers that are listed one by one


def report_wrong_places(places: Sequence[WrongPlaces], words: Words = Words()) -> str:  # noqa: B008 (it is frozen)
    """Say 'Wrong: head 3 only, of 8; rows 0 to 10, of 12.'; "" if `places` is empty."""
    told = words("; ").join(_report_wrong_place(place, words) for place in places)
    return words("Wrong: {places}.", places=told) if told else ""


def _report_wrong_place(place: WrongPlaces, words: Words) -> str:
    wrong, size = place.wrong, place.size
    axis, several = map(words, _AXIS_NOUNS[place.axis])
    right = sorted(set(range(size)) - set(wrong))
    if len(wrong) == 1:
        return words("{axis} {number} only, of {size}", axis=axis, number=wrong[0], size=size)
    if len(right) == 1:
        return words("all but {axis} {number}, of {size}", axis=axis, number=right[0], size=size)
    if wrong == tuple(range(wrong[0], size)):
        text = "{axis} {first} and all after it, of {size}"
        return words(text, axis=axis, first=wrong[0], size=size)
    if wrong == tuple(range(wrong[0], wrong[-1] + 1)):
        text = "{axes} {first} to {last}, of {size}"
        return words(text, axes=several, first=wrong[0], last=wrong[-1], size=size)
    if len(wrong) <= _MAX_LISTED_NUMBERS:
        numbers = words(", ").join(map(str, wrong))
        return words("{axes} {numbers}, of {size}", axes=several, numbers=numbers, size=size)
    text = "{count} of {size} {axes}; the first is {first}"
    return words(text, count=len(wrong), size=size, axes=several, first=wrong[0])
