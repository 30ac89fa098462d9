import { expect, it } from "vitest";

import { highlight } from "./highlight";

it("highlight returns the tokens of each line, and the tokens together contain the whole text", () => {
  const code = 'import os\n\n"""two\nlines"""\nprint("<script>alert(1)</script>")';
  const lines = highlight(code, "python");
  expect(lines.map((tokens) => tokens.map((token) => token.text).join("")).join("\n")).toBe(code);
  expect(lines[0]?.[0]).toEqual({ text: "import", kind: "hljs-keyword" });
  expect(lines[3]?.[0]).toEqual({ text: 'lines"""', kind: "hljs-string" });
});

it("highlight returns tokens without a kind for unknown languages and for too long programs", () => {
  expect(highlight("a\nb", "cobol")).toEqual([[{ text: "a", kind: null }], [{ text: "b", kind: null }]]);
  expect(highlight("x = 1\n".repeat(20_000), "python")[0]).toEqual([{ text: "x = 1", kind: null }]);
});
