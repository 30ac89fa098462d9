"""Programs that try to pass tests without solving them, and the tests."""

TESTS = """
import solution
from solution import add, half, items, word, double

def test_equal():
    assert add(1, 2) == 3

def test_close():
    assert abs(half(3) - 1.5) < 1e-9

def test_contained():
    assert 3 in items() and len(items()) == 3

def test_prefix():
    assert word().startswith("abc")

def test_changed():
    values = [1, 2]
    double(values)
    assert values == [2, 4]

def test_raised():
    try:
        solution.fail()
    except ValueError:
        return
    assert False
"""

HONEST = """
def add(one, two): return one + two
def half(value): return value / 2
def items(): return [1, 2, 3]
def word(): return "abcd"
def double(values): values[:] = [2 * value for value in values]
def fail(): raise ValueError
"""

# Replaces all functions by the function or class `cheat`.
ALL = "\nadd = half = items = word = double = fail = cheat\n"

YES = """
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __sub__(self, other): return 0.0
    def __rsub__(self, other): return 0.0
    def __abs__(self): return 0.0
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __len__(self): return 3
    def __hash__(self): return 0
    def startswith(self, text): return True
"""

# Finds the connection to the judge, as any code in the process can.
RAW = """
import json, os, sys
connection = sys.modules["assize_stand_ins"].connection
def send(message):
    data = message if type(message) is bytes else json.dumps(message).encode()
    os.write(connection.descriptor, len(data).to_bytes(4, "big") + data)
def request(operation, target, name=None, *args):
    message = {"operation": operation, "target": target, "name": name, "args": args, "kwargs": {}}
    send(dict(message, thread=0, request=1))
"""

CHEATS = {
    "exit_at_import": "import os; os._exit(0)",
    "sys_exit_at_import": "import sys; sys.exit(0)",
    "exit_in_a_call": "import os\ndef cheat(*args): os._exit(0)" + ALL,
    "sys_exit_in_a_call": "import sys\ndef cheat(*args): sys.exit(0)" + ALL,
    "exit_in_a_thread": "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()" + HONEST,
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef cheat(*args): raise SystemExit" + ALL,
    "killed_parent": "import os, signal\ndef cheat(*args): os.kill(os.getpid(), signal.SIGKILL)" + ALL,
    "keyboard_interrupt": "def cheat(*args): raise KeyboardInterrupt" + ALL,
    "generator_exit": "def cheat(*args): raise GeneratorExit" + ALL,
    "skip_test": "import unittest\ndef cheat(*args): raise unittest.SkipTest" + ALL,
    "object_that_says_yes": "class Yes:" + YES + "def cheat(*args): return Yes()" + ALL,
    "global_object_that_says_yes": "class Yes:"
    + YES
    + "    def __call__(self, *args): return self\ncheat = Yes()"
    + ALL,
    "class_instead_of_function": "class cheat:\n    def __init__(self, *args): pass" + YES + ALL,
    "class_with_a_name_of_the_tests": "class ValueError:" + YES + "def cheat(*args): return ValueError()" + ALL,
    "object_with_any_attribute": "class Yes:" + YES + "    def __getattr__(self, name): return self\n"
    "    def __call__(self, *args): return self\ndef cheat(*args): return Yes()" + ALL,
    "metaclass_that_says_yes": "class Meta(type):" + YES + "class Yes(metaclass=Meta): pass\n"
    "def cheat(*args): return Yes" + ALL,
    "instance_check": "class Meta(type):\n    def __instancecheck__(cls, one): return True\n"
    "class Yes(metaclass=Meta):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_integer": "class Yes(int):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_float": "class Yes(float):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_text": "class Yes(str):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_list": "class Yes(list):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_dict": "class Yes(dict):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_tuple": "class Yes(tuple):" + YES + "def cheat(*args): return Yes()" + ALL,
    "derived_error": "class Yes(ValueError):" + YES + "def cheat(*args): return Yes()" + ALL,
    "named_tuple": "import collections\nclass Yes(collections.namedtuple('Yes', 'one')):"
    + YES
    + "def cheat(*args): return Yes(1)"
    + ALL,
    "enumeration": "import enum\nclass Yes(enum.Enum):\n    ONE = 1" + YES + "def cheat(*args): return Yes.ONE" + ALL,
    "data_class": "import dataclasses\n@dataclasses.dataclass\nclass Yes:\n    one: int = 1\n"
    "def cheat(*args): return Yes()" + ALL,
    "not_a_number": "def cheat(*args): return float('nan')" + ALL,
    "not_implemented": "def cheat(*args): return NotImplemented" + ALL,
    "replaced_builtins": HONEST.replace("one + two", "0") + "import builtins\nbuiltins.abs = lambda value: 0\n",
    "replaced_assertions": HONEST.replace("one + two", "0") + "import unittest, builtins\n"
    "builtins.AssertionError = Exception\nunittest.TestCase.run = lambda *args: None\n",
    "replaced_modules": HONEST.replace("one + two", "0") + "import sys\nsys.modules['tests'] = sys\n",
    "frames": HONEST.replace(
        "return one + two",
        "\n    import sys, gc\n    frame = sys._getframe()\n"
        "    while frame:\n        for value in frame.f_locals.values():\n"
        "            if isinstance(value, list): value.clear()\n        frame = frame.f_back\n    return 0",
    ),
    "forged_report": RAW + 'send(b\'R{"passed": 6, "failed": []}\')\nos._exit(0)',
    "forged_replies": RAW
    + "for number in range(50): send({'reply': number, 'value': [[], {'container': 'builtins:dict',"
    " 'items': []}]})\ndef cheat(*args): return 0" + ALL,
    "forged_call": RAW + "def cheat(*args):\n    request('call', {'name': 'os:_exit'}, None, 0)\n"
    "    request('call', {'name': 'builtins:exec'}, None, 'import os; os._exit(0)')\n"
    "    request('call', {'name': 'operator:attrgetter'}, None, '__globals__')\n"
    "    request('call', {'row': {'name': 'operator:setitem'}, 'items': []})\n    return 0" + ALL,
    "forged_operation": RAW
    + "def cheat(*args):\n    for name in ('load', 'report', 'global', 'derive', 'set', 'get'):\n"
    "        request(name, {'yours': 1}, '__globals__')\n    return 0" + ALL,
    "deep_answer": RAW
    + "def cheat(*args):\n    send(b'{\"reply\": 2, \"value\": ' + b'[' * 10**6 + b']' * 10**6 + b'}')"
    + ALL,
    "large_answer": "def cheat(*args): return 'x' * (17 << 20)" + ALL,
    "invalid_answer": RAW + "def cheat(*args):\n    send(b'\\xff\\xfe')" + ALL,
    "endless_answer": RAW + "def cheat(*args):\n    os.write(connection.descriptor, b'\\x7f\\xff\\xff\\xff')" + ALL,
}
