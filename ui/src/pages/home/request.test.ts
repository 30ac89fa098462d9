import { expect, test } from "vitest";

import { guessKind, MAX_BYTES, MAX_FILES, uploadError, startBody } from "./request";

const plain = { rounds: 10, blindScores: false, privateCompany: false, files: [] };
const file = { name: "prices.csv", bytes: 3, base64: "YSxi" };

test("looksLike returns the kind of trial for tickers, programming tasks and moves", () => {
  expect(["", "NVDA", "brk.b", " aapl ", "0700.HK"].map(guessKind)).toEqual(Array(5).fill("consult"));
  expect(["Calculate fibonacci(10)", "sort words"].map(guessKind)).toEqual(["run", "run"]);
  expect(["# A move\n\nWe should.", "a\nb\nc\nd", "Should we?"].map(guessKind)).toEqual(["debate", "debate", "debate"]);
});

test("startBody sends options and files only for kinds that accept them", () => {
  expect(startBody("consult", " nvda ", plain)).toEqual({ kind: "consult", ticker: "NVDA" });
  expect(startBody("consult", " Larkspur Kettles ", { ...plain, privateCompany: true })).toEqual({ kind: "consult", name: "Larkspur Kettles" });
  const all = { ...plain, rounds: 3, blindScores: true, files: [file] };
  const files = [{ name: "prices.csv", base64: "YSxi" }];
  expect(startBody("consult", "nvda", all)).toEqual({ kind: "consult", ticker: "NVDA", rounds: 3, blind_scores: true, files });
  expect(startBody("run", "sum it", all)).toEqual({ kind: "run", task: "sum it", files });
  expect(startBody("debate", "# Move", all)).toEqual({ kind: "debate", document: "# Move", rounds: 3 });
});

test("refusal returns a message for too many files, too large files and duplicate names", () => {
  expect(uploadError([file], [{ name: "news.md", size: 10 }])).toBeNull();
  expect(uploadError([file], [{ name: "prices.csv", size: 1 }])).toContain("prices.csv");
  expect(uploadError([file], [{ name: "big.csv", size: MAX_BYTES }])).toContain("20 MB");
  const many = Array.from({ length: MAX_FILES }, (_, index) => ({ name: `${index}.md`, size: 1 }));
  expect(uploadError([file], many)).toContain(String(MAX_FILES));
});
