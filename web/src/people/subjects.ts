// Subjects of access, as in the API: `user:ID`, `group:NAME` or `everyone`.

export type Kind = "user" | "group" | "everyone";

export interface Entry {
  subject: string;
  access: "read" | "write" | "manage";
}

export function kindOf(subject: string): Kind {
  return subject.startsWith("user:") ? "user" : subject.startsWith("group:") ? "group" : "everyone";
}

export function nameOf(subject: string): string {
  return subject.slice(subject.indexOf(":") + 1);
}

export function subjectOf(kind: Kind, name: string): string {
  return kind === "everyone" ? kind : `${kind}:${name.trim()}`;
}

export interface Sharing {
  users: string[];
  groups: string[];
  organisation: boolean;
}

export function fromSharing({ users, groups, organisation }: Sharing): Entry[] {
  const subjects = [...(organisation ? ["everyone"] : []), ...groups.map((name) => `group:${name}`), ...users.map((name) => `user:${name}`)];
  return subjects.map((subject) => ({ subject, access: "read" }));
}

export function toSharing(entries: Entry[]): Sharing {
  const named = (kind: Kind) => entries.filter(({ subject }) => kindOf(subject) === kind).map(({ subject }) => nameOf(subject));
  return { users: named("user"), groups: named("group"), organisation: named("everyone").length > 0 };
}
