"""TextStage: turns a step's tokens into output text, between run and commit. Knows no socket and no clock.

It lives in the engine so that a stop string ends its request in the very step that completed it.
Invariant: a live request has exactly one stream here; what it returned so far is what its client may read.
"""

from __future__ import annotations

from scheduler.core.events import RequestFinished
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import FinishReason, Request
from scheduler.text.bundle import Text, TextStream

_COMPLETE = (FinishReason.STOP, FinishReason.LENGTH)


class TextStage:
    """Streams by request id, opened at submission, closed at the end."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._streams: dict[str, TextStream] = {}

    def open(self, request: Request) -> None:
        """Begin the text of a newly added request; its stop strings wait for `min_tokens`."""
        params = request.params
        self._streams[request.id] = self._text.stream(params.stop, request.tokens.tolist(), params.min_tokens)

    def write(self, plan: StepPlan, output: StepOutput) -> StepOutput:
        """Fill `output.texts`, one piece for each sampling row, and add the rows whose stop string was reached."""
        texts, stopped = [], dict(output.stopped)
        for row, (request, token) in enumerate(zip(plan.sampling, output.tokens, strict=True)):
            if row in output.errors:
                texts.append("")
                continue
            piece, stop = self._streams[request.id].push(token)
            texts.append(piece)
            if stop is not None:
                stopped[row] = stop
        output.texts, output.stopped = texts, stopped
        return output

    def close(self, event: RequestFinished) -> str:
        """The text that the ended request held back and that its client is due; "" when it did not end of itself."""
        stream = self._streams.pop(event.id)
        return stream.flush() if event.reason in _COMPLETE else ""
