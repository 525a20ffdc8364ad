"""Settings of the server: one table, from which flags, environment, file and help are made.

Order: flags > environment (BATCHSCOPE_<NAME>) > batchscope.toml > defaults. Knows no scheduler setting by name: those travel
as `set` pairs and are checked by scheduler.settings. Invariant: a ServerSettings that exists is valid, and every name that
was given is known.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from scheduler.errors import SettingsError, in_words
from scheduler.settings import ModelSettings, SchedulerSettings, parse_pairs

PREFIX = "BATCHSCOPE_"
CONFIG_FILE = "batchscope.toml"
_RANGES = {
    "port": (0, 65_535),
    "max_connections": (0, 1_000_000),
    "max_connections_per_peer": (0, 1_000_000),
    "max_requests": (0, 1_000_000),
    "max_requests_per_minute": (0, 1_000_000),
    "live_steps": (1, 100_000),
    "drain": (0, 3600),
    "hang_s": (0.1, 3600),
    "retain_days": (0, 36_500),
    "retain_gb": (0, 1_000_000),
}
_HOST = re.compile(r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
OF_CLIENTS = ("BATCHSCOPE_API_KEY",)  # the key that a command or a load generator sends: no setting of the server


def option(default: Any, help: str, *, choices: tuple[str, ...] = (), metavar: str = "") -> Any:
    """A field of the table: its default, what it is for, what it may be."""
    return field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that a server is started with."""

    host: str = option("127.0.0.1", "address to listen on; any but loopback needs --api-key-file")
    port: int = option(8000, "port to listen on; 0 takes a free one")
    data_dir: str = option("data", "directory of the database, the model cache and server.json", metavar="DIR")
    database_url: str = option("", "postgresql://USER@HOST/NAME; empty: SQLite in the data directory", metavar="URL")
    model: str = option("", "name of the model; empty: SmolLM2-135M-Instruct, or `simulated` without torch")
    device: str = option("auto", "where the torch runner computes", choices=("auto", "cpu", "cuda"))
    dtype: str = option("auto", "number format of the torch runner", choices=("auto", "float32", "bfloat16", "float16"))
    runner: str = option("torch", "what computes", choices=("torch", "simulated", "null"))
    hardware: str = option("", "cost model of the simulated runner, as h100-llama-3.1-8b-tp1-bf16", metavar="NAME")
    threads: int = option(0, "threads of the torch runner; 0: as many as the processor has")
    seed: int = option(0, "seed of sampling where a request names none")
    policy: str = option("", "order of admission; the same as --set policy=NAME", metavar="NAME")
    policies: str = option("", "directory of policies of your own, one *.py file each: docs/policies.md", metavar="DIR")
    set: tuple[str, ...] = option((), "a scheduler setting, as max_num_seqs=8; may be repeated", metavar="NAME=VALUE")
    allow_host: tuple[str, ...] = option((), "another Host that this server answers to; may be repeated", metavar="NAME[:PORT]")
    api_key_file: str = option(
        "",
        "file with a `NAME KEY [SCOPES]` a line, KEY as it is or as sha256:HEX, SCOPES of infer,read,load,admin (all without); "
        "with it every call needs a key",
        metavar="FILE",
    )
    max_connections: int = option(256, "connections from other machines at once; 0: no limit")
    max_connections_per_peer: int = option(64, "connections from one other address at once; 0: no limit")
    max_requests: int = option(12_000, "requests in service at once, the waiting ones too; more are answered 503; 0: no limit")
    max_requests_per_minute: int = option(
        0, "inference requests a minute of one API key, all of them at once if need be; more are answered 429; 0: no limit"
    )
    record_text: bool = option(False, "store prompt and output text; without it only lengths and a keyed hash")
    retain_days: float = option(0.0, "days that records are kept; older ones go once an hour; 0: for ever", metavar="DAYS")
    retain_gb: float = option(
        0.0, "gigabytes (10^9 bytes) of records that are kept; the oldest go once an hour; 0: no bound", metavar="GB"
    )
    live_steps: int = option(6000, "steps kept for live pages that were away; older ones they read from the records")
    plain_static: bool = option(False, "send the pages' scripts and styles as they are written, not minified: for stack traces")
    drain: float = option(30.0, "seconds that running requests get to finish at a stop", metavar="SECONDS")
    hang_s: float = option(
        10.0, "an engine with work and no step for so long, and for 20 times its longest step, is replaced", metavar="SECONDS"
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            choices, value = spec.metadata["choices"], getattr(self, spec.name)
            if choices and value not in choices:
                raise SettingsError(f"--{spec.name} must be one of {', '.join(choices)}, not {value!r}", spec.name)
        for name, (low, high) in _RANGES.items():
            if not low <= getattr(self, name) <= high:
                flag = "--" + name.replace("_", "-")
                raise SettingsError(f"{flag} must be between {low} and {high}, not {getattr(self, name)}", name)
        for host in self.allow_host:
            if not _HOST.fullmatch(host):
                raise SettingsError(f"--allow-host must be NAME or NAME:PORT, not {host!r}", "allow_host")
        if not self.loopback and not self.api_key_file:
            raise SettingsError(
                f"refusing to listen on {self.host} without keys: anyone who reaches it could use this machine; "
                "give --api-key-file FILE, or listen on 127.0.0.1",
                "host",
            )
        if self.max_requests_per_minute and not self.api_key_file:
            raise SettingsError(
                "--max-requests-per-minute counts by API key, and there are none: give --api-key-file FILE too",
                "max_requests_per_minute",
            )
        SchedulerSettings().change(_for_check(self.scheduler, self.device))

    @property
    def loopback(self) -> bool:
        """Does only this machine reach the server?"""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def directory(self) -> Path:
        """The data directory."""
        return Path(self.data_dir)

    @property
    def records_file(self) -> Path | None:
        """The SQLite file of the records, there or not yet; None where another database is named."""
        return None if self.database_url else self.directory / "batchscope.db"

    @property
    def records_url(self) -> str:
        """Where the records are."""
        return self.database_url or f"sqlite:///{self.records_file}"

    @property
    def scheduler(self) -> dict[str, Any]:
        """The scheduler settings that were asked for; the engine fills in the device's defaults for the others."""
        changes = parse_pairs(list(self.set))
        if self.policy:
            changes["policy"] = self.policy
        return changes

    @property
    def model_settings(self) -> ModelSettings:
        """What computes."""
        default = ModelSettings().model if self.runner == "torch" else "simulated"
        return ModelSettings(
            runner=self.runner,
            model=self.model or default,
            device=self.device,
            dtype=self.dtype,
            hardware=self.hardware or None,
            cache_dir=str(self.directory / "models"),
            threads=self.threads,
            seed=self.seed,
        )


def load(argv: Sequence[str], environ: Mapping[str, str], directory: Path = Path(".")) -> ServerSettings:
    """The settings that flags, environment and file give together; raises SettingsError naming what is wrong."""
    flags = vars(parser().parse_args(argv))
    named = flags.pop("config")
    path = Path(named) if named else directory / CONFIG_FILE
    values = _from_file(path, must_exist=named is not None)
    values.update(_from_environment(environ))
    values.update({name: value for name, value in flags.items() if value is not None})
    return ServerSettings(**{name: _typed(name, value) for name, value in values.items()})


def parser(prog: str = "python -m app.serve") -> argparse.ArgumentParser:
    """The flags; a wrong one is a SettingsError, not an exit."""
    flags = _Parser(prog=prog, allow_abbrev=False, description="Serve the dashboard and the OpenAI-compatible API.")
    flags.add_argument("--config", metavar="FILE", default=None, help=f"file of settings (default: {CONFIG_FILE} if there)")
    for spec in fields(ServerSettings):
        flag, meta = "--" + spec.name.replace("_", "-"), spec.metadata
        shown = "" if spec.default in ("", (), False) else f" (default: {spec.default})"
        if spec.type == "bool":
            flags.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=meta["help"])
        elif spec.type == "tuple[str, ...]":
            flags.add_argument(flag, action="append", default=None, metavar=meta["metavar"], help=meta["help"])
        else:
            flags.add_argument(
                flag, default=None, choices=meta["choices"] or None, metavar=meta["metavar"] or None, help=meta["help"] + shown
            )
    return flags


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    known = {PREFIX + spec.name.upper(): spec.name for spec in fields(ServerSettings)}
    given = {name: value for name, value in environ.items() if name.startswith(PREFIX) and name not in OF_CLIENTS}
    for name in given:
        if name not in known:
            raise SettingsError(f"unknown environment variable {name}; known: {', '.join(sorted(known))}", name)
    return {known[name]: value for name, value in given.items()}


