// Connection between the judge, which runs the tests, and the process of the program under test.
//
// Both processes use this file. Calls are synchronous: a process that waits for a call answers the calls of the other
// process meanwhile. The judge grants the program only the functions that the tests pass to it.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const values = require(path.join(__dirname, 'values.js'));
const { BUILT_IN, ERRORS, KINDS, NAMED, CannotCross, Decoder, Encoder, InvalidValue, contents, kindOf } = values;

const MAX_MESSAGE = 16 << 20;
const MAX_STACK = 4000;
// Methods of built-in values that get the expected value as an argument.
const WITH_OPERAND = new Set(
  'endsWith equals every has includes indexOf isPrototypeOf lastIndexOf match search some startsWith test'.split(' '),
);

class Ended extends Error {}

class Peer {
  constructor(descriptor, isJudge) {
    Object.assign(this, {
      descriptor,
      isJudge,
      exports: new Map(),
      numbers: new Map(),
      classes: new Map(),
      described: new Set(),
    });
    // Objects of this process that stand for objects of the other process, and the other way round.
    this.theirs = new WeakMap();
    this.standIns = new Map();
    this.last = 0;
    this.ended = null;
    this.printed = () => [];
    this.show = () => {};
    this.isTested = () => true;
    this.made = new WeakSet();
    this.operations = {};
  }

  send(message) {
    const printed = this.printed();
    if (printed.length > 0) message.printed = printed;
    const data = Buffer.from(JSON.stringify(message));
    if (data.length > MAX_MESSAGE)
      throw new CannotCross(
        `a value of more than ${MAX_MESSAGE >> 20} MiB cannot cross between the tests and the program`,
      );
    this.write(data);
  }

  write(data) {
    const size = Buffer.alloc(4);
    size.writeUInt32BE(data.length);
    let rest = Buffer.concat([size, data]);
    while (rest.length > 0) rest = rest.subarray(fs.writeSync(this.descriptor, rest));
  }

  read(size) {
    const data = Buffer.alloc(size);
    for (let at = 0; at < size;) {
      const count = fs.readSync(this.descriptor, data, at, size - at, null);
      if (count === 0) throw new Ended(this.isJudge ? 'the program has ended' : 'the tests have ended');
      at += count;
    }
    return data;
  }

  receive() {
    if (this.ended) throw this.ended;
    try {
      const size = this.read(4).readUInt32BE();
      if (size > MAX_MESSAGE) throw new InvalidValue('a message that is too large');
      const message = JSON.parse(this.read(size).toString());
      for (const [stream, text] of message.printed || []) this.show(stream, text);
      return message;
    } catch (error) {
      this.ended = error instanceof Ended ? error : new Ended(`invalid message: ${error.message}`);
      throw this.ended;
    }
  }

  call(operation, target, name, args = []) {
    const encoder = new Encoder(this);
    this.last += 1;
    const request = this.last;
    const encoded = {
      operation,
      target: encoder.value(target),
      name,
      args: args.map((one) => encoder.value(one)),
      request,
    };
    if (this.ended) throw this.ended;
    this.send(encoded);
    for (;;) {
      const message = this.receive();
      if (message.reply === request) return this.result(message, encoder);
      if ('operation' in message) this.answer(message);
      else throw (this.ended = new Ended('invalid message: an unexpected reply'));
    }
  }

  result(message, encoder) {
    const decoder = new Decoder(this, encoder.mutable);
    let result;
    try {
      for (const [number, items] of message.changes || []) {
        const target = encoder.mutable[number];
        KINDS[kindOf(target)][1](
          target,
          items.map((one) => decoder.value(one)),
        );
      }
      result = decoder.value('error' in message ? message.error : message.value);
    } catch (error) {
      if (error instanceof Ended || error instanceof CannotCross) throw error;
      throw new InvalidValue(`an invalid value (${error.name})`);
    }
    if ('error' in message) throw result;
    return result;
  }

  answer(message) {
    const decoder = new Decoder(this);
    let outcome;
    let before = [];
    try {
      const target = decoder.value(message.target);
      const args = message.args.map((one) => decoder.value(one));
      if (this.isJudge) this.check(message);
      before = contents(decoder.mutable);
      outcome = ['value', this.perform(message.operation, target, message.name, args)];
    } catch (error) {
      outcome = ['error', error];
    }
    this.reply(message.request, outcome, decoder, before);
  }

  reply(request, [key, value], decoder, before) {
    try {
      const encoder = new Encoder(this, decoder.mutable);
      const changes = [];
      before.forEach((then, number) => {
        const target = decoder.mutable[number];
        const kind = kindOf(target);
        const now = KINDS[kind][0](target);
        if (now.length !== then.length || now.some((one, at) => !Object.is(one, then[at])))
          changes.push([number, encoder.items(kind, target)]);
      });
      this.send({ reply: request, changes, [key]: encoder.value(value) });
    } catch (error) {
      if (error instanceof Ended) throw error;
      this.send({ reply: request, error: { cannot: String(error.message) } });
    }
  }

