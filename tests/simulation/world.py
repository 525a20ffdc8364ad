"""The simulated world: one thread, a clock that jumps, greenlets for whoever must wait, processes to be killed or stopped.

Knows nothing of Batchscope but its JumpClock. All chance comes from the seed; things due at the same instant happen in the
order in which they were asked for. Invariant: the same seed makes the same calls in the same order at the same instants.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any
from weakref import WeakKeyDictionary

from greenlet import GreenletExit, getcurrent, greenlet

from scheduler.engine.clock import JumpClock

START_NS = 1_000_000_000
WALL_NS = 1_790_000_000 * 10**9
MS = 1_000_000
S = 1_000_000_000


class Process:
    """What lives and dies together. A stopped one (SIGSTOP) does nothing until it goes on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.stopped = False
        self.parked: list[Callable[[], object]] = []
        self.greenlets: list[greenlet] = []


class World:
    """Time and chance. `note` adds to the hash by which two runs are compared."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"world {seed}")
        self.clock = JumpClock(START_NS)
        self.now = self.clock.now
        self._due: list[tuple[int, int, Process | None, Callable[[], object]]] = []
        self._asked = 0
        self._hub = getcurrent()
        self._hash = sha256()
        self._outside = Process("outside")
        self._processes = [self._outside]
        self._owners: WeakKeyDictionary[greenlet, Process] = WeakKeyDictionary()

    # ---- clocks

    def seconds(self) -> float:
        return self.now() / S

    def wall(self) -> int:
        return WALL_NS + self.now()

    # ---- what happens later

    def call(self, delay: int, function: Callable[[], object], process: Process | None = None) -> None:
        """Call `function` in `delay` ns, in the hub: it must not wait. Dropped when `process` has died by then."""
        self._asked += 1
        heapq.heappush(self._due, (self.now() + max(0, delay), self._asked, process, function))

    def spawn(self, function: Callable[[], object], process: Process | None = None, delay: int = 0) -> None:
        """Run `function` in a greenlet of `process`: it may wait."""
        owner = process or self._outside
        made = greenlet(function, parent=self._hub)
        owner.greenlets.append(made)
        self._owners[made] = owner
        self.call(delay, made.switch, owner)

    def pause(self, delay: int) -> None:
        """Let `delay` ns pass; only in a greenlet."""
        me = getcurrent()
        assert me is not self._hub, "the hub cannot wait"
        self.call(delay, me.switch, self.owner())
        self._hub.switch()

    def sleep(self, seconds: float) -> None:
        """time.sleep."""
        self.pause(max(1, round(seconds * S)))

    def wait(self, me: greenlet) -> Any:
        """Switch away until somebody switches back; what he passes."""
        assert me is getcurrent() and me is not self._hub
        return self._hub.switch()

    def owner(self) -> Process:
        """Whose greenlet runs."""
        return self._owners.get(getcurrent(), self._outside)

    # ---- processes

    def process(self, name: str) -> Process:
        made = Process(name)
        self._processes.append(made)
        return made

    def kill(self, process: Process) -> None:
        """kill -9: nothing of it runs again, only what unwinds it."""
        if not process.alive:
            return
        process.alive = False
        self.note("killed", process.name)
        doomed, process.greenlets, process.parked = process.greenlets, [], []
        if getcurrent() is self._hub:
            _unwind(doomed)
        else:  # a greenlet that dies gives control to the hub, not to who killed it
            self.call(0, lambda: _unwind(doomed))

    def stop(self, process: Process) -> None:
        """SIGSTOP."""
        process.stopped = True

    def go_on(self, process: Process) -> None:
        """SIGCONT."""
        process.stopped = False
        parked, process.parked = process.parked, []
        for function in parked:
            self.call(0, function, process)

    # ---- the loop

    def run(self, until: Callable[[], bool], limit: int) -> bool:
        """Until `until()`; False when simulated time reached `limit` or nothing was left to happen."""
        while not until():
            if not self._due or self._due[0][0] > limit:
                return False
            at, _, process, function = heapq.heappop(self._due)
            if process is not None and not process.alive:
                continue
            self.clock.advance(at)
            if process is not None and process.stopped:
                process.parked.append(function)
            else:
                function()
        return True

    def end(self) -> None:
        """Let go of whoever still waits."""
        for process in self._processes:
            self.kill(process)

    # ---- the record

    def note(self, *what: object) -> None:
        self._hash.update(repr((self.now(), *what)).encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _unwind(doomed: list[greenlet]) -> None:
    for one in doomed:
        if not one.dead:
            one.throw(GreenletExit)


class Bell:
    """threading.Event for one waiting greenlet."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rung = False
        self._waiting: tuple[greenlet, Process] | None = None

    def set(self) -> None:
        self._rung = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._world.call(0, waiting[0].switch, waiting[1])

    def clear(self) -> None:
        self._rung = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._rung:
            return True
        me = getcurrent()
        mine = self._waiting = (me, self._world.owner())
        if timeout is not None:
            self._world.call(max(1, round(timeout * S)), lambda: self._late(mine), mine[1])
        self._world.wait(me)
        return self._rung

    def _late(self, mine: tuple[greenlet, Process]) -> None:
        if self._waiting is mine:
            self._waiting = None
            mine[0].switch()


class Queue:
    """queue.SimpleQueue for greenlets. `Empty` is what the caller catches."""

    def __init__(self, world: World, empty: type[Exception]) -> None:
        self._items: deque[Any] = deque()
        self._bell = Bell(world)
        self._empty = empty

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._bell.set()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while not self._items:
            self._bell.clear()
            if not block or not self._bell.wait(timeout):
                raise self._empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items
