// Program under test, with values and classes of many kinds.
class Point {
  constructor(x, y) {
    this.x = x;
    this.y = y;
  }

  static zero() {
    return new Point(0, 0);
  }

  norm() {
    return Math.abs(this.x) + Math.abs(this.y);
  }

  get sum() {
    return this.x + this.y;
  }

  *[Symbol.iterator]() {
    yield this.x;
    yield this.y;
  }
}

class MyError extends RangeError {
  constructor(code) {
    super(`code ${code}`);
    this.code = code;
    this.name = 'MyError';
  }
}

module.exports = {
  Point,
  MyError,
  add: (one, two) => one + two,
  sort: (values) => {
    values.sort();
  },
  same: (value) => value,
  apply: (act, values) => values.map((value) => act(value)),
  each: (values, act) => {
    for (const value of values) act(value);
  },
  kinds: () => ({
    nan: NaN,
    zero: -0,
    nothing: undefined,
    large: 10n ** 30n,
    map: new Map([[1, { key: [2] }]]),
    set: new Set([1]),
    date: new Date(5),
    pattern: /a/g,
    buffer: Buffer.from('hi'),
    bytes: new Uint8Array([1, 2]),
  }),
  cycle: () => {
    const values = [1];
    values.push(values);
    return values;
  },
  counter: () => {
    let count = 0;
    return () => {
      count += 1;
      return count;
    };
  },
  *countUp(end) {
    for (let number = 0; number < end; number += 1) yield number;
  },
  fail: () => {
    throw new MyError(7);
  },
  text: (value) => {
    if (typeof value !== 'string') throw new TypeError('no text');
  },
  double: async (value) => {
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
    return 2 * value;
  },
  reject: async () => {
    throw new MyError(3);
  },
};
