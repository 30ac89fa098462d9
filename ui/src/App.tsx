import { Scale } from "lucide-react";
import { LazyMotion, MotionConfig } from "motion/react";
import { useEffect, type ReactNode } from "react";

import { apiUrl } from "./model/api";
import { formatCount } from "./model/format";
import { useFetch } from "./model/hooks";
import { Drafts } from "./pages/Drafts";
import { Home } from "./pages/Home";
import { RunPage } from "./pages/Run";
import { System } from "./pages/System";
import { cn, EmptyState } from "./parts/ui";
import { ColorSchemeButton } from "./parts/ColorSchemeButton";
import { Link, useRoute } from "./route";

const PAGES = [
  { href: "/", name: "Trials" },
  { href: "/drafts", name: "Drafts" },
  { href: "/system", name: "System" },
] as const;

export function App() {
  const { path } = useRoute();
  const section = path[0] ?? "";
  const toReview = useReviewCount(path.join("/"));
  return (
    <LazyMotion strict features={() => import("./parts/motion").then((motion) => motion.default)}>
      <MotionConfig reducedMotion="user" transition={{ duration: 0.35 }}>
        <div className="flex min-h-dvh flex-col">
          <a
            href="#content"
            className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-raised focus:p-2"
          >
            Skip to content
          </a>
          <header className="border-b border-line bg-raised print:hidden">
            <nav aria-label="Main" className="mx-auto flex max-w-[96rem] items-center gap-1 px-3 py-2 sm:px-4">
              <Link href="/" className="mr-2 flex items-center gap-2 rounded-md px-1 py-1 font-semibold">
                <Scale aria-hidden className="size-5 text-accent" />
                Assize
              </Link>
              {PAGES.map(({ href, name }) => {
                const current = href === "/" ? section === "" || section === "runs" : section === href.slice(1);
                return (
                  <Link
                    key={href}
                    href={href}
                    aria-current={current ? "page" : undefined}
                    className={cn(
                      "rounded-md px-2.5 py-1.5 text-sm text-soft hover:bg-sunken hover:text-ink",
                      current && "bg-sunken font-medium text-ink",
                    )}
                  >
                    {name}
                    {href === "/drafts" && toReview > 0 && (
                      <span className="ml-1.5 rounded-full bg-warning/15 px-1.5 text-xs font-medium text-warning" aria-label={`${formatCount(toReview, "submission")} to review`}>
                        {toReview}
                      </span>
                    )}
                  </Link>
                );
              })}
              <div className="ml-auto">
                <ColorSchemeButton />
              </div>
            </nav>
          </header>
          <main id="content" tabIndex={-1} className="mx-auto flex w-full max-w-[96rem] flex-1 flex-col px-3 py-5 outline-none sm:px-4">
            {pageFor(path)}
          </main>
        </div>
      </MotionConfig>
    </LazyMotion>
  );
}

/** Number of submissions that wait for a review in all workspaces. The number is fetched again on each navigation. */
function useReviewCount(path: string): number {
  const { value, refetch } = useFetch(apiUrl("/api/workspaces", {}));
  useEffect(refetch, [refetch, path]);
  return value?.workspaces.reduce((sum, one) => sum + one.waiting, 0) ?? 0;
}

function pageFor(path: string[]): ReactNode {
  const [section, id] = path;
  if (section === undefined) return <Home />;
  if (section === "runs" && id !== undefined) return <RunPage key={id} id={id} />;
  if (section === "drafts") return <Drafts workspace={id ?? null} submission={path[2] ?? null} />;
  if (section === "system") return <System />;
  return (
    <EmptyState page title="Page not found">
      <Link href="/" className="text-accent underline">
        Go to the list of trials
      </Link>
    </EmptyState>
  );
}
