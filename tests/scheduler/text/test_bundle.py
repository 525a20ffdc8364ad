"""Text bundles: the files say everything, and parity with transformers holds for ordinary conversations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.errors import ModelError
from scheduler.settings import ModelSettings
from scheduler.text.bundle import Text, id_tuple, load, model_directory
from tests.scheduler.torch_runner.model_cache import REPOSITORY

CHATS = [
    [{"role": "user", "content": "Why is the sky blue?"}],
    [{"role": "system", "content": "Answer in French."}, {"role": "user", "content": "It is 12:45, isn't it?  Yes."}],
    [
        {"role": "user", "content": "Count: 1, 2, 345."},
        {"role": "assistant", "content": "\n678\tnine — 十"},
        {"role": "user", "content": "def f(x):\n    return x ** 2  # 👍🏽\n\n"},
    ],
    [{"role": "user", "content": ""}],
]


@pytest.mark.parametrize("messages", CHATS)
@pytest.mark.filterwarnings("ignore")
def test_chat_ids_equal_those_of_transformers(
    smollm: Text, smollm_settings: ModelSettings, messages: list[dict[str, str]]
) -> None:
    transformers = pytest.importorskip("transformers", reason="NEEDS THE TEST EXTRA: transformers")
    reference = transformers.AutoTokenizer.from_pretrained(model_directory(smollm_settings))
    rendered = reference.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert smollm.encode_chat(messages) == reference(rendered, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("runner", ["simulated", "null"])
def test_runners_without_a_model_need_no_files(runner: str, tmp_path: Path) -> None:
    text = load(ModelSettings(runner=runner, cache_dir=str(tmp_path)))
    ids = text.encode_chat([{"role": "user", "content": "hi"}])
    assert text.decode(ids) == "user\nhi\nassistant\n"
    assert text.eos_token_ids == (258,)
    assert text.name == runner


def test_absent_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        load(ModelSettings(cache_dir=str(tmp_path)))


def test_a_directory_given_as_model_is_that_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert model_directory(ModelSettings(model=str(tmp_path))) == tmp_path
    assert model_directory(ModelSettings(model="Name", cache_dir="cache")) == Path("cache/Name")


@pytest.mark.parametrize(("value", "ids"), [(None, ()), (2, (2,)), ([2, 0], (2, 0))])
def test_end_ids_are_read_in_every_spelling(value: int | list[int] | None, ids: tuple[int, ...]) -> None:
    assert id_tuple(value) == ids


def test_text_does_not_load_torch() -> None:
    code = "import sys, scheduler.text.bundle; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0
