"""Policies of a user's own: the *.py files of a directory, loaded into the engine process, each tried before it is offered.

It knows the catalog and the core, no pair and no web: those learn what there is from Ready. A file defines
`INFO = PolicyInfo(...)`, as those of scheduler/core/policies do.
Invariant: what `load` returns has a name that nothing else has, the hash of the very bytes that run, and a policy that has
served a few requests without breaking the core's rules; else SettingsError names the file.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from scheduler.core.blocks import BlockPool
from scheduler.core.plan import StepOutput
from scheduler.core.policies import catalog
from scheduler.core.policies.base import Param, Policy, PolicyInfo, Prefixes
from scheduler.core.request import Request, SamplingParams
from scheduler.core.scheduler import Scheduler
from scheduler.errors import BatchscopeError, SettingsError
from scheduler.settings import SchedulerSettings

PACKAGE = "batchscope_own_policies"
METHODS = ("enqueue", "head", "dequeue", "served", "tick", "victim", "adopt")
STEPS = 200  # in which a few requests must have been served
MS = 1_000_000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class OwnPolicy:
    """A user's policy, the file that it came from, and the hash of that file."""

    info: PolicyInfo
    file: Path
    sha256: str

    def row(self) -> dict[str, Any]:
        """As Ready carries it."""
        info = self.info
        words = {"name": info.name, "help": info.help, "source": info.source, "guarantee": info.guarantee}
        return words | {
            "params": [asdict(param) | {"whole": param.whole} for param in info.params],
            "file": self.file.name,
            "sha256": self.sha256,
        }


def load(directory: str) -> dict[str, OwnPolicy]:
    """The policies of `directory` by name; none when it is "". Raises SettingsError naming the file at fault."""
    if not directory:
        return {}
    folder = Path(directory)
    if not folder.is_dir():
        raise SettingsError(f"policies: {folder} is no directory", "policies")
    found: dict[str, OwnPolicy] = {}
    for path in sorted(folder.glob("*.py")):
        own = _read(path)
        if own.info.name in found:
            raise _wrong(path, f"the name {own.info.name!r} is that of {found[own.info.name].file} too")
        found[own.info.name] = own
    if not found:
        raise SettingsError(f"policies: there is no *.py in {folder}", "policies")
    return found


def catalog_with(own: Mapping[str, OwnPolicy]) -> dict[str, PolicyInfo]:
    """The catalog, and these."""
    return catalog.CATALOG | {name: each.info for name, each in own.items()}


def blame(error: BaseException, own: Mapping[str, OwnPolicy], in_force: str) -> str | None:
    """Which of a user's policies raised `error`, and where, or was in force when the core did; None: none of them."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        for name, each in own.items():
            if frame.filename == str(each.file):
                return f"raised by your policy {name!r} ({each.file}, line {frame.lineno})"
    if in_force in own:
        return f"while your policy {in_force!r} ({own[in_force].file}) was in force"
    return None


# ---- a file


class _Bytes(SourceLoader):
    """Runs the bytes that were hashed, not what the file may hold a moment later; keeps no compiled copy."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._data = data

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        if path != self._path:
            raise OSError(f"{path} is not {self._path}")
        return self._data


def _read(path: Path) -> OwnPolicy:
    try:
        data = path.read_bytes()
        module = _run(path, data)
    except Exception as error:  # noqa: BLE001 - whatever a stranger's file does: it is told, with its name
        raise _wrong(path, f"{type(error).__name__}: {error}") from error
    info = getattr(module, "INFO", None)
    if not isinstance(info, PolicyInfo):
        raise _wrong(path, "it defines no INFO = PolicyInfo(...)")
    _check_words(path, info)
    checked = replace(info, make=lambda params, pool: _made(path, info, params, pool))
    _rehearse(path, checked)
    return OwnPolicy(checked, path, sha256(data).hexdigest())


def _run(path: Path, data: bytes) -> ModuleType:
    name = f"{PACKAGE}.{path.stem}"
    spec = spec_from_loader(name, _Bytes(str(path), data))
    assert spec is not None and spec.loader is not None, "a loader of ours gives a spec"
    module = module_from_spec(spec)
    sys.modules[name] = module  # a dataclass of the file looks itself up there
    spec.loader.exec_module(module)
    return module


def _check_words(path: Path, info: PolicyInfo) -> None:
    if not isinstance(info.name, str) or not _NAME.fullmatch(info.name):
        raise _wrong(path, f"the name {info.name!r} must be of a-z, 0-9 and _, at most 40, a letter first")
    if info.name in catalog.CATALOG:
        raise _wrong(path, f"the name {info.name!r} is taken by a policy of Batchscope")
    for word in ("help", "source", "guarantee"):
        if not isinstance(getattr(info, word), str):
            raise _wrong(path, f"{word} must be a text")
    for param in info.params:
        if not isinstance(param, Param) or not param.low <= param.default <= param.high:
            raise _wrong(path, f"{param!r} is no Param with low <= default <= high")


def _made(path: Path, info: PolicyInfo, params: Mapping[str, float], pool: Prefixes | None) -> Policy:
    """What its own `make` gives, if that is a policy."""
    try:
        policy = info.make(params, pool)
    except Exception as error:  # noqa: BLE001 - a live change must not end the engine for it
        raise _wrong(path, f"make() raised {type(error).__name__}: {error}") from error
    lacks = [name for name in METHODS if not callable(getattr(policy, name, None))]
    if lacks:
        raise _wrong(path, f"the policy {info.name!r} lacks {', '.join(lacks)}")
    if not isinstance(getattr(policy, "preempts", None), bool):
        raise _wrong(path, f"the policy {info.name!r} must say preempts = True or False")
    return policy


# ---- the rehearsal


def _rehearse(path: Path, info: PolicyInfo) -> None:
    """A few requests through a small core, one of them aborted, one preempted, the policy changed meanwhile."""
    known = {info.name: info}
    pool = BlockPool(8, 4)
    limits = SchedulerSettings(max_num_seqs=2, max_num_batched_tokens=8, max_model_len=64, watermark=0.0)
    policy = catalog.make(info.name, {}, pool, known)
    try:
        _play(Scheduler(limits, pool, policy), catalog.make(info.name, {}, pool, known))
    except SettingsError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f", line {frames[-1].lineno}" if frames else ""
        raise _wrong(path, f"the policy {info.name!r} failed in a trial{line}: {type(error).__name__}: {error}") from error


def _play(scheduler: Scheduler, successor: Policy) -> None:
    now = 0
    for number, tenant in enumerate(("ann", "bob", "ann", "bob", "ann")):
        params = SamplingParams(max_tokens=8, ignore_eos=True)
        scheduler.add(Request(f"r{number}", range(number, number + 9), params, received_at=now, tenant=tenant), now)
        now += MS
    scheduler.abort("r3", now)
    for step in range(STEPS):
        if scheduler.idle:
            return
        if step == 3:
            scheduler.set_policy(successor, now)
        plan = scheduler.schedule(now)
        now += MS
        if not plan.empty:
            scheduler.commit(plan, StepOutput([1] * len(plan.sampling), MS), now)
        scheduler.check()
    raise BatchscopeError(f"five requests were not served within {STEPS} steps")


def _wrong(path: Path, what: str) -> SettingsError:
    return SettingsError(f"policies: {path}: {what}", "policies")
