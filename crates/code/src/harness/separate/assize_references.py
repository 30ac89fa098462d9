"""References: how objects that are not plain data cross between the two processes.

Each process numbers the objects that it has sent. The other process gets a stand-in for each. A stand-in that is sent
back becomes the object again.
"""

import types
import weakref

from assize_stand_ins import REFERENCE, ErrorType, StandIn, StandInType, describe, is_enum, is_row, number_of
from assize_values import CannotCross, Decoder, Encoder, InvalidValue, is_name, is_named, path_of

MAX_TRACEBACK = 4000
# Flag of the code of functions that are defined with `async def`.
ASYNC = 0x80


class Theirs:
    """Number of an object of the other process, as the target of a call."""

    def __init__(self, number):
        self.number = number


class References:
    """The objects of this process that the other process knows, and the objects that stand for those of the other."""

    def __init__(self):
        self.exports, self.numbers = {}, {}
        self.described = set()
        self.functions = {}
        self.dropped = []

    def _export(self, value):
        number = self.numbers.get(id(value))
        if number is None:
            number = len(self.exports) + 1
            while number in self.exports:
                number += 1
            self.numbers[id(value)] = number
            self.exports[number] = [value, 0]
        self.exports[number][1] += 1
        return number

    def _drop(self, number):
        entry = self.exports.get(number)
        if entry is not None:
            entry[1] -= 1
            if entry[1] <= 0:
                del self.exports[number], self.numbers[id(entry[0])]

    def drop_later(self, number):
        """Informs the other process, with the next message, that a reference to its object is no longer used."""
        self.dropped.append(number)

    def _theirs(self, value):
        """Returns the number of the object that a value stands for, or None."""
        if type(value) is Theirs:
            return value.number
        if isinstance(value, StandInType):
            return value.__dict__.get(REFERENCE + "_class")
        if isinstance(value, StandIn):
            return number_of(value)
        if isinstance(value, BaseException):
            return value.__dict__.get(REFERENCE)
        if isinstance(value, type):
            return self.stand_ins.numbers.get(value)
        return self.functions.get(id(value), (None,))[0]

    def encode(self, value, encoder, depth):
        number = self._theirs(value)
        if number is not None:
            return {"yours": number}
        kind = type(value)
        if isinstance(value, type):
            return self._encode_class(value)
        if kind is CannotCross:
            return {"cannot cross": str(value)}
        if isinstance(value, BaseException):
            return self._encode_error(value, encoder, depth)
        if isinstance(value, types.TracebackType):
            return None
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            if is_named(value):
                return {"name": path_of(value)}
            code = getattr(getattr(value, "__func__", value), "__code__", None)
            return {
                "function": self._export(value),
                "label": value.__name__,
                "async": bool(code and code.co_flags & ASYNC),
            }
        if isinstance(value, types.GeneratorType):
            return {"generator": self._export(value)}
        if isinstance(value, types.CoroutineType):
            return {"coroutine": self._export(value)}
        if isinstance(value, types.ModuleType):
            raise CannotCross("the module `%s` cannot cross between the tests and the program" % value.__name__)
        if is_enum(kind) and kind._member_map_.get(value.name) is value:
            return {"member": encoder.value(kind, depth), "key": value.name}
        if is_row(kind):
            items = [encoder.value(one, depth) for one in tuple.__iter__(value)]
            return {"row": encoder.value(kind, depth), "items": items}
        plain = encoder.plain(value, depth)
        if plain is not None:
            return plain
        return {"object": self._export(value), "of": encoder.value(kind, depth)}

    def _encode_class(self, cls):
        if is_named(cls):
            return {"name": path_of(cls)}
        number = self._export(cls)
        encoded = {"class": number}
        if number not in self.described:
            self.described.add(number)
            encoded["about"] = describe(cls, Encoder(self))
        return encoded

    def _encode_error(self, error, encoder, depth):
        import traceback

        attributes = {}
        for name, value in vars(error).items():
            try:
                attributes[name] = encoder.value(value, depth)
            except CannotCross:
                pass
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return {
            "error": encoder.value(type(error), depth),
            "number": self._export(error),
            "args": [encoder.value(one, depth) for one in error.args],
            "attributes": attributes,
            "text": str(error),
            "traceback": text[-MAX_TRACEBACK:],
        }

    def decode(self, tag, value, decoder):
        content = value.get(tag)
        stand_ins = self.stand_ins
        if tag == "yours":
            return self.exports[content][0]
        if tag == "class":
            known = stand_ins.classes.get(content)
            decode = Decoder(self).value
            return known if known is not None else stand_ins.make_class(content, value["about"], decode)
        if tag in ("object", "function", "generator"):
            known = stand_ins.objects.get(content)
            cls = decoder.value(value["of"]) if tag == "object" else None
            if known is not None:
                self.drop_later(content)
                return known
            if tag == "object":
                return stand_ins.make_object(content, cls)
            made = self._function(content, value) if tag == "function" else self._generator(content)
            drop = lambda _, key=id(made): (self.functions.pop(key, None), self.drop_later(content))
            self.functions[id(made)] = (content, weakref.ref(made, drop))
            stand_ins.objects[content] = made
            return made
        if tag == "coroutine":
            return self._coroutine(content)
        if tag == "cannot cross":
            return CannotCross(str(content))
        if tag == "error":
            return self._decode_error(value, decoder)
        cls = decoder.value(content) if tag in ("member", "row") else None
        if tag == "member" and is_enum(cls):
            return cls[value["key"]]
        if tag == "row" and is_row(cls):
            return cls(*[decoder.value(one) for one in value["items"]])
        raise InvalidValue("an unknown kind of value")

    def _function(self, number, value):
        target = Theirs(number)
        if value.get("async"):

            async def function(*args, **kwargs):
                return await self.call("call", target, None, args, kwargs)

        else:

            def function(*args, **kwargs):
                return self.call("call", target, None, args, kwargs)

        if is_name(value["label"]):
            function.__name__ = function.__qualname__ = value["label"]
        function.__module__ = self.stand_ins.module
        return function

    def _generator(self, number):
        target = Theirs(number)

        def generator():
            try:
                value = self.call("method", target, "__next__")
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        self.call("method", target, "close")
                        raise
                    except BaseException as error:
                        value = self.call("method", target, "throw", (error,))
                    else:
                        value = self.call("method", target, "send", (sent,))
            except StopIteration as end:
                return end.value

        return generator()

    def _decode_error(self, value, decoder):
        cls = decoder.value(value["error"])
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise InvalidValue("an invalid error")
        if self.is_judge and not issubclass(cls, (Exception, SystemExit)):
            # These would end the tests instead of failing one.
            cls = self.stand_ins.ending.setdefault(cls, ErrorType(cls.__name__, (Exception,), {}, {}))
        error = cls.__new__(cls)
        error.args = tuple([decoder.value(one) for one in value["args"]])
        for name, attribute in value["attributes"].items():
            if is_name(name) and not name.startswith("__"):
                error.__dict__[name] = decoder.value(attribute)
        error.__dict__.update(
            {
                REFERENCE: value["number"],
                "_assize_text": str(value["text"]),
                "_assize_traceback": str(value["traceback"])[-MAX_TRACEBACK:],
            }
        )
        return error
