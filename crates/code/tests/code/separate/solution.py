"""Program under test, with values and classes of many kinds."""

import collections
import dataclasses
import enum
import json
import typing


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

    def norm(self):
        return abs(self.x) + abs(self.y)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Row(typing.NamedTuple):
    key: int
    text: str


class Refused(ValueError):
    def __init__(self, amount):
        super().__init__(f"refused {amount}")
        self.amount = amount


class Account:
    count = 0

    def __init__(self, balance=0):
        self.balance = balance
        Account.count += 1

    def deposit(self, amount):
        if amount < 0:
            raise Refused(amount)
        self.balance += amount
        return self

    @property
    def doubled(self):
        return 2 * self.balance

    @classmethod
    def standard(cls):
        return cls(7)

    @staticmethod
    def increment(value):
        return value + 1

    def __len__(self):
        return self.balance

    def __eq__(self, other):
        return isinstance(other, Account) and other.balance == self.balance

    def __lt__(self, other):
        return self.balance < other.balance

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.balance = 0


class Template:
    def run(self):
        return self.step(3) + 1

    def step(self, value):
        raise NotImplementedError


class Stack(list):
    def push(self, value):
        self.append(value)


class Number:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Number(self.value + (other.value if isinstance(other, Number) else other))

    def __eq__(self, other):
        return isinstance(other, Number) and self.value == other.value


class Text(str):
    pass


def add(one, two):
    return one + two


def sort(values):
    values.sort()


def same(value):
    return value


def apply(function, values):
    return [function(value) for value in values]


def count_up(end):
    for number in range(end):
        received = yield number
        if received:
            yield received


def decode(text):
    return json.loads(text)


def all_kinds():
    return {
        "integer": 10**5000,
        "floats": [float("nan"), float("inf"), -0.5],
        "surrogate": "\ud800",
        "bytes": b"\0\xff",
        "sets": ({1, 2}, frozenset([3])),
        "keys": {(1, 2): None, 3: True},
        "counter": collections.Counter("aab"),
        "complex": 1j,
        "range": range(3),
        "text": Text("derived"),
    }


def cycle():
    values = [1]
    values.append(values)
    return values


def make_stack():
    stack = Stack()
    stack.push(1)
    return stack


def make_counter():
    count = 0

    def increment():
        nonlocal count
        count += 1
        return count

    return increment


def write(file):
    file.write("written")


def greet():
    print("hello")
    return input("name? ")


def raise_error(error):
    raise error


def method_of(value):
    return value.answer()


async def double(value):
    return 2 * value


async def call_async(function):
    return await function(4)
