"""`Mind`: what the simulated model thinks and says about a question. It reads the prompt's text and nothing else."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from loadkit.simulator.prompt import text_of
from loadkit.simulator.reading.arithmetic import find_sum
from loadkit.simulator.reading.calls import arguments_for, choose_tool, filled
from loadkit.simulator.reading.code import find_code
from loadkit.simulator.reading.facts import find_fact
from loadkit.simulator.reading.finding import Finding, is_chinese, wants_answer_line, wants_value_alone
from loadkit.simulator.reading.prose import filler, write_prose
from loadkit.simulator.reading.records import find_record
from loadkit.simulator.reading.thinking import think_about, thinking_tokens
from loadkit.simulator.script import Call, Thought
from loadkit.simulator.settings import Manners

QUESTION_CHARACTERS = 3000
"""How much of the end of a long message is taken for the question; what is before it is the text that it is about."""

REFUSALS = {False: "I'm sorry, but I can't help with that request.", True: "抱歉，我无法协助完成这个请求。"}
ALSO = {False: " It could also be {other}.", True: "也可能是{other}。"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: the conversation, and what the request allows the model to do."""

    messages: tuple[dict[str, Any], ...]
    seed: int = 0
    thinks: bool = True
    effort: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str = "none"
    named: bool = False
    form: dict[str, Any] | None = None


class Mind:
    """Answers questions; the same question and seed give the same answer."""

    def __init__(self, manners: Manners):
        self._manners = manners

    def think(self, question: Question, index: int) -> Thought:
        """Thinking and answer (or calls) of one choice."""
        asked, text = split(question.messages)
        draw = random.Random(f"{question.seed}/{index}/{asked}")
        chinese = is_chinese(asked)
        mood = self._mood(draw)
        thinking = None
        if question.thinks:
            length = thinking_tokens(
                draw, median=self._manners.thinking_tokens, effort=question.effort, over=mood == "overthinking"
            )
            thinking = think_about(asked, draw, length, chinese=chinese)
        if mood == "refused":
            return Thought(thinking=thinking, answer=REFUSALS[chinese])
        calls = () if mood == "hedged" and question.tool_choice == "auto" else self._calls(question, asked, mood)
        if calls:
            return Thought(thinking=thinking, calls=calls)
        return Thought(thinking=thinking, answer=answer(question, asked, text, mood, draw))

    def filler(self, question: Question, index: int) -> Callable[[], Iterator[str]]:
        """Natural text without an end, for outputs that must not stop."""
        chinese = (
            is_chinese(text_of(question.messages[-1].get("content"))[-QUESTION_CHARACTERS:]) if question.messages else False
        )

        def paragraphs() -> Iterator[str]:
            draw = random.Random(question.seed * 31 + index)
            while True:
                yield filler(draw, chinese=chinese)

        return paragraphs

    def _mood(self, draw: random.Random) -> str:
        """right, or one of the rates; drawn once so that the rates are shares of all requests."""
        ticket = draw.random()
        for mood in ("wrong", "refused", "hedged", "overthinking"):
            ticket -= getattr(self._manners, mood)
            if ticket < 0:
                return mood
        return "right"

    def _calls(self, question: Question, asked: str, mood: str) -> tuple[Call, ...]:
        """The tool call that the question needs, if tools are offered and the last word was not a tool's result."""
        if not question.tools or (question.messages[-1].get("role") == "tool" and question.tool_choice == "auto"):
            return ()
        if question.named:
            tool = next(tool for tool in question.tools if tool["function"]["name"] == question.tool_choice)
        else:
            chosen = choose_tool(question.tools, asked, must=question.tool_choice == "required")
            if chosen is None:
                return ()
            tool = chosen
        arguments = arguments_for(tool, asked)
        if mood == "wrong":
            arguments = orjson.dumps({key: _misread(value) for key, value in orjson.loads(arguments).items()}).decode()
        return (Call(tool["function"]["name"], arguments),)


def split(messages: tuple[dict[str, Any], ...]) -> tuple[str, str]:
    """The question (the end of the last user message), and all text that stands before it."""
    said = [text_of(message.get("content")) for message in messages if message.get("role") in ("user", "system", "developer")]
    places = [place for place, message in enumerate(messages) if message.get("role") == "user"]
    last = text_of(messages[places[-1]].get("content")) if places else (said[-1] if said else "")
    question = last if len(last) <= QUESTION_CHARACTERS else _tail(last)
    earlier = said[: said.index(last)] if last in said else said
    return question, "\n".join([*earlier, last.removesuffix(question)])


def answer(question: Question, asked: str, text: str, mood: str, draw: random.Random) -> str:
    """The answer's text."""
    if question.form is not None:
        return _in_form(question.form, asked)
    if question.messages and question.messages[-1].get("role") == "tool":
        return _from_result(text_of(question.messages[-1].get("content")))
    code = find_code(asked)
    if code is not None:
        return code if mood != "wrong" else re.sub(r"def \w+", "def helper", code, count=1)
    found = find_fact(text, asked) or find_record(text, asked) or find_sum(text, asked)
    chinese = is_chinese(asked)
    if found is None or found.value is None:
        return write_prose(asked, draw, chinese=chinese and mood != "wrong")
    return phrase(found, asked, mood, chinese=chinese)


def phrase(found: Finding, asked: str, mood: str, *, chinese: bool) -> str:
    """A finding in the form that the question asks for, as the mood has it."""
    right = found.value or ""
    other = next((value for value in found.others if value != right), right[::-1])
    value = other if mood == "wrong" else right
    if wants_value_alone(asked):
        return f"{right} or {other}" if mood == "hedged" else value
    sentence = found.sentence if found.absent and mood != "wrong" else found.said(value)
    if found.absent and mood == "wrong":
        sentence = f"它是{value}。" if chinese else f"It is {value}."
    if mood == "hedged":
        sentence += ALSO[chinese].format(other=other)
    if not wants_answer_line(asked):
        return sentence
    return f"{sentence}\nANSWER: {right} or {other}" if mood == "hedged" else f"{sentence}\nANSWER: {value}"


def _tail(message: str) -> str:
    """The end of a long message, from the start of a line: the question and its instructions."""
    tail = message[-QUESTION_CHARACTERS:]
    marks = [match.start() for match in re.finditer(r"\n", tail)]
    asked_at = max(tail.rfind("?"), tail.rfind("？"))
    before = [mark for mark in marks if mark < asked_at]
    return tail[before[-1] + 1 :] if before else tail[-600:]


def _in_form(form: dict[str, Any], asked: str) -> str:
    """JSON by a response_format: values from the text where it has them."""
    schema = (form.get("json_schema") or {}).get("schema") or {"type": "object", "properties": {"answer": {"type": "string"}}}
    return orjson.dumps(filled(schema, asked)).decode()


def _from_result(result: str) -> str:
    """What a tool said, in words."""
    try:
        facts = orjson.loads(result)
    except orjson.JSONDecodeError:
        return f"According to the tool: {result}"
    if not isinstance(facts, dict):
        return f"According to the tool: {result}"
    told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    return f"This is what I found: {told}."


def _misread(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    return value + 1 if isinstance(value, int | float) else f"{value}x" if isinstance(value, str) else value
