// The words of a program by their kinds, line by line: never as markup.

import bash from "highlight.js/lib/languages/bash";
import javascript from "highlight.js/lib/languages/javascript";
import python from "highlight.js/lib/languages/python";
import { createLowlight } from "lowlight";

const lowlight = createLowlight({ bash, javascript, python });

/** The longest program whose words are told apart; more would make the page wait. */
const LONGEST = 100_000;

export interface Token {
  text: string;
  /** As in highlight.js: `hljs-keyword` and so on. */
  kind: string | null;
}

type Tree = ReturnType<typeof lowlight.highlight>["children"][number];

export function highlighted(code: string, language: string): Token[][] {
  if (code.length > LONGEST || !lowlight.registered(language)) {
    return code.split("\n").map((text) => [{ text, kind: null }]);
  }
  const lines: Token[][] = [[]];
  const take = (node: Tree, kind: string | null) => {
    if (node.type === "text") {
      node.value.split("\n").forEach((text, index) => {
        if (index > 0) lines.push([]);
        if (text !== "") lines.at(-1)?.push({ text, kind });
      });
    } else if (node.type === "element") {
      const [own] = node.properties.className as string[];
      for (const child of node.children) take(child, own ?? kind);
    }
  };
  for (const child of lowlight.highlight(language, code).children) take(child, null);
  return lines;
}
