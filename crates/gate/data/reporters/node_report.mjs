// A reporter of `node --test` that writes each test's outcome as a line of JSON.

export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type === "test:pass" || type === "test:fail") {
      if (data.details?.type === "suite") continue;
      const skipped = (data.skip ?? data.todo) !== undefined;
      // A `todo` test may fail.
      const outcome = skipped ? "skipped" : type === "test:fail" ? "failed" : "passed";
      yield JSON.stringify({ name: data.name, file: data.file ?? null, outcome }) + "\n";
    }
  }
  yield JSON.stringify({ finished: true }) + "\n";
}
