"""When a ferry can berth at Brannoy: the pier falls dry at low water, so sailings follow the tide."""

from dataclasses import dataclass
from datetime import datetime, timedelta

SAFETY_MARGIN_METRES = 0.6
"""Water that must stay below the keel; the harbour authority asks for half a metre."""

MAX_WIND_METRES_PER_SECOND = 17.5
"""Above this wind no ship berths at Brannoy, whatever the tide; it goes to Kestrel Point instead."""


@dataclass(frozen=True)
class Ship:
    """A ship as the berth sees it."""

    name: str
    draught_metres: float
    bow_thruster: bool


@dataclass(frozen=True)
class TidePoint:
    """The depth of water at the pier at one moment."""

    at: datetime
    depth_metres: float


FLEET = (
    Ship("Solvei", draught_metres=3.1, bow_thruster=True),
    Ship("Havorn", draught_metres=2.7, bow_thruster=True),
    Ship("Lille Tern", draught_metres=1.9, bow_thruster=False),
)


def required_depth(ship: Ship) -> float:
    """The depth that a ship needs at the pier: its draught and the safety margin."""
    return ship.draught_metres + SAFETY_MARGIN_METRES


def can_berth(ship: Ship, depth_metres: float, wind_metres_per_second: float) -> bool:
    """Whether a ship may berth now.

    Ships without a bow thruster stay away from 12 metres per second on: the pier lies across the south-westerly.
    """
    if wind_metres_per_second > MAX_WIND_METRES_PER_SECOND:
        return False
    if not ship.bow_thruster and wind_metres_per_second >= 12.0:
        return False
    return depth_metres >= required_depth(ship)


def berth_windows(
    ship: Ship, tide: list[TidePoint], turnaround: timedelta = timedelta(minutes=25)
) -> list[tuple[datetime, datetime]]:
    """The times between which a ship can lie at the pier; windows shorter than a turnaround are left out.

    A turnaround at Brannoy takes 25 minutes: ten to unload, fifteen to load.
    """
    windows: list[tuple[datetime, datetime]] = []
    opened: datetime | None = None
    for point in tide:
        deep_enough = point.depth_metres >= required_depth(ship)
        if deep_enough and opened is None:
            opened = point.at
        elif not deep_enough and opened is not None:
            if point.at - opened >= turnaround:
                windows.append((opened, point.at))
            opened = None
    if opened is not None and tide[-1].at - opened >= turnaround:
        windows.append((opened, tide[-1].at))
    return windows
