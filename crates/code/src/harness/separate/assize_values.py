"""Values that cross between the judge, which runs the tests, and the process of the program under test.

Both processes use this file. A value crosses as JSON: plain values as data, all other objects as references to an
object that stays in its process. Decoding executes no code that the sender chooses: it creates only the types listed
here.
"""

import sys

MAX_DEPTH = 200
MAX_NAME = 200
# Longer integers are slow to convert to decimal digits, so they cross in hexadecimal form.
MAX_INT = 1 << 63


class CannotCross(TypeError):
    """A value cannot be sent to the other process."""


class InvalidValue(ValueError):
    """The other process sent a value that cannot be decoded."""


def is_name(text):
    """Whether a value can be the name of an attribute."""
    return type(text) is str and len(text) <= MAX_NAME and text.isidentifier()


def path_of(value):
    """Returns the module and the qualified name of a class or function."""
    return "%s:%s" % (getattr(value, "__module__", None), getattr(value, "__qualname__", None))


def imported(path):
    """Returns the class or function at a path that this file lists."""
    module, _, name = path.partition(":")
    return getattr(__import__(module, fromlist=[name]), name)


# Classes and functions of these modules cross by name.
NAMED_MODULES = frozenset(
    "builtins cmath collections copy datetime decimal fractions functools itertools math operator random statistics"
    " string time uuid zoneinfo".split()
)
# Except these functions, which act on the process that calls them.
NOT_NAMED = frozenset(
    "builtins:%s" % name
    for name in "__import__ breakpoint compile delattr dir eval exec exit getattr globals help input locals open print"
    " quit setattr vars".split()
)
# Exception classes of these modules cross by name. Those of unittest and pytest do not: they would skip a test.
ERROR_MODULES = NAMED_MODULES | frozenset(
    "_csv _struct argparse asyncio.exceptions binascii concurrent.futures._base configparser csv dataclasses"
    " http.client json.decoder queue re select shutil socket sqlite3 ssl struct subprocess tarfile urllib.error"
    " xml.etree.ElementTree zipfile zlib".split()
)


def is_named(value):
    """Whether a class or function crosses by name."""
    path = path_of(value)
    module, _, name = path.partition(":")
    if not is_name(name) or name.startswith("_") or path in NOT_NAMED:
        return False
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    if module not in (ERROR_MODULES if is_error else NAMED_MODULES):
        return False
    return getattr(sys.modules.get(module), name, None) is value


def named(path):
    """Returns the class or function that crossed by name."""
    module, _, name = path.partition(":") if type(path) is str else ("", "", "")
    if module in ERROR_MODULES and is_name(name):
        try:
            value = imported(path)
        except (ImportError, AttributeError):
            value = None
        if value is NotImplemented or value is Ellipsis or is_named(value):
            return value
    raise InvalidValue("unknown name")


# Immutable types that cross as the arguments of their constructor, by path.
def _date(value):
    return [value.year, value.month, value.day]


def _time(value):
    return [value.hour, value.minute, value.second, value.microsecond, value.tzinfo]


CONSTRUCTED = {
    "builtins:complex": lambda value: [value.real, value.imag],
    "builtins:range": lambda value: [value.start, value.stop, value.step],
    "builtins:slice": lambda value: [value.start, value.stop, value.step],
    "datetime:date": _date,
    "datetime:datetime": lambda value: _date(value) + _time(value),
    "datetime:time": _time,
    "datetime:timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "datetime:timezone": lambda value: [value.utcoffset(None)],
    "decimal:Decimal": lambda value: [str(value)],
    "fractions:Fraction": lambda value: [value.numerator, value.denominator],
    "pathlib:PosixPath": lambda value: [str(value)],
    "pathlib:PurePosixPath": lambda value: [str(value)],
    "uuid:UUID": lambda value: [value.hex],
    "zoneinfo:ZoneInfo": lambda value: [value.key],
}


# Mutable types, by path: a function that returns the content as a list, and one that replaces the content by such a
# list.
def _fill_mapping(target, items):
    target.clear()
    dict.update(target, zip(items[::2], items[1::2]))


def _fill_buffer(target, items):
    content, position = items
    target.seek(0)
    target.truncate()
    target.write(content)
    target.seek(position)


def _fill_collection(target, items):
    target.clear()
    target.extend(items)


def _fill_set(target, items):
    target.clear()
    target.update(items)


_mapping = (lambda value: [part for pair in value.items() for part in pair], _fill_mapping)
_buffer = (lambda value: [value.getvalue(), value.tell()], _fill_buffer)
CONTAINERS = {
    "_io:BytesIO": _buffer,
    "_io:StringIO": _buffer,
    "builtins:bytearray": (
        lambda value: [bytes(value)],
        lambda target, items: target.__setitem__(slice(None), items[0]),
    ),
    "builtins:dict": _mapping,
    "builtins:list": (list, _fill_collection),
    "builtins:set": (list, _fill_set),
    "collections:Counter": _mapping,
    "collections:OrderedDict": _mapping,
    "collections:defaultdict": _mapping,
    "collections:deque": (list, _fill_collection),
}


