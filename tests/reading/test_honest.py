"""Honest habits pass the list unharmed: as they are written, they are run."""

import pytest

from grader.core import catalog
from grader.submission import python_outline
from grader.submission.cut_functions import cut_forbidden_from_submission

HABITS = {
    "einops": "from einops import rearrange, einsum\ndef f(x): return rearrange(x, 'b h l d -> b l (h d)')",
    "baddbmm": "import torch\ndef f(q, k, s): return torch.baddbmm(s, q, k.mT, beta=0.0, alpha=0.5)",
    "F.linear": "import torch.nn.functional as F\ndef f(x, w): return F.linear(x, w)",
    "np.einsum": "import numpy as np\ndef f(q, k): return np.einsum('...id,...jd->...ij', q, k)",
    "closure": "def outer(scale):\n    def inner(x): return x * scale\n    return inner",
    "dataclass": (
        "from dataclasses import dataclass, field\nimport torch\n@dataclass(frozen=True, slots=True)\n"
        "class Parts:\n    q: torch.Tensor\n    more: list[int] = field(default_factory=list)\n"
        "def f(p: Parts): return p.q"
    ),
    "named tuple": "from typing import NamedTuple\nclass Out(NamedTuple):\n    y: float\n    w: float\n",
    "own decorator": (
        "import functools\ndef checked(f):\n    @functools.wraps(f)\n"
        "    def inner(*args, **kwargs): return f(*args, **kwargs)\n    return inner\n"
        "@checked\ndef softmax(x, dim=-1): return x"
    ),
    "wraps by name": "from functools import wraps\ndef d(f):\n    @wraps(f)\n    def g(*a): return f(*a)\n    return g",
    "cache": "from functools import lru_cache, cache\n@lru_cache(maxsize=None)\ndef f(n): return n\n@cache\ndef g(n): return n",
    "variadic": "def f(*args, scale=None, **kwargs): return args[0] if not kwargs else kwargs['x']",
    "type aliases": "from typing import TypeAlias, Optional, Union\nimport torch\nT: TypeAlias = torch.Tensor\ndef f(x: Optional[T]) -> Union[T, None]: return x",
    "generic": "from typing import Generic, TypeVar, Protocol\nT = TypeVar('T')\nclass Box(Generic[T]):\n    def __init__(self, x: T): self.x = x",
    "annotations": "from __future__ import annotations\nimport torch\ndef f(x: torch.Tensor | None = None) -> list[int]: ...",
    "comprehensions": "def f(rows): return [[sum(a * b for a, b in zip(r, c)) for c in zip(*rows)] for r in rows]",
    "walrus": "def f(x):\n    if (n := len(x)) > 3: return n\n    return 0",
    "match on shapes": "def f(x):\n    match x.shape:\n        case (b, l, d): return b * l * d\n        case (l, d): return l\n        case _: return 0",
    "match on values": "import torch\ndef f(x):\n    match x.dtype:\n        case torch.float16 | torch.bfloat16: return x.float()\n        case None: return x",
    "match on types": "def f(x):\n    match x:\n        case int(n): return n\n        case float() | str(): return 0\n        case [first, *rest]: return first\n        case {'a': a}: return a",
    "match on an own class": "class P:\n    __slots__ = ('x',)\n    def __init__(self, x): self.x = x\ndef f(p):\n    match p:\n        case P(x=0): return 0",
    "module list": "from torch import nn\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.parts = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])\n    def forward(self, x):\n        for p in self.parts: x = p(x)\n        return x",
    "buffer": "import torch\nfrom torch import nn\nclass C(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.register_buffer('_mask', torch.ones(n, n).tril().bool(), persistent=False)\n    def forward(self, x): return x.masked_fill(~self._mask, float('-inf'))",
    "property": "class C:\n    def __init__(self): self._k = None\n    @property\n    def keys(self): return self._k\n    @keys.setter\n    def keys(self, k): self._k = k\n    @staticmethod\n    def new(): return C()\n    @classmethod\n    def of(cls, k):\n        made = cls()\n        made._k = k\n        return made",
    "private of another": "class Cache:\n    def __init__(self): self._keys = []\ndef f(cache): return cache._keys",
    "partial": "from functools import partial\nimport torch\ntotal = partial(torch.sum, dim=-1, keepdim=True)\ndef f(x): return total(x.exp())",
    "masked_fill": "import torch\ndef f(s, m): return s.masked_fill(m == 0, torch.finfo(s.dtype).min)",
    "array module": "import numpy as np\nimport torch\ndef f(x):\n    xp = np if isinstance(x, np.ndarray) else torch\n    return xp.exp(x) / xp.exp(x).sum(-1)[..., None]",
    "which array module": "import numpy as np\nimport torch\ndef f(x):\n    xp = np if isinstance(x, np.ndarray) else torch\n    return x.sum(axis=0) if xp is np else x.sum(dim=0)",
    "array module of two functions": "import numpy as np\nimport torch\ndef f(x):\n    xp = torch\n    return xp.exp(x)\ndef g(x):\n    xp = np\n    return xp.exp(x)",
    "other names": "import torch as th\nimport numpy as numpy\nfrom torch import nn as layers, Tensor\nfrom torch.nn import Module, Linear, functional\ndef f(x: Tensor): return functional.relu(th.exp(x))",
    "module of a package that is not listed": "import torch\nfrom torch import nn\ndef f(rows, more):\n    return torch.nn.utils.rnn.pad_sequence(rows), nn.utils.rnn.pad_sequence(more)",
    "imported module of such a package": "import torch.nn.utils.rnn\ndef f(rows): return torch.nn.utils.rnn.pad_sequence(rows)",
    "unused imports": "import os, sys, socket\nimport matplotlib.pyplot as plt\nimport math\ndef f(x): return math.exp(x)",
    "optional import": "try:\n    import matplotlib.pyplot as plt\nexcept ImportError:\n    plt = None\ndef f(x): return x",
    "import in a function": "def f(x):\n    import math\n    return math.sqrt(x)",
    "demonstration": "import torch\nimport time\nimport matplotlib.pyplot as plt\ndef f(x): return x\nif __name__ == '__main__':\n    import sys\n    plt.plot(torch.softmax(torch.ones(3), 0))\n    print(sys.argv, eval('1'))",
    "slots and calls": "class S:\n    __slots__ = ('d',)\n    def __init__(self, d): self.d = d\n    def __call__(self, x): return x\n    def __getitem__(self, i): return i\n    def __len__(self): return 1\n    def __enter__(self): return self\n    def __exit__(self, *a): return False",
    "weights by number": "class H:\n    def __init__(self, n):\n        for i in range(n): setattr(self, f'w_{i}', i)\n    def get(self, i): return getattr(self, f'w_{i}')",
    "asked attribute": "def f(x): return getattr(x, 'is_cuda', False) and hasattr(x, 'device')",
    "generator": "def blocks(n, size):\n    for start in range(0, n, size):\n        yield slice(start, start + size)\ndef f(x): return [x[s] for s in blocks(len(x), 4)]",
    "context manager": "from contextlib import contextmanager, nullcontext\nimport torch\n@contextmanager\ndef quiet():\n    with torch.no_grad(): yield\ndef f(x):\n    with quiet(), nullcontext(): return x * 2",
    "abstract": "from abc import ABC, abstractmethod\nclass Base(ABC):\n    @abstractmethod\n    def f(self): ...\nclass Made(Base):\n    def f(self): return type(self).__name__ + self.__class__.__name__",
    "enumeration": "from enum import Enum, auto\nclass Kind(Enum):\n    CAUSAL = auto()\n    FULL = auto()\ndef f(k): return k is Kind.CAUSAL",
    "errors": "def f(x):\n    try: return x / 0\n    except (ZeroDivisionError, ValueError) as e: raise ValueError(f'bad {x!r}: {e}') from e\n    finally: assert True, 'never'",
    "header": "__author__ = 'A'\n__copyright__ = 'B'\n__credits__ = ['C']\n__license__ = 'MIT'\n__version__ = '1'\n__maintainer__ = 'A'\n__email__ = 'a@b'\n__status__ = 'done'\n__docformat__ = 'google'",
    "constants of a module": "from torch import nn\nclass M(nn.Module):\n    __constants__ = ['scale']\n    def forward(self, x): return x",
    "warnings": "import warnings\ndef f(x):\n    with warnings.catch_warnings():\n        warnings.simplefilter('ignore')\n        return x",
    "own autograd": "import torch\nclass Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x.clone()\n    @staticmethod\n    def backward(ctx, g):\n        (x,) = ctx.saved_tensors\n        return g * x\ndef f(x): return Op.apply(x)",
    "names of built-ins": "def f(vars, compile=None, open=0):\n    locals = [vars]\n    return locals, compile, open",
    "a parameter like a module": "import math\nimport copy\ndef f(math, copy): return math.shape, copy.shape",
    "a variable like a module": "import torch\ndef f(x):\n    t = x.t()\n    return t.shape\n",
    "eval of a module": "from torch import nn\ndef f(layer: nn.Module):\n    layer.eval()\n    layer.train(False)\n    return layer",
    "star arguments": "import itertools, collections\ndef f(*masks): return itertools.chain(*masks), collections.deque(maxlen=3)",
    "lambda": "import torch\nscale = lambda d: 1 / torch.tensor(d).sqrt()\nf = lambda q, k: q @ k.mT * scale(q.shape[-1])",
    "docstring with code": 'def f(x):\n    """Example:\n\n    >>> eval("torch.softmax")\n    """\n    return x',
    "operators of torch": "import torch\ndef f(x): return torch.Tensor.exp(x), torch.Size([1]), torch.long, torch.inf, torch.nn.Parameter(x)",
    "initialised": "from torch import nn\ndef f(m): nn.init.xavier_uniform_(m.weight); nn.init.zeros_(m.bias)",
    "names of its own file": "__all__ = ['f']\nprint(__doc__, __name__)\ndef f(x):\n    if __name__ == '__main__': print(x)\n    return x",
    "overloads": "from typing import overload, Any\n@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\ndef f(x: Any) -> Any: return x",
    "replaced in a named tuple": "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int = 0\ndef f(p): return p._replace(x=1)._asdict(), P._fields",
    "logging": "import logging\nlog = logging.getLogger(__name__)\ndef f(x):\n    log.debug('shape %s', x.shape)\n    return x",
    "operators as functions": "import operator\nfrom functools import reduce\ndef f(masks): return reduce(operator.and_, masks)",
    "what the machine has": "import sys\nassert sys.version_info >= (3, 10)\nLEAST = -sys.float_info.max",
    "asked of a module": "import torch\nHALF = getattr(torch, 'bfloat16', None)\nHAS = hasattr(torch, 'compile')",
    "device": "import torch\nDEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'\ndef f(x): return x.to(DEVICE)",
    "linear algebra": "import numpy as np\nimport torch\ndef f(x): return np.linalg.norm(x), torch.linalg.vector_norm(torch.as_tensor(x), dim=-1)",
}  # fmt: skip
DROPPED = {"unused imports", "optional import", "demonstration"}  # what is not allowed in them


