// The machine: who answers, which walls there are and what they rest on, and the sandboxes that stay.

import { RefreshCw, Trash2 } from "lucide-react";

import { at, remove } from "../model/api";
import { useAsked, useDoing } from "../model/hooks";
import type { About, BackendReport, ClusterNode, DoctorReport, ProviderReport, Scorecard, WarmPoolInfo } from "../model/schema";
import { ago, count, lasting } from "../model/words";
import { Said } from "../parts/Said";
import { Badge, Button, Card, Coded, Empty, Heading, Notice, type Tone } from "../parts/ui";
import { Link, useTitle } from "../route";
import { Tokens } from "./Tokens";

export function System() {
  useTitle("System");
  const doctor = useAsked(at("/api/doctor", {}));
  const about = useAsked(at("/api/about", {}));
  const cluster = about.value?.cluster ?? null;
  return (
    <div className="grid gap-6">
      <div className="flex items-center gap-3">
        <h1 className="flex-1 text-xl font-semibold">System</h1>
        <Button onClick={doctor.again}>
          <RefreshCw aria-hidden className="size-4" />
          Look again
        </Button>
      </div>
      {about.problem && <Said problem={about.problem} />}
      {about.value && (cluster === null ? <InUse about={about.value} /> : <TheCluster name={cluster} servers={about.value.store} />)}
      {doctor.problem && <Said problem={doctor.problem} />}
      {!doctor.value && !doctor.problem && <p className="text-sm text-soft">A sandbox of each kind is made, and every provider asked…</p>}
      {doctor.value && (
        <>
          <section aria-labelledby="walls" className="grid gap-3">
            <Heading id="walls">
              {cluster === null ? "Walls around code" : "Walls on the machine of this server (workers have their own)"}:{" "}
              {doctor.value.sandboxes.why}
            </Heading>
            <ul className="grid gap-3 lg:grid-cols-3">
              {doctor.value.sandboxes.backends.map((backend) => (
                <li key={backend.isolation}>
                  <Walls backend={backend} uses={usesOf(backend.isolation, doctor.value)} />
                </li>
              ))}
            </ul>
          </section>
          <section aria-labelledby="providers" className="grid gap-3">
            <Heading id="providers">
              Who answers: {doctor.value.used} ({doctor.value.why})
            </Heading>
            <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
              {doctor.value.providers.map((provider) => (
                <Row key={provider.provider} provider={provider} used={provider.provider === doctor.value?.used} />
              ))}
            </ul>
          </section>
        </>
      )}
      <Staying />
      <Tokens />
      <Attacks />
    </div>
  );
}

