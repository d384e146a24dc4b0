"""Right answers, written otherwise."""

import math

import torch

from grader.judging import variant


@variant(of="PagedKVCache")
class TokenByToken:
    """Blocks are a list of views, filled token by token; the block freed last serves first."""

    def __init__(self, num_blocks, block_size, num_heads, head_dim, dtype=torch.float32,
                 device=None):  # fmt: skip
        shape = num_blocks, block_size, num_heads, head_dim
        options = {"dtype": dtype, "device": device}
        self.keys, self.values = (torch.full(shape, torch.nan, **options) for _ in "kv")
        self.blocks = list(zip(self.keys, self.values, strict=True))
        self.nothing = torch.zeros(0, num_heads, head_dim, **options)
        self.size, self.stack, self.there = block_size, list(range(num_blocks)), {}
        self.last = 40

    @property
    def free_blocks(self):
        return len(self.stack)

    def add(self):
        self.last += 3
        self.there[self.last] = {"table": [], "tokens": 0}
        return self.last

    def one(self, sequence):
        try:
            return self.there[sequence]
        except KeyError:
            raise ValueError(f"sequence {sequence} does not exist") from None

    def append(self, sequence, k, v):
        one = self.one(sequence)
        room = len(one["table"]) * self.size - one["tokens"]
        needed = math.ceil(max(k.shape[1] - room, 0) / self.size)
        if needed > len(self.stack):
            raise ValueError(f"free: {len(self.stack)}, needed: {needed}")
        for t in range(k.shape[1]):
            if one["tokens"] == len(one["table"]) * self.size:
                one["table"].append(self.stack.pop())
            keys, values = self.blocks[one["table"][-1]]
            keys[one["tokens"] % self.size] = k[:, t]
            values[one["tokens"] % self.size] = v[:, t]
            one["tokens"] += 1

    def gather(self, sequence):
        one = self.one(sequence)
        blocks = [(self.nothing, self.nothing), *(self.blocks[b] for b in one["table"])]
        joined = (torch.cat(parts)[: one["tokens"]] for parts in zip(*blocks, strict=True))
        return tuple(x.transpose(0, 1) for x in joined)

    def length(self, sequence):
        return self.one(sequence)["tokens"]

    def block_table(self, sequence):
        return torch.LongTensor(self.one(sequence)["table"])

    def free(self, sequence):
        self.stack.extend(self.one(sequence)["table"])
        del self.there[sequence]


