import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { harmless, Markdown } from "./Markdown";

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

it.each(HOSTILE)("lets nothing run or be fetched: %s", (text) => {
  const shown = renderToStaticMarkup(<Markdown text={text} />);
  expect(shown).not.toMatch(/<(script|img|svg|iframe)|javascript:|vbscript:|data:|\son\w+=/i);
});

it("says where a link leads", () => {
  const shown = renderToStaticMarkup(<Markdown text="[the bank](https://evil.example/login)" />);
  expect(shown).toContain("(evil.example)");
  expect(shown).toContain("noopener");
});

it("follows no address but those of the web and of mail", () => {
  expect(["https://a.example/", "http://a.example", "mailto:a@b.example"].map(harmless)).not.toContain("");
  expect(["javascript:1", "/api/runs", "//evil.example", "file:///etc/passwd", "\u0001javascript:1", ""].map(harmless)).toEqual(["", "", "", "", "", ""]);
});
