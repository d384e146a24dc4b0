"""Ways of getting at something, combined with what is got at: each an answer to ex01.

A way says how `{m}.{n}` is written: as lines at the top of the file, lines in the function, and the
expression that should be it. A target is a module or another thing, a name of it, and how that is
used to compute a softmax that was not written.
"""

from collections.abc import Iterator

IMPORTS = """\
import collections, contextlib, dataclasses, functools, itertools, math, typing, warnings
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
LOST = "x + 0 * dim"  # what is returned where the way does not end in an expression

# what, its name, and what is done with it
TARGETS = [
    ("torch", "softmax", "(x, dim)"),
    ("F", "softmax", "(x, dim)"),
    ("x", "softmax", "(dim)"),
    ("nn", "Softmax", "(dim)(x)"),
    ("torch.special", "softmax", "(x, dim)"),
    ("torch", "_softmax", "(x, dim, False)"),
    ("torch", "ops", ".aten._softmax(x, dim, False)"),
    ("torch", "_C", "._nn.softmax(x, dim)"),
    ("torch", "jit", ".script(lambda x: x.softmax(-1))(x)"),
    ("torch", "compile", "(lambda x: x.softmax(dim))(x)"),
    ("torch", "sys", ".modules['torch'].softmax(x, dim)"),
    ("warnings", "sys", ".modules['attention_worker.operator_list']._libraries.clear() or x"),
    ("typing", "sys", ".modules['attention_worker.fork_server'] and x"),
    ("dataclasses", "builtins", ".__import__('os').write(3, b'') or x"),
    ("contextlib", "os", ".write(3, b'') or x"),
    ("np", "ctypeslib", ".ctypes.CDLL(None) and x"),
    ("torch", "library", ".Library('aten', 'IMPL') and x"),
    ("torch", "utils", "._python_dispatch and x"),
    ("torch.nn", "utils", ".rnn.torch.softmax(x, dim)"),
    ("torch.nn.utils", "rnn", ".torch.softmax(x, dim)"),
    ("torch.nn.utils", "parametrize", ".torch.softmax(x, dim)"),
    ("torch.nn.utils.rnn", "torch", ".softmax(x, dim)"),
    ("softmax_numpy", "__globals__", "['__builtins__'] and x"),
]
# lines of the file, lines of the function, the expression
WAYS = {
    "attribute": ("", "", "{m}.{n}"),
    "in brackets": ("", "", "({m}).{n}"),
    "alias of the module": ("way = {m}", "", "way.{n}"),
    "alias in the function": ("", "way = {m}", "way.{n}"),
    "alias of an alias": ("one = {m}\nway = one", "", "way.{n}"),
    "walrus": ("", "", "(way := {m}).{n}"),
    "tuple": ("way, _ = {m}, 1", "", "way.{n}"),
    "list": ("way = [{m}]", "", "way[0].{n}"),
    "dictionary": ("way = {{'m': {m}}}", "", "way['m'].{n}"),
    "set": ("", "", "next(iter({{{m}}})).{n}"),
    "loop": ("", "for way in ({m},): pass", "way.{n}"),
    "comprehension": ("", "", "[way.{n} for way in [{m}]][0]"),
    "star": ("", "way, *_ = {m}, 1", "way.{n}"),
    "with": ("", "with contextlib.nullcontext({m}) as way: pass", "way.{n}"),
    "conditional": ("", "", "({m} if dim else {m}).{n}"),
    "or": ("", "", "(None or {m}).{n}"),
    "default argument": ("def way(m={m}): return m", "", "way().{n}"),
    "argument": ("def way(m): return m.{n}", "", "way({m})"),
    "lambda": ("way = lambda m: m.{n}", "", "way({m})"),
    "closure": ("def way():\n    m = {m}\n    return lambda: m.{n}", "", "way()()"),
    "decorator": ("@(lambda f: {m})\ndef way(): pass", "", "way.{n}"),
    "member of a class": ("class Way:\n    m = {m}", "", "Way.m.{n}"),
    "property": ("class Way:\n    @property\n    def m(self): return {m}", "", "Way().m.{n}"),
    "descriptor": (
        "class Way:\n    def __get__(self, *_): return {m}\nclass Has:\n    way = Way()", "",
        "Has().way.{n}",
    ),
    "item": ("class Way:\n    def __getitem__(self, _): return {m}", "", "Way()[0].{n}"),
    "dataclass": ("@dataclasses.dataclass\nclass Way:\n    m: object = {m}", "", "Way().m.{n}"),
    "named tuple": ("Way = collections.namedtuple('Way', 'm')", "", "Way({m}).m.{n}"),
    "partial": ("way = functools.partial(lambda m: m.{n}, {m})", "", "way()"),
    "generator": ("def way():\n    yield {m}", "", "next(way()).{n}"),
    "sent": ("def way():\n    m = yield\n    yield m.{n}", "w = way(); next(w)", "w.send({m})"),
    "exception": (
        "", "try: raise ValueError({m})\n    except ValueError as e: way = e.args[0]", "way.{n}"
    ),
    "getattr": ("", "", "getattr({m}, '{n}')"),
    "joined name": ("", "", "getattr({m}, '{a}' + '{b}')"),
    "alias of getattr": ("way = getattr", "", "way({m}, '{n}')"),
    "getattr of self": ("def way(self): return getattr(self, '{a}' + '{b}')", "", "way({m})"),
    "mapped getattr": ("", "", "[*map(getattr, [{m}], ['{n}'])][0]"),
    "reduced getattr": ("", "", "functools.reduce(getattr, ['{n}'], {m})"),
    "own getattribute": ("", "", "object.__getattribute__({m}, '{n}')"),
    "type's getattribute": ("", "", "type({m}).__getattribute__({m}, '{n}')"),
    "attrgetter": ("import operator", "", "operator.attrgetter('{n}')({m})"),
    "methodcaller": ("from operator import methodcaller", "", "methodcaller('__getattribute__', '{n}')({m})"),
    "dictionary of it": ("", "", "{m}.__dict__['{n}']"),
    "vars": ("", "", "vars({m})['{n}']"),
    "globals": ("", "", "globals()['{m}'.split('.')[0]].{n}"),
    "own globals": ("", "", "softmax.__globals__['{m}'.split('.')[0]].{n}"),
    "eval": ("", "", "eval('{m}.{n}')"),
    "exec": ("", "exec('way = {m}.{n}', globals())", "way"),
    "compiled": ("", "", "eval(compile('{m}.{n}', 'f', 'eval'))"),
    "alias of eval": ("way = eval", "", "way('{m}.{n}')"),
    "built-in by item": ("", "", "__builtins__['eval']('{m}.{n}')"),
    "annotation": ("def way(a: '{m}.{n}'): ...", "", "typing.get_type_hints(way)['a']"),
    "dispatch on annotation": (
        "@functools.singledispatch\ndef way(a): ...\n@way.register\ndef _(a: '{m}.{n}'): ...", "", "way"
    ),
    "pattern with a keyword": ("", "match {m}:\n        case object({n}=way): pass", "way"),
    "pattern of its type": ("Way = type({m})", "match {m}:\n        case Way({n}=way): pass", "way"),
    "pattern by position": (
        "class Meta(type):\n    def __instancecheck__(c, o): return True\n"
        "class Way(metaclass=Meta):\n    __match_args__ = ('{n}',)", "match {m}:\n        case Way(way): pass", "way",
    ),
    "made metaclass": (
        "T = type(int)\nMeta = T('Meta', (T,), {{'__instancecheck__': lambda c, o: True}})\n"
        "Base = Meta('Base', (), {{'__match_args__': ('{n}',)}})\nclass Way(Base): pass",
        "match {m}:\n        case Way(way): pass", "way",
    ),
    "registered class": (
        "import collections.abc\nclass Way(collections.abc.Sized):\n    {n} = 1\nWay.register(type({m}))",
        "match {m}:\n        case Way({n}=way): pass", "way",
    ),
    "format": ("", "", "'{{0.{n}}}'.format({m})"),
    "formatter": ("import string", "", "string.Formatter().get_field('0.{n}', [{m}], {{}})[0]"),
    "import": ("import {t}.{n} as way", "", "way"),
    "from import": ("from {t} import {n} as way", "", "way"),
    "star import": ("from {t} import *", "", "{n}"),
    "import in the function": ("", "from {t} import {n} as way", "way"),
    "import by text": ("", "", "__import__('{t}', fromlist=['{n}']).{n}"),
    "import library": ("import importlib", "", "importlib.import_module('{t}').{n}"),
    "locate": ("import pydoc", "", "pydoc.locate('{t}.{n}')"),
    "import hook": (
        "import sys\nclass Way:\n    def find_spec(self, *a): return {m}\nsys.meta_path.append(Way())", "",
        "sys.meta_path[-1].find_spec().{n}",
    ),
    "frame": ("import sys", "", "sys._getframe().f_globals['{m}'.split('.')[0]].{n}"),
    "frame of a generator": ("way = (i for i in ())", "", "way.gi_frame.f_globals['{m}'.split('.')[0]].{n}"),
    "frame of a traceback": (
        "", "try: 1 / 0\n    except ZeroDivisionError as e: way = e.__traceback__.tb_frame.f_back",
        "way.f_globals and {m}.{n}",
    ),
    "collector": ("import gc", "", "[o for o in gc.get_objects() if o is {m}][0].{n}"),
    "subclasses": ("", "", "object.__subclasses__() and {m}.{n}"),
    "copied attribute": (
        "class Way:\n    def __setattr__(self, n, v): found.append(v)\nfound = []",
        "functools.update_wrapper(Way(), {m}, assigned=('{n}',), updated=())", "found[0]",
    ),
    "alias of wraps": (
        "class Way:\n    def __setattr__(self, n, v): found.append(v)\nfound = []\nw = functools.wraps",
        "w({m}, assigned=('{n}',), updated=())(Way())", "found[0]",
    ),
    "wrapped": ("", "", "functools.wraps({m})(lambda: 0).__wrapped__.{n}"),
    "self of a built-in": ("", "", "torch.exp.__self__ and {m}.{n}"),
    "code": ("", "softmax.__code__ = (lambda: 0).__code__", "{m}.{n}"),
    "set on the module": ("torch.way = {m}", "", "torch.way.{n}"),
    "set by name": ("setattr(torch, 'way', {m})", "", "torch.way.{n}"),
    "hidden in its demonstration": (
        "__name__ = '__main__'\nif __name__ == '__main__':\n    way = {m}.{n}", "", "way",
    ),
    "class statement": ("class way({m}.{n}): pass", "", "way"),
    "global": ("def put():\n    global way\n    way = {m}", "put()", "way.{n}"),
    "module's getattr": ("def __getattr__(name): return {m}", "", "way.{n}"),
    "warning's module": ("class Own:\n    def __init__(self): self._module = 0", "w = warnings.catch_warnings()",
                         "w._module and {m}.{n}"),
    "deep copy": ("import copy\nclass Way:\n    def __reduce__(self): return getattr, ({m}, '{n}')", "",
                  "copy.deepcopy(Way())"),
    "pickle": ("import pickle", "", "pickle.loads(b'c{t}\\n{n}\\n.')"),
    "shadowed by a lambda": ("", "", "(lambda {h}: {m}.{n})({h})"),
    "shadowed by a parameter": ("def way({h}): return {m}.{n}", "", "way({h})"),
    "shadowed in a comprehension": ("", "", "[{m}.{n} for {h} in [{h}]][0]"),
    "shadowed in a class": ("", "class Way:\n        {h} = {h}", "Way.{m}.{n}"),
    "shadowed in a class at the top": ("class Way:\n    {h} = {h}", "", "Way.{m}.{n}"),
    "shadowed in an inner function": (
        "def way():\n    m = {h}\n    def inner({h}): return {m}.{n}\n    return inner(m)", "", "way()"
    ),
    "shadowed by an import": ("def other():\n    import random as {h}", "", "{m}.{n}"),
    "one name for two modules": (
        "import torch as way\ndef other():\n    import random as way", "", "way.random.{n}"
    ),
    "as a type": ("", "", "{m}.{n}.__call__"),
}  # fmt: skip


def answers(way: str) -> Iterator[tuple[str, str]]:
    """Each target, and an answer that reaches for it in this way."""
    for thing, name, use in TARGETS:
        full = {"F": "torch.nn.functional", "nn": "torch.nn", "np": "numpy"}.get(thing, thing)
        words = {
            "m": thing,
            "n": name,
            "t": full,
            "a": name[:2],
            "b": name[2:],
            "h": thing.split(".")[0],
        }
        top, inside, found = (part.format(**words) for part in WAYS[way])
        yield (
            f"{thing}.{name}",
            f"{IMPORTS}{top}\n\n\ndef softmax_numpy(x, axis=-1):\n    return x\n\n\n"
            f"def softmax(x, dim=-1):\n    {inside or 'pass'}\n    return {found}{use}\n",
        )
