const assert = require('node:assert');
const solution = require('solution');

const { MyError, Point } = solution;

exports.testPlainValues = () => {
  assert.strictEqual(solution.add(1, 2), 3);
  const kinds = solution.kinds();
  assert.ok(
    Number.isNaN(kinds.nan) && Object.is(kinds.zero, -0) && 'nothing' in kinds && kinds.nothing === undefined,
  );
  assert.strictEqual(kinds.large, 10n ** 30n);
  assert.deepStrictEqual(kinds.map, new Map([[1, { key: [2] }]]));
  assert.deepStrictEqual(kinds.set, new Set([1]));
  assert.strictEqual(kinds.date.getTime(), 5);
  assert.deepStrictEqual(kinds.pattern, /a/g);
  assert.strictEqual(kinds.buffer.toString(), 'hi');
  assert.deepStrictEqual(kinds.bytes, new Uint8Array([1, 2]));
  const values = solution.cycle();
  assert.strictEqual(values[1], values);
};

exports.testArgumentsAreChangedInPlace = () => {
  const values = [3, 1, 2];
  solution.sort(values);
  assert.deepStrictEqual(values, [1, 2, 3]);
  assert.strictEqual(solution.same(values), values);
};

exports.testObjects = () => {
  const point = new Point(1, -2);
  assert.ok(point instanceof Point);
  assert.strictEqual(point.norm(), 3);
  point.x = 5;
  assert.strictEqual(point.sum, 3);
  assert.deepStrictEqual([...point], [5, -2]);
  assert.deepStrictEqual(point, new Point(5, -2));
  assert.notDeepStrictEqual(point, new Point(5, 2));
  assert.strictEqual(Point.zero().x, 0);
  assert.strictEqual(solution.same(point), point);
  assert.strictEqual(JSON.stringify(point), '{"x":5,"y":-2}');
};

exports.testErrors = () => {
  assert.throws(() => solution.fail(), MyError);
  assert.throws(() => solution.fail(), { name: 'MyError', message: 'code 7', code: 7 });
  assert.throws(() => solution.fail(), RangeError);
  assert.throws(() => solution.text(1), TypeError);
};

exports.testFunctions = () => {
  assert.deepStrictEqual(
    solution.apply((value) => 2 * value, [1, 2]),
    [2, 4],
  );
  const counter = solution.counter();
  counter();
  assert.strictEqual(counter(), 2);
  const seen = [];
  solution.each([1, 2], (value) => seen.push(value));
  assert.deepStrictEqual(seen, [1, 2]);
  assert.deepStrictEqual([...solution.countUp(3)], [0, 1, 2]);
};

exports.testPromises = async () => {
  assert.strictEqual(await solution.double(4), 8);
  assert.deepStrictEqual(await Promise.all([solution.double(1), solution.double(2)]), [2, 4]);
  await assert.rejects(solution.reject(), MyError);
};
