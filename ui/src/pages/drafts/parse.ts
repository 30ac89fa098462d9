// Parser for unified diffs.

export interface Row {
  kind: "same" | "added" | "removed" | "hunk";
  text: string;
  /** Line number in the old file; `null` if the old file does not contain the line. */
  old: number | null;
  /** Line number in the new file; `null` if the new file does not contain the line. */
  now: number | null;
}

/** Parses a unified diff of one file into rows with the line numbers in the old and in the new file. */
export function parse(diff: string): Row[] {
  const rows: Row[] = [];
  let [old, now] = [0, 0];
  let within = false;
  for (const line of diff.split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      within = true;
      [old, now] = [Number(hunk[1]), Number(hunk[2])];
      rows.push({ kind: "hunk", text: line, old: null, now: null });
      continue;
    }
    // Lines before the first hunk are the file header.
    if (!within || line === "") continue;
    const [sign, text] = [line[0], line.slice(1)];
    if (sign === "+") rows.push({ kind: "added", text, old: null, now: now++ });
    else if (sign === "-") rows.push({ kind: "removed", text, old: old++, now: null });
    else if (sign === " ") rows.push({ kind: "same", text, old: old++, now: now++ });
    else rows.push({ kind: "hunk", text: line, old: null, now: null });
  }
  return rows;
}
