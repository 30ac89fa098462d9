import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { Markdown, safeUrl } from "./Markdown";

const HOSTILE = [
  "<script>alert(1)</script>",
  '<img src=x onerror="alert(1)">',
  "[click](javascript:alert(1))",
  "[click](  JaVaScRiPt:alert(1))",
  "[click](data:text/html,<script>alert(1)</script>)",
  "![seen](https://evil.example/pixel.png)",
  "<a href='javascript:alert(1)'>x</a>",
  '<svg/onload=alert(1)>',
  "[x](vbscript:x)",
  "<iframe src='https://evil.example'></iframe>",
  "[ref]: javascript:alert(1)\n\n[ref]",
];

it.each(HOSTILE)("hostile Markdown renders without active content: %s", (text) => {
  const shown = renderToStaticMarkup(<Markdown text={text} />);
  expect(shown).not.toMatch(/<(script|img|svg|iframe)|javascript:|vbscript:|data:|\son\w+=/i);
});

it("a Markdown link shows the host of its target after its text", () => {
  const shown = renderToStaticMarkup(<Markdown text="[the bank](https://evil.example/login)" />);
  expect(shown).toContain("(evil.example)");
  expect(shown).toContain("noopener");
});

it("safeUrl accepts only absolute http, https and mailto addresses", () => {
  expect(["https://a.example/", "http://a.example", "mailto:a@b.example"].map(safeUrl)).not.toContain("");
  expect(["javascript:1", "/api/runs", "//evil.example", "file:///etc/passwd", "\u0001javascript:1", ""].map(safeUrl)).toEqual(["", "", "", "", "", ""]);
});
