// Runs a user's tests against a program; python.py explains the method. The report is written only after all tests have
// finished and the event loop is empty.
(() => {
  const assert = require('node:assert');
  const fs = require('node:fs');
  const Module = require('node:module');
  const vm = require('node:vm');
  const CODE = '/tmp/code.js';
  const TESTS = '/tmp/tests.js';
  const LONGEST = 2000;
  const MAX_LISTED = 50;

  const { writeFileSync } = fs;
  const { stringify } = JSON;
  const exit = process.reallyExit.bind(process);
  const asserting = Object.assign((...given) => assert(...given), assert);
  const todo = JSON.parse(fs.readFileSync(0, 'utf8'));
  // If the program runs in another sandbox, this is the connection to it.
  const judge = todo.separate ? new (require(`${todo.separate}/peer.js`).Peer)(3, true) : null;
  let solution = null;
  const failed = [];
  let passed = 0;
  let broken = null;
  let runner = null;

  const why = (error) => String((error && error.stack) || error).slice(-LONGEST);
  const fail = (name, error) => failed.push({ name, error: why(error) });
  // Handlers that the program adds do not disable these two handlers.
  process.on('uncaughtException', (error) => fail('uncaught error during the tests', error));
  process.on('unhandledRejection', (error) => fail('uncaught error during the tests', error));

  const attempt = async (name, act) => {
    try {
      await act();
      passed += 1;
    } catch (error) {
      fail(name, error);
    }
  };

  // Wraps `test` and `it` of Node's test runner to count their results.
  const counted = (real) => new Proxy(real, {
    apply(target, self, args) {
      const at = args.findIndex((one) => typeof one === 'function');
      if (at >= 0) {
        const [name, act] = [String(args[0]), args[at]];
        args[at] = function (...given) {
          const wrong = (error) => { fail(name, error); throw error; };
          let result;
          try {
            result = Reflect.apply(act, this, given);
          } catch (error) {
            wrong(error);
          }
          if (!result || typeof result.then !== 'function') {
            passed += 1;
            return result;
          }
          return result.then((value) => { passed += 1; return value; }, wrong);
        };
        Object.defineProperty(args[at], 'length', { value: act.length });
      }
      return Reflect.apply(target, self, args);
    },
  });

  // Tests can require the program as `solution`. Tests get the original module `assert`, which the program cannot have
  // changed, and the wrapped test runner.
  const load = Module._load;
  const found = function (name, parent, ...rest) {
    if (judge && /^(\.\/)?solution(\.js)?$/.test(name)) return solution;
    if (/^(\.\/)?solution(\.js)?$/.test(name)) return load.call(this, CODE, parent, ...rest);
    const ours = parent && parent.filename === TESTS;
    if (ours && /^(node:)?assert$/.test(name)) return asserting;
    const module = load.call(this, name, parent, ...rest);
    if (name !== 'node:test') return module;
    runner = module;
    return new Proxy(module, {
      get: (target, key) => (key === 'test' || key === 'it' ? counted(target[key]) : target[key]),
      apply: (target, self, args) => counted(target)(...args),
    });
  };
  Module._load = found;

  function loadSeparate(text) {
    const { stdout, stderr } = process;
    judge.show = (stream, printed) => (stream === 'stderr' ? stderr : stdout).write(String(printed));
    const used = new Set(text.match(/\b[A-Z]\w*/g));
    judge.isTested = (name) => used.has(name);
    solution = judge.call('load', null, CODE);
    return solution;
  }

  async function run(text) {
    try {
      new vm.Script(Module.wrap(text), { filename: TESTS });
    } catch (error) {
      broken = why(error);
      return;
    }
    try {
      // The program's exports are globals, and also fields of `solution`.
      const program = judge ? loadSeparate(text) : require(CODE);
      Object.assign(globalThis, program, { solution: program });
    } catch (error) {
      fail('before the first test', error);
      return;
    }
    Module._load = found;
    // Functions whose names start with `test` are run even if the test file does not export them.
    const named = text.matchAll(/^(?:(?:async\s+)?function\s*\*?|const|let|var)\s+(test\w+)/gm);
    const names = [...new Set([...named].map((match) => match[1]))];
    const also = names.map((name) => `${name}: typeof ${name} === 'function' ? ${name} : undefined`);
    const tests = new Module(TESTS, module);
    tests.filename = TESTS;
    tests.paths = module.paths;
    try {
      tests._compile(`${text}\n;globalThis.assizeTests = { ${also.join(', ')} };`, TESTS);
      await tests.exports;
    } catch (error) {
      const missing = error && error.code === 'MODULE_NOT_FOUND' && error.requireStack?.[0] === TESTS;
      if (missing) broken = why(error);
      else fail('the test file', error);
      return;
    }
    const own = { ...globalThis.assizeTests, ...tests.exports };
    for (const [name, test] of Object.entries(own)) {
      if (name.startsWith('test') && typeof test === 'function') await attempt(name, test);
    }
    // A test file with only plain assertions, without test functions, counts as one passed test. Its pending promises
    // may still fail.
    const plain = Object.keys(own).length === 0 && runner === null;
    if (plain && /\b(assert|expect|throw)\b/.test(text)) passed += 1;
  }

  const leave = () => {
    // Node's test runner reports tests that it could not start only by the exit code.
    if (runner !== null && process.exitCode && failed.length === 0) fail('the test runner', 'it reported a failure');
    const listed = failed.slice(0, MAX_LISTED);
    const report = { passed, failed: listed, failed_not_listed: failed.length - listed.length, broken };
    if (judge) {
      try {
        judge.write(Buffer.from(`R${stringify({ ...report, nonce: todo.record })}`));
      } catch {
        exit(1);
      }
      exit(failed.length > 0 || broken !== null ? 1 : 0);
    }
    const record = stringify(report);
    writeFileSync(`/tmp/${todo.record}`, record, { flag: 'wx' });
    // Exit immediately, so that exit handlers of the program cannot change the report.
    exit(failed.length > 0 || broken !== null ? 1 : 0);
  };

  let through = false;
  process.on('beforeExit', () => { if (through && runner === null) leave(); });
  run(todo.tests).then(() => {
    through = true;
    if (runner !== null) runner.after(() => setImmediate(leave));
  });
})();
