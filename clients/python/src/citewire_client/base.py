"""The base of all API models."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A body of the API. A newer gateway may send more: such members are kept, and read by `model_extra`.

    A model's validator is built when it is first needed: building all takes longer than most programs run.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, protected_namespaces=())
