"""Right answers written otherwise, each with a kernel of its own inside."""

import math

import torch
import triton
import triton.language as tl

from grader.judging import variant


@variant(of="softmax")
def two_passes(x):
    """Tiles of 256 columns: one pass for the maximum and the sum, a second one that divides."""

    @triton.jit
    def softmax_kernel(x_ptr, y_ptr, x_row, x_col, y_row, n_cols, BLOCK: tl.constexpr):
        x_ptr += tl.program_id(0) * x_row
        y_ptr += tl.program_id(0) * y_row
        cols = tl.arange(0, BLOCK)
        top = -float("inf")
        total = 0.0
        for start in range(0, n_cols, BLOCK):
            here = start + cols < n_cols
            x = tl.load(x_ptr + (start + cols) * x_col, mask=here, other=-float("inf"))
            new_top = tl.maximum(top, tl.max(x.to(tl.float32), 0))
            safe = tl.where(new_top == -float("inf"), 0.0, new_top)
            total = total * tl.exp(top - safe) + tl.sum(tl.exp(x.to(tl.float32) - safe), 0)
            top = new_top
        safe = tl.where(top == -float("inf"), 0.0, top)
        for start in range(0, n_cols, BLOCK):
            here = start + cols < n_cols
            x = tl.load(x_ptr + (start + cols) * x_col, mask=here, other=-float("inf"))
            y = tl.exp(x.to(tl.float32) - safe) / tl.where(total == 0.0, 1.0, total)
            tl.store(y_ptr + start + cols, y.to(y_ptr.dtype.element_ty), mask=here)

    y = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    strides = (x.stride(0), x.stride(1), y.stride(0))
    softmax_kernel[(len(x),)](x, y, *strides, x.shape[1], BLOCK=256)
    return y


@variant(of="softmax")
def of_a_copy_in_base_two(x):
    """The rows are copied side by side first, the powers are those of 2, a mask undoes the tail."""

    @triton.jit
    def softmax_kernel(x_ptr, y_ptr, x_row, x_col, y_row, n_cols, BLOCK: tl.constexpr):
        cols = tl.arange(0, BLOCK)
        at = tl.program_id(0) * x_row + cols
        x = tl.load(x_ptr + at, mask=cols < n_cols, other=0.0).to(tl.float32)
        x = tl.where(cols < n_cols, x, -float("inf"))
        powers = tl.exp2((x - tl.maximum(tl.max(x), -1e30)) * 1.4426950408889634)
        y = powers / tl.maximum(tl.sum(powers), 1e-30)
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)

    rows, cols = x.shape
    x = x.contiguous()
    y = torch.empty_like(x)
    if rows:
        block = max(16, triton.next_power_of_2(cols))
        softmax_kernel[rows, 1, 1](x, y, cols, 1, cols, cols, BLOCK=block)
    return y


