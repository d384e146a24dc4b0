"""What the search for similar answers is made of: tokens, the index, groups."""

import random

import numpy as np
import pytest

from grader.classroom.similar import fingerprint_index as index
from grader.classroom.similar.fingerprint_index import (
    FingerprintPair,
    build_fingerprint_index,
    find_similar_pairs,
)
from grader.classroom.similar.fingerprints import (
    GAP,
    MIN_PASSAGE_TOKENS,
    read_fingerprint_tokens,
    remove_given_fingerprints,
)
from grader.classroom.similar.rank import rank_similar_groups
from grader.classroom.similar.similar_groups import group_similar_pairs

LONG = "y = x.exp() / x.exp().sum(-1, keepdims=True)"


def texts(source):
    return [source[start:end] for start, end in read_fingerprint_tokens(source).places]


@pytest.mark.parametrize(
    "one, other",
    [
        ("scores = q @ k", "s = query @ key"),
        ("def softmax(x):\n    return x", "def mine(logits):\n\n        return logits"),
        ("f(a, b)", "f(\n    a,\n    b,\n)"),
        ("a = 1; b = 2", "a = 1\nb = 2"),
        ("a = 1  # why", "a = 1"),
        ('f("text")', "f('other text')"),
        ('def f():\n    """Said."""\n    return 1', "def f():\n    return 1"),
        ("f(f'{x!r} {{}} \\' }')", "f(rb'''\n''')"),
        ("self.length = 1", "self.n = 1"),
        ("x = a + \\\n    b", "x = a + b"),
    ],
)
def test_what_is_easily_changed_is_alike(one, other):
    assert read_fingerprint_tokens(one).letters == read_fingerprint_tokens(other).letters


@pytest.mark.parametrize(
    "one, other",
    [
        ("x.exp()", "x.log()"),
        ("torch.softmax(x, -1)", "torch.exp(x)"),
        ("max(a, b)", "min(a, b)"),
        ("a if b else c", "a and b or c"),
        ("x[1]", "x[2]"),
        ("x * 0.5", "x * 1e-5"),
        ("a // b", "a / b"),
        ("return x", "yield x"),
    ],
)
def test_what_tells_answers_apart_is_not(one, other):
    assert read_fingerprint_tokens(one).letters != read_fingerprint_tokens(other).letters


@pytest.mark.parametrize(
    "source, expected",
    [
        ("a**=2", ["a", "**=", "2"]),
        ("x[..., -1:]", ["x", "[", "...", ",", "-", "1", ":", "]"]),
        ("f(a, )", ["f", "(", "a", ")"]),
        ("1e-5+.5j", ["1e-5", "+", ".5j"]),
        ("'open\nx = 1", ["x", "=", "1"]),
        ("'''open\nx = 1", []),
        ("größe = 1 $ 2", ["größe", "=", "1", "$", "2"]),
    ],
)
def test_the_tokens_of_a_source(source, expected):
    assert texts(source) == expected


def in_cuda(source):
    return read_fingerprint_tokens(source, "cuda").letters


def test_cuda_is_read_as_cuda():
    one = "// mine\n#define TILE 32\n__shared__ float k[TILE];\nx += a[i] * b[i];"
    other = "#define W 16  /* her's */\n__shared__ float keys[W];\n y += q[t]  * w[t]; // and more"
    assert in_cuda(one) == in_cuda(other.replace("16", "32"))
    assert in_cuda(one) != in_cuda(one.replace("__shared__", "__device__"))
    assert len(in_cuda("int x; // it's\nint y;")) == len(in_cuda("int x; int y;"))


def test_what_was_given_leaves_a_gap_that_no_passage_crosses():
    given = "def given(a, b, c):\n    raise NotImplementedError('write it', a, b, c)\n"
    answer = f"{LONG}\n{given}{LONG}"
    letters = remove_given_fingerprints(
        read_fingerprint_tokens(answer), read_fingerprint_tokens(given)
    ).letters
    assert letters == GAP.join([read_fingerprint_tokens(LONG).letters] * 2)


def test_what_is_too_short_beside_what_was_given_is_left_out():
    given = "def given(a, b, c):\n    raise NotImplementedError(a, b, c)\n"
    assert (
        remove_given_fingerprints(
            read_fingerprint_tokens(f"x = 1\n{given}"), read_fingerprint_tokens(given)
        ).count
        == 0
    )
    assert MIN_PASSAGE_TOKENS > 3


def prints(*texts):
    """Fingerprints by letter."""
    return [np.array([ord(letter) for letter in text], dtype=np.int64) for text in texts]


