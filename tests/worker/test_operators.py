"""Operators of PyTorch that are not on the list are refused in a worker; the others run."""

import pytest
import torch

from grader.core import allowed_tables
from grader.worker.child.operator_list import find_worker_operator_family
from grader.worker.parent.faults import AnswerRaised
from tests.worker.asking import call, worker

# Each is given x of (2, 3, 4).
CLOSED = {
    "fused attention of modules": "torch.no_grad()(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval())(x)",
    "attention by its own name": "aten._native_multi_head_attention(x, x, x, 4, 1, torch.ones(12, 4),"
    " torch.zeros(12), torch.ones(4, 4), torch.zeros(4))[0]",
    "softmax with a mask": "aten._masked_softmax(x, x > 9, -1, 2)",
    "a sparse tensor": "x.to_sparse()",
    "softmax of a sparse tensor": "torch.sparse.softmax(x.to_sparse(), -1).to_dense()",
    "a nested tensor": "torch.nested.nested_tensor([*x]).softmax(-1)",
    "another layout": "x.to_mkldnn().relu().to_dense()",
    "numbers of 8 bits": "torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()",
    "many at a time": "torch._foreach_exp([x])[0]",
    "a file": 'torch.from_file("/etc/passwd", size=3)',
    "another library": "torch.ops.mkldnn._linear_pointwise(x, x[0], None, 'none', [], '')",
    "another space": "torch.ops.prims.exp(x)",
    "an operator that is defined when it is needed": "nn.functional.linear_cross_entropy(x[0], x[1],"
    " torch.zeros(3, dtype=torch.long), options=nn.LinearCrossEntropyOptions())",
    "another space at 8 bits": "torch.ops.quantized.add_relu(x, x, 1.0, 0)",
}
OPEN = {
    "elements": "x.exp().add_(1).clamp(0, 3).neg_().where(x > 0, x & 1 if False else x)",
    "bits": "((x > 0) & (x < 1) | (x > 2) ^ (x > 3)).float()",
    "products": "torch.einsum('bqd,bkd->bqk', x, x) @ x + torch.baddbmm(x, x @ x.mT, x)",
    "softmax": "x.softmax(-1) + x.log_softmax(-1)",
    "attention": "nn.functional.scaled_dot_product_attention(x, x, x)",
    "layers": "nn.functional.rms_norm(nn.LayerNorm(4)(nn.Linear(4, 4)(x)), (4,))",
    "dropout": "nn.Dropout(0.5)(x)",
    "indices": "x[:, [0, 2]].index_select(1, torch.tensor([1])).scatter(1, torch.tensor([[[0]]]), 1.0)",
    "shapes": "torch.cat([*x.unbind(0)]).unflatten(0, (2, 3)).movedim(0, 1).flip(0).roll(1).contiguous()",
    "mapping": "torch.vmap(lambda row: row.softmax(-1))(x)",
    "copies": "__import__('copy').deepcopy(nn.Linear(4, 4))(x)",
    "words": "x + len(repr(x)) + x.sum().item()",
    "einops": "einops.einsum(einops.rearrange(x, 'b q d -> b d q'), x, 'b d q, b p d -> b q p')",
    "no narrow numbers, anywhere": "off(x)",
    "unique": "x.unique() + x.argsort(-1).unique(dim=0).sum() + torch.multinomial(x.abs()[0, 0], 1)",
    "a convolution": "nn.Conv1d(3, 3, 1)(x)",
    "a window": "nn.functional.pad(x, (1, 1), mode='reflect').unfold(-1, 2, 1)",
    "narrow numbers": "(x.half() @ x.half().mT).float() + x.bfloat16().softmax(-1)[..., :1]",
}


OFF = """
def off(x):
    x = x.to("meta")
    with torch.autocast(device_type=x.device.type, enabled=False):
        return torch.zeros((x @ x.mT).shape)
"""


@pytest.fixture(scope="module")
def client(nursery):
    lines = ["import einops, torch", "from torch import nn", "aten = torch.ops.aten", OFF]
    for number, text in enumerate([*CLOSED.values(), *OPEN.values()]):
        lines.append(f"def f{number}(x): return {text}")
    with worker(nursery, "\n".join(lines)) as (client, _):
        yield client


def asked(client, name, grad):
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1), requires_grad=grad)
    return call(client, f"f{[*CLOSED, *OPEN].index(name)}", x)


@pytest.mark.parametrize("name", CLOSED)
def test_an_operator_that_is_not_listed_is_refused(client, name):
    with pytest.raises(AnswerRaised, match=r"NotAllowed: torch's .* is not on the list"):
        asked(client, name, grad=False)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", OPEN)
def test_what_is_listed_runs(client, name, grad):
    assert asked(client, name, grad) is not None


@pytest.mark.parametrize(
    ("operator", "belongs"),
    [
        ("_softmax_backward_data", "softmax"),
        ("add_", "add"),
        ("__ior__", "or"),
        ("native_layer_norm_backward", "layer_norm"),
        ("_scaled_dot_product_attention_math", "scaled_dot_product_attention_math"),
        ("_masked_softmax", "masked_softmax"),
    ],
)
def test_the_family_of_an_operator(operator, belongs):
    assert find_worker_operator_family(operator) == belongs


def test_each_word_beside_the_names_opens_something():
    there = {
        find_worker_operator_family(full.removeprefix("aten::").partition(".")[0])
        for full in torch._C._dispatch_get_all_op_names()
        if full.startswith("aten::")
    }
    methods = {name for name in dir(torch.Tensor) if not name.startswith("_")}
    beside, without = (
        allowed_tables.load_underlying_operators(),
        allowed_tables.load_allowed_operators()[1],
    )
    assert {find_worker_operator_family(name) for name in beside} <= there
    assert set(without) <= {name.strip("_") for name in methods}
