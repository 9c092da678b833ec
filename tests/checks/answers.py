"""Records with a given answer, as a client would have written them."""

from loadkit.record import CaseFacts, Outcome, Record, Slot, ToolCall


def answered(
    answer: str | None,
    *,
    reasoning: str | None = None,
    finish_reason: str = "stop",
    calls: tuple[tuple[str | None, str | None, str], ...] = (),
    outcome: Outcome = Outcome.COMPLETED,
) -> Record:
    """A record that ended with this answer; `calls` are (id, name, arguments)."""
    return Record(
        id="q",
        slot=Slot(),
        case=CaseFacts(scenario="s", case="c", workload="quality"),
        outcome=outcome,
        due_ns=0,
        answer=answer,
        reasoning=reasoning,
        finish_reason=finish_reason,
        tool_calls=tuple(
            ToolCall(index=index, id=call_id, name=name, arguments=arguments)
            for index, (call_id, name, arguments) in enumerate(calls)
        ),
    )