  // Refuses what the program may not do with an object of the tests: it can only call functions.
  check({ operation, target }) {
    const isOwn = target !== null && typeof target === 'object' && 'yours' in target;
    if (!isOwn || !['call', 'await', 'next'].includes(operation)) {
      throw new CannotCross(`the program cannot use \`${operation}\` of an object of the tests`);
    }
  }

  perform(operation, target, name, args) {
    switch (operation) {
      case 'call':
        return Reflect.apply(target, undefined, args);
      case 'next':
        return target.next(...args);
      case 'construct':
        return Reflect.construct(target, args);
      case 'method':
        return target[name](...args);
      case 'get':
        return target[name];
      case 'set':
        target[name] = args[0];
        return undefined;
      case 'delete':
        return Reflect.deleteProperty(target, name);
      case 'has':
        return name in target;
      case 'keys':
        return Object.keys(target);
      case 'iterate':
        return target[name === 'async' ? Symbol.asyncIterator : Symbol.iterator]();
      case 'primitive':
        return `${target}`;
      default:
    }
    if (!Object.hasOwn(this.operations, operation)) throw new CannotCross('unknown operation');
    return this.operations[operation](target, name, args);
  }

  export(value) {
    if (!this.numbers.has(value)) {
      this.numbers.set(value, this.numbers.size + 1);
      this.exports.set(this.numbers.size, value);
    }
    return this.numbers.get(value);
  }

  encodeFunction(value) {
    if (BUILT_IN.has(value)) return { name: BUILT_IN.get(value) };
    const theirs = this.theirs.get(value);
    if (theirs !== undefined) return { yours: theirs };
    const number = this.export(value);
    const encoded = { function: number };
    if (!this.described.has(number)) {
      this.described.add(number);
      const isClass = /^class\b/.test(Function.prototype.toString.call(value));
      encoded.about = { name: value.name, length: value.length, methods: [], isClass };
      if (isClass || (value.prototype && Object.getOwnPropertyNames(value.prototype).length > 1)) {
        const own = Object.getOwnPropertyDescriptors(value.prototype);
        encoded.about.methods = Object.keys(own).filter(
          (key) => key !== 'constructor' && typeof own[key].value === 'function',
        );
        encoded.about.iterates = [Symbol.iterator, Symbol.asyncIterator].map((key) => key in value.prototype);
        const base = Object.getPrototypeOf(value);
        if (typeof base === 'function' && base !== Function.prototype) encoded.about.base = this.encodeFunction(base);
        encoded.about.isError = value.prototype instanceof Error;
      }
    }
    return encoded;
  }

  encodeClass(value) {
    const found = value.constructor;
    if (typeof found === 'function' && !BUILT_IN.has(found) && found.prototype === Object.getPrototypeOf(value))
      return this.encodeFunction(found);
    return {
      iterator: [
        typeof value.next === 'function',
        typeof value[Symbol.iterator] === 'function',
        typeof value[Symbol.asyncIterator] === 'function',
      ],
    };
  }

  encodeError(error, encoder, depth) {
    if (error instanceof CannotCross) return { cannot: error.message };
    const properties = {};
    for (const key of Object.keys(error)) {
      try {
        properties[key] = encoder.value(error[key], depth + 1);
      } catch {
        /* The property cannot cross. */
      }
    }
    const name =
      Object.hasOwn(ERRORS, error.constructor?.name) && ERRORS[error.constructor.name] === error.constructor;
    return {
      error: this.export(error),
      message: String(error.message),
      name: String(error.name),
      properties,
      of: name ? { name: error.constructor.name } : this.encodeFunction(error.constructor),
      stack: String(error.stack).slice(0, MAX_STACK),
    };
  }

  decode(tag, value, decoder) {
    const content = value[tag];
    switch (tag) {
      case 'yours':
        if (this.exports.has(content)) return this.exports.get(content);
        break;
      case 'name':
        if (NAMED.has(content)) return NAMED.get(content);
        break;
      case 'function':
        return this.standIns.get(content) || this.makeFunction(content, value.about, decoder);
      case 'instance':
        return this.standIns.get(content) || this.makeInstance(content, value.of, decoder);
      case 'promise':
        return this.standIns.get(content) || this.makePromise(content);
      case 'error':
        return this.standIns.get(content) || this.makeError(content, value, decoder);
      case 'cannot':
        return new CannotCross(String(content));
      default:
    }
    throw new InvalidValue('an invalid value');
  }

  remember(number, made) {
    this.theirs.set(made, number);
    this.standIns.set(number, made);
    return made;
  }