def found(*texts, of_class=None):
    of_class = of_class or [True] * len(texts)
    return [
        tuple(p[:2])
        for p in find_similar_pairs(
            build_fingerprint_index(prints(*texts), [1] * len(texts)), of_class
        )
    ]


def test_pairs_have_something_in_common_and_the_most_unusual_comes_first():
    assert found("abc", "abx", "ay", "z") == [(0, 1), (0, 2), (1, 2)]


def test_what_two_have_is_more_unusual_than_what_three_have():
    assert found("a", "a", "b", "b", "b")[0] == (0, 1)


def test_the_order_of_fingerprints_changes_nothing():
    """Hashes of texts, and so their order, are others in every process."""
    chance = random.Random(0)
    texts = ["".join(map(chr, chance.sample(range(200), 40))) for _ in range(30)]
    turned = [-hashes for hashes in prints(*texts)]
    made = [
        build_fingerprint_index(hashes, [1] * len(texts)) for hashes in (prints(*texts), turned)
    ]
    one, other = (find_similar_pairs(index, [True] * len(texts)) for index in made)
    assert one == other != []


def test_answers_that_were_added_are_not_compared_with_each_other():
    assert found("a", "a", "a", of_class=[True, False, False]) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("many, expected", [(20, 190), (21, 0)])
def test_what_a_large_share_has_leads_to_no_pair(many, expected):
    others = [chr(1000 + number) for number in range(30)]
    assert len(found(*["a"] * many, *others)) == expected


def test_only_the_most_unusual_pairs_are_kept(monkeypatch):
    monkeypatch.setattr(index, "MAX_PAIRS", 3)
    texts = ["abc", "abc", *["d"] * 9, "ef", "ef"]
    assert found(*texts) == [(0, 1), (11, 12), (2, 3)]


def test_of_a_huge_answer_a_part_is_enough(monkeypatch):
    monkeypatch.setattr(index, "MAX_FINGERPRINTS_PER_ANSWER", 5)
    assert found("abcdefgh", "abcdefgh", "ijk") == [(0, 1)]


def groups(*close, unusual=10.0, of_class=(True,) * 9):
    """Groups of answers that are as unusual as all `unusual`, by pairs and what they share."""
    made = [FingerprintPair(*pair) for pair in sorted(close, key=lambda pair: -pair[2])]
    told = group_similar_pairs(made, [unusual] * len(of_class), of_class)
    return [[tuple(pair[:2]) for pair in group] for group in told]


def test_a_clique_is_told_by_its_pairs_with_one_of_it():
    pairs = [(0, 1, 8), (0, 2, 9), (1, 2, 8), (0, 3, 8), (1, 3, 7), (2, 3, 7)]
    assert [sorted(group) for group in groups(*pairs)] == [[(0, 1), (0, 2), (0, 3)]]


def test_what_was_added_is_the_centre_of_those_who_are_like_it():
    pairs = [(0, 2, 8), (1, 2, 8), (0, 1, 8)]
    told = groups(*pairs, of_class=(True, True, False))
    assert [sorted(group) for group in told] == [[(0, 2), (1, 2)]]


def test_a_part_in_common_is_a_pair_of_its_own():
    assert groups((0, 1, 9), (1, 2, 3)) == [[(0, 1)], [(1, 2)]]


def test_of_the_pairs_between_two_groups_the_first_is_told():
    assert groups((0, 1, 9), (1, 2, 4), (0, 2, 3)) == [[(0, 1)], [(1, 2)]]


def test_a_chain_is_not_one_group():
    chain = [(0, 1, 9), (1, 2, 8), (2, 3, 7), (3, 4, 6)]
    assert groups(*chain) == [[(0, 1), (1, 2)], [(2, 3)], [(3, 4)]]


def test_copies_of_two_that_were_added_are_one_group():
    """The two that were added are not compared, which says nothing against it."""
    pairs = [(0, 1, 9), (0, 2, 9), (0, 3, 9), (0, 4, 9)]
    assert groups(*pairs, of_class=(True, *[False] * 4)) == [[pair[:2] for pair in pairs]]


def test_a_large_group_is_not_less_unusual_because_it_is_large():
    texts = [*["abcdef"] * 5, *["ijkl"] * 2, *(chr(1000 + n) * 3 for n in range(9))]
    made = build_fingerprint_index(prints(*texts), [1] * len(texts))
    _, first = rank_similar_groups(made, [True] * len(texts), most=9)[0]
    assert {n for pair in first for n in pair[:2]} == {0, 1, 2, 3, 4}
