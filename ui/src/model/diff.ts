// Compares two texts line by line.

interface Line {
  kind: "same" | "added" | "removed";
  text: string;
}

/**
 * Maximum number of lines per text. If a text is longer, the texts are not compared: every line of the new text counts
 * as added.
 */
const MAX_LINES = 2000;

/** Returns the lines of both texts in order, each marked as the same in both, added or removed. */
export function diffLines(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  if (old.length > MAX_LINES || now.length > MAX_LINES) return now.map((text) => ({ kind: "added", text }));
  // table[i][j] is the length of the longest common subsequence of `old` from line i on and `now` from line j on.
  const table = Array.from({ length: old.length + 1 }, () => new Uint32Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const row = table[i] as Uint32Array;
      const below = table[i + 1] as Uint32Array;
      row[j] = old[i] === now[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  const found: Line[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: "same", text: now[j] ?? "" });
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < old.length && (table[i + 1]?.[j] ?? 0) >= (table[i]?.[j + 1] ?? 0))) {
      found.push({ kind: "removed", text: old[i] ?? "" });
      i += 1;
    } else {
      found.push({ kind: "added", text: now[j] ?? "" });
      j += 1;
    }
  }
  return found;
}
