"""Linear: x @ wᵀ, on the CPU with weights laid out once for oneDNN where that works. Knows no model.

The two operators are the ones that torch's own compiler emits when it freezes a model; they are private, so they are
tried at start-up on a small matrix and left alone unless they answer as F.linear does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Linear = Callable[[Tensor], Tensor]

_PROBE_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.25, torch.float16: 0.05}


def plain(weight: Tensor) -> Linear:
    """The library's own."""
    return lambda x: functional.linear(x, weight)


def packed(weight: Tensor) -> Linear:
    """Over a reordered copy of `weight`: 1.1 to 2 times faster, most for few rows."""
    operators = torch.ops.mkldnn
    reordered = operators._reorder_linear_weight(weight, None)

    def run(x: Tensor) -> Tensor:
        result: Tensor = operators._linear_pointwise(x, reordered, None, "none", [], "")
        return result

    return run


def best_linear(device: torch.device, dtype: torch.dtype) -> Callable[[Tensor], Linear]:
    """`packed` where it is there and right, else `plain`."""
    return packed if device.type == "cpu" and _packing_works(dtype) else plain


def _packing_works(dtype: torch.dtype) -> bool:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 32, generator=generator).to(dtype)
    x = torch.randn(3, 32, generator=generator).to(dtype)
    try:
        answer = packed(weight)(x)
    except (AttributeError, RuntimeError):  # not in this build of torch, or not for this processor
        return False
    difference = (answer.float() - functional.linear(x, weight).float()).abs().max().item()
    return answer.shape == (3, 64) and difference <= _PROBE_TOLERANCE[dtype]
