import asyncio
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadkit.documents.document import Document, Form, fit
from loadkit.errors import UsageError
from loadkit.tokens import Count, Prompt

from .tokenizers import NAMED, Chat, bundled, bytewise

DEPTHS = {"front": 0.05, "middle": 0.5, "back": 0.95}
QUESTIONS = ("front", "middle", "back", "front", "absent")


def form(language: str) -> Form:
    return Form(language=language, depths=DEPTHS, questions=QUESTIONS, distractors=3, template={})


def fitted(language: str, tokenizer: Chat, tokens: int, seed: str) -> Document:
    return asyncio.run(fit(form(language), tokenizer, tokens=tokens, seed=seed))


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("language", ["en", "zh"])
@settings(max_examples=4, deadline=None)
@given(tokens=st.integers(8192, 20_000), seed=st.text(alphabet="abc0123", min_size=1, max_size=6))
@example(tokens=8192, seed="120")  # zh, qwen: an id inside the lines follows their lengths better
def test_the_prompt_has_exactly_the_tokens_asked_for(name, language, tokens, seed):
    """For any length, seed, language and tokenizer: exact, in at most three counts a document and one more a question."""
    tokenizer = Chat(NAMED[name]())
    document = fitted(language, tokenizer, tokens, seed)
    assert (True, tokens) == (document.exact, document.questions[0].planned_tokens)
    assert tokenizer.calls <= 3 + len(set(QUESTIONS)) - 1


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("language", ["en", "zh"])
@settings(max_examples=4, deadline=None)
@given(tokens=st.integers(8192, 20_000), seed=st.text(alphabet="abc0123", min_size=1, max_size=6))
def test_needles_stand_at_their_depths(name, language, tokens, seed):
    """Each needle begins within 0.5 % of the document's tokens of where it was put."""
    encode = NAMED[name]()
    document = fitted(language, Chat(encode), tokens, seed)
    total = len(encode(document.text))
    for question in document.questions:
        if question.depth is not None:
            begins = document.text.rindex("\n", 0, document.text.index(question.value)) + 1
            assert abs(len(encode(document.text[:begins])) / total - question.depth) <= 0.005


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("language", ["en", "zh"])
@settings(max_examples=4, deadline=None)
@given(tokens=st.integers(8192, 20_000), seed=st.text(alphabet="abc0123", min_size=1, max_size=6))
def test_each_code_stands_once(name, language, tokens, seed):
    """Needles' and near-duplicates' codes are in the document once, all codes are distinct, and the absent key is absent."""
    document = fitted(language, Chat(NAMED[name]()), tokens, seed)
    for question in document.questions:
        for code in [question.value, *(near["value"] for near in question.distractors)]:
            assert (code == "NONE" and question.name == "absent") or document.text.count(code) == 1
    codes = re.findall(r"(?:reference |编号)([A-Z0-9]{8})[.。]", document.text)
    assert len(codes) == len(set(codes)) == document.text.count("\n") - 1
    absent = next(question for question in document.questions if question.name == "absent")
    asked = re.search(r"(?:reference of |，)((?:Project |项目)\S.*?\d{4})", absent.text)
    assert asked is not None
    assert asked[1] not in document.text


def test_the_same_seed_makes_the_same_document():
    """Inputs can be made again on another machine; another seed begins with another number, so nothing can be warmed."""
    one, again, other = (fitted("en", Chat(bytewise()), 8192, seed) for seed in ("a", "a", "b"))
    assert one == again
    assert one.text.split(",")[0] != other.text.split(",")[0]


def test_questions_share_the_document():
    """Only the question differs, so a later one shares nearly the whole prompt; the repeated one shares it all."""
    document = fitted("en", Chat(bundled()), 8192, "a")
    front, middle, _, again, _ = document.questions
    assert front.shared_tokens == 0
    assert 8000 < middle.shared_tokens < 8192
    assert (again.shared_tokens, again.repeated) == (8192, True)


def test_without_ids_the_length_is_still_exact():
    """A server that only counts: depths are by length of text, the total is corrected by what it counted."""
    document = fitted("en", Chat(bytewise(), with_ids=False), 16384, "a")
    assert document.exact
    assert document.questions[1].shared_tokens is None


def test_a_length_too_short_for_its_needles_is_a_usage_error():
    """Said before anything is sent."""
    with pytest.raises(UsageError, match="too short"):
        fitted("en", Chat(bytewise()), 1200, "a")


def test_256k_costs_little_cpu_beside_the_tokenizing():
    """Three seconds are allowed; a hang guard, as the machine may be busy."""

    class Timed(Chat):
        spent_s = 0.0

        async def count(self, prompt: Prompt) -> Count:
            begun = time.process_time()
            counted = await super().count(prompt)
            self.spent_s += time.process_time() - begun
            return counted

    tokenizer = Timed(bundled())
    begun = time.process_time()
    document = fitted("en", tokenizer, 256 * 1024, "a")
    assert document.exact
    assert time.process_time() - begun - tokenizer.spent_s < 3


async def test_an_event_loop_goes_on_while_a_document_is_made():
    """CPU work is in a thread: a probe of 5 ms is never late by more than a fraction of the whole."""
    late: list[float] = []

    async def probe() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.005)
            late.append(time.monotonic() - begun)

    class Instant(Chat):
        async def count(self, prompt: Prompt) -> Count:
            return await asyncio.to_thread(lambda: asyncio.run(super(Instant, self).count(prompt)))

    task = asyncio.create_task(probe())
    begun = time.monotonic()
    await fit(form("en"), Instant(bytewise()), tokens=256 * 1024, seed="a")
    whole = time.monotonic() - begun
    task.cancel()
    assert max(late) < whole / 2
