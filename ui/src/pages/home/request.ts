// Builds the requests of the start form and checks the files that are sent with them.

import type { StartBody } from "../../model/schema";

export type StartKind = "consult" | "run" | "debate";

/** File that is sent with a request. */
export interface Upload {
  name: string;
  bytes: number;
  base64: string;
}

/** Maximum number of files in a request; the server has the same limit. */
export const MAX_FILES = 200;
/**
 * Maximum total size of the files in a request, in bytes. By default the server accepts requests of at most 32 MB, and
 * base64 encoding makes the files a third larger.
 */
export const MAX_BYTES = 20 * 1024 * 1024;

/** Default number of debate rounds. */
export const DEFAULT_ROUNDS = 10;
/** Maximum number of debate rounds. */
export const MAX_ROUNDS = 50;

export interface Options {
  /** Number of debate rounds. */
  rounds: number;
  /** Whether the judges also score each move before its debate. */
  blindScores: boolean;
  /** Whether the text in the form is the name of a private company instead of a ticker. */
  privateCompany: boolean;
  files: Upload[];
}

/** Returns whether the server accepts the text as a ticker. */
export const isTicker = (text: string) => /^[A-Za-z0-9][A-Za-z0-9.-]{0,9}$/.test(text.trim());

/** Guesses the kind of trial from the text. The form shows the guess as a suggestion and does not switch by itself. */
export function guessKind(text: string): StartKind {
  const plain = text.trim();
  if (plain === "" || isTicker(plain)) return "consult";
  return plain.startsWith("#") || plain.endsWith("?") || plain.split("\n").length > 3 ? "debate" : "run";
}

/** Returns the body of the request that starts a run. Options with their default value are omitted. */
export function startBody(kind: StartKind, text: string, { rounds, blindScores, privateCompany, files }: Options): StartBody {
  const plain = text.trim();
  const uploads = files.length === 0 || kind === "debate" ? {} : { files: files.map(({ name, base64 }) => ({ name, base64 })) };
  if (kind === "run") return { kind, task: plain, ...uploads };
  const more = rounds === DEFAULT_ROUNDS ? {} : { rounds };
  if (kind === "debate") return { kind, document: plain, ...more };
  const company = privateCompany ? { name: plain } : { ticker: plain.toUpperCase() };
  return { kind, ...company, ...more, ...(blindScores ? { blind_scores: true } : {}), ...uploads };
}

/** Returns why the files `more` cannot be added to the files `before`, or `null` if they can be added. */
export function uploadError(before: readonly { name: string; bytes: number }[], more: readonly { name: string; size: number }[]): string | null {
  if (before.length + more.length > MAX_FILES) return `At most ${MAX_FILES} files can be sent with a request.`;
  const names = new Set(before.map((file) => file.name));
  for (const file of more) {
    if (names.has(file.name)) return `A file named ${file.name} was already added.`;
    names.add(file.name);
  }
  const bytes = before.reduce((sum, file) => sum + file.bytes, 0) + more.reduce((sum, file) => sum + file.size, 0);
  return bytes > MAX_BYTES ? `At most ${MAX_BYTES / (1024 * 1024)} MB of files can be sent from this page; the command line accepts more.` : null;
}

/** Reads a file and encodes its content in base64. */
export async function upload(file: File): Promise<Upload> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`Cannot read the file ${file.name}.`));
    reader.readAsDataURL(file);
  });
  return { name: file.name, bytes: file.size, base64: url.slice(url.indexOf(",") + 1) };
}
