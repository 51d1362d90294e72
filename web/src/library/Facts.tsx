// What is known of a document, in one line.

/** Each is read in its own direction and turns none beside it; empty ones are left out. */
export function Facts({ facts }: { facts: string[] }) {
  return <>{facts.filter(Boolean).map((fact, at) => <>{at > 0 && " · "}<bdi>{fact}</bdi></>)}</>;
}
