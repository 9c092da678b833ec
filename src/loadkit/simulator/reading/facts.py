"""What somebody said about themselves in a conversation, and questions that ask for it again."""

from __future__ import annotations

import re

from loadkit.simulator.reading.finding import Finding, is_chinese

STATED = (
    re.compile(r"\b(?:my|the|our) (?P<field>[a-z][a-z -]{1,30}?) (?:is|was|:) (?P<value>[A-Za-z0-9][\w-]*)", re.IGNORECASE),
    re.compile(r"我的(?P<field>[^，。\s]{1,8}?)(?:是|：)\s*(?P<value>[^，。\s]+)"),
)
NAMED = re.compile(r"\bI(?: am|'m) (?P<name>[A-Z][\w-]+(?: [A-Z][\w-]+)?)(?:,? from (?P<city>[A-Z][\w-]+(?: [A-Z][\w-]+)?))?")
NAMED_CHINESE = re.compile(r"我(?:叫|是)(?P<name>[^，。\s来]{1,8})(?:，?来自(?P<city>[^，。\s]{1,8}))?")
ASKS = re.compile(r"\?|？|confirm|repeat|remind|tell me|about the|which|what|告诉我|确认|复述", re.IGNORECASE)
ABOUT_ME = re.compile(r"\b(?:I|my|me|you noted)\b|我")
PLACE = re.compile(r"come from|live in|city|where am i|来自|哪里|城市", re.IGNORECASE)
NAME = re.compile(r"\bname\b|who am i|叫什么|名字", re.IGNORECASE)


def stated_facts(said: str) -> dict[str, str]:
    """Field → value of everything that was stated; later statements win."""
    facts: dict[str, str] = {}
    for form in (NAMED, NAMED_CHINESE):
        for match in form.finditer(said):
            facts["name"] = match["name"]
            if match["city"]:
                facts["city"] = match["city"]
    for form in STATED:
        for match in form.finditer(said):
            facts[match["field"].lower().strip()] = match["value"]
    return facts


def find_fact(said: str, question: str) -> Finding | None:
    """A fact of the conversation that the question asks for by its name."""
    if not ASKS.search(question) or not ABOUT_ME.search(question):
        return None
    facts = stated_facts(f"{said}\n{question}")
    asked = question.lower()
    named = [field for field in facts if field in asked and field not in ("name", "city")]
    if not named and NAME.search(question) and "name" in facts:
        named = ["name"]
    if not named and PLACE.search(question) and "city" in facts:
        named = ["city"]
    if not named:
        return None
    field = max(named, key=len)
    sentence = f"您的{field}是{{value}}。" if is_chinese(question) else f"Your {field} is {{value}}."
    if field == "city":
        sentence = "{value} is a place that people like to come back to. Its streets and squares invite one to stay a while."
    others = tuple(value for key, value in facts.items() if key != field)
    return Finding(value=facts[field], sentence=sentence, others=others or (facts[field][::-1],))
