// Light, dark, or as the machine has it.

import { Monitor, Moon, Sun } from "lucide-react";
import { useEffect, useState } from "react";

import { Button } from "./ui";

const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const ICONS = { system: Monitor, light: Sun, dark: Moon } as const;

function remembered(): Choice {
  const kept = localStorage.getItem("scheme");
  return CHOICES.find((choice) => choice === kept) ?? "system";
}

export function Scheme() {
  const [choice, setChoice] = useState<Choice>(remembered);
  useEffect(() => {
    const root = document.documentElement;
    if (choice === "system") delete root.dataset.scheme;
    else root.dataset.scheme = choice;
    localStorage.setItem("scheme", choice);
  }, [choice]);
  const Icon = ICONS[choice];
  const next = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] ?? "system";
  return (
    <Button look="quiet" onClick={() => setChoice(next)} aria-label={`Colours: ${choice}. Change to ${next}.`} title={`Colours: ${choice}`}>
      <Icon aria-hidden className="size-4" />
    </Button>
  );
}