def container(value):
    """Returns the functions for a mutable value, or None. Instances of derived classes are other objects."""
    kind = type(value)
    if kind is list or kind is dict or kind is set:
        return CONTAINERS["builtins:" + kind.__name__]
    path = path_of(kind)
    return CONTAINERS[path] if path in CONTAINERS and imported(path) is kind else None


# Types whose instances cross as instances of the type even if their class is derived from it.
PLAIN = (
    (int, int.__pos__),
    (float, float.__pos__),
    (complex, complex.__pos__),
    (str, lambda value: str.__getitem__(value, slice(None))),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
    (frozenset, frozenset.union),
)


class Encoder:
    """Encodes the values of one message.

    Mutable values are numbered in the order in which they occur. So a value that occurs twice stays one value, also
    across the arguments and the result of a call. `objects` encodes what is not data."""

    def __init__(self, objects, mutable=()):
        self.objects = objects
        self.mutable = list(mutable)
        self.numbers = {id(one): number for number, one in enumerate(self.mutable)}

    def value(self, value, depth=0):
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -MAX_INT <= value < MAX_INT else {"int": "%x" % value}
        if kind is float:
            # Infinity and NaN are not part of JSON.
            return value if value - value == 0 else {"float": repr(value)}
        if depth == MAX_DEPTH:
            raise CannotCross(
                "a value with more than %s levels cannot cross between the tests and the program" % MAX_DEPTH
            )
        depth += 1
        if kind is tuple:
            return {"tuple": [self.value(one, depth) for one in value]}
        number = self.numbers.get(id(value))
        if number is not None:
            return {"same": number}
        if kind is list:
            self._number(value)
            return [self.value(one, depth) for one in value]
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is frozenset:
            return {"frozenset": [self.value(one, depth) for one in value]}
        if value is NotImplemented or value is Ellipsis:
            return {"name": "builtins:%r" % value}
        path = path_of(kind)
        if container(value):
            self._number(value)
            encoded = {"container": path, "items": self.items(value, depth)}
            if path == "collections:deque" and value.maxlen is not None:
                encoded["size"] = value.maxlen
            return encoded
        if path in CONSTRUCTED and imported(path) is kind:
            return {"new": path, "items": [self.value(one, depth) for one in CONSTRUCTED[path](value)]}
        return self.objects.encode(value, self, depth)

    def plain(self, value, depth):
        """Encodes an instance of a class that is derived from a type in `PLAIN`. Returns None for other values."""
        for base, convert in PLAIN:
            if isinstance(value, base):
                return self.value(convert(value), depth)
        return None

    def items(self, value, depth=0):
        """Encodes the content of a mutable value."""
        return [self.value(one, depth) for one in container(value)[0](value)]

    def _number(self, value):
        self.numbers[id(value)] = len(self.mutable)
        self.mutable.append(value)


class Decoder:
    """Decodes the values of one message; the counterpart of `Encoder`."""

    def __init__(self, objects, mutable=()):
        self.objects = objects
        self.mutable = list(mutable)

    def value(self, value):
        kind = type(value)
        if kind is list:
            decoded = []
            self.mutable.append(decoded)
            decoded.extend([self.value(one) for one in value])
            return decoded
        if kind is not dict:
            return value
        tag = next(iter(value), None)
        content = value.get(tag)
        if tag == "tuple":
            return tuple([self.value(one) for one in content])
        if tag == "same":
            return self.mutable[content]
        if tag == "int":
            return int(content, 16)
        if tag == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if tag == "bytes":
            return bytes.fromhex(content)
        if tag == "frozenset":
            return frozenset([self.value(one) for one in content])
        if tag == "container" and content in CONTAINERS:
            kind = imported(content)
            decoded = kind([], value["size"]) if "size" in value and content == "collections:deque" else kind()
            self.mutable.append(decoded)
            CONTAINERS[content][1](decoded, [self.value(one) for one in value["items"]])
            return decoded
        if tag == "new" and content in CONSTRUCTED:
            return imported(content)(*[self.value(one) for one in value["items"]])
        if tag == "name":
            return named(content)
        return self.objects.decode(tag, value, self)


def contents(mutable):
    """Returns the contents of mutable values, to find out later which of them have changed."""
    return [container(one)[0](one) for one in mutable]


def changed(mutable, before):
    """Returns the numbers of the values that have other members than before."""

    def differs(now, then):
        if len(now) != len(then):
            return True
        plain = (str, bytes)
        return any(a is not b and not (type(a) in plain and type(a) is type(b) and a == b) for a, b in zip(now, then))

    return [
        number for number, then in enumerate(before) if differs(container(mutable[number])[0](mutable[number]), then)
    ]
