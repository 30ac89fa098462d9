// Client-side router: the URL contains the current view, so that users can share links to a view.

import { useEffect, useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
  };
}

/** Navigates to a URL of the page without a reload. `replace` replaces the current history entry instead of adding one. */
export function navigate(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  const newPath = new URL(to, location.origin).pathname !== location.pathname;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  for (const listener of listeners) listener();
  if (newPath) window.scrollTo(0, 0);
}

/** Percent-decodes one path segment. A segment with an invalid encoding is returned unchanged. */
function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the path segments and query parameters of the current URL. */
export function useRoute(): { path: string[]; query: URLSearchParams } {
  const current = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const url = new URL(current, location.origin);
  const path = url.pathname.split("/").filter(Boolean).map(decodeSegment);
  return { path, query: url.searchParams };
}

/** Link within the page that navigates without a reload. */
export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const newTab = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (event.defaultPrevented || newTab) return;
    event.preventDefault();
    navigate(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}

/** Returns the current URL with changed query parameters. The value `null` removes a parameter. */
export function withQuery(change: Record<string, string | null>): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return location.pathname + (text === "" ? "" : `?${text}`);
}

/** Sets the title of the browser window. */
export function useTitle(title: string | null): void {
  useEffect(() => {
    document.title = title === null ? "Assize" : `${title} · Assize`;
  }, [title]);
}
