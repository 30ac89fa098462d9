// Syntax highlighting of programs. The result is a list of tokens per line and never HTML.

import bash from "highlight.js/lib/languages/bash";
import javascript from "highlight.js/lib/languages/javascript";
import python from "highlight.js/lib/languages/python";
import { createLowlight } from "lowlight";

const lowlight = createLowlight({ bash, javascript, python });

/** Maximum length of a program that is highlighted, in characters. A longer program would block the page for too long. */
const MAX_LENGTH = 100_000;

export interface Token {
  text: string;
  /** CSS class that highlight.js assigns to the token, such as `hljs-keyword`; `null` for plain text. */
  kind: string | null;
}

type Tree = ReturnType<typeof lowlight.highlight>["children"][number];

/** Returns the tokens of each line. If the language is unknown or the program is too long, every `kind` is `null`. */
export function highlight(code: string, language: string): Token[][] {
  if (code.length > MAX_LENGTH || !lowlight.registered(language)) {
    return code.split("\n").map((text) => [{ text, kind: null }]);
  }
  const lines: Token[][] = [[]];
  const visit = (node: Tree, kind: string | null) => {
    if (node.type === "text") {
      node.value.split("\n").forEach((text, index) => {
        if (index > 0) lines.push([]);
        if (text !== "") lines.at(-1)?.push({ text, kind });
      });
    } else if (node.type === "element") {
      const [own] = node.properties.className as string[];
      for (const child of node.children) visit(child, own ?? kind);
    }
  };
  for (const child of lowlight.highlight(language, code).children) visit(child, null);
  return lines;
}
