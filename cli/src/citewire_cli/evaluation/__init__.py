"""`citewire eval`: retrieval quality through the running services, on any data set in BEIR form."""

from citewire_cli.evaluation.beir import BeirDataset, DatasetError
from citewire_cli.evaluation.run import EvaluationError, EvaluationResult, evaluate

__all__ = ["BeirDataset", "DatasetError", "EvaluationError", "EvaluationResult", "evaluate"]
