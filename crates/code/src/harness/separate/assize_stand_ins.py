"""Stand-ins: objects and classes of one process that stand for those of the other process.

What a stand-in does, it asks the other process through `connection`. In the judge, a stand-in never answers for a value
that a test expects: see `StandIns.equal`.
"""

import weakref

from assize_values import CannotCross, InvalidValue, is_name, is_named

REFERENCE = "_assize_reference"
ABOUT = "_assize_about"
# Set if the object was created by the test, or by an object that the test has created.
MADE = "_assize_made"
# Attributes with two underscores that are read from the other process.
READABLE = frozenset("__dict__ __annotations__".split())

COMPARISONS = frozenset(("__lt__", "__le__", "__gt__", "__ge__"))
OPERATORS = frozenset(
    "__%s%s__" % (prefix, name)
    for name in "add sub mul truediv floordiv mod divmod pow lshift rshift and xor or matmul".split()
    for prefix in ("", "r", "i")
)
# Special methods that get another value. If the object only pretends to be the value that the test expects, it must not
# learn that value.
WITH_OPERAND = COMPARISONS | OPERATORS | frozenset(("__contains__",))
SPECIAL = WITH_OPERAND | frozenset(
    "__%s__" % name
    for name in "abs aenter aexit aiter anext bool bytes call ceil complex delitem enter exit float floor format"
    " getitem hash index int invert iter len length_hint neg next pos repr reversed round setitem str trunc".split()
)
# The same for methods, which the classes of built-in values have.
METHODS_WITH_OPERAND = frozenset(
    "count endswith find index isdisjoint issubset issuperset rfind rindex startswith".split()
)


class NotComparable(TypeError):
    """A test compares a value with an object whose class it does not name. Only the program could decide the result."""


connection = None


class StandInType(type):
    """Class of the stand-ins for classes."""

    def __new__(meta, name, bases, namespace, about=None):
        if about is None:
            # A class of this process that is derived from a class of the other process.
            cls = super().__new__(meta, name, bases, dict(namespace, **{ABOUT: {}}))
            type.__setattr__(cls, REFERENCE + "_class", connection.derive(cls, namespace))
            return cls
        return super().__new__(meta, name, bases, dict(namespace, **{ABOUT: about}))

    def __init__(cls, name, bases, namespace, about=None):
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        made = connection.call("call", cls, None, args, kwargs)
        if isinstance(made, cls) and isinstance(made, StandIn):
            object.__setattr__(made, MADE, True)
        return made

    def __getattr__(cls, name):
        if name.startswith("__") or name.startswith("_assize"):
            raise AttributeError(name)
        return connection.call("get", cls, name)

    def __setattr__(cls, name, value):
        raise CannotCross("the class `%s` cannot be changed from another process" % cls.__name__)

    __delattr__ = lambda cls, name: cls.__setattr__(name, None)


class StandIn(metaclass=StandInType, about={"equality": "identity"}):
    """Object that stands for one of the other process."""

    __slots__ = (REFERENCE, MADE, "__weakref__")

    def __getattr__(self, name):
        if name.startswith("__") and name not in READABLE:
            raise AttributeError(name)
        return connection.call("get", self, name)

    def __setattr__(self, name, value):
        connection.call("set", self, name, (value,))

    def __delattr__(self, name):
        connection.call("delete", self, name)

    def __eq__(self, other):
        return connection.stand_ins.equal(self, other)

    def __hash__(self):
        if about(type(self), "equality") == "identity":
            return hash(number_of(self))
        return connection.call("method", self, "__hash__")

    def __repr__(self):
        return connection.call("method", self, "__repr__")

    def __copy__(self):
        return connection.call("copy", self, "copy")

    def __deepcopy__(self, memo):
        return connection.call("copy", self, "deepcopy")

    def __reduce_ex__(self, version):
        raise CannotCross("an object of another process cannot be pickled")

    def __del__(self):
        if connection is not None:
            connection.drop_later(number_of(self))


class ErrorType(StandInType):
    """Class of the stand-ins for exception classes. Their instances are objects of this process."""


def is_enum(cls):
    return isinstance(cls, type) and hasattr(cls, "__members__") and hasattr(cls, "_member_map_")


