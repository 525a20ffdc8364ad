"""docker-compose.yml and the Dockerfile: each service's command and environment are given to the real command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from architecture.sources import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
OUTSIDE = {"BATCHSCOPE_API_KEY": "a-key"}  # what the .env file brings
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def substituted(text: str, values: dict[str, str]) -> str:
    """`${NAME}`, `${NAME:-default}` and `${NAME:?message}` as Compose fills them in."""

    def fill(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if values.get(name):
            return values[name]
        if kind == "?":
            raise KeyError(f"{name}: {rest}")
        return rest or ""

    return VARIABLE.sub(fill, text)


def environment(service: str, **outside: str) -> dict[str, str]:
    """What the service's process would see; nothing of ours but what Python needs."""
    given = {
        name: substituted(str(value), OUTSIDE | outside) for name, value in SERVICES[service].get("environment", {}).items()
    }
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")}
    return {**kept, "PYTHONPATH": str(ROOT), **given}


def run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The command, from the project's root as in the image."""
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def batchscope(*words: str) -> list[str]:
    """`batchscope …` without an installed script."""
    return [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main(sys.argv[1:]))", *words]


def test_services_are_the_three() -> None:
    assert set(SERVICES) == {"app", "locust-master", "locust-worker"}


def test_app_service_is_accepted_by_the_server() -> None:
    command = SERVICES["app"]["command"]
    done = run(batchscope(*command, "--check", "--json"), environment("app"))
    assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)
    assert settings["data_dir"] == "/data" and settings["host"] == "0.0.0.0" and settings["runner"] == "torch"
    assert settings["api_key_file"] == f"/run/secrets/{SERVICES['app']['secrets'][0]}"
    assert settings["allow_host"] == ["app:8000"], "the load generator's containers call it by this name"


def test_app_service_takes_runner_and_hardware_from_outside() -> None:
    env = environment("app", RUNNER="simulated", HARDWARE="h100-llama-3.1-8b-tp1-bf16")
    settings = json.loads(run(batchscope(*SERVICES["app"]["command"], "--check", "--json"), env).stdout)
    assert (settings["runner"], settings["hardware"]) == ("simulated", "h100-llama-3.1-8b-tp1-bf16")


def test_app_service_without_its_key_file_is_refused() -> None:
    words = [word for word in SERVICES["app"]["command"] if word not in ("--api-key-file", "/run/secrets/batchscope_keys")]
    done = run(batchscope(*words, "--check"), environment("app"))
    assert done.returncode == 2 and "without keys" in done.stderr


@pytest.mark.parametrize("service", ["locust-master", "locust-worker"])
def test_locust_service_is_accepted_by_locust(service: str) -> None:
    # --show-task-ratio: Locust loads the file and parses every word, then says what it would run and ends.
    command = [sys.executable, "-m", "locust", *SERVICES[service]["command"], "--show-task-ratio"]
    done = run(command, environment(service))
    assert done.returncode == 0, done.stderr
    assert "LoadUser" in done.stdout + done.stderr
    assert SERVICES[service]["entrypoint"] == ["locust"]


def test_a_wrong_word_for_locust_would_be_caught() -> None:
    command = [sys.executable, "-m", "locust", *SERVICES["locust-master"]["command"], "--scenario", "nope", "--show-task-ratio"]
    assert run(command, environment("locust-master")).returncode != 0


def test_locust_services_refuse_to_start_without_a_key() -> None:
    for service in ("locust-master", "locust-worker"):
        with pytest.raises(KeyError, match="BATCHSCOPE_API_KEY"):
            substituted(SERVICES[service]["environment"]["BATCHSCOPE_API_KEY"], {})


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)


def test_image_command_is_accepted_by_the_server_and_runs_as_nobody_special() -> None:
    words = json.loads(re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.M)[0])
    assert json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", DOCKERFILE, re.M)[0]) == ["batchscope"]
    assert run(batchscope(*words, "--check"), environment("app")).returncode == 0
    assert re.search(r"^USER batchscope$", DOCKERFILE, re.M)
    assert "/livez" in DOCKERFILE


def test_secrets_and_records_stay_out_of_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert {"keys", ".env", "data", ".venv", ".git"} <= set(ignored)


def test_image_pins_the_weights_as_the_makefile_does() -> None:
    pin = re.findall(r"^WEIGHTS := (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[0]
    assert pin in DOCKERFILE
