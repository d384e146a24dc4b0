"""Finds the exercises and reads their manifests."""

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from grader.core import manifest, packs
from grader.core.records import DeclaredClass, DeclaredFunction, Exercise, Limits
from grader.core.toml_file import BadFile, read_toml_table

ROOT = Path(__file__).resolve().parents[2]
ANSWERS_FOLDER = Path("exercises")  # which commands take by default
SUITES_FOLDER = ROOT / "grader" / "suites"


# What manifests refuse by one word: a description for people, the names, and the operators of
# PyTorch's dispatcher in which all ways to them end.
FORBIDDEN_GROUPS = {
    "attention": (
        "PyTorch's fused attention operator and its attention modules",
        (
            "torch.nn.functional.scaled_dot_product_attention",
            "torch.nn.functional.multi_head_attention_forward",
            *("torch.nn.MultiheadAttention", "torch.nn.attention.*"),
            *("torch.nn.Transformer", "torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"),
            *("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"),
        ),
        (
            *("scaled_dot_product_attention", "_scaled_dot_product_attention_math"),
            *("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu"),
            *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"),
            "_scaled_dot_product_fused_attention_overrideable",
            *("_flash_attention_forward", "_efficient_attention_forward"),
            *("_native_multi_head_attention", "_transformer_encoder_layer_fwd"),
            "_triton_scaled_dot_attention",
        ),
    ),
    "softmax": (
        "PyTorch's own softmax in any form",
        (
            *("torch.softmax", "torch.log_softmax", "torch.nn.functional.softmin"),
            *("torch.nn.functional.gumbel_softmax", "torch.nn.Softmax", "torch.nn.LogSoftmax"),
            *("torch.nn.Softmin", "torch.nn.Softmax2d", "torch.distributions.*"),
            *("torch.nn.functional.cross_entropy", "torch.nn.CrossEntropyLoss"),
            # Their gradients are a softmax.
            *("torch.nn.functional.linear_cross_entropy", "torch.nn.LinearCrossEntropyLoss"),
            *("torch.nn.LinearCrossEntropyOptions", "torch.nn.AdaptiveLogSoftmaxWithLoss"),
            *("torch.nn.functional.ctc_loss", "torch.ctc_loss", "torch.nn.CTCLoss"),
        ),
        (
            *("_softmax", "_log_softmax", "_masked_softmax", "_safe_softmax"),
            *("_sparse_softmax", "_sparse_log_softmax", "_ctc_loss", "_cudnn_ctc_loss"),
        ),
    ),
    "norm": (
        "PyTorch's own RMSNorm",
        ("torch.nn.RMSNorm", "torch.nn.functional.rms_norm", "torch.rms_norm"),
        ("rms_norm", "_fused_rms_norm"),
    ),
    "arithmetic": (
        "PyTorch's arithmetic on tensors and on their single numbers",
        (
            *("torch.Tensor.tolist", "torch.Tensor.item", "torch.Tensor.__repr__"),
            *("torch.Tensor.apply_", "torch.Tensor.map_", "torch.Tensor.map2_"),
            *("torch.matmul.*", "torch.mm.*", "torch.bmm.*", "torch.einsum.*", "torch.exp.*"),
            *("torch.sum.*", "torch.softmax.*", "torch.nn.*", "torch.linalg.*", "torch.special.*"),
            *("torch.autograd.*", "torch.compile.*", "torch.distributed.*", "torch.func.*"),
            *("torch.jit.*", "torch.multiprocessing.*", "torch.overrides.*", "torch.utils.*"),
        ),
        ("*",),  # whatever else computes
    ),
}


PACK_HINT = "If it is of a pack, name that: `--exercises DIR`."


class UnknownExercise(Exception):
    """Raised when no exercise has a name; the message is a sentence for the person who typed it."""


@cache
def list_catalog_exercises() -> tuple[Exercise, ...]:
    """Return every exercise, core track first, in the order of the syllabus."""
    found = [read_exercise_manifest(path) for path in SUITES_FOLDER.glob("*/exercise.toml")]
    for pack in packs.list_packs_in_use():
        found += [
            read_exercise_manifest(path, pack) for path in pack.glob("suites/*/exercise.toml")
        ]
    _check_catalog_names(found)
    return tuple(sorted(found, key=lambda e: (e.track != "core", e.order, e.slug)))


def add_packs_to_catalog(paths: Iterable[Path]) -> None:
    """Add the exercises of these folders to ours. Raises `BadPack` or `BadFile`."""
    packs.add_packs_to_environment(paths)
    list_catalog_exercises.cache_clear()
    list_catalog_exercises()


def _check_catalog_names(found: Iterable[Exercise]) -> None:
    """Raise `BadPack` if two exercises share a short name, such as ex03."""
    known: dict[str, Exercise] = {}
    for exercise in found:
        number = exercise.slug.split("_")[0]
        other = known.setdefault(number, exercise)
        if other is not exercise:
            raise packs.BadPack(
                f"{exercise.folder} has the number of {other.folder}: give {exercise.slug} "
                "another number, ex50 or more, say."
            )


def find_catalog_exercise(name: str) -> Exercise:
    """Return the exercise called `name`: its slug, or the part before the first underscore."""
    for exercise in list_catalog_exercises():
        if name in (exercise.slug, exercise.slug.split("_")[0]):
            return exercise
    slugs = [e.slug for e in list_catalog_exercises()]
    padded = re.sub(r"^ex(?=\d$)", "ex0", name)  # of all that look like ex5, it is ex05
    hint = suggest_close_name(padded, [*slugs, *(slug.split("_")[0] for slug in slugs)])
    raise UnknownExercise(f"There is no exercise called {name!r}.{hint}")


