"""The web process is killed, or told to stop: clients never see a quiet end, rows never stay open, the next start is clean."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import urllib.error
from pathlib import Path

from live_server import LiveServer, engine_processes, wait_until
from plain_client import Call, gauges, ledger, rows

HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16", "--set", "max_num_seqs=4")


def busy(server: LiveServer) -> list[Call]:
    """Four that stream, four that wait, streamed or not."""
    streaming = [Call(server, f"s{n}", max_tokens=20_000) for n in range(4)]
    for call in streaming:
        call.until(lambda data: data.count(b'"text"') > 2)
    waiting = [Call(server, f"w{n}", streamed=n % 2 == 0) for n in range(4)]
    wait_until(lambda: gauges(server)["waiting"] == 4)
    return streaming + waiting


def stop(server: LiveServer) -> None:
    """SIGTERM, and wait until it is heeded."""
    server.process.terminate()

    def heeded() -> bool:
        try:
            return bool(server.get("/readyz")["lacking"])
        except urllib.error.HTTPError as error:
            with error:
                return b"shutting down" in error.read()

    wait_until(heeded)


class FirstContact(threading.Thread):
    """Knocks at a port until it opens, and looks at the records in that moment."""

    def __init__(self, url: str, data_dir: Path) -> None:
        super().__init__(daemon=True)
        self.address = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.data_dir = data_dir
        self.open: int | None = None
        self.start()

    def run(self) -> None:
        for _ in range(20_000):
            try:
                socket.create_connection(self.address, timeout=10).close()
            except ConnectionRefusedError:
                time.sleep(0.002)
                continue
            self.open = ledger(self.data_dir).open
            return


def test_a_killed_web_process_leaves_no_row_open_and_no_client_in_the_dark(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        done = Call(server, "done").over()
        assert done.error is None and done.events[-1] == "[DONE]"
        calls = busy(server)
        server.process.kill()
        server.process.wait()
        for call in calls:
            call.over()
            assert call.reset or not call.data.endswith(b"0\r\n\r\n"), "the answer is not whole, and says so"
            assert not call.data or call.status == 200 and "[DONE]" not in call.events
        assert ledger(server.data_dir).open == 8
        contact = FirstContact(server.url, server.data_dir)
        with LiveServer(tmp_path / "d", *HARDWARE, "--port", server.url.rpartition(":")[2]) as again:
            contact.join(30)
            assert contact.open == 0, "what was left open is ended before anybody is listened to"
            found = rows(again)
            ends = {name: (row["finish"], row["detail"], row["finished"]) for name, row in found.items()}
            assert ends.pop("done")[:2] == ("length", None)
            assert set(ends.values()) == {("error", "web_crash", None)} and len(ends) == 8
            ledger(again.data_dir).check()
            assert Call(again, "next").over().error is None
            boots = [
                boot
                for (boot,) in ledger(again.data_dir).ask(
                    "SELECT boot FROM boots WHERE runner <> 'reserved' ORDER BY created, boot"
                )
            ]
            assert boots == sorted(set(boots))


def test_many_deaths_in_a_row_end_each_row_once(tmp_path: Path) -> None:
    for life in range(3):
        with LiveServer(tmp_path / "d", *HARDWARE) as server:
            calls = [Call(server, f"{life}-{n}", max_tokens=20_000) for n in range(4)]
            calls[0].until(lambda data: b'"text"' in data)
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
            for call in calls:
                call.over()
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        ledger(server.data_dir).check()
        assert {row["detail"] for row in rows(server).values()} == {"web_crash"}


def test_a_stop_refuses_first_then_drains_then_says_why(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--drain", "3") as server:
        short = Call(server, "short", max_tokens=150).until(lambda data: b'"text"' in data)
        long = Call(server, "long", streamed=False, max_tokens=20_000)
        calls = [Call(server, f"s{n}", max_tokens=20_000) for n in range(2)]
        for call in calls:
            call.until(lambda data: b'"text"' in data)
        waiting = [Call(server, f"w{n}", streamed=n % 2 == 0, max_tokens=20_000) for n in range(2)]
        wait_until(lambda: gauges(server)["waiting"] == 2)
        stop(server)
        refused = Call(server, "refused", streamed=False).over()
        assert (refused.status, refused.error) == (503, "server_shutting_down")
        assert int(refused.header("Retry-After") or 0) >= 1
        assert short.over().error is None and short.events[-1] == "[DONE]"
        for call in calls:
            assert call.over().error == "server_shutting_down" and call.events[-1] == "[DONE]"
        for call in (long, *waiting):
            assert call.over().error == "server_shutting_down"
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.text_of_log()
        books = ledger(server.data_dir)
        books.check()
        ends = dict(books.ask("SELECT client_request_id, finish || ' ' || coalesce(detail, '') FROM requests"))
        assert ends.pop("short") == "length " and ends.pop("refused", "rejected").startswith("rejected")
        assert set(ends.values()) == {"abort shutdown"} and len(ends) == 5


def test_a_stop_with_a_frozen_engine_ends_in_order_too(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--drain", "0.5") as server:
        running = Call(server, "r", max_tokens=20_000).until(lambda data: b'"text"' in data)
        engine = server.engine_pid()
        assert engine is not None
        os.kill(engine, signal.SIGSTOP)
        server.process.terminate()
        assert running.over().error == "server_shutting_down" and running.events[-1] == "[DONE]"
        assert server.process.wait(30) == 0 and engine not in engine_processes()
        books = ledger(server.data_dir)
        books.check()
        assert books.ask("SELECT finish, detail FROM requests") == [("abort", "shutdown")]


def test_after_a_second_signal_everybody_is_told_and_every_row_ends(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--drain", "60") as server:
        calls = busy(server)
        stop(server)
        server.process.terminate()
        for call in calls:
            assert call.over().error == "server_shutting_down"
        assert server.process.wait(10) == 0
        books = ledger(server.data_dir)
        books.check()
        assert books.ask("SELECT DISTINCT finish, detail FROM requests") == [("abort", "shutdown")]


def test_a_third_signal_ends_at_once_and_the_next_start_closes_the_rows(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE, "--drain", "60") as server:
        calls = busy(server)
        engine = server.engine_pid()
        assert engine is not None
        stop(server)
        os.kill(engine, signal.SIGSTOP)  # whoever would tell them waits for it
        server.process.terminate()
        server.process.send_signal(signal.SIGINT)  # not SIGTERM again: two of one kind may be taken for one
        assert server.process.wait(10) == 1
        wait_until(lambda: engine not in engine_processes(), 10, "its engine to end")
        for call in calls:
            assert call.over().error is None and "[DONE]" not in call.data.decode()
    with LiveServer(tmp_path / "d", *HARDWARE) as again:
        ledger(again.data_dir).check()
