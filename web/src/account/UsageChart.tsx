// Tokens by day and model as bars; the table beside it has the numbers.
import type { UsageReport } from "@citewire/client";

import { day, number, words } from "../words";

type Row = UsageReport["rows"][number];
const [WIDTH, HEIGHT, GAP] = [600, 140, 0.25];
/** Number of models with their own colour; the others share the last one. */
const COLOURS = 5;
const DAYS = 30;

export function UsageChart({ rows }: { rows: Row[] }) {
  const days = lastDays(DAYS);
  const models = modelsOf(rows);
  const most = Math.max(1, ...days.map((date) => sum(rows.filter((row) => row.day === date))));
  const step = WIDTH / days.length;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={words.value.usageChart(number(most))} preserveAspectRatio="none">
        {days.map((date, at) => {
          let top = HEIGHT;
          return models.map((model, colour) => {
            const tokens = sum(rows.filter((row) => row.day === date && row.model === model));
            const height = (HEIGHT * tokens) / most;
            top -= height;
            return tokens > 0 && (
              <rect key={`${date} ${model}`} class={colourOf(colour)} x={(at + GAP / 2) * step} y={top} width={(1 - GAP) * step} height={height}>
                <title>{`${day(date)}, ${model}: ${words.value.tokens(number(tokens))}`}</title>
              </rect>
            );
          });
        })}
      </svg>
      <p class="row chart-days"><span>{day(days[0]!)}</span><span class="fill" /><span>{day(days.at(-1)!)}</span></p>
      <figcaption>
        <ul class="legend">
          {models.map((model, colour) => <li key={model}><span class={`swatch ${colourOf(colour)}`} aria-hidden="true" /><span dir="auto">{model}</span></li>)}
        </ul>
      </figcaption>
    </figure>
  );
}

export function tokensOf(row: Row): number {
  return (row.input_tokens ?? 0) + (row.output_tokens ?? 0);
}

function sum(rows: Row[]): number {
  return rows.reduce((total, row) => total + tokensOf(row), 0);
}

/** Models by spending, highest first. */
function modelsOf(rows: Row[]): string[] {
  const names = [...new Set(rows.map((row) => row.model ?? ""))];
  const spent = new Map(names.map((name) => [name, sum(rows.filter((row) => row.model === name))]));
  return names.sort((one, other) => spent.get(other)! - spent.get(one)!);
}

function colourOf(place: number): string {
  return `series-${Math.min(place, COLOURS)}`;
}

/** Days as in the report (UTC), oldest first. */
function lastDays(count: number): string[] {
  const today = Date.now();
  return Array.from({ length: count }, (_, at) => new Date(today - (count - 1 - at) * 86_400_000).toISOString().slice(0, 10));
}
