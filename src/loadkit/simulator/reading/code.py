"""Small programs that people ask for: the function's name and arguments from the text, the body from a set that works."""

from __future__ import annotations

import re

SIGNATURE = re.compile(
    r"function\s+(?:named\s+|called\s+)?`?(?P<name>[A-Za-z_]\w*)`?\s*\((?P<arguments>[^)]*)\)|函数\s*`?(?P<zh>[A-Za-z_]\w*)`?\s*[(（](?P<args>[^)）]*)"
)
NAMED = re.compile(r"function\s+(?:named|called)\s+`?(?P<name>[A-Za-z_]\w*)|(?:名为|叫)\s*`?(?P<zh>[A-Za-z_]\w*)")
WANTED = re.compile(
    r"\b(?:write|implement|give|create|define)\b[^.?]*\b(?:function|program|code|method|script)\b|写[^。]*(?:函数|程序|代码)",
    re.IGNORECASE,
)

BODIES: dict[str, tuple[str, str]] = {
    "prime": ("Return whether {0} is prime.", "if {0} < 2:\n    return False\ndivisor = 2\nwhile divisor * divisor <= {0}:\n    if {0} % divisor == 0:\n        return False\n    divisor += 1\nreturn True"),
    "fibonacci": ("Return the first {0} Fibonacci numbers.", "numbers = []\ncurrent, following = 0, 1\nfor _ in range({0}):\n    numbers.append(current)\n    current, following = following, current + following\nreturn numbers"),
    "gcd": ("Return the greatest common divisor of {0} and {1}.", "while {1}:\n    {0}, {1} = {1}, {0} % {1}\nreturn abs({0})"),
    "lcm": ("Return the least common multiple of {0} and {1}.", "first, second = {0}, {1}\nwhile second:\n    first, second = second, first % second\nreturn abs({0} * {1}) // first"),
    "reverse_words": ("Return the words of {0} in reverse order.", 'return " ".join(reversed({0}.split()))'),
    "palindrome": ("Return whether {0} reads the same backwards.", 'letters = "".join({0}.lower().split())\nreturn letters == letters[::-1]'),
    "factorial": ("Return the factorial of {0}.", "result = 1\nfor factor in range(2, {0} + 1):\n    result *= factor\nreturn result"),
    "vowel": ("Return how many vowels {0} holds.", 'return sum(letter in "aeiou" for letter in {0}.lower())'),
    "sort": ("Return {0} as a new sorted list.", "ordered = list({0})\nfor end in range(len(ordered) - 1, 0, -1):\n    for place in range(end):\n        if ordered[place] > ordered[place + 1]:\n            ordered[place], ordered[place + 1] = ordered[place + 1], ordered[place]\nreturn ordered"),
    "search": ("Return the place of {1} in the sorted {0}, or -1.", "low, high = 0, len({0}) - 1\nwhile low <= high:\n    middle = (low + high) // 2\n    if {0}[middle] == {1}:\n        return middle\n    if {0}[middle] < {1}:\n        low = middle + 1\n    else:\n        high = middle - 1\nreturn -1"),
    "fizz": ("Return the numbers up to {0} as FizzBuzz has them.", 'return [("Fizz" * (n % 3 == 0) + "Buzz" * (n % 5 == 0)) or str(n) for n in range(1, {0} + 1)]'),
    "reverse": ("Return {0} backwards.", "return {0}[::-1]"),
    "sum": ("Return the sum of {0}.", "total = 0\nfor value in {0}:\n    total += value\nreturn total"),
    "max": ("Return the largest of {0}.", "largest = {0}[0]\nfor value in {0}:\n    if value > largest:\n        largest = value\nreturn largest"),
}  # fmt: skip
TOPICS = {"素数": "prime", "质数": "prime", "斐波那契": "fibonacci", "最大公约数": "gcd", "greatest common divisor": "gcd", "回文": "palindrome",
          "backwards": "palindrome", "阶乘": "factorial", "元音": "vowel", "排序": "sort", "二分": "search", "反转": "reverse", "求和": "sum"}  # fmt: skip


def find_code(question: str) -> str | None:
    """A Python code block with the function that is asked for; `None` where no program is asked for, or an unknown one."""
    if not WANTED.search(question):
        return None
    topic = topic_of(question)
    if topic is None:
        return None
    name, arguments = signature_of(question, topic)
    sentence, body = BODIES[topic]
    filled = [*arguments, "items", "wanted"]
    lines = [f'"""{sentence.format(*filled)}"""', *body.format(*filled).split("\n")]
    indented = "\n".join("    " + line for line in lines)
    return f"```python\ndef {name}({', '.join(arguments)}):\n{indented}\n```"


def topic_of(question: str) -> str | None:
    """Which of the programs is asked for: by the function's name first, then by the words around it."""
    match = SIGNATURE.search(question) or NAMED.search(question)
    name = ((match["name"] or match["zh"]) if match else "").lower()
    for text in (name, question.lower()):
        for topic in BODIES:
            if topic in text:
                return topic
        for words, topic in TOPICS.items():
            if words in text:
                return topic
    return None


def signature_of(question: str, topic: str) -> tuple[str, list[str]]:
    """The function's name and arguments as the question gives them, else usual ones."""
    match = SIGNATURE.search(question)
    usual = ["a", "b"] if "{1}" in BODIES[topic][1] else ["value"]
    if match is None:
        named = NAMED.search(question)
        return (named["name"] or named["zh"]) if named else topic, usual
    given = match["arguments"] if match["name"] else match["args"]
    arguments = [part.split(":")[0].split("=")[0].strip() for part in given.split(",") if part.strip()]
    return match["name"] or match["zh"], arguments if len(arguments) >= len(usual) else usual
