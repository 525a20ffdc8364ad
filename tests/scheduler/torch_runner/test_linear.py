"""Linear: packed weights answer as plain ones do, or are not used."""

from __future__ import annotations

import pytest
import torch

from scheduler.runners.torch_runner import linear
from scheduler.runners.torch_runner.linear import best_linear, plain

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 7, 33])
def test_the_best_linear_answers_as_the_plain_one(dtype: torch.dtype, rows: int) -> None:
    weight, x = torch.randn(96, 48).to(dtype), torch.randn(rows, 48).to(dtype)
    difference = best_linear(CPU, dtype)(weight)(x).float() - plain(weight)(x).float()
    assert difference.abs().max() <= (1e-4 if dtype == torch.float32 else 0.25)


def absent(weight: torch.Tensor) -> linear.Linear:
    raise AttributeError("no such operator")


def refusing(weight: torch.Tensor) -> linear.Linear:
    raise RuntimeError("not on this processor")


def wrong(weight: torch.Tensor) -> linear.Linear:
    return lambda x: torch.nn.functional.linear(x, weight) + 1


@pytest.mark.parametrize("broken", [absent, refusing, wrong])
def test_operators_that_are_absent_refuse_or_err_are_left_alone(monkeypatch: pytest.MonkeyPatch, broken: object) -> None:
    monkeypatch.setattr(linear, "packed", broken)
    assert best_linear(CPU, torch.float32) is plain


def test_other_devices_use_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_linear(torch.device("meta"), torch.float32) is plain
