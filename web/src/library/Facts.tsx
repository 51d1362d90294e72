// The details of a document in one line.

/** Each has its own text direction and doesn't affect its neighbours'; empty ones are left out. */
export function Facts({ facts }: { facts: string[] }) {
  return <>{facts.filter(Boolean).map((fact, at) => <>{at > 0 && " · "}<bdi>{fact}</bdi></>)}</>;
}
