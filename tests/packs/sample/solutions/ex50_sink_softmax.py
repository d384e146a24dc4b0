# %% [markdown] tags=["en"]
# # A softmax with a sink
#
# The weights of a softmax add up to one, so a head that finds nothing has to attend to something.
# A sink is one more score in the sum, which no value belongs to: what it takes goes to nobody.
#
# $$w_j = \frac{e^{s_j}}{e^{\text{sink}} + \sum_l e^{s_l}}$$
#
# With the scores `ln 1, ln 3` and the sink 0 the weights are 1/5 and 3/5.

# %% [markdown] tags=["zh"]
# # 带汇点的 softmax
#
# softmax 的权重之和是 1，所以一个头即使什么也没找到，也得看点什么。汇点是求和里多出来的一个分数，
# 没有值与它对应：它拿走的那一份谁也不给。
#
# $$w_j = \frac{e^{s_j}}{e^{\text{sink}} + \sum_l e^{s_l}}$$
#
# 分数为 `ln 1, ln 3`、汇点为 0 时，权重是 1/5 和 3/5。

# %%
import torch
from torch import Tensor


# %%
def sink_softmax(scores: Tensor, sink: float) -> Tensor:
    """The weights (..., Lk) of scores (..., Lk) beside a sink, whose own weight is left out."""
    ### BEGIN SOLUTION
    column = torch.full_like(scores[..., :1], sink)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]
    ### END SOLUTION
