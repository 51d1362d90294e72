"""The base of all API models."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A body of the API. Unknown members from a newer gateway are kept in `model_extra`.

    A model's validator is built on first use: building all of them takes longer than most programs run.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, protected_namespaces=())
