// Writes a gzip copy beside each file of the built page; the server sends these copies.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** Maximum size of all files a browser fetches before it shows the page, compressed, in bytes. */
const MAX_FIRST_LOAD = 350 * 1024;

const folder = "dist";
const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.name.endsWith(".gz"))
  .map((entry) => join(entry.parentPath, entry.name));
let firstLoad = 0;
const index = readFileSync(join(folder, "index.html"), "utf8");
for (const name of names) {
  const compressed = gzipSync(readFileSync(name), { level: 9 });
  writeFileSync(`${name}.gz`, compressed);
  const path = name.slice(folder.length);
  if (path === "/index.html" || index.includes(path)) firstLoad += compressed.length;
}
console.log(`first load: ${(firstLoad / 1024).toFixed(0)} KB compressed`);
if (firstLoad > MAX_FIRST_LOAD) {
  console.error(`first load exceeds the limit of ${MAX_FIRST_LOAD / 1024} KB`);
  process.exit(1);
}