@variant(of="PagedKVCache")
class SlotNumbers:
    """Memory heads first, the pools a view of it; a slot number for every token; owned blocks."""

    def __init__(self, num_blocks, block_size, num_heads, head_dim, dtype=torch.float32,
                 device=None):  # fmt: skip
        shape = num_heads, num_blocks * block_size, head_dim
        self.k = torch.empty(shape, dtype=dtype, device=device)
        self.v = torch.empty(shape, dtype=dtype, device=device)
        blocks = num_blocks, block_size
        self.keys, self.values = (x.unflatten(1, blocks).movedim(0, 2) for x in (self.k, self.v))
        self.owner = [None] * num_blocks
        self.free_blocks, self.block_size = num_blocks, block_size
        self.slots, self.tables = [], []  # by number; None once it is freed

    def add(self):
        self.slots.append(torch.zeros(0, dtype=torch.int64, device=self.k.device))
        self.tables.append([])
        return len(self.slots) - 1

    def check(self, sequence):
        if not 0 <= sequence < len(self.slots) or self.slots[sequence] is None:
            raise ValueError(f"unknown sequence: {sequence}")

    def append(self, sequence, k, v):
        self.check(sequence)
        t, table = k.size(1), self.tables[sequence]
        start = len(self.slots[sequence])
        blocks = (start + t + self.block_size - 1) // self.block_size
        if blocks - len(table) > self.free_blocks:
            wanted = blocks - len(table)
            raise ValueError(f"{wanted} blocks wanted, {self.free_blocks} of them free")
        for number, owner in enumerate(self.owner):
            if owner is None and len(table) < blocks:
                self.owner[number] = sequence
                table.append(number)
                self.free_blocks -= 1
        slots = [
            table[p // self.block_size] * self.block_size + p % self.block_size
            for p in range(start, start + t)
        ]
        slots = torch.tensor(slots, dtype=torch.int64, device=self.k.device)
        self.k.index_copy_(1, slots, k.to(self.k))
        self.v.index_copy_(1, slots, v.to(self.v))
        self.slots[sequence] = torch.cat([self.slots[sequence], slots])

    def gather(self, sequence):
        self.check(sequence)
        slots = self.slots[sequence]
        return self.k.index_select(1, slots), self.v.index_select(1, slots)

    def length(self, sequence):
        self.check(sequence)
        return self.slots[sequence].numel()

    def block_table(self, sequence):
        self.check(sequence)
        return self.slots[sequence][:: self.block_size] // self.block_size

    def free(self, sequence):
        self.check(sequence)
        for number in self.tables[sequence]:
            self.owner[number] = None
            self.free_blocks += 1
        self.slots[sequence] = self.tables[sequence] = None


@variant(of="paged_attention")
def padded_and_masked(q, cache, sequences):
    """The batch padded to its longest sequence, everything else hidden, one einsum."""
    held = [cache.gather(sequence) for sequence in sequences]
    longest = max((k.shape[1] for k, _ in held), default=0)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    n, heads, width = q.shape
    keys = torch.zeros(n, longest, heads, width, dtype=wide, device=q.device)
    values = torch.zeros_like(keys)
    keep = torch.zeros(n, 1, longest, dtype=torch.bool, device=q.device)
    for i, (k, v) in enumerate(held):
        keys[i, : k.shape[1]] = k.transpose(0, 1)
        values[i, : k.shape[1]] = v.transpose(0, 1)
        keep[i, :, : k.shape[1]] = True
    scores = torch.einsum("nhd,nlhd->nhl", q.to(wide), keys) * width**-0.5
    weights = torch.nan_to_num(scores.masked_fill(~keep, -torch.inf).softmax(-1))
    return torch.einsum("nhl,nlhd->nhd", weights, values).to(q.dtype)


@variant(of="paged_attention")
def block_after_block(q, cache, sequences):
    """Blocks read where they lie, with a running maximum and a running sum, as kernels do."""
    output = torch.zeros_like(q)
    wide = torch.promote_types(q.dtype, torch.float32)
    for i, sequence in enumerate(sequences):
        left = cache.length(sequence)
        query = q[i].to(wide)[:, None] / math.sqrt(q.shape[2])  # (H, 1, D)
        top = torch.full_like(query[..., :1], -torch.finfo(wide).max)
        total, sums = torch.zeros_like(top), torch.zeros_like(query)
        for block in cache.block_table(sequence).tolist():
            k = cache.keys[block][:left].to(wide).transpose(0, 1)
            v = cache.values[block][:left].to(wide).transpose(0, 1)
            scores = query @ k.mT
            new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
            powers, shrink = torch.exp(scores - new_top), torch.exp(top - new_top)
            total = total * shrink + powers.sum(-1, keepdim=True)
            sums = sums * shrink + powers @ v
            top, left = new_top, left - k.shape[1]
        if total.all():
            output[i] = (sums / total)[:, 0].to(q.dtype)
    return output


@variant(of="paged_attention")
def packed_for_the_ragged_one(q, cache, sequences):
    """The sequences laid end to end, and one query each: a ragged batch."""
    if not sequences:
        return q.clone()
    held = [cache.gather(sequence) for sequence in sequences]
    k, v = (torch.cat([one[j] for one in held], 1).transpose(0, 1) for j in (0, 1))
    ends = torch.tensor([0] + [one[0].shape[1] for one in held]).cumsum(0)
    ones = torch.arange(len(held) + 1)
    return ragged_attention(q, k, v, ones, ends)  # noqa: F821 (it is the submission's)


@variant(of="ragged_attention")
def one_mask_for_all(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """One product of everything with everything, under a mask of blocks of triangles."""
    wide = torch.promote_types(q.dtype, torch.float32)
    rows, keys = torch.arange(len(q), device=q.device), torch.arange(len(k), device=q.device)
    of_row = torch.searchsorted(cu_seqlens_q.long(), rows, right=True) - 1
    of_key = torch.searchsorted(cu_seqlens_k.long(), keys, right=True) - 1
    last = cu_seqlens_k[of_row + 1] - cu_seqlens_q[of_row + 1] + rows  # the last key of a row
    keep = (of_row[:, None] == of_key) & (keys <= last[:, None])
    scores = torch.einsum("qhd,khd->hqk", q.to(wide), k.to(wide)) / q.shape[2] ** 0.5
    scores = torch.where(keep, scores, -torch.inf)
    seen = keep.any(1, keepdim=True)
    weights = torch.softmax(torch.where(seen, scores, 0.0), -1) * seen
    return torch.einsum("hqk,khd->qhd", weights, v.to(wide)).to(q.dtype)


@variant(of="ragged_attention")
def row_by_row_in_double(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Every query by itself, over the keys that it sees, in float64."""
    rows = []
    for i in range(cu_seqlens_q.numel() - 1):
        first, last = int(cu_seqlens_q[i]), int(cu_seqlens_q[i + 1])
        begin, end = int(cu_seqlens_k[i]), int(cu_seqlens_k[i + 1])
        for row in range(first, last):
            stop = end - (last - 1 - row)
            if stop <= begin:
                rows.append(v.new_zeros(q.shape[1], v.shape[2]))
                continue
            scores = (k[begin:stop].double() * q[row].double()).sum(-1) / math.sqrt(q.shape[2])
            weights = torch.softmax(scores, 0)  # (n, H)
            rows.append((weights[..., None] * v[begin:stop].double()).sum(0).to(q.dtype))
    return torch.stack(rows) if rows else v.new_zeros(0, q.shape[1], v.shape[2])


@variant(of="ragged_attention")
def split_and_joined(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Split by lengths, heads first, an additive mask, rows without keys left out."""
    wide = torch.promote_types(q.dtype, torch.float32)
    q_lens, k_lens = (torch.diff(cu).tolist() for cu in (cu_seqlens_q, cu_seqlens_k))
    outputs = [v.new_zeros(0, q.shape[1], v.shape[2])]
    for one_q, one_k, one_v in zip(q.split(q_lens), k.split(k_lens), v.split(k_lens), strict=True):
        blind = max(len(one_q) - len(one_k), 0)
        outputs.append(v.new_zeros(blind, q.shape[1], v.shape[2]))
        t, n = len(one_q) - blind, len(one_k)
        bias = torch.full((t, n), -torch.inf, dtype=wide, device=q.device).triu(n - t + 1)
        heads = one_q[blind:].to(wide).permute(1, 0, 2), one_k.to(wide).permute(1, 2, 0)
        weights = (torch.bmm(*heads) * q.shape[2] ** -0.5 + bias).softmax(-1)
        outputs.append((weights @ one_v.to(wide).permute(1, 0, 2)).permute(1, 0, 2).to(q.dtype))
    return torch.cat(outputs)


@variant(of="chunked_prefill")
def past_and_chunk_apart(q, k, v, cache, sequence, chunk_size):
    """Scores of what came before and of the chunk apart, under one denominator."""
    wide = torch.promote_types(q.dtype, torch.float32)
    outputs = []
    for one_q, one_k, one_v in zip(
        q.split(chunk_size, 1), k.split(chunk_size, 1), v.split(chunk_size, 1), strict=True
    ):
        old = cache.length(sequence)
        cache.append(sequence, one_k, one_v)
        keys, values = (x.to(wide) for x in cache.gather(sequence))
        query, t = one_q.to(wide) * q.shape[2] ** -0.5, one_q.shape[1]
        later = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
        own = (query @ keys[:, old:].mT).masked_fill(later, -torch.inf)
        weights = torch.softmax(torch.cat([query @ keys[:, :old].mT, own], -1), -1)
        outputs.append((weights @ values).to(q.dtype))
    return torch.cat(outputs, 1)


@variant(of="chunked_prefill")
def each_chunk_a_ragged_batch(q, k, v, cache, sequence, chunk_size):
    """A chunk is a ragged batch of one sequence."""
    output, start = torch.empty_like(q), 0
    while start < q.shape[1]:
        end = min(start + chunk_size, q.shape[1])
        cache.append(sequence, k[:, start:end], v[:, start:end])
        keys, values = cache.gather(sequence)
        given = [x.transpose(0, 1) for x in (q[:, start:end], keys, values)]
        bounds = torch.tensor([0, end - start]), torch.tensor([0, cache.length(sequence)])
        part = ragged_attention(*given, *bounds)  # noqa: F821 (it is the submission's)
        output[:, start:end] = part.transpose(0, 1)
        start = end
    return output


@variant(of="paged_attention")
def eager_with_finfo_min(q, cache, sequences):
    """As models are written for eager mode: padded, the lowest number as a bias, one matmul."""
    wide = torch.promote_types(q.dtype, torch.float32)
    lengths = [cache.length(sequence) for sequence in sequences]
    rows, heads, width = q.shape
    states = torch.zeros(2, rows, heads, max(lengths, default=0), width, dtype=wide)
    states = states.to(q.device)
    mask = torch.zeros_like(states[0, :, :1, None, :, 0])
    for i, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
        states[:, i, :, :length] = torch.stack(cache.gather(sequence)).to(wide)
        mask[i, ..., length:] = torch.finfo(wide).min
    scores = torch.matmul(q.to(wide).unsqueeze(2), states[0].transpose(2, 3)) / math.sqrt(width)
    weights = torch.nn.functional.softmax(scores + mask, dim=-1, dtype=wide)
    return torch.matmul(weights, states[1]).squeeze(2).to(q.dtype)


@variant(of="chunked_prefill")
def lower_triangle_is_zero(q, k, v, cache, sequence, chunk_size):
    """masked_fill(mask == 0) with the lowest finite number, and a fused loop over split chunks."""
    wide, outputs = torch.promote_types(q.dtype, torch.float32), [q[:, :0]]
    for start in range(0, q.size(1), chunk_size):
        end = min(start + chunk_size, q.size(1))
        cache.append(sequence, k[:, start:end], v[:, start:end])
        keys, values = (x.to(wide) for x in cache.gather(sequence))
        t, n = end - start, keys.size(1)
        mask = torch.tril(torch.ones(n, n, device=q.device))[n - t :]
        scores = torch.bmm(q[:, start:end].to(wide), keys.transpose(1, 2)) / q.size(2) ** 0.5
        weights = scores.masked_fill(mask == 0, torch.finfo(wide).min).softmax(-1)
        outputs.append(torch.bmm(weights, values).to(q.dtype))
    return torch.cat(outputs, dim=1)


@variant(of="paged_attention")
def root_of_the_scale_on_both(q, cache, sequences):
    """Query by query; queries and keys are divided by the fourth root of the width each."""
    output = torch.zeros_like(q)
    wide, root = torch.promote_types(q.dtype, torch.float32), q.shape[2] ** 0.25
    for i, sequence in enumerate(sequences):
        k, v = (x.to(wide) for x in cache.gather(sequence))
        if k.shape[1]:
            scores = torch.einsum("hd,hnd->hn", q[i].to(wide) / root, k / root)
            output[i] = torch.einsum("hn,hnd->hd", scores.softmax(-1), v).to(q.dtype)
    return output


@variant(of="ragged_attention")
def root_of_the_scale_on_packed(q, k, v, cu_seqlens_q, cu_seqlens_k):
    """Sequence by sequence; queries and keys are divided by the fourth root of the width each."""
    wide, root = torch.promote_types(q.dtype, torch.float32), q.shape[2] ** 0.25
    q_wide, k_wide, v_wide = (
        (x.to(wide) / d).transpose(0, 1) for x, d in ((q, root), (k, root), (v, 1))
    )
    parts = [v_wide[:, :0]]
    q_bounds, k_bounds = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for i in range(len(q_bounds) - 1):
        first, last, low, high = *q_bounds[i : i + 2], *k_bounds[i : i + 2]
        ahead = torch.ones(last - first, high - low, dtype=torch.bool, device=q.device)
        ahead = ahead.triu(1 + (high - low) - (last - first))
        blind = ahead.all(-1, keepdim=True)  # queries that see nothing
        scores = q_wide[:, first:last] @ k_wide[:, low:high].mT
        hidden = torch.where(blind, 0.0, -torch.inf).to(wide)
        weights = torch.where(ahead, hidden, scores).softmax(-1).masked_fill(ahead, 0.0)
        parts.append(weights @ v_wide[:, low:high])
    return torch.cat(parts, 1).transpose(0, 1).to(q.dtype)
