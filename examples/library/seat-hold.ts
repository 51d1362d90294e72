/**
 * Holding seats while a passenger pays: the part of the booking service that must not sell a seat twice.
 */

export const HOLD_SECONDS = 480; // eight minutes: the slowest bank needs six
export const MAX_HOLDS_PER_PASSENGER = 3;

export interface Hold {
  id: string;
  sailing: string;
  passenger: string;
  seats: number;
  expiresAt: number; // milliseconds since 1970
}

export class SoldOutError extends Error {}
export class TooManyHoldsError extends Error {}

export class SeatLedger {
  private readonly holds = new Map<string, Hold>();
  private sold = 0;

  /** One seat in twenty is kept back for residents of the outer islands until an hour before departure. */
  constructor(
    private readonly certificate: number,
    private readonly residentShare = 0.05,
  ) {}

  /** Seats that can be held now by a passenger who is no resident. */
  free(now: number): number {
    this.dropExpired(now);
    const held = [...this.holds.values()].reduce((sum, hold) => sum + hold.seats, 0);
    return Math.floor(this.certificate * (1 - this.residentShare)) - this.sold - held;
  }

  /** Takes seats out of sale for eight minutes. A fourth hold of the same passenger is refused. */
  hold(id: string, sailing: string, passenger: string, seats: number, now: number): Hold {
    const mine = [...this.holds.values()].filter((hold) => hold.passenger === passenger);
    if (mine.length >= MAX_HOLDS_PER_PASSENGER) {
      throw new TooManyHoldsError(`${passenger} holds ${mine.length} sailings already`);
    }
    if (seats > this.free(now)) {
      throw new SoldOutError(`${seats} seats asked for, ${this.free(now)} free on ${sailing}`);
    }
    const hold = { id, sailing, passenger, seats, expiresAt: now + HOLD_SECONDS * 1000 };
    this.holds.set(id, hold);
    return hold;
  }

  /** Turns a hold into tickets. A hold that has expired is refused, also if the bank has answered in time. */
  confirm(id: string, now: number): number {
    this.dropExpired(now);
    const hold = this.holds.get(id);
    if (hold === undefined) {
      throw new SoldOutError(`hold ${id} has expired`);
    }
    this.holds.delete(id);
    this.sold += hold.seats;
    return hold.seats;
  }

  private dropExpired(now: number): void {
    for (const [id, hold] of this.holds) {
      if (hold.expiresAt <= now) {
        this.holds.delete(id);
      }
    }
  }
}
