"""Draws a still picture for each core lesson, from numbers that the reference computes.

All pictures show the sentence that the lessons follow. Its vectors are drawn from a fixed seed; the
picture of ex07 has vectors of its own for each head. Run by `make picture`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch

from docs.table_picture import PictureTable, draw_table_picture
from grader.authoring.lesson_notes import LESSON_PICTURE_WORDS
from grader.core.catalog import ROOT
from grader.core.running_sentence import RUNNING_SENTENCE
from grader.core.translation import LANGUAGES
from grader.judging.draw import Draw
from reference.ex01_softmax import exact_softmax
from reference.ex02_masking import exact_masked_softmax
from reference.ex03_sdpa import exact_attention
from reference.ex04_heads import exact_split_heads
from reference.ex05_causal_mask import exact_window_mask
from reference.ex07_mqa_gqa import kv_cache_bytes
from reference.expected import Array

SENTENCE = tuple(RUNNING_SENTENCE.split())
WIDTH, TILE = 8, 2  # numbers in a vector, keys in a tile
_MIB = 2**20
_CHINESE = {
    "scores": "分数",
    "exp(score - row maximum)": "exp(分数 - 行最大值)",
    "weights: rows sum to 1": "权重：每行之和为 1",
    "scores, one key hidden": "分数，遮住一个键",
    "weights": "权重",
    "weights with 1/sqrt(D)": "乘以 1/sqrt(D) 的权重",
    "weights without it": "不乘的权重",
    "weights of head 0": "头 0 的权重",
    "weights of head 1": "头 1 的权重",
    "all queries, causal": "全部查询，因果",
    "all queries, window of 2 keys": "全部查询，窗口为 2 个键",
    "last 2 queries, bottom-right: right": "最后 2 个查询，对齐右下角：对",
    "last 2 queries, top-left: wrong": "最后 2 个查询，对齐左上角：错",
    "step 2: one new row of weights": "第 2 步：一行新的权重",
    "step 3: one new row of weights": "第 3 步：一行新的权重",
    "kept)": "（保留）",
    "new)": "（新）",
    "weights of 'down': 4 query heads, 2 key/value heads": "“down” 的权重：4 个查询头，2 个 KV 头",
    "cache in MiB: 4096 tokens, D = 128, 32 layers, float16": "缓存（MiB）：4096 个 token，D = 128，32 层，float16",  # noqa: E501
    "scores of 'down', in tiles of 2": "“down” 的分数，每块 2 个",
    "after each tile: old sum times 'shrink'": "每块之后：原来的和乘以“缩小”",
    "maximum": "最大值",
    "shrink": "缩小",
    "sum": "和",
    "tile 0": "块 0",
    "tile 1": "块 1",
    "weights in the end": "最后的权重",
}


def draw_lesson_picture(slug: str, language: str = "en") -> str:
    """Return the picture of a lesson as SVG."""
    tables = LESSON_TABLES[slug]()
    if language == "zh":
        tables = [_translate_table(table) for table in tables]
    return draw_table_picture(slug, LESSON_PICTURE_WORDS[slug].told(language), tables)


def _translate_table(table: PictureTable) -> PictureTable:
    rows, columns = (tuple(map(_translate, names)) for names in (table.rows, table.columns))
    return replace(table, title=_translate(table.title), rows=rows, columns=columns)


def _translate(text: str) -> str:
    """Return a title or a label in Chinese; the words of the sentence and signs stay."""
    word, _, note = text.partition(" (")
    return f"{word}{_CHINESE[note]}" if note in _CHINESE else _CHINESE.get(text, text)


def _vectors(role: str) -> Array:
    rows = [Draw("lessons", role, word).normal(WIDTH, dtype=torch.float64) for word in SENTENCE]
    return np.asarray(torch.stack(rows))


def _scores(scale: float = WIDTH**-0.5) -> Array:
    return np.asarray(_vectors("q") @ _vectors("k").T * scale)


def _table(title: str, values: Array, keep: Array | None = None) -> PictureTable:
    """Return a table of queries (the last words of the sentence) and keys."""
    rows, columns = SENTENCE[-len(values) :], SENTENCE[: values.shape[-1]]
    return PictureTable(title=title, rows=rows, columns=columns, values=values, keep=keep)


def _softmax_tables() -> list[PictureTable]:
    powers = np.exp(_scores() - _scores().max(-1, keepdims=True))
    return [
        _table("scores", _scores()),
        _table("exp(score - row maximum)", powers),
        _table("weights: rows sum to 1", exact_softmax(_scores())),
    ]


def _masking_tables() -> list[PictureTable]:
    keep = np.tile(np.arange(len(SENTENCE)) < len(SENTENCE) - 1, (len(SENTENCE), 1))
    return [
        _table("scores", _scores()),
        _table("scores, one key hidden", _scores(), keep),
        _table("weights", exact_masked_softmax(_scores(), keep), keep),
    ]


def _attention_tables() -> list[PictureTable]:
    q, k, v = map(_vectors, "qkv")
    return [
        _table("weights with 1/sqrt(D)", exact_attention(q, k, v)[1]),
        _table("weights without it", exact_attention(q, k, v, scale=1.0)[1]),
    ]


def _heads_tables() -> list[PictureTable]:
    q, k, v = (exact_split_heads(_vectors(role), 2) for role in "qkv")
    weights = exact_attention(q, k, v)[1]
    return [_table(f"weights of head {head}", weights[head]) for head in range(2)]


def _causal_tables() -> list[PictureTable]:
    length = len(SENTENCE)
    q, k, v = map(_vectors, "qkv")
    square = exact_window_mask(length, length, length)
    shown: list[tuple[str, Array]] = [
        ("all queries, causal", square),
        ("all queries, window of 2 keys", exact_window_mask(length, length, 2)),
        ("last 2 queries, bottom-right: right", square[-2:]),
        ("last 2 queries, top-left: wrong", square[:2]),
    ]
    return [
        _table(title, exact_attention(q[-len(keep) :], k, v, keep)[1], keep)
        for title, keep in shown
    ]


def _cache_tables() -> list[PictureTable]:
    q, k, v = map(_vectors, "qkv")
    tables = []
    for old in (2, 3):
        keep = exact_window_mask(1, old + 1, len(SENTENCE))
        weights = exact_attention(q[old : old + 1], k[: old + 1], v[: old + 1], keep)[1]
        columns = (*(f"{word} (kept)" for word in SENTENCE[:old]), f"{SENTENCE[old]} (new)")
        tables.append(
            PictureTable(
                title=f"step {old}: one new row of weights", rows=(SENTENCE[old],),
                columns=columns, values=weights, wide=True,
            )
        )  # fmt: skip
    return tables


def _grouped_tables() -> list[PictureTable]:
    counts = (8, 4, 2, 1)
    sizes = [
        kv_cache_bytes(1, heads, 4096, 128, torch.float16, 32).exact.item() / _MIB
        for heads in counts
    ]
    pairs = [(head, head // 2) for head in range(4)]  # of a query head and a key/value head
    queries = np.stack([_vectors(f"q{head}")[-1:] for head, _ in pairs])
    keys = np.stack([_vectors(f"k{head}") for _, head in pairs])
    return [
        PictureTable(
            title="weights of 'down': 4 query heads, 2 key/value heads",
            rows=tuple(f"q {head}, kv {group}" for head, group in pairs), columns=SENTENCE,
            values=exact_attention(queries, keys, keys)[1][:, 0],
        ),
        PictureTable(
            title="cache in MiB: 4096 tokens, D = 128, 32 layers, float16", rows=("MiB",),
            columns=tuple(f"Hk = {heads}" for heads in counts), values=np.array([sizes]), digits=0,
        ),
    ]  # fmt: skip


def _tiles_tables() -> list[PictureTable]:
    scores = _scores()[-1]
    top, total, steps = -np.inf, 0.0, []
    for start in range(0, len(scores), TILE):
        tile = scores[start : start + TILE]
        new = max(top, tile.max())
        shrunk = np.exp(top - new)
        top, total = new, total * shrunk + np.exp(tile - new).sum()
        steps.append((top, shrunk, total))
    weights = np.exp(scores - top) / total
    return [
        PictureTable(title="scores of 'down', in tiles of 2", rows=SENTENCE[-1:], columns=SENTENCE,
                     values=scores[None]),
        PictureTable(title="after each tile: old sum times 'shrink'",
                     rows=("maximum", "shrink", "sum"), columns=("tile 0", "tile 1"),
                     values=np.array(steps).T),
        PictureTable(title="weights in the end", rows=SENTENCE[-1:], columns=SENTENCE,
                     values=weights[None]),
    ]  # fmt: skip


LESSON_TABLES: Mapping[str, Callable[[], list[PictureTable]]] = {
    "ex01_softmax": _softmax_tables,
    "ex02_masking": _masking_tables,
    "ex03_sdpa": _attention_tables,
    "ex04_heads": _heads_tables,
    "ex05_causal_mask": _causal_tables,
    "ex06_kv_cache": _cache_tables,
    "ex07_mqa_gqa": _grouped_tables,
    "ex08_cuda_sdpa": _tiles_tables,
}


def main() -> None:
    """Write the pictures."""
    for slug in LESSON_TABLES:
        for language in LANGUAGES:
            path = ROOT / "docs" / "lessons" / f"{slug}.{language}.svg"
            path.write_text(draw_lesson_picture(slug, language), encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
