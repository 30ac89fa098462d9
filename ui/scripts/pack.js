// Leaves each file of the built page beside itself once more, packed: it is sent like that.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** The most that a browser fetches before it shows something, packed, in bytes. */
const FIRST_LOAD = 350 * 1024;

const folder = "dist";
const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith(".gz"))
  .map((entry) => join(entry.parentPath, entry.name));
let first = 0;
const index = readFileSync(join(folder, "index.html"), "utf8");
for (const name of names) {
  const packed = gzipSync(readFileSync(name), { level: 9 });
  writeFileSync(`${name}.gz`, packed);
  const path = name.slice(folder.length);
  if (path === "/index.html" || index.includes(path)) first += packed.length;
}
console.log(`the first load takes ${(first / 1024).toFixed(0)} KB packed`);
if (first > FIRST_LOAD) {
  console.error(`which is more than ${FIRST_LOAD / 1024} KB`);
  process.exit(1);
}