@pytest.mark.parametrize(
    "slug", ["ex02_masking", "ex03_sdpa", "ex06_kv_cache", "ex12_attention_block"]
)
@pytest.mark.parametrize("name", HABITS)
def test_an_honest_habit_is_run_as_it_is_written(name, slug):
    source = HABITS[name] + "\n"
    done = cut_forbidden_from_submission(
        source,
        python_outline.parse_submission(source),
        catalog.find_catalog_exercise(slug),
        frozenset(),
    )
    assert (done.file, done.refused) == ("", {})
    assert (done.runs == source) == (name not in DROPPED)
    python_outline.parse_submission(done.runs)
    assert done.runs.count("\n") == source.count("\n")


@pytest.mark.parametrize(
    "handler, fails",
    [
        ("except ImportError:\n    FAST = False", True),
        ("except (OSError, ModuleNotFoundError):\n    FAST = False", True),
        ("except:\n    FAST = False", True),
        ("except ValueError:\n    FAST = False", False),
        ("finally:\n    OTHER = 1", False),
    ],
)
def test_an_import_that_is_left_out_fails_where_that_is_expected(handler, fails):
    source = f"try:\n    import torch, flash_attn\n    FAST = True\n{handler}\n"
    done = cut_forbidden_from_submission(
        source,
        python_outline.parse_submission(source),
        catalog.find_catalog_exercise("ex03_sdpa"),
        frozenset(),
    )
    names: dict[str, object] = {}
    exec(done.runs, names)
    assert names["FAST"] is not fails


def test_there_are_enough():
    assert len(HABITS) >= 50
