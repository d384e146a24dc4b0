"""Wrong answers to `kv_cache_bytes`."""

from grader.judging import mistake

from ..steps import (
    counted,
)
from ..test_mqa_gqa import (
    test_cache_bytes,
)


def bits(dtype):
    return 8 * dtype.itemsize


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def keys_only(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Only the keys, or only the values, are counted.

    Both are stored: multiply by 2.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, kinds=1)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def bits_counted(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Bits are counted instead of bytes.

    dtype.itemsize is the number of bytes; torch.finfo(dtype).bits is 8 times as many.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=bits)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def numbers_counted(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Numbers are counted instead of bytes.

    Multiply by dtype.itemsize, the bytes of one number.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=lambda dtype: 1)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def always_two_bytes(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Every number is taken to have two bytes, whatever its dtype.

    Multiply by dtype.itemsize, the bytes of one number.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=lambda dtype: 2)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def always_four_bytes(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Every number is taken to have four bytes, whatever its dtype.

    Multiply by dtype.itemsize, the bytes of one number.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, layers, size=lambda dtype: 4)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def one_layer_only(batch, num_kv_heads, length, head_dim, dtype, layers):
    """One layer is counted.

    Every layer has a cache of its own: multiply by the number of layers.
    """
    return counted(batch, num_kv_heads, length, head_dim, dtype, 1)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def batch_left_out(batch, num_kv_heads, length, head_dim, dtype, layers):
    """One sequence is counted.

    Every sequence of the batch has keys and values of its own: multiply by the batch.
    """
    return counted(1, num_kv_heads, length, head_dim, dtype, layers)


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes)
def float_returned(batch, num_kv_heads, length, head_dim, dtype, layers):
    """The number of bytes is a float.

    A count is an int: use // instead of /, or dtype.itemsize.
    """
    return float(counted(batch, num_kv_heads, length, head_dim, dtype, layers))


@mistake(of="kv_cache_bytes", caught_by=test_cache_bytes, null=True)
def no_bytes(batch, num_kv_heads, length, head_dim, dtype, layers):
    """Zero bytes.

    Nothing is counted yet.
    """
    return 0
