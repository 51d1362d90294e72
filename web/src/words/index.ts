// The page's language, and its formats for numbers and dates.
import { computed, signal } from "@preact/signals";

import { remember, remembered } from "../storage";
import { de } from "./de";
import { en, type Words } from "./en";

export const LANGUAGES = { en, de } as const satisfies Record<string, Words>;
export type Language = keyof typeof LANGUAGES;

function preferred(): Language {
  const names = [remembered("language"), ...navigator.languages.map((tag) => tag.slice(0, 2))];
  return names.find((name): name is Language => name !== null && name in LANGUAGES) ?? "en";
}

export const language = signal<Language>(preferred());
export const words = computed<Words>(() => LANGUAGES[language.value]);

export function chooseLanguage(name: Language): void {
  language.value = name;
  remember("language", name);
}

export function number(value: number): string {
  return new Intl.NumberFormat(language.value).format(value);
}

export function money(usd: number): string {
  const digits = usd === 0 || usd >= 1 ? 2 : 4;
  return new Intl.NumberFormat(language.value, {
    style: "currency", currency: "USD", minimumFractionDigits: digits, maximumFractionDigits: digits,
  }).format(usd);
}

export function day(text: string): string {
  return new Intl.DateTimeFormat(language.value, { dateStyle: "medium" }).format(new Date(text));
}

/** 1.5K and so on from a thousand; smaller numbers unchanged. */
export function shortCount(value: number): string {
  if (value < 1000) return String(value);
  return `${(value / 1000).toFixed(1).replace(/\.0$/, "")}K`;
}

export function size(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${number(Number((bytes / 1000 ** step).toFixed(step === 0 ? 0 : 1)))} ${units[step]}`;
}
