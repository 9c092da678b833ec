"""Free text: about the topic of a question where one can be made out, otherwise about nothing in particular."""

from __future__ import annotations

import random
import re

TOPIC = (
    re.compile(r"(?:介绍一?下?|关于|描述一?下?|说说|谈谈|写[^，。]{0,6}关于)(?P<topic>[一-鿿A-Za-z]{2,10}?)[的，。？\s]"),
    re.compile(
        r"\b(?:about|describe|explain|introduce|on the subject of|of)\s+(?P<topic>(?:the |an? )?[\w' -]{3,40}?)(?:[.,;?!\n]|$)",
        re.IGNORECASE,
    ),
)
COUNT = re.compile(
    r"(?P<n>[一两二三四五六\d]+)\s*句|\b(?P<w>one|two|three|four|five|six)\s+(?:\w+\s+)?sentences?", re.IGNORECASE
)
NUMERALS = {
    "一": 1,
    "两": 2,
    "二": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
}

ENGLISH = (
    "The harbour was quiet in the early morning, and only two boats had left before the fog came in. ",
    "A long table stood in the middle of the room with maps, notes and a lamp that had not been lit. ",
    "She counted the crates again and wrote the number into the book beside the date. ",
    "By noon the wind had turned, and the people on the pier began to talk about the next day. ",
    "Nobody knew who had repaired the clock, but it kept better time than before. ",
    "The path went up through the pines and ended at a wall that was older than the village. ",
    "Most of the letters were about the weather, and one was about a bridge that should be built. ",
    "In the afternoon a cart arrived with flour, rope and a box of glass that had survived the road. ",
    "The older brother kept the accounts, while the younger one knew every tree along the river. ",
    "When the lamps were lit, the square looked smaller and the voices seemed to come closer. ",
    "They agreed to measure the field again in spring, since nobody trusted the old drawing. ",
    "A child asked why the bell rang twice, and the answer took longer than the walk home. ",
)
CHINESE = (
    "清晨的港口很安静，起雾之前只有两条船出海。",
    "房间中央放着一张长桌，上面有地图、笔记和一盏还没有点亮的灯。",
    "她又数了一遍箱子，把数字写在日期旁边。",
    "中午风向变了，码头上的人们开始谈论第二天的安排。",
    "没有人知道是谁修好了那座钟，但它比以前走得更准。",
    "小路穿过松林，一直通到一堵比村子还要古老的墙。",
    "下午来了一辆车，带来面粉、绳子和一箱完好的玻璃。",
    "灯亮起来以后，广场显得更小，人们的声音也更近了。",
)
ON_TOPIC_EN = (
    "There is a good deal to say about {topic}. ",
    "People have thought about {topic} for a long time, and their views still differ. ",
    "Whoever looks at {topic} closely finds that the details matter more than the general idea. ",
    "In practice {topic} is learned best by going slowly and checking each step. ",
)
ON_TOPIC_ZH = (
    "{topic}有着悠久的历史，是人们非常熟悉的话题。",
    "今天，{topic}仍然吸引着许多人去了解和研究。",
    "要真正认识{topic}，需要耐心地观察每一个细节。",
    "谈到{topic}，不同的人往往有不同的看法。",
)


def write_prose(question: str, draw: random.Random, *, chinese: bool) -> str:
    """A few sentences; as many as the question asks for, about its topic if it names one."""
    topic = topic_of(question)
    count = count_of(question) or draw.randint(3, 6)
    about = ON_TOPIC_ZH if chinese else ON_TOPIC_EN
    start = draw.randrange(len(about))
    fitting = [about[(start + place) % len(about)].replace("{topic}", topic) for place in range(len(about))] if topic else []
    more = CHINESE if chinese else ENGLISH
    sentences = [*fitting, *draw.sample(more, len(more))][:count]
    return "".join(sentences).strip()


def filler(draw: random.Random, *, chinese: bool) -> str:
    """A paragraph of natural text."""
    sentences = CHINESE if chinese else ENGLISH
    return "\n\n" + "".join(draw.choice(sentences) for _ in range(8)).strip()


def topic_of(question: str) -> str | None:
    """What the text should be about, if the question says so."""
    for form in TOPIC:
        match = form.search(question + "\n")
        if match:
            return match["topic"].strip()
    return None


def count_of(question: str) -> int | None:
    """How many sentences are asked for."""
    match = COUNT.search(question)
    if match is None:
        return None
    word = (match["n"] or match["w"]).lower()
    return NUMERALS.get(word) or (int(word) if word.isdigit() else None)
