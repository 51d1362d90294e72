"""The live embedding space, and the calibration that is stored with it."""

from dataclasses import dataclass

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.evaluation.calibration import THRESHOLDS, merged
from citewire_cli.evaluation.gateway import Gateway
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space.

    Attributes:
        named: `model`, `revision` and `dimensions`, as the API names it.
        calibration: What it has now; empty if nothing.
    """

    named: JsonObject
    calibration: JsonObject


async def live_space(gateway: Gateway) -> Space | None:
    """The space that searches use; None where nothing has been embedded yet."""
    body = await gateway.call("GET", "/v1/spaces")
    for space in get_objects(body, "spaces"):
        if get_str(space, "role") == "live":
            named: JsonObject = {"model": get_str(space, "model"), "revision": get_str(space, "revision")}
            named["dimensions"] = get_int(space, "dimensions")
            return Space(named, get_object(space, "calibration"))
    return None


async def store_calibration(gateway: Gateway, space: Space | None, derived: JsonObject, *, dry_run: bool) -> str:
    """Stores what was derived with the live space; what wasn't derived keeps an earlier measurement's value.

    Returns:
        One sentence that says what became of it.

    Raises:
        CliError: The gateway refused; changing thresholds takes an owner's or admin's key.
    """
    if space is None:
        raise CliError("There is no live embedding space", "Nothing in this library has been embedded.")
    name = get_str(space.named, "model")
    body = merged(derived, space.calibration)
    values = [threshold for threshold in THRESHOLDS if threshold in body]
    if not any(threshold in derived for threshold in THRESHOLDS):
        return "Nothing was derived, so nothing was stored."
    if dry_run:
        return f"Not stored (--dry-run): {', '.join(values)} of {name}."
    try:
        await gateway.call("PUT", "/v1/spaces/calibration", body={"space": space.named, "calibration": body})
    except CliError as error:
        if error.code is ExitCode.UNAUTHORISED:
            error.detail = f"{error.detail} Thresholds are changed by an owner or admin; --dry-run only prints."
        raise
    return f"Stored with {name}: {', '.join(values)}."