  makeFunction(number, about, decoder) {
    const peer = this;
    const base = about.base ? decoder.value(about.base) : null;
    // eslint-disable-next-line func-names
    const target = function () {};
    Object.defineProperty(target, 'name', { value: String(about.name) });
    if (base && typeof base === 'function') Object.setPrototypeOf(target.prototype, base.prototype);
    const made = new Proxy(target, {
      apply: (_, self, args) => peer.call('call', made, null, args),
      construct: (_, args, newTarget) => {
        if (newTarget !== made)
          throw new CannotCross(`a class of the tests cannot extend the class \`${about.name}\` of the program`);
        const one = peer.call('construct', made, null, args);
        if (one !== null && typeof one === 'object') peer.made.add(one);
        return one;
      },
      get: (_, key) => {
        if (key === 'prototype') return target.prototype;
        if (key === 'name' || key === 'length') return key === 'name' ? String(about.name) : Number(about.length);
        if (typeof key === 'symbol' || key in Function.prototype) return Reflect.get(target, key, made);
        return peer.call('get', made, key);
      },
      set: (_, key, one) => {
        peer.call('set', made, key, [one]);
        return true;
      },
    });
    Object.defineProperty(target.prototype, 'constructor', { value: made, writable: true, configurable: true });
    for (const key of about.methods) {
      const forward = {
        [key](...args) {
          return peer.method(this, key, args);
        },
      }[key];
      Object.defineProperty(target.prototype, key, { value: forward, writable: true, configurable: true });
    }
    const [sync, async] = about.iterates || [];
    if (sync)
      target.prototype[Symbol.iterator] = function () {
        return peer.call('iterate', this, 'sync');
      };
    if (async)
      target.prototype[Symbol.asyncIterator] = function () {
        return peer.call('iterate', this, 'async');
      };
    return this.remember(number, made);
  }

  method(self, name, args) {
    if (WITH_OPERAND.has(name)) this.checkOperand(self, args);
    return this.call('method', self, name, args);
  }

  // Refuses to show the program a value that its object is used with, unless the test has created the object.
  checkOperand(self, args) {
    const isTheirs = (one) => one !== null && typeof one === 'object' && this.theirs.has(one);
    if (!(this.made.has(self) && this.isTested(self.constructor?.name)) && !args.every(isTheirs)) {
      throw new TypeError(
        'the test uses an object of the program as a plain value; only the program could decide the result',
      );
    }
  }

  makeInstance(number, of, decoder) {
    const peer = this;
    let prototype = Object.prototype;
    if ('iterator' in of) {
      const [isNext, isSync, isAsync] = of.iterator;
      prototype = {};
      if (isNext)
        prototype.next = function (...args) {
          return peer.call('next', this, null, args);
        };
      if (isSync)
        prototype[Symbol.iterator] = function () {
          return isNext ? this : peer.call('iterate', this, 'sync');
        };
      if (isAsync)
        prototype[Symbol.asyncIterator] = function () {
          return isNext ? this : peer.call('iterate', this, 'async');
        };
    } else {
      const found = decoder.value(of);
      if (typeof found !== 'function') throw new InvalidValue('an invalid class');
      prototype = found.prototype;
    }
    const target = Object.create(prototype);
    const made = new Proxy(target, {
      get: (_, key) => {
        if (key === Symbol.toPrimitive) return () => peer.call('primitive', made, null);
        if (typeof key === 'symbol' || key in prototype) return Reflect.get(target, key, made);
        const found = peer.call('get', made, key);
        if (typeof found !== 'function') return found;
        return (...args) => peer.method(made, key, args);
      },
      set: (_, key, one) => {
        peer.call('set', made, key, [one]);
        return true;
      },
      has: (_, key) => (typeof key === 'symbol' ? key in target : peer.call('has', made, key)),
      deleteProperty: (_, key) => peer.call('delete', made, key),
      ownKeys: () => peer.call('keys', made, null).filter((key) => typeof key === 'string'),
      getOwnPropertyDescriptor: (_, key) => {
        if (typeof key === 'symbol' || !peer.call('keys', made, null).includes(key)) return undefined;
        return { value: peer.call('get', made, key), writable: true, enumerable: true, configurable: true };
      },
    });
    return this.remember(number, made);
  }

  makePromise(number) {
    const self = { number };
    this.theirs.set(self, number);
    const made = new Promise((resolve, reject) => {
      setImmediate(() => {
        try {
          resolve(this.call('await', self, null));
        } catch (error) {
          reject(error);
        }
      });
    });
    return this.remember(number, made);
  }

  makeError(number, value, decoder) {
    const found = decoder.value(value.of);
    const made = new Error(String(value.message));
    if (typeof found === 'function' && found.prototype instanceof Error) Object.setPrototypeOf(made, found.prototype);
    else if (typeof found === 'function' && BUILT_IN.has(found)) Object.setPrototypeOf(made, found.prototype);
    if (made.name !== value.name)
      Object.defineProperty(made, 'name', { value: String(value.name), configurable: true, writable: true });
    for (const [key, one] of Object.entries(value.properties)) {
      if (key !== 'name')
        Object.defineProperty(made, key, {
          value: decoder.value(one),
          enumerable: true,
          configurable: true,
          writable: true,
        });
    }
    made.stack = `${String(value.stack)}\n    [in the program]`;
    return this.remember(number, made);
  }
}

module.exports = { Peer, CannotCross, Ended };
