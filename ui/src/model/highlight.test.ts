import { expect, it } from "vitest";

import { highlighted } from "./highlight";

it("tells words apart, line by line, and loses none", () => {
  const code = 'import os\n\n"""two\nlines"""\nprint("<script>alert(1)</script>")';
  const lines = highlighted(code, "python");
  expect(lines.map((tokens) => tokens.map((token) => token.text).join("")).join("\n")).toBe(code);
  expect(lines[0]?.[0]).toEqual({ text: "import", kind: "hljs-keyword" });
  expect(lines[3]?.[0]).toEqual({ text: 'lines"""', kind: "hljs-string" });
});

it("leaves what it does not know, or is too long, as it is", () => {
  expect(highlighted("a\nb", "cobol")).toEqual([[{ text: "a", kind: null }], [{ text: "b", kind: null }]]);
  expect(highlighted("x = 1\n".repeat(20_000), "python")[0]).toEqual([{ text: "x = 1", kind: null }]);
});
