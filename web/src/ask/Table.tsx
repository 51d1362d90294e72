// A table; the parts of a long one that are out of view aren't laid out.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/**
 * A browser lays out all rows of a table again for each row added. So the columns of a long table keep the width of its first
 * rows, and each part of it is a separate box.
 */
export function Table({ head, bodies, isLong }: { head: ComponentChildren; bodies: ComponentChildren[]; isLong: boolean }) {
  const table = useRef<HTMLTableElement>(null);
  const [columns, setColumns] = useState<string | null>(null);
  useLayoutEffect(() => {
    if (isLong) setColumns(widths(table.current!));
  }, [isLong]);
  const isFixed = isLong && columns !== null;
  return (
    <div class="table" tabIndex={0} role="group">
      <table ref={table} class={isFixed ? "long" : undefined} role={isLong ? "table" : undefined} style={isFixed ? { "--columns": columns } : undefined}>
        <thead role={isLong ? "rowgroup" : undefined}>{head}</thead>
        {isLong && !isFixed ? bodies[0] : bodies}
      </table>
    </div>
  );
}

/** Relative to the text size, which a reader may change. */
function widths(table: HTMLTableElement): string {
  const size = parseFloat(getComputedStyle(table).fontSize);
  return [...table.rows[0]!.cells].map((cell) => `${(cell.getBoundingClientRect().width / size).toFixed(3)}em`).join(" ");
}
