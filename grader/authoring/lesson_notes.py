"""Says what the picture of each core lesson shows, and lists the papers behind the lesson."""

from dataclasses import dataclass

from grader.core.running_sentence import RUNNING_SENTENCE

_ARXIV = "https://arxiv.org/abs/"
_VASWANI = ("Vaswani et al., Attention Is All You Need, 2017", "1706.03762")
_FLASH = ("Dao et al., FlashAttention, 2022", "2205.14135")
_ONLINE = ("Milakov and Gimelshein, Online normalizer calculation for softmax, 2018", "1805.02867")
LESSON_PAPERS = {
    "ex01_softmax": (_VASWANI, _ONLINE),
    "ex02_masking": (_VASWANI,),
    "ex03_sdpa": (_VASWANI,),
    "ex04_heads": (_VASWANI,),
    "ex05_causal_mask": (
        _VASWANI,
        ("Beltagy, Peters and Cohan, Longformer, 2020", "2004.05150"),
        ("Jiang et al., Mistral 7B, 2023", "2310.06825"),
    ),
    "ex06_kv_cache": (
        ("Pope et al., Efficiently Scaling Transformer Inference, 2022", "2211.05102"),
    ),
    "ex07_mqa_gqa": (
        ("Shazeer, Fast Transformer Decoding: One Write-Head is All You Need, 2019", "1911.02150"),
        ("Ainslie et al., GQA, 2023", "2305.13245"),
    ),
    "ex08_cuda_sdpa": (_ONLINE, _FLASH, ("Dao, FlashAttention-2, 2023", "2307.08691")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureWords:
    """What a picture shows, in both languages, for readers who cannot see it."""

    english: str
    chinese: str

    def told(self, language: str) -> str:
        return self.chinese if language == "zh" else self.english


_ABOUT = f'The sentence "{RUNNING_SENTENCE}": '
_ABOUT_ZH = f"句子 “{RUNNING_SENTENCE}”："
LESSON_PICTURE_WORDS = {
    "ex01_softmax": PictureWords(
        english=f"{_ABOUT}a table of scores, their exponentials after the row maximum is "
        "subtracted, and the weights, whose rows sum to 1.",
        chinese=f"{_ABOUT_ZH}分数表、减去每行最大值之后的指数，以及每行之和为 1 的权重。",
    ),
    "ex02_masking": PictureWords(
        english=f'{_ABOUT}the scores, the same with the key "down" hidden, and the weights, '
        "which are 0 there and still sum to 1 in every row.",
        chinese=f"{_ABOUT_ZH}分数、隐藏 “down” 后的分数，以及那里为 0、每行之和仍为 1 的权重。",
    ),
    "ex03_sdpa": PictureWords(
        english=f"{_ABOUT}the weights with the scale 1/sqrt(D), and the sharper ones without it.",
        chinese=f"{_ABOUT_ZH}乘以 1/sqrt(D) 的权重，以及不乘时更尖锐的权重。",
    ),
    "ex04_heads": PictureWords(
        english=f"{_ABOUT}two heads, each with weights of its own from half of the width.",
        chinese=f"{_ABOUT_ZH}两个头，各用一半宽度算出自己的权重。",
    ),
    "ex05_causal_mask": PictureWords(
        english=f"{_ABOUT}causal weights in a triangle, and with a window of 2 keys. Below, the "
        "last 2 queries alone: aligned bottom-right they see 3 and 4 keys as before, aligned "
        "top-left only the first key and the first two.",
        chinese=f"{_ABOUT_ZH}三角形的因果权重，以及窗口为 2 个键的权重。下面只有最后 2 个查询："
        "对齐右下角时照旧看到 3 个和 4 个键，对齐左上角时只看到第 1 个和前 2 个键。",
    ),
    "ex06_kv_cache": PictureWords(
        english=f"{_ABOUT}each step computes one new row of weights; the keys before it are kept.",
        chinese=f"{_ABOUT_ZH}每一步只算一行新的权重，之前的键都保留着。",
    ),
    "ex07_mqa_gqa": PictureWords(
        english=f'{_ABOUT}the weights of "down" in 4 query heads, of which 0 and 1 read key/value '
        "head 0, and 2 and 3 read head 1; and the size of a cache, which shrinks with the number "
        "of key/value heads.",
        chinese=f"{_ABOUT_ZH}“down” 在 4 个查询头里的权重，其中 0、1 读 KV 头 0，2、3 读 KV 头 1；"
        "以及缓存的大小，它随 KV 头的个数缩小。",
    ),
    "ex08_cuda_sdpa": PictureWords(
        english=f'{_ABOUT}the scores of "down" in two tiles; after each tile the running maximum, '
        "by what the sum so far shrinks since the maximum has grown, and the sum; and the weights "
        "that follow.",
        chinese=f"{_ABOUT_ZH}“down” 的分数分成两块；每块之后的最大值、"
        "最大值变大时原来的和要缩小的倍数与和；以及由此得到的权重。",
    ),
}


def write_picture_link(slug: str, language: str) -> str:
    """Return the Markdown that shows a lesson's picture; empty if it has none."""
    if slug not in LESSON_PICTURE_WORDS:
        return ""
    return f"![{LESSON_PICTURE_WORDS[slug].told(language)}]({slug}.{language}.svg)"


def write_lesson_papers(slug: str, language: str) -> str:
    """Return links to the papers of a lesson as a paragraph; empty if none is listed."""
    links = "; ".join(f"[{what}]({_ARXIV}{number})" for what, number in LESSON_PAPERS.get(slug, ()))
    head = "**论文。**" if language == "zh" else "**Papers.**"
    return f"{head} {links}." if links else ""