def _from_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    if not path.exists() and not must_exist:
        return {}
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {in_words(error)}", str(path)) from error
    known = {spec.name for spec in fields(ServerSettings)}
    for name in table:
        if name not in known:
            raise SettingsError(f"{path}: unknown setting {name!r}; known: {', '.join(sorted(known))}", name)
    if isinstance(table.get("set"), dict):
        table["set"] = [f"{name}={_toml_text(value)}" for name, value in table["set"].items()]
    return table


def _typed(name: str, value: Any) -> Any:
    """`value`, text or TOML, as the field's type; raises SettingsError."""
    kind = {spec.name: str(spec.type) for spec in fields(ServerSettings)}[name]
    try:
        if kind == "tuple[str, ...]":
            return tuple(value.replace(",", " ").split()) if isinstance(value, str) else tuple(map(str, value))
        if kind == "bool":
            return value if isinstance(value, bool) else {"true": True, "1": True, "false": False, "0": False}[value.lower()]
        if kind in ("int", "float"):
            return int(value) if kind == "int" else float(value)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SettingsError(f"{name} must be of type {kind}, not {value!r}", name) from None
    return str(value)


def _toml_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _for_check(changes: dict[str, Any], device: str) -> dict[str, Any]:
    """`changes` over the widest defaults that the device may turn out to have: what passes here, the engine checks again."""
    if device == "cpu":
        return changes
    return {**{spec.name: spec.metadata["cuda"] for spec in fields(SchedulerSettings) if spec.metadata["cuda"] != 0}, **changes}
