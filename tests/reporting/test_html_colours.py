"""The colours of the page: each can be told from what it stands on."""

import re

import pytest

from grader.core.catalog import ROOT

STYLE = (ROOT / "grader/reporting/report.css").read_text()

# Text on what it stands on, and shapes on what they stand on, as WCAG 2 level AA asks.
TEXTS = [
    (text, ground) for ground in ("page", "card", "sunk", "tip") for text in ("ink", "soft", "link")
]
TEXTS += [(tone, "card") for tone in ("good", "partly", "bad", "fault", "quiet")]
SHAPES = [(tone, "track") for tone in ("good", "partly", "link")]


def palette(scheme: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.S)[:2]
    return dict(re.findall(r"--(\w+): (#\w{6})", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_of_known_colours():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_palette_can_be_read(scheme):
    colours = palette(scheme)
    assert [p for p in TEXTS if contrast(colours[p[0]], colours[p[1]]) < 4.5] == []
    assert [p for p in SHAPES if contrast(colours[p[0]], colours[p[1]]) < 3] == []


def test_both_schemes_have_the_same_colours():
    assert palette("light").keys() == palette("dark").keys()
    assert palette("light") != palette("dark")
