import { expect, test } from "vitest";

import { at } from "./api";

test("addresses encode their parameters, and keep the folders of files", () => {
  expect(at("/api/about", {})).toBe("/api/about");
  expect(at("/api/runs/{id}", { id: "a/b?c" })).toBe("/api/runs/a%2Fb%3Fc");
  expect(at("/api/runs/{id}/documents/{document}", { id: "r", document: "moves/m 1.md" })).toBe("/api/runs/r/documents/moves/m%201.md");
  expect(at("/api/runs", {}, { limit: 20, title: "a&b" })).toBe("/api/runs?limit=20&title=a%26b");
});

test("unknown routes, parameters and query fields do not compile", () => {
  // @ts-expect-error no such route
  at("/api/nowhere", {});
  // @ts-expect-error no such parameter
  at("/api/runs/{id}", { run: "r" });
  // @ts-expect-error no such query field
  at("/api/runs", {}, { most: 1 });
});
