// Button that switches the colour scheme of the page: as in the system, light or dark.

import { Monitor, Moon, Sun } from "lucide-react";
import { useEffect, useState } from "react";

import { Button } from "./ui";

const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const ICONS = { system: Monitor, light: Sun, dark: Moon } as const;

function storedChoice(): Choice {
  const stored = localStorage.getItem("scheme");
  return CHOICES.find((choice) => choice === stored) ?? "system";
}

export function ColorSchemeButton() {
  const [choice, setChoice] = useState<Choice>(storedChoice);
  useEffect(() => {
    const root = document.documentElement;
    if (choice === "system") delete root.dataset.scheme;
    else root.dataset.scheme = choice;
    localStorage.setItem("scheme", choice);
  }, [choice]);
  const Icon = ICONS[choice];
  const next = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] ?? "system";
  return (
    <Button variant="quiet" onClick={() => setChoice(next)} aria-label={`Colour scheme: ${choice}. Switch to ${next}.`} title={`Colour scheme: ${choice}`}>
      <Icon aria-hidden className="size-4" />
    </Button>
  );
}
