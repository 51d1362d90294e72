import { type RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Gives a field the focus when it appears. */
export function useFocus<E extends HTMLElement>(isShown: boolean): RefObject<E | null> {
  const field = useRef<E>(null);
  useEffect(() => {
    if (isShown) field.current?.focus();
  }, [isShown]);
  return field;
}
