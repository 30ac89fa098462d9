import { expect, test } from "vitest";

import { apiUrl } from "./api";

test("apiUrl encodes parameters and keeps slashes of file paths", () => {
  expect(apiUrl("/api/about", {})).toBe("/api/about");
  expect(apiUrl("/api/runs/{id}", { id: "a/b?c" })).toBe("/api/runs/a%2Fb%3Fc");
  expect(apiUrl("/api/runs/{id}/documents/{document}", { id: "r", document: "moves/m 1.md" })).toBe("/api/runs/r/documents/moves/m%201.md");
  expect(apiUrl("/api/runs", {}, { limit: 20, title: "a&b" })).toBe("/api/runs?limit=20&title=a%26b");
});

test("unknown routes, parameters and query fields do not compile", () => {
  // @ts-expect-error unknown route
  apiUrl("/api/nowhere", {});
  // @ts-expect-error unknown parameter
  apiUrl("/api/runs/{id}", { run: "r" });
  // @ts-expect-error unknown query field
  apiUrl("/api/runs", {}, { most: 1 });
});
