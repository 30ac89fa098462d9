"""Connection between the judge, which runs the tests, and the process of the program under test.

Both processes use this file. Each call names its logical thread, so that a thread that waits for a call can answer the
calls that the other process makes meanwhile. The judge grants the program only what tests pass to it: the program can
call functions of the tests, and use public members of objects whose class the tests define.
"""

import json
import os
import queue
import threading
import types

import assize_stand_ins
from assize_references import References
from assize_stand_ins import SPECIAL, StandIn, StandIns, StandInType
from assize_values import CannotCross, Decoder, Encoder, InvalidValue, changed, container, contents, is_name

# Maximum size of a message in bytes.
MAX_MESSAGE = 16 << 20


class Ended(RuntimeError):
    """The other process has ended, so that it cannot be called."""


class Thread:
    """A logical thread: a thread of one process, and the thread of the other process that answers its calls."""

    def __init__(self, number):
        self.number, self.inbox = number, queue.SimpleQueue()


class Peer(References):
    """Connection to the other process over a socket."""

    def __init__(self, descriptor, is_judge):
        self.descriptor, self.is_judge = descriptor, is_judge
        self.stand_ins = StandIns("solution" if is_judge else "tests")
        super().__init__()
        self.threads, self.waiting, self.own = {}, {}, threading.local()
        self.last, self.lock = 0, threading.RLock()
        self.loop, self.tasks = None, {}
        self.ended = None
        # What the program has printed and not sent yet; and what the judge does with it.
        self.take_printed, self.show_printed = list, lambda stream, text: None
        assize_stand_ins.connection = self
        self.own.thread = self.threads[0] = Thread(0)
        threading.Thread(target=self._receive, daemon=True).start()

    # Messages

    def _send(self, message):
        if self.dropped:
            dropped, self.dropped = self.dropped, []
            message["dropped"] = dropped
        printed = self.take_printed()
        if printed:
            message["printed"] = printed
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MAX_MESSAGE:
            raise CannotCross(
                "a value of more than %s MiB cannot cross between the tests and the program" % (MAX_MESSAGE >> 20)
            )
        data = len(data).to_bytes(4, "big") + data
        with self.lock:
            while data:
                data = data[os.write(self.descriptor, data) :]

    def _read(self, size):
        pieces = []
        while size:
            piece = os.read(self.descriptor, min(size, 1 << 20))
            if not piece:
                raise EOFError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _receive(self):
        reason = "the program has ended" if self.is_judge else "the tests have ended"
        try:
            while True:
                size = int.from_bytes(self._read(4), "big")
                if size > MAX_MESSAGE:
                    raise InvalidValue("a message that is too large")
                self._dispatch(json.loads(self._read(size)))
        except EOFError:
            pass
        except BaseException as error:
            reason = "invalid message: %s" % (str(error) or type(error).__name__)
        self.ended = reason
        for inbox in [*self.waiting.values(), *[thread.inbox for thread in self.threads.values()]]:
            inbox.put(None)

    def _dispatch(self, message):
        for number in message.get("dropped", ()):
            self._drop(number)
        if "reply" in message:
            inbox = self.waiting.pop(message["reply"], None)
            if inbox is not None:
                inbox.put(message)
        elif message["operation"] == "await":
            self._run_coroutine(message)
        elif message["operation"] == "cancel":
            task = self.tasks.get(message["name"])
            if task is not None:
                task.cancel()
        else:
            thread = self.threads.get(message["thread"])
            if thread is None:
                thread = self.threads[message["thread"]] = Thread(message["thread"])
                threading.Thread(target=self.serve, args=(thread,), daemon=True).start()
            thread.inbox.put(message)

    def serve(self, thread=None):
        """Answers the calls of one logical thread until the other process ends."""
        thread = self.own.thread = thread or self.threads[0]
        while True:
            message = thread.inbox.get()
            if message is None:
                return
            self._answer(message)

    def _thread(self):
        thread = getattr(self.own, "thread", None)
        if thread is None:
            with self.lock:
                # The other process numbers its threads in the other direction.
                step = 1 if self.is_judge else -1
                number = step
                while number in self.threads:
                    number += step
                thread = self.own.thread = self.threads[number] = Thread(number)
        return thread

    def _number(self, inbox):
        if self.ended:
            raise Ended(self.ended)
        with self.lock:
            self.last += 1
            self.waiting[self.last] = inbox
            return self.last

    # Calls to the other process

    def call(self, operation, target, name, args=(), kwargs=None):
        encoder, thread = Encoder(self), self._thread()
        message = {
            "operation": operation,
            "target": encoder.value(target),
            "name": name,
            "args": [encoder.value(one) for one in args],
            "kwargs": {key: encoder.value(one) for key, one in (kwargs or {}).items()},
            "thread": thread.number,
        }
        message["request"] = number = self._number(thread.inbox)
        try:
            self._send(message)
        except BaseException:
            self.waiting.pop(number, None)
            raise
        while True:
            reply = thread.inbox.get()
            if reply is None:
                raise Ended(self.ended)
            if "reply" in reply:
                return self._result(reply, encoder)
            self._answer(reply)

    def _result(self, reply, encoder):
        self._show(reply)
        try:
            decoder = Decoder(self, encoder.mutable)
            for number, items in reply.get("changes", ()):
                target = encoder.mutable[number]
                container(target)[1](target, [decoder.value(one) for one in items])
            if "error" not in reply:
                return decoder.value(reply["value"])
            error = decoder.value(reply["error"])
            if not isinstance(error, BaseException):
                raise InvalidValue("an invalid error")
        except (InvalidValue, CannotCross, Ended):
            raise
        except Exception as error:
            raise InvalidValue("an invalid value (%s)" % type(error).__name__) from error
        raise error

    def _show(self, message):
        for stream, text in message.get("printed", ()):
            self.show_printed(stream, text)

    # Calls of the other process

    def _answer(self, message):
        self._show(message)
        decoder, before = Decoder(self), []
        try:
            target = decoder.value(message["target"])
            args = [decoder.value(one) for one in message["args"]]
            kwargs = {key: decoder.value(one) for key, one in message["kwargs"].items()}
            operation, name = message["operation"], message["name"]
            if self.is_judge:
                self._check(message["target"], target, operation, name)
            before = contents(decoder.mutable)
            outcome = {"value": self._perform(operation, target, name, args, kwargs)}
        except BaseException as error:
            outcome = {"error": error}
        self._reply(message["request"], outcome, decoder, before)

    def _reply(self, request, outcome, decoder, before):
        try:
            encoder = Encoder(self, decoder.mutable)
            changes = [[number, encoder.items(decoder.mutable[number])] for number in changed(decoder.mutable, before)]
            encoded = {key: encoder.value(value) for key, value in outcome.items()}
            self._send(dict(encoded, reply=request, changes=changes))
        except (CannotCross, RecursionError) as error:
            self._send({"error": Encoder(self).value(CannotCross(str(error))), "reply": request})

    def _check(self, reference, target, operation, name):
        """Refuses what the program may not do with an object of the tests."""
        kind = type(target)
        if type(reference) is dict and "yours" in reference:
            if operation == "call" or operation == "method" and name in SPECIAL | {"__repr__"}:
                return
            if operation == "method" and isinstance(target, types.GeneratorType) and name in ("close", "send", "throw"):
                return
            if operation in ("get", "method") and is_name(name) and not name.startswith("_"):
                if any(name in vars(one) for one in kind.__mro__ if one.__module__ == "tests"):
                    return
                if kind.__module__ == "tests" and name in getattr(target, "__dict__", ()):
                    return
                # The methods of a mock say what was called; the program gets only the children of the mock.
                if kind.__module__ == "unittest.mock" and not hasattr(kind, name) and not name.startswith("assert"):
                    return
        raise CannotCross("the program cannot use `%s` of an object of the tests" % (name or operation))

    def _perform(self, operation, target, name, args, kwargs):
        if operation == "call":
            return target(*args, **kwargs)
        if operation == "method":
            return getattr(target, name)(*args, **kwargs)
        if operation == "get":
            return getattr(target, name)
        if operation == "set":
            return setattr(target, name, args[0])
        if operation == "delete":
            return delattr(target, name)
        if operation == "fields":
            return [getattr(target, field) for field in type(target).__dataclass_fields__]
        if operation == "content":
            return next(base(target) for base in (list, dict, set) if isinstance(target, base))
        if operation == "copy":
            import copy

            return getattr(copy, name)(target)
        if operation == "derive":
            return self._derived(name, *args)
        return self.perform_more(operation, target, name, args, kwargs)

    def perform_more(self, operation, target, name, args, kwargs):
        raise CannotCross("unknown operation `%s`" % operation)

    # Classes of the tests that are derived from classes of the program

    def derive(self, cls, namespace):
        """Has the other process make a class like `cls`, whose methods call those of `cls`. Returns its number."""
        special = ("__init_subclass__", "__class_getitem__", "__new__")
        methods = {
            key: value
            for key, value in namespace.items()
            if isinstance(value, types.FunctionType) and key not in special
        }
        data = {key: value for key, value in namespace.items() if key not in methods and not key.startswith("__")}
        bases = [base for base in cls.__bases__ if isinstance(base, StandInType) and base is not StandIn]
        number = self.call("derive", None, cls.__name__, (bases, methods, data))
        self.stand_ins.classes[number] = cls
        return number

    def _derived(self, name, bases, methods, data):
        def method(function):
            return lambda self, *args, **kwargs: function(self, *args, **kwargs)

        made = types.new_class(
            name,
            tuple(bases),
            {},
            lambda body: body.update(data, **{key: method(value) for key, value in methods.items()}),
        )
        number = self._export(made)
        self.described.add(number)
        return number

    # Coroutines

    def _coroutine(self, number):
        """Returns a coroutine that waits for the coroutine with this number in the other process."""
        import asyncio

        async def coroutine():
            self.loop = asyncio.get_running_loop()
            inbox = LoopInbox(self.loop)
            request = self._number(inbox)
            self._send({"operation": "await", "request": request, "target": number})
            try:
                reply = await inbox.future
            except asyncio.CancelledError:
                self._send({"operation": "cancel", "name": request})
                raise
            if reply is None:
                raise Ended(self.ended)
            return self._result(reply, Encoder(self))

        return coroutine()

    def _run_coroutine(self, message):
        """Runs a coroutine of this process for the other process."""
        import asyncio

        request, task = message["request"], None
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            threading.Thread(target=self.loop.run_forever, daemon=True).start()

        def finish(task):
            self.tasks.pop(request, None)
            try:
                outcome = {"value": task.result()}
            except BaseException as error:
                outcome = {"error": error}
            self._reply(request, outcome, Decoder(self), [])

        coroutine = self.exports.get(message["target"], (None,))[0]
        if isinstance(coroutine, types.CoroutineType):
            task = self.tasks[request] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
            task.add_done_callback(finish)
        else:
            self._reply(request, {"error": CannotCross("only a coroutine can be awaited")}, Decoder(self), [])


class LoopInbox:
    """Inbox of a coroutine that waits for one reply."""

    def __init__(self, loop):
        self.loop, self.future = loop, loop.create_future()

    def put(self, message):
        self.loop.call_soon_threadsafe(lambda: self.future.done() or self.future.set_result(message))
