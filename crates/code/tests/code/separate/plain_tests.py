import asyncio
import builtins
import collections
import contextlib
import datetime
import decimal
import io
import json
import math
import threading

import solution
from solution import Account, Color, Number, Point, Refused, Row, Template, add


def test_plain_values():
    assert add(1, 2) == 3 and add("a", "b") == "ab" and add([1], [2]) == [1, 2]
    assert add(decimal.Decimal("1.5"), 1) == decimal.Decimal("2.5")
    assert add(datetime.date(2020, 1, 1), datetime.timedelta(1)) == datetime.date(2020, 1, 2)
    kinds = solution.all_kinds()
    assert kinds["integer"] == 10**5000 and math.isnan(kinds["floats"][0]) and kinds["floats"][1:] == [math.inf, -0.5]
    assert kinds["surrogate"] == "\ud800" and kinds["bytes"] == b"\0\xff" and kinds["sets"] == ({1, 2}, frozenset([3]))
    assert kinds["keys"] == {(1, 2): None, 3: True} and kinds["counter"] == collections.Counter(a=2, b=1)
    assert kinds["complex"] == 1j and kinds["range"] == range(3) and kinds["text"] == "derived"
    values = solution.cycle()
    assert values[1] is values


def test_arguments_are_changed_in_place():
    values = [3, 1, 2]
    assert solution.sort(values) is None and values == [1, 2, 3]
    assert solution.same(values) is values
    file = io.StringIO()
    solution.write(file)
    assert file.getvalue() == "written"


def test_objects():
    account = Account()
    assert account.deposit(5) is account and account.balance == 5 and account.doubled == 10 and len(account) == 5
    assert isinstance(account, Account) and type(account).__name__ == "Account" and Account.count >= 1
    assert Account.standard().balance == 7 and Account.increment(1) == 2
    account.balance = 3
    assert account == Account(3) and account != Account(4) and account != None  # noqa: E711
    assert [one.balance for one in sorted([Account(2), Account(1)])] == [1, 2]
    with account as entered:
        assert entered is account
    assert account.balance == 0


def test_errors():
    try:
        Account().deposit(-1)
        assert False
    except Refused as error:
        assert error.amount == -1 and str(error) == "refused -1" and isinstance(error, ValueError)
    try:
        solution.decode("{")
        assert False
    except json.JSONDecodeError as error:
        assert error.pos == 1

    class Own(Exception):
        pass

    error = Own("x")
    try:
        solution.raise_error(error)
        assert False
    except Own as raised:
        assert raised is error
    try:
        solution.missing
        assert False
    except AttributeError:
        pass


def test_data_classes():
    point = Point(1, 2)
    assert point == Point(1, 2) and point != Point(2, 2) and point.norm() == 3 and repr(point) == "Point(x=1, y=2)"
    assert Color(2) is Color.BLUE and solution.same(Color.RED) is Color.RED
    row = Row(1, "x")
    assert row == (1, "x") and solution.same(row).key == 1 and isinstance(row, Row)
    stack = solution.make_stack()
    assert stack == [1] and len(stack) == 1 and stack[0] == 1


def test_operators_of_a_tested_class():
    assert Number(1) + Number(2) == Number(3) and Number(1) + 2 == Number(3)


def test_functions():
    assert solution.apply(lambda value: 2 * value, [1, 2]) == [2, 4] and solution.apply(len, ["a", "bb"]) == [1, 2]
    counter = solution.make_counter()
    assert (counter(), counter()) == (1, 2)

    class Dependency:
        def answer(self):
            return 42

    assert solution.method_of(Dependency()) == 42


def test_generators():
    numbers = solution.count_up(3)
    assert next(numbers) == 0 and numbers.send("back") == "back" and list(numbers) == [1, 2]
    assert solution.apply(str, (number for number in range(2))) == ["0", "1"]


def test_derived_classes():
    class Derived(Template):
        def step(self, value):
            return 10 * value

    assert Derived().run() == 31
    try:
        Template().run()
        assert False
    except NotImplementedError:
        pass


def test_coroutines():
    async def run():
        async def increment(value):
            await asyncio.sleep(0)
            return value + 1

        return await asyncio.gather(solution.double(1), solution.double(2), solution.call_async(increment))

    assert asyncio.run(run()) == [2, 4, 5]


def test_threads():
    results = []
    threads = [threading.Thread(target=lambda one=one: results.append(add(one, one))) for one in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(results) == [0, 2, 4, 6]


def test_printed_output_and_input():
    output, original = io.StringIO(), builtins.input
    builtins.input = lambda prompt: "Ada"
    try:
        with contextlib.redirect_stdout(output):
            assert solution.greet() == "Ada"
    finally:
        builtins.input = original
    assert output.getvalue() == "hello\n"
