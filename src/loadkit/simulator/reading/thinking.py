"""What the model thinks before it answers: sentences about the question, as long as they are asked to be."""

from __future__ import annotations

import math
import random
import re

EFFORTS = {"none": 0.0, "minimal": 0.3, "low": 0.6, "medium": 1.0, "high": 2.5, "xhigh": 4.0, "max": 6.0}
SPREAD = 0.35
OVERTHINKING = 60.0
TOKENS_PER_SENTENCE = {False: 12.8, True: 11.2}

OPENING = {
    False: "Okay, let me see what is asked here: {topic}. ",
    True: "好的，先看看问题是什么：{topic}。",
}
STEPS = {
    False: (
        "First I should find the part of the text that this is about. ",
        "I will go through it from the beginning and keep what matters. ",
        "There are similar entries, so the exact wording has to match. ",
        "Let me check that once more before I write it down. ",
        "The form of the answer is given, so I should keep to it. ",
        "Is there anything that I have overlooked? It does not seem so. ",
        "Wait, let me compare the numbers again to be sure. ",
        "That agrees with what I found before. ",
        "Another way to look at it leads to the same result. ",
        "So the answer can be short and needs no more than what was asked. ",
    ),
    True: (
        "首先要找到与问题有关的部分。",
        "我从头看一遍，把有用的内容记下来。",
        "有几条很相似的记录，所以要逐字核对。",
        "写出来之前再检查一次。",
        "题目规定了回答的格式，应该照着写。",
        "有没有遗漏的地方？看来没有。",
        "等一下，再比较一遍数字。",
        "这与前面找到的一致。",
        "换一个角度来看，结果也相同。",
    ),
}


def thinking_tokens(draw: random.Random, *, median: int, effort: str | None, over: bool) -> int:
    """How long it thinks: log-normal around the median, scaled by the effort; sixty times as long when it overdoes it."""
    scale = EFFORTS.get(effort or "medium", 1.0)
    return int(median * scale * math.exp(draw.gauss(0.0, SPREAD)) * (OVERTHINKING if over else 1.0))


def think_about(question: str, draw: random.Random, tokens: int, *, chinese: bool) -> str:
    """Thinking of about `tokens` tokens."""
    if tokens <= 0:
        return ""
    words = re.sub(r"\s+", " ", question).strip()
    topic = words[-200:].split("? ")[0][:90].rstrip("?.。？ ")
    count = max(0, round((tokens - 25) / TOKENS_PER_SENTENCE[chinese]))
    steps = STEPS[chinese]
    body, last = "", -1
    for _ in range(count):
        place = draw.randrange(len(steps) - 1)
        last = place if place != last else len(steps) - 1
        body += steps[last]
    return OPENING[chinese].format(topic=topic.replace("{", "").replace("}", "")) + body.strip()
