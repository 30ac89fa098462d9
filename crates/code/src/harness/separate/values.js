// Values that cross between the judge, which runs the tests, and the process of the program under test.
//
// Both processes use this file. A value crosses as JSON: plain values as data, all other objects as references to an
// object that stays in its process. Decoding calls nothing that the sender chooses.
'use strict';

const MAX_DEPTH = 200;
const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, AggregateError };
const BUILT_IN = new Map(
  [
    Array,
    BigInt,
    Boolean,
    Date,
    Map,
    Number,
    Object,
    RegExp,
    Set,
    String,
    Symbol,
    parseFloat,
    parseInt,
    isNaN,
    ...Object.values(ERRORS),
  ].map((one) => [one, one.name]),
);
const NAMED = new Map([...BUILT_IN].map(([value, name]) => [name, value]));

class CannotCross extends TypeError {}
class InvalidValue extends Error {}

const isPlain = (value) => {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
};

// Mutable values: the content as a list, and a function that replaces the content.
const KINDS = {
  array: [
    (value) => [...value],
    (target, items) => {
      target.length = 0;
      target.push(...items);
    },
  ],
  object: [
    (value) => Object.entries(value).flat(),
    (target, items) => {
      for (const key of Object.keys(target)) delete target[key];
      for (let at = 0; at < items.length; at += 2) {
        const found = { value: items[at + 1], writable: true, enumerable: true, configurable: true };
        Object.defineProperty(target, String(items[at]), found);
      }
    },
  ],
  map: [
    (value) => [...value].flat(),
    (target, items) => {
      target.clear();
      for (let at = 0; at < items.length; at += 2) target.set(items[at], items[at + 1]);
    },
  ],
  set: [
    (value) => [...value],
    (target, items) => {
      target.clear();
      items.forEach((one) => target.add(one));
    },
  ],
};
const MAKE = { array: () => [], object: () => ({}), map: () => new Map(), set: () => new Set() };

const kindOf = (value) => {
  if (Array.isArray(value)) return 'array';
  if (value instanceof Map && Object.getPrototypeOf(value) === Map.prototype) return 'map';
  if (value instanceof Set && Object.getPrototypeOf(value) === Set.prototype) return 'set';
  return isPlain(value) ? 'object' : null;
};

// Map entries are flattened by one level only.
KINDS.map[0] = (value) => {
  const items = [];
  for (const [key, one] of value) items.push(key, one);
  return items;
};
KINDS.object[0] = (value) => {
  const items = [];
  for (const key of Object.keys(value)) items.push(key, value[key]);
  return items;
};

class Encoder {
  constructor(peer, mutable = []) {
    this.peer = peer;
    this.mutable = [...mutable];
    this.numbers = new Map(this.mutable.map((one, number) => [one, number]));
  }

  value(value, depth = 0) {
    switch (typeof value) {
      case 'string':
      case 'boolean':
        return value;
      case 'number':
        return Number.isFinite(value) && !Object.is(value, -0)
          ? value
          : { number: Object.is(value, -0) ? '-0' : String(value) };
      case 'undefined':
        return { undefined: 1 };
      case 'bigint':
        return { bigint: value.toString(16) };
      case 'symbol':
        throw new CannotCross('a symbol cannot cross between the tests and the program');
      case 'function':
        return this.peer.encodeFunction(value);
    }
    if (value === null) return null;
    if (depth === MAX_DEPTH)
      throw new CannotCross(
        `a value with more than ${MAX_DEPTH} levels cannot cross between the tests and the program`,
      );
    const theirs = this.peer.theirs.get(value);
    if (theirs !== undefined) return { yours: theirs };
    if (this.numbers.has(value)) return { same: this.numbers.get(value) };
    const kind = kindOf(value);
    if (kind) {
      this.numbers.set(value, this.mutable.length);
      this.mutable.push(value);
      return { kind, items: this.items(kind, value, depth) };
    }
    if (value instanceof Date) return { date: this.value(value.getTime()) };
    if (value instanceof RegExp) return { pattern: value.source, flags: value.flags };
    if (value instanceof Error) return this.peer.encodeError(value, this, depth);
    if (ArrayBuffer.isView(value))
      return {
        bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64'),
        of: value.constructor.name,
      };
    if (value instanceof Number || value instanceof String || value instanceof Boolean)
      return this.value(value.valueOf(), depth);
    if (typeof value.then === 'function') {
      // A rejection is reported when the other process awaits the promise.
      value.then(undefined, () => {});
      return { promise: this.peer.export(value) };
    }
    return { instance: this.peer.export(value), of: this.peer.encodeClass(value) };
  }

  items(kind, value, depth = 0) {
    return KINDS[kind][0](value).map((one) => this.value(one, depth + 1));
  }
}

class Decoder {
  constructor(peer, mutable = []) {
    this.peer = peer;
    this.mutable = [...mutable];
  }

  value(value) {
    if (value === null || typeof value !== 'object') return value;
    if (Array.isArray(value)) throw new InvalidValue('an invalid value');
    const tag = Object.keys(value)[0];
    const content = value[tag];
    switch (tag) {
      case 'number':
        if (['NaN', 'Infinity', '-Infinity', '-0'].includes(content)) return Number(content);
        break;
      case 'undefined':
        return undefined;
      case 'bigint':
        return content.startsWith('-') ? -BigInt(`0x${content.slice(1)}`) : BigInt(`0x${content}`);
      case 'same':
        if (content in this.mutable) return this.mutable[content];
        break;
      case 'kind':
        if (Object.hasOwn(MAKE, content)) {
          const made = MAKE[content]();
          this.mutable.push(made);
          KINDS[content][1](
            made,
            value.items.map((one) => this.value(one)),
          );
          return made;
        }
        break;
      case 'date':
        return new Date(this.value(content));
      case 'pattern':
        return new RegExp(String(content), String(value.flags));
      case 'bytes': {
        const bytes = Buffer.from(content, 'base64');
        if (value.of === 'Buffer') return bytes;
        const types = {
          Uint8Array,
          Int8Array,
          Uint8ClampedArray,
          Uint16Array,
          Int16Array,
          Uint32Array,
          Int32Array,
          Float32Array,
          Float64Array,
          BigInt64Array,
          BigUint64Array,
        };
        if (Object.hasOwn(types, value.of)) return new types[value.of](new Uint8Array(bytes).buffer);
        break;
      }
      default:
        return this.peer.decode(tag, value, this);
    }
    throw new InvalidValue('an invalid value');
  }
}

const contents = (mutable) => mutable.map((one) => KINDS[kindOf(one)][0](one));

module.exports = { BUILT_IN, ERRORS, KINDS, NAMED, CannotCross, Decoder, Encoder, InvalidValue, contents, kindOf };
