"""Data sets with questions, judgements and answers, in the forms that the field uses."""

from citewire_cli.evaluation.datasets.detect import read_dataset, read_datasets
from citewire_cli.evaluation.datasets.model import Dataset, DatasetError, Document, Question, Span, sampled

__all__ = ["Dataset", "DatasetError", "Document", "Question", "Span", "read_dataset", "read_datasets", "sampled"]
