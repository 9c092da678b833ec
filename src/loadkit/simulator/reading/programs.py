"""The small programs that the simulated model knows by heart; `code` writes them under the name that was asked for.

Their argument names are replaced too, so they are words that occur nowhere else in a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# mypy: disable-error-code="no-untyped-def"


def prime(first_):
    """Return whether it is prime."""
    if first_ < 2:
        return False
    divisor = 2
    while divisor * divisor <= first_:
        if first_ % divisor == 0:
            return False
        divisor += 1
    return True


def fibonacci(first_):
    """Return so many of the first Fibonacci numbers."""
    numbers = []
    current, following = 0, 1
    for _ in range(first_):
        numbers.append(current)
        current, following = following, current + following
    return numbers


def gcd(first_, second_):
    """Return the greatest common divisor."""
    while second_:
        first_, second_ = second_, first_ % second_
    return abs(first_)


def lcm(first_, second_):
    """Return the least common multiple."""
    product = first_ * second_
    while second_:
        first_, second_ = second_, first_ % second_
    return abs(product) // abs(first_)


def reverse_words(first_):
    """Return the words in reverse order."""
    return " ".join(reversed(first_.split()))


def palindrome(first_):
    """Return whether it reads the same backwards, ignoring case and spaces."""
    letters = "".join(first_.lower().split())
    return letters == letters[::-1]


def factorial(first_):
    """Return the factorial."""
    result = 1
    for factor in range(2, first_ + 1):
        result *= factor
    return result


def vowel(first_):
    """Return how many vowels there are."""
    return sum(letter in "aeiou" for letter in first_.lower())


def sort(first_):
    """Return a new sorted list, by bubble sort."""
    ordered = list(first_)
    for end in range(len(ordered) - 1, 0, -1):
        for place in range(end):
            if ordered[place] > ordered[place + 1]:
                ordered[place], ordered[place + 1] = ordered[place + 1], ordered[place]
    return ordered


def search(first_, second_):
    """Return the place of the wanted one in a sorted list, or -1."""
    low, high = 0, len(first_) - 1
    while low <= high:
        middle = (low + high) // 2
        if first_[middle] == second_:
            return middle
        if first_[middle] < second_:
            low = middle + 1
        else:
            high = middle - 1
    return -1


def fizz(first_):
    """Return the numbers from 1 on, as FizzBuzz has them."""
    return [("Fizz" * (n % 3 == 0) + "Buzz" * (n % 5 == 0)) or str(n) for n in range(1, first_ + 1)]


def reverse(first_):
    """Return it backwards."""
    return first_[::-1]


def total(first_):
    """Return the sum."""
    result = 0
    for value in first_:
        result += value
    return result


def largest(first_):
    """Return the largest one."""
    best = first_[0]
    for value in first_:
        if value > best:
            best = value
    return best


TOPICS: dict[str, Callable[..., Any]] = {
    "prime": prime, "素数": prime, "质数": prime, "fib": fibonacci, "斐波那契": fibonacci, "gcd": gcd, "最大公约数": gcd,
    "greatest common divisor": gcd, "lcm": lcm, "least common multiple": lcm, "reverse_words": reverse_words,
    "words in reverse": reverse_words, "palindrome": palindrome, "回文": palindrome, "backwards": palindrome,
    "factorial": factorial, "阶乘": factorial, "vowel": vowel, "元音": vowel, "sort": sort, "排序": sort, "search": search,
    "二分": search, "fizz": fizz, "reverse": reverse, "反转": reverse, "sum": total, "求和": total, "max": largest,
    "largest": largest,
}  # fmt: skip
"""What a program is called in texts, the more telling words first."""
