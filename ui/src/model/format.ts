// Formats counts, prices, times and sizes for display.

const number = new Intl.NumberFormat("en");

/** Formats a number with its noun, such as `1 file` or `2 files`. */
export function formatCount(value: number, one: string, many = `${one}s`): string {
  return `${number.format(value)} ${value === 1 ? one : many}`;
}

/** Formats a price in US dollars, such as `$1.50`; `price unknown` for a missing price. */
export function formatDollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return "price unknown";
  if (value === 0) return "$0.00";
  return value < 0.01 ? "under $0.01" : `$${value.toFixed(2)}`;
}

/** Formats a number of tokens, shortened from 10,000 on, such as `12k` or `1.5M`. */
export function formatTokens(value: number): string {
  if (value < 10_000) return number.format(value);
  return value < 1_000_000 ? `${Math.round(value / 1000)}k` : `${(value / 1_000_000).toFixed(1)}M`;
}

/** Formats the time elapsed since `then` (milliseconds since 1970), such as `3 minutes ago`. */
export function formatAgo(then: number): string {
  const seconds = Math.max(0, Math.round((Date.now() - then) / 1000));
  if (seconds < 45) return "just now";
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${formatCount(minutes, "minute")} ago`;
  const hours = Math.round(minutes / 60);
  if (hours < 36) return `${formatCount(hours, "hour")} ago`;
  return `${formatCount(Math.round(hours / 24), "day")} ago`;
}

/** Formats a duration, such as `2 min 5 s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Formats a size in bytes, such as `12 KB`. */
export function formatBytes(value: number): string {
  if (value < 1024) return formatCount(value, "byte");
  return value < 1024 * 1024 ? `${Math.round(value / 1024)} KB` : `${(value / (1024 * 1024)).toFixed(1)} MB`;
}
