"""Formulas of a page: MathML where a formula stands, and code as it was."""

import pytest

markdown = pytest.importorskip("markdown", reason="the extra `site` is not installed")


def convert(text: str) -> str:
    return markdown.markdown(text, extensions=["docs.site.formulas", "fenced_code"])


@pytest.mark.parametrize(
    "text, display, inside",
    [
        ("so $x_i$ is", "inline", "<msub><mi>x</mi><mi>i</mi></msub>"),
        ("$$\\sqrt{D}$$", "block", "<msqrt><mrow><mi>D</mi></mrow></msqrt>"),
        ("$$a\n= b$$", "block", "<mi>a</mi><mo>&#x0003D;</mo><mi>b</mi>"),
        ("$a_1 * b$ and *c* and $d * e$", "inline", "<mi>d</mi><mo>&#x0002A;</mo><mi>e</mi>"),
    ],
)
def test_a_formula_becomes_mathml(text, display, inside):
    html = convert(text)
    assert f'display="{display}"' in html
    assert inside in html
    assert "$" not in html


@pytest.mark.parametrize(
    "text", ["`echo $A $B`", "```sh\necho $A $B\n```", "it costs $ 5 or $ 6", "$5 or $6"]
)
def test_a_dollar_that_is_no_formula_stays(text):
    html = convert(text)
    assert "<math" not in html
    assert html.count("$") == 2
