"""Cost models: the formula as its file states it, for each shipped GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.errors import SettingsError
from scheduler.runners import cost_model
from scheduler.runners.cost_model import StepShape, Table
from scheduler.runners.step_cost import COEFFICIENTS, as_json

H100 = "h100-llama-3.1-8b-tp1-bf16"
REFERENCE = Path(__file__).parents[4] / "shared" / "cost_models.json"


def test_seven_models_ship_and_load():
    assert len(cost_model.available()) == 7
    for name in cost_model.available():
        assert cost_model.load(name).id == name


def test_a_decode_step_is_body_plus_head_plus_attention():
    model = cost_model.load(H100)
    expected = 5.756 + (0.3785 + (0.3812 - 0.3785) * (16 - 8) / (32 - 8)) + 0.281119 + 16 * 0.00340646 + 16_000 * 4.07721e-05
    assert model.step_ms(StepShape(16, 16_000, (), 0)) == pytest.approx(expected)


def test_prefill_attention_grows_with_what_came_before():
    model = cost_model.load(H100)
    first = model.step_ms(StepShape(0, 0, ((512, 0),), 0))
    later = model.step_ms(StepShape(0, 0, ((512, 2048),), 0))
    assert later - first == pytest.approx(0.0548961 * 4 * 4096 * 512 * 2048 / 1e9)


def test_a_mixed_step_uses_its_own_coefficients():
    model = cost_model.load("rtx4090-llama3.1-8b-tp1-bf16")
    decodes, chunk = StepShape(8, 8_000, (), 0), StepShape(8, 8_000, ((1, 0),), 0)
    # One more token makes the step mixed, and every context token dearer.
    assert model.step_ms(chunk) - model.step_ms(decodes) > 8_000 * (0.0003136 - 0.00014272)


@pytest.mark.parametrize("name", cost_model.available())
@pytest.mark.parametrize(
    ("regime", "shape"),
    [
        ("decode", StepShape(24, 30_000, (), 0)),
        ("prefill", StepShape(0, 0, ((300, 0), (212, 1024)), 1)),
        ("mixed", StepShape(24, 30_000, ((300, 0), (212, 1024)), 2)),
    ],
)
def test_every_model_follows_the_formula_in_every_regime(name: str, regime: str, shape: StepShape) -> None:
    model = cost_model.load(name)
    raw = json.loads((cost_model.FOLDER / f"{name}.json").read_text())
    const, per_seq, per_context, per_gflop, per_prior = (raw["attention"][regime][each] for each in COEFFICIENTS)
    tokens = shape.decodes + sum(c for c, _ in shape.chunks)
    gflop = sum(4 * raw["attn_width"] * c * (p + c / 2) for c, p in shape.chunks) / 1e9
    attention = const + per_seq * shape.decodes + per_context * shape.context
    attention += per_gflop * gflop + per_prior * sum(p for _, p in shape.chunks)
    expected = model.body(tokens) + model.head(shape.decodes + shape.finishing) + attention + raw["overhead_ms"]
    assert model.step_ms(shape) == pytest.approx(expected)
    others = {other: model.attention[other] for other in model.attention if other != regime}
    assert all(row != model.attention[regime] for row in others.values()), "a regime without coefficients of its own"


@pytest.mark.parametrize("name", cost_model.available())
def test_a_step_of_decodes_alone_costs_the_same_by_either_way(name: str) -> None:
    model = cost_model.load(name)
    for decodes, context in ((1, 17), (31, 40_000), (300, 999_999)):
        fixed, per_token = model.decode_ms(decodes)
        assert fixed + per_token * context == model.step_ms(StepShape(decodes, context, (), 0))


@pytest.mark.parametrize("name", cost_model.available())
def test_a_model_written_is_the_model_read(name: str, tmp_path: Path) -> None:
    model, path = cost_model.load(name), tmp_path / "again.json"
    path.write_text(json.dumps(as_json(model)))
    assert cost_model.load(str(path)) == model


def test_an_empty_step_costs_nothing():
    assert cost_model.load(H100).step_ms(StepShape(0, 0, (), 0)) == 0.0


def test_tables_interpolate_between_points_and_grow_in_proportion_beyond():
    table = Table((2, 4), (10.0, 20.0))
    assert [table(1), table(2), table(3), table(4), table(8)] == [10.0, 10.0, 15.0, 20.0, 40.0]


def test_unknown_hardware_names_the_field_and_what_is_known():
    with pytest.raises(SettingsError, match=H100) as caught:
        cost_model.load("h900")
    assert caught.value.param == "hardware"


def test_a_file_that_is_no_cost_model_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(SettingsError, match="not a cost model"):
        cost_model.load(str(path))


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"reference tables are not here: {REFERENCE}")
def test_shipped_tables_equal_the_reference():
    for raw in json.loads(REFERENCE.read_text())["models"]:
        shipped = json.loads((cost_model.FOLDER / f"{raw['id']}.json").read_text())
        for field in ("attention", "kv_capacity_tokens", "overhead_ms", "attn_width"):
            assert shipped[field] == raw[field]
        assert shipped["body_ms"]["ms"] == raw["body_ms"]["ms"]
