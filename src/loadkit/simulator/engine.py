"""The engine's loop: steps follow each other, each ends at its due time, outputs are written there.

A step's outputs are rendered while it "computes", each before it is due, so that at the due time only writes are left. The
next step is due a duration after the last one was due (not after it was done), so a stream keeps its pace although this
process is late now and then; when it falls behind by more than `CATCH_UP_NS` the schedule starts anew and the lateness is
counted.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

from loadkit.simulator.blocks import BlockPool
from loadkit.simulator.scheduler import Scheduler, Share, Step
from loadkit.simulator.sequence import Output, Sequence
from loadkit.simulator.settings import Settings
from loadkit.simulator.speed import step_ns
from loadkit.simulator.timer import Timer
from loadkit.simulator.vocabulary import Vocabulary

CATCH_UP_NS = 50_000_000


class Meters(Protocol):
    """What the engine tells /metrics, at the moments when vLLM does."""

    def scheduled(self, step: Step) -> None: ...

    def stepped(self, outputs: list[tuple[Sequence, Output, Share]], now_ns: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Overflow(Exception):
    """A queue limit is reached; `reason` is the label of vllm:admission_rejections_total."""

    reason: str
    message: str


class Engine:
    """One engine core. Everything runs in the event loop's thread."""

    def __init__(self, settings: Settings, vocabulary: Vocabulary, meters: Meters, loop: asyncio.AbstractEventLoop):
        self._settings = settings
        self._vocabulary = vocabulary
        self._meters = meters
        self._timer = Timer(loop, self._ring)
        self._step: Step | None = None
        self._outputs: list[tuple[Sequence, Output, Share]] = []
        self._prepared = 0
        self._delivered = 0
        self._due_ns = 0
        self.dead = False
        self.fell_behind = 0
        self.pool = BlockPool(settings.kv_blocks, settings.block_size, caching=settings.prefix_caching)
        self.scheduler = Scheduler(
            self.pool,
            max_seqs=settings.max_num_seqs,
            max_batched=settings.max_num_batched_tokens,
            drafts=settings.drafts,
            drop_block=settings.draft_method != "ngram" and settings.drafts > 0,
        )

    @property
    def in_flight(self) -> int:
        return len(self.scheduler.running) + len(self.scheduler.waiting)

    def admit(self, choices: int) -> None:
        """Check the queue limits before a request is submitted (both count running requests too, as vLLM's do).

        Raises:
            Overflow: the request must be rejected with 503.
        """
        limit = self._settings.max_num_queued_reqs
        if limit is not None and self.in_flight + choices > limit:
            raise Overflow("max_num_queued_reqs", f"Request queue is full ({self.in_flight}/{limit}).")
        limit = self._settings.max_num_queued_tokens
        if limit is not None:
            queued = sum(len(each.prompt) for each in [*self.scheduler.waiting, *self.scheduler.running] if not each.made)
            if queued >= limit:
                raise Overflow("max_num_queued_tokens", f"Queued prompt tokens limit reached ({queued}/{limit}).")

    def submit(self, sequence: Sequence) -> None:
        sequence.queued_ns = time.monotonic_ns()
        self.scheduler.add(sequence)
        if self._step is None:
            self._due_ns = time.monotonic_ns()
            self._begin_step()

    def abort(self, sequence: Sequence) -> None:
        """The client went away: freed at once, counted nowhere (vLLM's request_success_total ignores it too)."""
        if not sequence.gone:
            sequence.gone = True
            self.scheduler.remove(sequence)

    def kill(self, message: str) -> None:
        """The engine core dies: every request under way fails, none is accepted afterwards."""
        self.dead = True
        for sequence in [*self.scheduler.running, *self.scheduler.waiting]:
            self.abort(sequence)
            sequence.sink.fail(message)

    def close(self) -> None:
        self._timer.close()

    def _begin_step(self) -> None:
        step = self.scheduler.next_step()
        if not step.shares:
            self._step = None
            return
        self._step = step
        began_ns = self._due_ns
        self._due_ns += step_ns(
            self._settings.speed,
            decoding=sum(share.samples for share in step.shares if not share.prefill),
            prefill_tokens=step.prefill_tokens,
            context_tokens=step.context_tokens,
            tokens_per_step=self._settings.tokens_per_step,
        )
        now = time.monotonic_ns()
        for share in step.shares:
            if share.sequence.scheduled_ns is None:
                share.sequence.scheduled_ns = now
        self._meters.scheduled(step)
        sampling = [share for share in step.shares if share.samples and not share.sequence.gone]
        dues = self._dues(sampling, began_ns)
        self._outputs = [(share.sequence, self._draw(share, due), share) for share, due in zip(sampling, dues, strict=True)]
        self._prepared = self._delivered = 0
        self._timer.set(dues[0] if dues else self._due_ns)
        self._prepare()

    def _dues(self, sampling: list[Share], began_ns: int) -> list[int]:
        """When each output is due: at the step's end, or (`spread`) the decodes evenly over the step."""
        if not self._settings.spread or any(share.prefill for share in sampling):
            return [self._due_ns] * len(sampling)
        span, count = self._due_ns - began_ns, len(sampling)
        return [began_ns + span * (place + 1) // count for place in range(count)]

    def _draw(self, share: Share, due_ns: int) -> Output:
        """The tokens that a sequence gets from this step: one, and the drafts that are accepted."""
        sequence, accepted = share.sequence, 0
        if not share.prefill and self._settings.drafts:
            while accepted < self._settings.drafts and sequence.random.random() < self._settings.acceptance:
                accepted += 1
            sequence.drafts += 1
            sequence.drafted += self._settings.drafts
            sequence.accepted += accepted
            sequence.histogram.append(accepted)
        script = sequence.script
        end = min(sequence.made + 1 + accepted, sequence.max_tokens)
        script.reach(end, self._vocabulary)
        if script.stop_at is not None and end > script.stop_at:
            return Output(sequence.made, script.stop_at + 1, due_ns, "stop")
        return Output(sequence.made, end, due_ns, "length" if end >= sequence.max_tokens else None)

    def _prepare(self) -> None:
        """Render the output that is due next, and those after it until then."""
        outputs = self._outputs
        while self._prepared < len(outputs):
            if self._prepared > self._delivered and outputs[self._delivered][1].due_ns <= time.monotonic_ns():
                return
            sequence, output, _ = outputs[self._prepared]
            self._prepared += 1
            if not sequence.gone:
                sequence.sink.prepare(output)

    def _ring(self) -> None:
        """Outputs are due; after the last one the step is over."""
        outputs, now = self._outputs, time.monotonic_ns()
        while self._delivered < len(outputs) and outputs[self._delivered][1].due_ns <= now:
            if self._prepared == self._delivered:
                self._prepare()
            sequence = outputs[self._delivered][0]
            self._delivered += 1
            if not sequence.gone:
                sequence.sink.deliver()
        if self._delivered < len(outputs):
            self._timer.set(outputs[self._delivered][1].due_ns)
            self._prepare()
        elif self._step is not None:
            self._end_step(self._step)

    def _end_step(self, step: Step) -> None:
        live = [entry for entry in self._outputs if not entry[0].gone]
        now = time.monotonic_ns()
        self._commit(step, live)
        self._meters.stepped(live, now)
        if now - self._due_ns > CATCH_UP_NS:
            self._due_ns = now
            self.fell_behind += 1
        self._begin_step()

    def _commit(self, step: Step, live: list[tuple[Sequence, Output, Share]]) -> None:
        for share in step.shares:
            share.sequence.computed = share.before + share.new
        for sequence, output, _ in live:
            sequence.made = output.end
            sequence.computed = sequence.length - 1
            if output.finish is not None:
                sequence.gone = True
                self.scheduler.remove(sequence)
