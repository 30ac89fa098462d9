import { expect, test } from "vitest";

import { apiUrl } from "./api";

test("apiUrl percent-encodes parameters but keeps slashes in file paths", () => {
  expect(apiUrl("/api/about", {})).toBe("/api/about");
  expect(apiUrl("/api/runs/{id}", { id: "a/b?c" })).toBe("/api/runs/a%2Fb%3Fc");
  expect(apiUrl("/api/runs/{id}/documents/{document}", { id: "r", document: "moves/m 1.md" })).toBe("/api/runs/r/documents/moves/m%201.md");
  expect(apiUrl("/api/runs", {}, { limit: 20, title: "a&b" })).toBe("/api/runs?limit=20&title=a%26b");
});

test("apiUrl with an unknown route, parameter or query field does not compile", () => {
  // @ts-expect-error The API has no such route.
  apiUrl("/api/nowhere", {});
  // @ts-expect-error The route has the path parameter `id`, not `run`.
  apiUrl("/api/runs/{id}", { run: "r" });
  // @ts-expect-error The route has the query parameter `limit`, not `most`.
  apiUrl("/api/runs", {}, { most: 1 });
});
