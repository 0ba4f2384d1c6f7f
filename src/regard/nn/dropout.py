"""Dropout (Srivastava et al. 2014): in training each element becomes 0 with probability p, and is divided by
1 - p otherwise.

On CUDA the masks come from a kernel that draws eight elements from one random number: what the compiler
writes draws each alone, and takes longer over that than over the sums and norms around it.
"""

from importlib.util import find_spec

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_TRITON = torch.backends.cuda.is_built() and find_spec("triton") is not None
if _TRITON:
    from regard.nn.dropout_mask import CHANCES, GROUP, draw_kept


class Dropout(nn.Dropout):
    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.training or self.p == 0:
            return x
        if not _TRITON or not x.is_cuda or x.numel() % GROUP:
            return F.dropout(x, self.p)
        dropped = round(self.p * CHANCES)
        seed = torch.randint(2**62, (1,), device=x.device)
        return x * draw_kept(x, seed, dropped) * (CHANCES / (CHANCES - dropped))