/** The runs under way, and the warm pool of each backend. */
function InUse({ about: { trials, warm_pools, store, version } }: { about: About }) {
  const several = warm_pools.length > 1;
  const figures = [
    { name: "Trials under way", figure: `${trials.running} of ${trials.most}`, about: "as many as may be held at once" },
    ...warm_pools.flatMap((pool) => warmPoolFigures(pool, several ? ` (${pool.isolation})` : "")),
    { name: "Version", figure: version, about: store },
  ];
  return (
    <dl className="grid gap-3 sm:grid-cols-2 lg:grid-cols-4">
      {figures.map(({ name, figure, about }) => (
        <div key={name} className="rounded-lg border border-line bg-raised p-4">
          <dt className="text-xs text-soft">{name}</dt>
          <dd className="text-lg font-semibold tabular-nums">{figure}</dd>
          <dd className="truncate text-xs text-soft" title={about}>
            {about}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function warmPoolFigures({ idle, size, hits, misses, refill_ms, low_memory }: WarmPoolInfo, suffix: string) {
  const requests = hits + misses;
  return [
    {
      name: `Idle sandboxes${suffix}`,
      figure: `${idle} of ${size}`,
      about: low_memory ? "not refilled: too little free memory" : "started before a program needs one",
    },
    {
      name: `Warm-pool hit rate${suffix}`,
      figure: requests === 0 ? "none yet" : `${Math.round((hits / requests) * 100)} %`,
      about: requests === 0 ? "no request since the server was started" : `${count(hits, "hit")}, ${count(misses, "miss", "misses")}`,
    },
    {
      name: `Warm-pool refill time${suffix}`,
      figure: refill_ms === null ? "none yet" : `${Math.round(refill_ms)} ms`,
      about: "mean time to make an idle sandbox",
    },
  ];
}

/** Who works for the cluster. */
function TheCluster({ name, servers }: { name: string; servers: string }) {
  const { value, problem, again } = useAsked(at("/api/cluster", {}));
  return (
    <section aria-labelledby="cluster" className="grid gap-3">
      <div className="flex items-center gap-3">
        <Heading id="cluster" className="flex-1">
          Cluster {name}: what is asked for here is done by its workers
        </Heading>
        <Button onClick={again} aria-label="Look at the cluster again">
          <RefreshCw aria-hidden className="size-4" />
        </Button>
      </div>
      {problem && <Said problem={problem} />}
      {value && (
        <>
          <p className="text-sm text-soft">
            {value.busy} of {count(value.slots, "sandbox", "sandboxes")} in use; {count(value.running, "run")} held, {value.waiting} waiting. All
            is kept at <span className="font-mono">{servers}</span>.
          </p>
          {value.stuck.map(({ what, why }) => (
            <Notice key={what} tone="bad" title={`${what} does not get on`}>
              {why}
            </Notice>
          ))}
          {value.dead_letters.map(({ subject, reason, time }) => (
            <Notice key={`${subject} ${time}`} tone="bad" title={`Dead letter: ${subject}`}>
              {reason}
            </Notice>
          ))}
          <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
            {value.nodes.map((node) => (
              <Taking key={node.id} node={node} />
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** One who takes part in the cluster. */
function Taking({ node: { role, host, pid, since, slots, busy, holds, version, abilities } }: { node: ClusterNode }) {
  const walls = abilities.isolations.filter((name) => !name.includes("="));
  const labels = Object.entries(abilities.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm">
      <Badge tone={role === "worker" ? "good" : "plain"}>{role}</Badge>
      <span className="font-mono text-xs">
        {host} {pid}
      </span>
      {role === "worker" && (
        <span className="tabular-nums">
          {busy} of {slots} sandboxes in use, {count(holds.length, "run")} held
        </span>
      )}
      <span className="flex-1" />
      {[...walls, ...(abilities.region === null ? [] : [abilities.region]), ...labels].map((word) => (
        <Badge key={word}>{word}</Badge>
      ))}
      <span className="text-xs text-soft">
        {version}, started {ago(since)}
      </span>
    </li>
  );
}

/** How the last attacks on the sandboxes went. */
function Attacks() {
  const { value, problem } = useAsked(at("/api/attacks", {}));
  return (
    <section aria-labelledby="attacks" className="grid gap-3">
      <Heading id="attacks">The last attack on each kind of sandbox</Heading>
      {problem && <Said problem={problem} />}
      {value?.attacks.length === 0 && (
        <Empty title="Nobody has attacked them here yet">
          <code className="font-mono">assize attack</code> tries to break out of each, in some 250 ways, and what it finds is shown here.
        </Empty>
      )}
      <ul className="grid gap-3 empty:hidden lg:grid-cols-2">
        {value?.attacks.map((attack) => (
          <li key={attack.isolation}>
            <AttackCard attack={attack} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function AttackCard({ attack: { isolation, version, at, seconds, groups, escaped } }: { attack: Scorecard }) {
  const blocked = groups.reduce((sum, group) => sum + group.blocked, 0);
  return (
    <Card className="h-full">
      <p className="mb-2 flex flex-wrap items-center gap-2 font-medium">
        <span className="flex-1">{isolation}</span>
        {escaped.length > 0 ? <Badge tone="bad">{escaped.length} got out</Badge> : <Badge tone="good">nothing got out of {blocked}</Badge>}
      </p>
      <p className="mb-3 text-xs text-soft">
        {ago(at)}, in {lasting(seconds * 1000)}, by version {version}
      </p>
      <table className="w-full text-xs">
        <thead className="text-soft">
          <tr>
            <th scope="col" className="text-left font-normal">
              What was tried
            </th>
            <th scope="col" className="px-2 text-right font-normal">
              blocked
            </th>
            <th scope="col" className="px-2 text-right font-normal">
              got out
            </th>
            <th scope="col" className="text-right font-normal">
              not applicable
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={group.title}>
              <th scope="row" className="py-0.5 text-left font-normal">
                {group.title}
                {group.broke > 0 && <span className="text-doubt"> ({group.broke} could not be tried)</span>}
              </th>
              <td className="px-2 text-right tabular-nums">{group.blocked}</td>
              <td className={group.escaped > 0 ? "px-2 text-right font-semibold text-bad tabular-nums" : "px-2 text-right tabular-nums"}>{group.escaped}</td>
              <td className="text-right text-soft tabular-nums">{group.not_applicable}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {escaped.map(({ name, what, detail }) => (
        <p key={name} className="mt-2 border-l-2 border-bad pl-2 text-xs">
          <span className="font-mono">{name}</span>: {what} ({detail})
        </p>
      ))}
    </Card>
  );
}

/** What a kind of sandbox is used for, where nothing else is asked for. */
function usesOf(isolation: string, doctor: DoctorReport | null): string[] {
  const { used, used_for_debates } = doctor?.sandboxes ?? {};
  return [used === isolation && "code", used_for_debates === isolation && "debates"].filter((use) => use !== false);
}

function Walls({ backend, uses }: { backend: BackendReport; uses: string[] }) {
  return (
    <Card className="h-full">
      <p className="flex items-center gap-2 font-medium">
        <span className="flex-1">{backend.isolation}</span>
        {uses.length > 0 && <Badge tone="accent">in use for {uses.join(" and ")}</Badge>}
        <Badge tone={backend.available ? "good" : "plain"}>
          {backend.available ? `made in ${Math.round(backend.made_in_ms ?? 0)} ms` : "not here"}
        </Badge>
      </p>
      {backend.why_not && (
        <p className="mt-2 text-sm text-soft">
          <Coded text={backend.why_not} />
        </p>
      )}
      {backend.hint && (
        <p className="mt-1 text-sm">
          <Coded text={backend.hint} />
        </p>
      )}
      {backend.how && (
        <p className="mt-2 text-sm text-soft">
          <Coded text={backend.how} />
        </p>
      )}
      {backend.enforcement && (
        <dl className="mt-3 grid grid-cols-[auto_1fr] gap-x-3 gap-y-1 text-xs">
          {Object.entries(backend.enforcement).map(([name, by]) => (
            <div key={name} className="contents">
              <dt className="text-soft">{name.replaceAll("_", " ")}</dt>
              <dd>{by}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}

const STATES: Record<ProviderReport["state"], { tone: Tone; word: string }> = {
  answers: { tone: "good", word: "answers" },
  fails: { tone: "bad", word: "fails" },
  no_key: { tone: "plain", word: "no key" },
  not_tried: { tone: "plain", word: "not tried" },
};

function Row({ provider, used }: { provider: ProviderReport; used: boolean }) {
  const { tone, word } = STATES[provider.state];
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5 text-sm">
      <span className="w-28 font-medium">{provider.provider}</span>
      <span className="min-w-0 flex-1 truncate text-soft">{provider.model}</span>
      {used && <Badge tone="accent">in use</Badge>}
      <Badge tone={tone}>{word}</Badge>
      <span className="w-full text-xs text-soft sm:w-auto">{provider.detail}</span>
    </li>
  );
}

/** Sandboxes that stay for a while. */
function Staying() {
  const { value, problem, again } = useAsked(at("/api/sandboxes", {}));
  const { doing, problem: refused, perform } = useDoing();
  return (
    <section aria-labelledby="staying" className="grid gap-3">
      <Heading id="staying">Sandboxes that stay for a while</Heading>
      {(problem ?? refused) && <Said problem={(problem ?? refused)!} />}
      {value?.sandboxes.length === 0 && (
        <Empty title="There are none">
          <code className="font-mono">assize sandbox create NAME</code> makes one, and so do debates while they last.
        </Empty>
      )}
      <ul className="divide-y divide-line rounded-lg border border-line bg-raised empty:hidden">
        {value?.sandboxes.map((one) => (
          <li key={`${one.run ?? ""}/${one.name}`} className="flex items-center gap-3 px-4 py-2 text-sm">
            <span className="font-mono">{one.name}</span>
            <Badge>{one.isolation}</Badge>
            {one.run && (
              <Link href={`/runs/${one.run}`} className="truncate text-xs text-accent underline">
                {one.run}
              </Link>
            )}
            <span className="flex-1" />
            <Button
              look="danger"
              disabled={doing}
              aria-label={`Remove ${one.name}`}
              onClick={() =>
                void perform(async () => {
                  await remove("/api/sandboxes/{sandbox}", { sandbox: one.name }, one.run === null ? {} : { run: one.run });
                  again();
                })
              }
            >
              <Trash2 aria-hidden className="size-4" />
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