def find_catalog_suffix(slug: str) -> str:
    """Return the suffix of an exercise's answer files; ".py" if there is no such exercise."""
    return next((e.suffix for e in list_catalog_exercises() if e.slug == slug), ".py")


def list_catalog_names(exercise: Exercise) -> tuple[str, ...]:
    """Return the names to extract from a notebook; for a bug hunt, those of every exercise."""
    if not exercise.hunts:
        return exercise.names
    others = (name for e in list_catalog_exercises() if e.language == "python" for name in e.names)
    return tuple(dict.fromkeys((*exercise.names, *others)))


def is_declared_in_numpy(function: DeclaredFunction) -> bool:
    """Return whether a function returns NumPy arrays, and so has to be written in NumPy."""
    parts = (p for r in function.returns.values() for p in ([r] if isinstance(r, str) else r))
    return any(part.startswith("array ") for part in parts)


def suggest_close_name(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean x?' if a known name is close to `name`, else ''."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else ""


def find_catalog_suite(slug: str) -> Path:
    """Return the folder of an exercise's suite; where it would be, if there is none."""
    return next(
        (e.folder for e in list_catalog_exercises() if e.slug == slug), SUITES_FOLDER / slug
    )


def read_exercise_manifest(path: Path, home: Path = ROOT) -> Exercise:
    """Return the exercise that the manifest at `path` declares, part of the tree `home`."""
    entries = read_toml_table(path, manifest.build_manifest_table(FORBIDDEN_GROUPS))
    try:
        return _build_exercise_from_manifest(home, path.parent, entries)
    except (OSError, UnicodeDecodeError):
        raise BadFile(f"{path}: its prelude cannot be read. Name a text file here.") from None


def _build_exercise_from_manifest(home: Path, folder: Path, entries: Mapping[str, Any]) -> Exercise:
    functions = [_build_function_from_manifest(f) for f in entries.get("functions", [])]
    classes = [_build_class_from_manifest(c) for c in entries.get("classes", [])]
    return Exercise(
        slug=folder.name,
        home=home,
        folder=folder,
        title=entries["title"],
        order=entries["order"],
        track="draft" if entries.get("draft") else entries["track"],
        minutes=entries["minutes"],
        requires=tuple(entries["requires"]),
        requires_on_cuda=(
            tuple(entries["requires_on_cuda"]) if "requires_on_cuda" in entries else None
        ),
        limits=Limits(**entries.get("limits", {})),
        functions={f.name: f for f in functions},
        classes={c.name: c for c in classes},
        **_read_not_allowed_from_manifest(entries["not_allowed"], functions),
        modules=tuple(entries.get("modules", ())),
        preload=tuple(entries.get("preload", ())),
        prelude=(folder / entries["prelude"]).read_text("utf-8") if "prelude" in entries else "",
        about=_read_about_from_manifest(entries),
        hints={check: tuple(told) for check, told in entries.get("hints", {}).items()},
        learned=tuple(entries.get("learned", ())),
        hunts=entries.get("hunts", False),
        draft=entries.get("draft", False),
        language=entries.get("language", "python"),
        given={f["name"]: _build_function_from_manifest(f) for f in entries.get("given", [])},
    )


def _read_not_allowed_from_manifest(
    entries: Mapping[str, Any], functions: Iterable[DeclaredFunction]
) -> dict[str, Any]:
    """Return the fields of an exercise that say what its answers may not use."""
    groups = [FORBIDDEN_GROUPS[name] for name in entries.get("groups", [])]
    names, only = entries.get("names", []), entries.get("all_modules_but", [])
    numpy_functions = [f.name for f in functions if is_declared_in_numpy(f)]
    without_torch = numpy_functions if "torch.*" not in names else []
    return {
        "not_allowed": (*(name for g in groups for name in g[1]), *names),
        "not_allowed_text": (
            *([f"every module but {' and '.join(only)}"] if only else []),
            *(g[0] for g in groups),
            *(n.removesuffix(".*") for n in names),
            *(f"PyTorch in {name}" for name in without_torch),
        ),
        "refused": (
            *(f"aten::{operator}" for g in groups for operator in g[2]),
            *(name for g in groups for name in g[1] if not name.endswith(".*")),
            *(f"{name}/aten::*" for name in numpy_functions),
        ),
        "cure": entries.get("cure", ""),
        "only": tuple(only),
    }


def _build_function_from_manifest(entry: Mapping[str, Any]) -> DeclaredFunction:
    returns = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["returns"].items()}
    return DeclaredFunction(
        name=entry["name"],
        signature=entry["signature"],
        shapes=entry.get("shapes", {}),
        returns=returns,
        about=_read_about_from_manifest(entry),
        hints=tuple(entry.get("hints", ())),
        declaration=" ".join(entry.get("declaration", "").split()),
    )


def _build_class_from_manifest(entry: Mapping[str, Any]) -> DeclaredClass:
    methods = [_build_function_from_manifest(m) for m in entry.get("methods", [])]
    return DeclaredClass(
        name=entry["name"],
        signature=entry["signature"],
        methods={m.name: m for m in methods},
        attributes=entry.get("attributes", {}),
        parameters=entry.get("parameters", {}),
        about=_read_about_from_manifest(entry),
        hints=tuple(entry.get("hints", ())),
    )


def _read_about_from_manifest(entry: Mapping[str, Any]) -> str:
    return " ".join(entry.get("about", "").split())
