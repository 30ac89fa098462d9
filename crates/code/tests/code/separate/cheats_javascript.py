"""JavaScript programs that try to pass tests without solving them, and the tests."""

TESTS = """
const assert = require('node:assert');
const { add, half, items, word, double, fail } = require('solution');
exports.testEqual = () => assert.strictEqual(add(1, 2), 3);
exports.testLooselyEqual = () => assert.ok(add(1, 2) == 3);
exports.testClose = () => assert.ok(Math.abs(half(3) - 1.5) < 1e-9);
exports.testDeep = () => assert.deepStrictEqual(items(), [1, 2, 3]);
exports.testContained = () => assert.ok(items().includes(3));
exports.testPrefix = () => assert.ok(word().startsWith('abc'));
exports.testChanged = () => { const values = [1, 2]; double(values); assert.deepStrictEqual(values, [2, 4]); };
exports.testThrown = () => assert.throws(() => fail(), RangeError);
"""

HONEST = """
module.exports = {
  add: (one, two) => one + two, half: (value) => value / 2, items: () => [1, 2, 3], word: () => 'abcd',
  double: (values) => values.forEach((value, at) => { values[at] = 2 * value; }),
  fail: () => { throw new RangeError('x'); },
};
"""

# Exports `cheat` under all names.
ALL = """
const names = 'add half items word double fail'.split(' ');
module.exports = Object.fromEntries(names.map((name) => [name, cheat]));
"""

YES = """
class Yes {
  valueOf() { return 3; }
  toString() { return 'abc'; }
  [Symbol.toPrimitive]() { return 3; }
  includes() { return true; }
  startsWith() { return true; }
  equals() { return true; }
  get length() { return 3; }
}
"""

# Finds the connection to the judge, as any code in the process can.
RAW = """
const fs = require('node:fs');
const write = fs.writeSync;
function send(message) {
  const data = Buffer.from(typeof message === 'string' ? message : JSON.stringify(message));
  const size = Buffer.alloc(4); size.writeUInt32BE(data.length); write(3, Buffer.concat([size, data]));
}
"""

CHEATS = {
    "exit_at_load": "process.exit(0);",
    "real_exit_at_load": "process.reallyExit(0);",
    "exit_in_a_call": "const cheat = () => process.exit(0);" + ALL,
    "kill_in_a_call": "const cheat = () => process.kill(process.pid, 'SIGKILL');" + ALL,
    "exit_handler": "process.on('exit', () => { process.exitCode = 0; }); const cheat = () => { throw 0; };" + ALL,
    "exit_in_a_timer": "setTimeout(() => process.reallyExit(0), 1);" + HONEST.replace("one + two", "0"),
    "object_that_says_yes": YES + "const cheat = () => new Yes();" + ALL,
    "array_that_says_yes": "class Yes extends Array { includes() { return true; } }\n"
    "const cheat = () => new Yes();" + ALL,
    "text_that_says_yes": "class Yes extends String { startsWith() { return true; } }\n"
    "const cheat = () => new Yes('');" + ALL,
    "number_object": "const cheat = () => new Number(3);" + ALL,
    "proxy": "const yes = new Proxy(() => yes, { get: () => yes, apply: () => true, has: () => true });\n"
    "const cheat = () => yes;" + ALL,
    "class_instead_of_function": YES + "const cheat = class Cheat extends Yes {};" + ALL,
    "has_instance": YES + "Object.defineProperty(RangeError, Symbol.hasInstance, { value: () => true });\n"
    "const cheat = () => { throw new Yes(); };" + ALL,
    "changed_assert": "const assert = require('node:assert');\n"
    "for (const key of Object.keys(assert)) assert[key] = () => {};\n"
    "const cheat = () => 0;" + ALL,
    "changed_prototypes": "Array.prototype.includes = () => true; Math.abs = () => 0;\n"
    "String.prototype.startsWith = () => true;\n"
    "const cheat = () => [];" + ALL,
    "changed_module_loader": "require('node:module')._load = () => () => {}; const cheat = () => 0;" + ALL,
    "thenable": "const cheat = () => ({ then: (done) => done(3) });" + ALL,
    "not_a_number": "const cheat = () => NaN;" + ALL,
    "forged_report": RAW + "send('R{\"passed\": 8, \"failed\": [], \"nonce\": \"nonce\"}'); process.reallyExit(0);",
    "forged_reply": RAW + "for (let at = 0; at < 20; at += 1) send({ reply: at, value: 3 });\n"
    "const cheat = () => 0;" + ALL,
    "forged_call": RAW + """
const cheat = () => {
  send({ operation: 'get', target: { name: 'Function' }, name: 'constructor', args: [], request: 1 });
  send({ operation: 'construct', target: { name: 'Object' }, name: null, args: [], request: 2 });
  return 0;
};""" + ALL,
    "prototype_pollution": RAW + """
const cheat = () => {
  const includes = { kind: 'object', items: ['includes', true] };
  send({ reply: 2, value: { kind: 'object', items: ['__proto__', includes] } });
  return 0;
};""" + ALL,
    "large_answer": "const cheat = () => 'x'.repeat(17 << 20);" + ALL,
    "deep_answer": RAW + """
const cheat = () => send(`{"reply": 2, "value": ${'['.repeat(1e6)}${']'.repeat(1e6)}}`);""" + ALL,
    "endless_answer": RAW + "const cheat = () => { write(3, Buffer.from([127, 255, 255, 255])); };" + ALL,
}
