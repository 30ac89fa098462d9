import { expect, it } from "vitest";

import { diffLines } from "../../model/diff";
import { parse } from "./parse";

it("parse returns the rows of a unified diff with the line numbers of both files", () => {
  const rows = parse("--- a/x\n+++ b/x\n@@ -3,3 +3,4 @@\n a\n-b\n+c\n+d\n e\n\\ No newline at end of file\n");
  expect(rows.map(({ kind, old, now, text }) => [kind, old, now, text])).toEqual([
    ["hunk", null, null, "@@ -3,3 +3,4 @@"],
    ["same", 3, 3, "a"],
    ["removed", 4, null, "b"],
    ["added", null, 4, "c"],
    ["added", null, 5, "d"],
    ["same", 5, 6, "e"],
    ["hunk", null, null, "\\ No newline at end of file"],
  ]);
  expect(parse("")).toEqual([]);
});

it("diffLines returns all lines, marked as same, removed or added", () => {
  expect(diffLines("a\nb\nc", "a\nx\nc").map(({ kind, text }) => `${kind} ${text}`)).toEqual(["same a", "removed b", "added x", "same c"]);
  expect(diffLines("", "a")).toEqual([
    { kind: "removed", text: "" },
    { kind: "added", text: "a" },
  ]);
});
