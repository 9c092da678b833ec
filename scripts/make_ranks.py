"""Trains the bundled byte-level BPE from text that comes with any CPython, and writes src/loadkit/data/ranks.tiktoken.

    python scripts/make_ranks.py [--size 32000] [--out src/loadkit/data/ranks.tiktoken]

Nothing is downloaded. English and code come from the standard library (docstrings, comments, code, pydoc's topics); Chinese
from the characters of GB 2312 and from scripts/chinese_words.txt, a list of common words in falling order of use. The result
is a stand-in for a real tokenizer: about as many characters a token in English, code and Chinese, not the same tokens.
"""

from __future__ import annotations

import argparse
import base64
import heapq
import io
import itertools
import sysconfig
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import regex

from loadkit.encoding import PATTERN

HERE = Path(__file__).parent
PROSE_WEIGHT = 8  # comments and docstrings are a small part of the library, prose a large part of prompts


def main() -> None:
    """Learn the ranks and write them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", type=int, default=32_000)
    options.add_argument("--out", type=Path, default=HERE.parent / "src" / "loadkit" / "data" / "ranks.tiktoken")
    chosen = options.parse_args()
    words = corpus()
    print(f"{len(words)} distinct words, {sum(words.values())} in all")
    tokens = train(words, chosen.size)
    lines = (base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))
    chosen.out.write_bytes(b"".join(lines))
    print(f"{len(tokens)} tokens, {chosen.out.stat().st_size} bytes")


def corpus() -> Counter[bytes]:
    """How often each pre-token occurs: code once, prose weighted, Chinese by the word list."""
    words: Counter[bytes] = Counter()
    split = regex.compile(PATTERN)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if not {"site-packages", "dist-packages", "encodings", "pydoc_data", "idlelib", "lib2to3"} & set(path.parts):
            source = path.read_bytes().decode("utf-8", "ignore")
            add(words, split, source, 1)
            add(words, split, prose_of(source), PROSE_WEIGHT)
    from pydoc_data.topics import topics

    add(words, split, "\n".join(topics.values()), PROSE_WEIGHT)
    words.update(chinese(sum(words.values())))
    return words


def add(words: Counter[bytes], split: regex.Pattern[str], text: str, weight: int) -> None:
    """Count the pieces of a text, `weight` times."""
    for word, count in Counter(split.findall(text)).items():
        words[word.encode()] += count * weight


def prose_of(source: str) -> str:
    """Docstrings and comments of a module."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string.lstrip("#"))
            elif token.type == tokenize.STRING and '"""' in token.string:
                found.append(token.string.strip('rRbBuUfF"'))
    except (tokenize.TokenError, SyntaxError):
        pass  # test data of CPython that is not meant to parse
    return "\n".join(found)


def chinese(total: int) -> Counter[bytes]:
    """Words with Zipf's weights, and every character of GB 2312's first level often enough to become a token."""
    words: Counter[bytes] = Counter()
    listed = (HERE / "chinese_words.txt").read_text(encoding="utf-8").split()
    for rank, word in enumerate(dict.fromkeys(listed)):
        words[word.encode()] += max(60, total // (200 * (rank + 10)))
    for row in range(0xB0, 0xD8):
        for cell in range(0xA1, 0xFF):
            text = bytes((row, cell)).decode("gb2312", "ignore")
            if text:
                words[text.encode()] += 50
    for mark in "，。、；：？！“”‘’（）《》【】—…":
        words[mark.encode()] += 500
    return words


def train(words: Counter[bytes], size: int) -> list[bytes]:
    """Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) with pair counts kept up to date in a heap."""
    parts = [[bytes([byte]) for byte in word] for word in words]
    counts = list(words.values())
    pairs: Counter[tuple[bytes, bytes]] = Counter()
    places: defaultdict[tuple[bytes, bytes], set[int]] = defaultdict(set)
    for index, word in enumerate(parts):
        for pair in itertools.pairwise(word):
            pairs[pair] += counts[index]
            places[pair].add(index)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    tokens = [bytes([byte]) for byte in range(256)]
    known = set(tokens)
    while len(tokens) < size and heap:
        count, pair = heapq.heappop(heap)
        if pairs[pair] != -count:
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        joined = pair[0] + pair[1]
        if joined not in known:  # two pairs may spell the same token
            known.add(joined)
            tokens.append(joined)
        for changed in merge(pair, joined, parts, counts, pairs, places):
            if pairs[changed] > 0:
                heapq.heappush(heap, (-pairs[changed], changed))
    return tokens


def merge(pair, joined, parts, counts, pairs, places):  # type: ignore[no-untyped-def]
    """Joins `pair` in every word that holds it; the pairs whose counts rose."""
    risen = set()
    for index in places.pop(pair):
        old, weight = parts[index], counts[index]
        for neighbours in itertools.pairwise(old):
            pairs[neighbours] -= weight
        new, at = [], 0
        while at < len(old):
            if at + 1 < len(old) and (old[at], old[at + 1]) == pair:
                new.append(joined)
                at += 2
            else:
                new.append(old[at])
                at += 1
        parts[index] = new
        for neighbours in itertools.pairwise(new):
            pairs[neighbours] += weight
            places[neighbours].add(index)
            risen.add(neighbours)
    return risen


if __name__ == "__main__":
    main()
