"""Compares the values of a record with the types that it declares."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def has_record_declared_types(record: Any) -> bool:
    """Return whether every value in a record, and in the records in it, has its declared type."""
    hints = get_type_hints(type(record))
    return all(
        _fits_record_type(getattr(record, one.name), hints[one.name]) for one in fields(record)
    )


def _fits_record_type(value: Any, wanted: Any) -> bool:
    origin, inside = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return any(_fits_record_type(value, one) for one in inside)
    if origin is tuple:
        return isinstance(value, tuple) and _fits_record_tuple(value, inside)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(
            _fits_record_type(one, inside[0]) for one in value
        )
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits_record_type(k, inside[0]) and _fits_record_type(v, inside[1])
            for k, v in value.items()
        )
    if wanted in (int, float):
        return isinstance(value, wanted | int) and not isinstance(value, bool)
    if wanted in (None, NoneType):
        return value is None
    return isinstance(value, wanted) and (
        not is_dataclass(value) or has_record_declared_types(value)
    )


def _fits_record_tuple(value: tuple[Any, ...], inside: tuple[Any, ...]) -> bool:
    if inside[-1] is ...:
        return all(_fits_record_type(one, inside[0]) for one in value)
    return len(value) == len(inside) and all(map(_fits_record_type, value, inside))