@variant(of="flash_attention")
def one_loop(q, k, v, causal=False, scale=None):
    """Every tile is masked, small, and exponentiated with exp."""

    @triton.jit
    def flash_attention_kernel(
        q_ptr, k_ptr, v_ptr, o_ptr,
        q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, o_b, o_h, o_l, o_d,
        H, Lq, Lk, scale,
        CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        b = tl.program_id(1) // H
        h = tl.program_id(1) % H
        i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
        d = tl.arange(0, D)
        in_q = i[:, None] < Lq
        q_at = q_ptr + b * q_b + h * q_h + i[:, None] * q_l + d[None, :] * q_d
        q = tl.load(q_at, mask=in_q, other=0.0)
        m = tl.full((BLOCK_Q,), -1e30, tl.float32)
        total = tl.zeros((BLOCK_Q,), tl.float32)
        acc = tl.zeros((BLOCK_Q, D), tl.float32)
        for start in range(0, Lk, BLOCK_K):
            j = start + tl.arange(0, BLOCK_K)
            in_k = j[:, None] < Lk
            k = tl.load(k_ptr + b * k_b + h * k_h + j[:, None] * k_l + d[None, :] * k_d,
                        mask=in_k, other=0.0)  # fmt: skip
            v = tl.load(v_ptr + b * v_b + h * v_h + j[:, None] * v_l + d[None, :] * v_d,
                        mask=in_k, other=0.0)  # fmt: skip
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            keep = (j < Lk)[None, :]
            if CAUSAL:
                keep = keep & (j[None, :] <= i[:, None] + (Lk - Lq))
            s = tl.where(keep, s, -float("inf"))
            new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - new[:, None])
            total = total * tl.exp(m - new) + tl.sum(p, 1)
            acc = acc * tl.exp(m - new)[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
            m = new
        acc = tl.where(total[:, None] > 0, acc / tl.maximum(total, 1e-30)[:, None], 0.0)
        o_at = o_ptr + b * o_b + h * o_h + i[:, None] * o_l + d[None, :] * o_d
        tl.store(o_at, acc.to(o_ptr.dtype.element_ty), mask=in_q)

    if scale is None:
        scale = q.size(-1) ** -0.5
    output = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    if q.numel() > 0:
        heads = q.size(0) * q.size(1)
        flash_attention_kernel[lambda meta: (triton.cdiv(q.size(2), meta["BLOCK_Q"]), heads)](
            q, k, v, output, *q.stride(), *k.stride(), *v.stride(), *output.stride(),
            q.size(1), q.size(2), k.size(2), scale,
            CAUSAL=causal, D=q.size(3), BLOCK_Q=32, BLOCK_K=64,
        )  # fmt: skip
    return output


@variant(of="flash_attention")
def tensor_descriptors(q, k, v, causal=False, scale=None):
    """Descriptors know the edges; each head is a contiguous tensor of two dimensions."""

    @triton.jit
    def flash_attention_kernel(
        q_ptr, k_ptr, v_ptr, o_ptr,
        q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, o_b, o_h, o_l, o_d,
        H, Lq, Lk, scale,
        CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        b = tl.program_id(1) // H
        h = tl.program_id(1) % H
        start_q = tl.program_id(0) * BLOCK_Q
        q_rows = tl.make_tensor_descriptor(
            q_ptr + b * q_b + h * q_h, shape=[Lq, D], strides=[q_l, 1], block_shape=[BLOCK_Q, D]
        )
        k_rows = tl.make_tensor_descriptor(
            k_ptr + b * k_b + h * k_h, shape=[Lk, D], strides=[k_l, 1], block_shape=[BLOCK_K, D]
        )
        v_rows = tl.make_tensor_descriptor(
            v_ptr + b * v_b + h * v_h, shape=[Lk, D], strides=[v_l, 1], block_shape=[BLOCK_K, D]
        )
        o_rows = tl.make_tensor_descriptor(
            o_ptr + b * o_b + h * o_h, shape=[Lq, D], strides=[o_l, 1], block_shape=[BLOCK_Q, D]
        )
        q = q_rows.load([start_q, 0])
        behind = start_q + tl.arange(0, BLOCK_Q)[:, None] + Lk - Lq
        top = tl.full((BLOCK_Q, 1), -1e30, tl.float32)
        total = tl.zeros((BLOCK_Q, 1), tl.float32)
        output = tl.zeros((BLOCK_Q, D), tl.float32)
        for start in range(0, Lk, BLOCK_K):
            keys = start + tl.arange(0, BLOCK_K)[None, :]
            k = tl.trans(k_rows.load([start, 0]))
            v = v_rows.load([start, 0])
            scores = tl.dot(q, k, input_precision="ieee") * (scale * 1.4426950408889634)
            scores += tl.where(keys < Lk, 0.0, -float("inf"))
            if CAUSAL:
                scores = tl.where(keys <= behind, scores, -float("inf"))
            new_top = tl.maximum(top, tl.max(scores, 1, keep_dims=True))
            powers = tl.exp2(scores - new_top)
            shrink = tl.exp2(top - new_top)
            total = total * shrink + tl.sum(powers, 1, keep_dims=True)
            output = output * shrink
            output += tl.dot(powers.to(v.dtype), v, input_precision="ieee")
            top = new_top
        output = tl.where(total == 0.0, 0.0, output / total)
        o_rows.store([start_q, 0], output.to(o_ptr.dtype.element_ty))

    triton.set_allocator(lambda size, _, __: torch.empty(size, dtype=torch.int8, device="cuda"))
    q, k, v = (x.contiguous() for x in (q, k, v))
    (B, H, Lq, D), Lk = q.shape, k.shape[2]
    scale = 1.0 / math.sqrt(D) if scale is None else float(scale)
    output = q.new_zeros(B, H, Lq, D)
    if B * H * Lq:
        flash_attention_kernel[triton.cdiv(Lq, 64), B * H](
            q, k, v, output, *q.stride(), *k.stride(), *v.stride(), *output.stride(),
            H, Lq, Lk, scale, CAUSAL=causal, D=D, BLOCK_Q=64, BLOCK_K=64,
        )  # fmt: skip
    return output


@variant(of="flash_attention")
def in_two_passes(q, k, v, causal=False, scale=None):
    """The maximum and the sum first, and then, with the keys once more, the output."""

    @triton.jit
    def flash_attention_kernel(
        q_ptr, k_ptr, v_ptr, o_ptr,
        q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, o_b, o_h, o_l, o_d,
        H, Lq, Lk, scale,
        CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ):  # fmt: skip
        b, h = tl.program_id(1) // H, tl.program_id(1) % H
        i = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)[:, None]
        d = tl.arange(0, D)
        q = tl.load(q_ptr + b * q_b + h * q_h + i * q_l + d[None, :] * q_d, mask=i < Lq, other=0.0)
        top = tl.full((BLOCK_Q,), -1e30, tl.float32)
        total = tl.zeros((BLOCK_Q,), tl.float32)
        output = tl.zeros((BLOCK_Q, D), tl.float32)
        for again in tl.static_range(2):
            for start in range(0, Lk, BLOCK_K):
                j = start + tl.arange(0, BLOCK_K)[None, :]
                k_at = k_ptr + b * k_b + h * k_h + j * k_l + d[:, None] * k_d
                k = tl.load(k_at, mask=j < Lk, other=0.0)
                keep = (j < Lk) & (j <= i + Lk - Lq if CAUSAL else i >= 0)
                products = tl.dot(q, k, input_precision="ieee")
                scores = tl.where(keep, products * scale, -float("inf"))
                if again:
                    j = start + tl.arange(0, BLOCK_K)[:, None]
                    v_at = v_ptr + b * v_b + h * v_h + j * v_l + d[None, :] * v_d
                    v = tl.load(v_at, mask=j < Lk, other=0.0)
                    weights = tl.exp(scores - top[:, None]) / tl.maximum(total, 1e-30)[:, None]
                    output = tl.dot(weights.to(v.dtype), v, output, input_precision="ieee")
                else:
                    new_top = tl.maximum(top, tl.max(scores, 1))
                    powers = tl.exp(scores - new_top[:, None])
                    total = total * tl.exp(top - new_top) + tl.sum(powers, 1)
                    top = new_top
        o_at = o_ptr + b * o_b + h * o_h + i * o_l + d[None, :] * o_d
        tl.store(o_at, output.to(o_ptr.dtype.element_ty), mask=i < Lq)

    output = torch.empty(q.shape, device=q.device, dtype=q.dtype)
    B, H, Lq, D = q.shape
    if output.numel():
        flash_attention_kernel[(Lq + 31) // 32, B * H](
            q, k, v, output, *q.stride(), *k.stride(), *v.stride(), *output.stride(),
            H, Lq, k.shape[2], D**-0.5 if scale is None else scale,
            CAUSAL=causal, D=D, BLOCK_Q=32, BLOCK_K=128,
        )  # fmt: skip
    return output