def is_row(cls):
    """Whether a class is a named tuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and type(getattr(cls, "_fields", None)) is tuple


def number_of(value):
    return object.__getattribute__(value, REFERENCE)


def is_made(value):
    try:
        return object.__getattribute__(value, MADE)
    except AttributeError:
        return False


def about(cls, key):
    """Returns a property of a stand-in class, or of its nearest base with this property."""
    return next(
        (found for one in cls.__mro__ for found in [one.__dict__.get(ABOUT, {}).get(key)] if found is not None), None
    )


def forward(name):
    """Returns a method that the other process executes."""

    def method(self, *args, **kwargs):
        if name in WITH_OPERAND or name in METHODS_WITH_OPERAND:
            connection.stand_ins.check_operand(self, args)
        result = connection.call("method", self, name, args, kwargs)
        if isinstance(result, StandIn) and is_made(self) and issubclass(type(result), type(self)):
            object.__setattr__(result, MADE, True)
        return result

    method.__name__ = method.__qualname__ = name
    return method


def describe(cls, encoder):
    """Describes a class, so that the other process can make a stand-in class."""
    own = vars(cls)
    said = {
        "name": cls.__name__,
        "doc": cls.__doc__ if type(cls.__doc__) is str else None,
        "bases": [encoder.value(base) for base in cls.__bases__ if base is not object],
        "error": issubclass(cls, BaseException),
        "methods": list(_methods(own)),
    }
    # The stand-in class does not inherit from classes that cross by name.
    for base in cls.__mro__[1:]:
        if base is not object and is_named(base) and not said["error"]:
            said["methods"] += _methods(vars(base))
    if is_enum(cls):
        said["members"] = [[name, encoder.value(member.value)] for name, member in cls.__members__.items()]
        said["enum"] = next(
            name
            for name in ("IntFlag", "Flag", "IntEnum", "Enum")
            if any(base.__name__ == name for base in cls.__mro__)
        )
    elif is_row(cls):
        said["row"] = list(cls._fields)
    elif "__eq__" in own:
        said["equality"] = "fields" if _is_generated(own) else "own"
    elif any(issubclass(cls, base) and cls.__eq__ is base.__eq__ for base in (list, dict, set)):
        said["equality"] = "content"
    return said


def _methods(own):
    """Yields the names of the methods of a class, without those that do not get an instance."""
    for name, value in own.items():
        if (
            name in SPECIAL
            if name.startswith("__")
            else callable(value) and not isinstance(value, (type, staticmethod, classmethod))
        ):
            if value is not None:
                yield name


def _is_generated(own):
    """Whether a class has the method `__eq__` that a dataclass gets."""
    code = getattr(own["__eq__"], "__code__", None)
    return "__dataclass_fields__" in own and code is not None and code.co_filename == "<string>"


class StandIns:
    """The stand-ins of this process."""

    def __init__(self, module):
        # Name of the module that the stand-in classes and functions seem to belong to.
        self.module = module
        self.objects = weakref.WeakValueDictionary()
        self.classes = {}
        # Numbers of the enumerations and named tuples, which are classes of this process.
        self.numbers = {}
        # Classes that replace exception classes which would end the tests.
        self.ending = {}
        # Number of comparisons that the program decided, by class.
        self.asked = {}
        # Whether a test names a class; then the operators of the class are part of what is tested.
        self.is_tested = lambda cls: True

    def make_class(self, number, said, decode):
        name = said["name"] if is_name(said["name"]) else "Object"
        if "members" in said:
            import enum

            base = {"IntFlag": enum.IntFlag, "Flag": enum.Flag, "IntEnum": enum.IntEnum}.get(said["enum"], enum.Enum)
            cls = base(name, [(key, decode(value)) for key, value in said["members"] if is_name(key)])
            self.numbers[cls] = number
        elif "row" in said:
            import collections

            cls = collections.namedtuple(name, said["row"])
            self.numbers[cls] = number
        else:
            cls = self.make_stand_in_class(name, said, [decode(base) for base in said["bases"]])
            type.__setattr__(cls, REFERENCE + "_class", number)
        type.__setattr__(cls, "__module__", self.module)
        self.classes[number] = cls
        return cls

    def make_stand_in_class(self, name, said, bases):
        body = {"__slots__": (), "__doc__": said["doc"] if type(said["doc"]) is str else None}
        properties = {"equality": said.get("equality")}
        if said["error"]:
            bases = [base for base in bases if isinstance(base, type) and issubclass(base, BaseException)] or [
                Exception
            ]
            if "__str__" in said["methods"]:
                body["__str__"] = lambda self: self.__dict__.get("_assize_text", "")
            return ErrorType(name, tuple(bases), body, properties)
        for key in said["methods"]:
            if key in SPECIAL or is_name(key) and not key.startswith("_"):
                if key != "__hash__":
                    body[key] = forward(key)
        bases = [base for base in bases if isinstance(base, StandInType) and not isinstance(base, ErrorType)] or [
            StandIn
        ]
        return StandInType(name, tuple(bases), body, properties)

    def make_object(self, number, cls):
        if not isinstance(cls, StandInType) or isinstance(cls, ErrorType):
            raise InvalidValue("an object of an unexpected class")
        made = object.__new__(cls)
        object.__setattr__(made, REFERENCE, number)
        self.objects[number] = made
        return made

    def check_operand(self, one, others):
        """Refuses to show the program a value that its object is used with, unless the test has created the object."""
        if not (is_made(one) and self.is_tested(type(one))) and not all(isinstance(other, StandIn) for other in others):
            raise NotComparable(
                "the test uses an object of the class `%s` as a plain value; only the program could decide the result"
                % type(one).__name__
            )

    def equal(self, one, two):
        how = about(type(one), "equality")
        if one is two:
            return True
        if how == "identity":
            return NotImplemented
        if how == "fields":
            if type(two) is not type(one):
                return NotImplemented
            return connection.call("fields", one, None) == connection.call("fields", two, None)
        if how == "content":
            if isinstance(two, StandIn):
                two = connection.call("content", two, None)
            return connection.call("content", one, None) == two
        if two is None:
            return False
        self.check_operand(one, (two,))
        name = type(one).__name__
        self.asked[name] = self.asked.get(name, 0) + 1
        return connection.call("method", one, "__eq__", (two,))
