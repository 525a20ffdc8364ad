"""`batchscope load --url` of a server that is not ours: the generator alone, and a report of what the client saw."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.cli import main


class Foreign(BaseHTTPRequestHandler):
    """An OpenAI-compatible server without records: streams three tokens and a usage."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        known = self.path == "/v1/models"
        self._answer(200 if known else 404, json.dumps({"data": [{"id": "other", "max_model_len": 4096}]}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith("/v1/"):
            self._answer(404, b"{}")
            return
        pieces = [{"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in ("a", "b", "c")]
        pieces.append({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        pieces.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})
        body = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
        self._answer(200, body.encode(), "text/event-stream")

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def test_a_foreign_server_gets_the_generator_and_a_report_of_the_client_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    thread = threading.Thread(target=foreign.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{foreign.server_address[1]}"
        code = main(["load", "tutorial", "--url", url, "--out", str(tmp_path / "out")])
        assert main(["load", "tutorial", "--url", url, "--scheduler", "max_num_seqs=2"]) == 2
    finally:
        foreign.shutdown()
        foreign.server_close()
        thread.join()
    said = capsys.readouterr().out
    assert code == 0 and said.startswith("client-only report") and "sent 5 = 5 ok" in said and "server rows" not in said
    assert len((tmp_path / "out/requests.jsonl").read_text().splitlines()) == 5
