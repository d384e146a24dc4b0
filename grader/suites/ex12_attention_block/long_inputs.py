"""Compares modules with lengths, widths and head counts beyond 64, 128, 256 and 1024."""

from grader.judging import Hard, agree

from .modules import pair

ALIKE = 5990  # tokens; half precision would round their weights by 3 in 10,000, all the same way
LONGEST = {"H": 256, "D": 128}  # where 1024 would cost too much
SELF = {"B": 1, "L": 5, "H": 2, "D": 2}
CROSS = {"B": 1, "L": 5, "Lt": 7, "Li": 4, "H": 2, "D": 2}  # tokens of the text and of the image


def long_layers_agree(student, draw, device):
    """Compare self-attention, with a mask and without in turn."""
    for number, sizes in enumerate(draw.hard(Hard.LONG, LONGEST, **SELF)):
        batch, length, heads, width = sizes.values()
        module, right = pair(student, draw, device, "SelfAttention", heads * width, heads)
        x = draw.normal(batch, length, heads * width)
        keep = None if number % 2 else draw.keep(heads, length, length)
        agree(module(x, keep), right(x, keep), says=f"output for {sizes}")


def long_contexts_agree(student, draw, device):
    """Compare attention to a context, with a mask and without in turn."""
    for number, sizes in enumerate(draw.hard(Hard.LONG, LONGEST, **CROSS)):
        batch, length, text, image, heads, width = sizes.values()
        module, right = pair(student, draw, device, "CrossAttention", heads * width, heads, image)
        x = draw.normal(batch, length, heads * width)
        context = draw.normal(batch, image + text, heads * width)
        keep = draw.keep(heads, length, text) if number % 2 else None
        agree(module(x, context, keep), right(x, context, keep), says=f"output for {sizes}")
    module, right = pair(student, draw, device, "CrossAttention", 4, 2)
    x, alike = draw.normal(1, 1, 4), draw.normal(1, 1, 4).expand(1, ALIKE, 4)
    agree(module(x, alike), right(x, alike), says=f"output for {ALIKE} tokens that are alike")
