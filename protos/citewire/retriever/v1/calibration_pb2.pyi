import datetime

from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Calibration(_message.Message):
    __slots__ = ("relevance_threshold", "answerable_threshold", "dense_weight", "measured_at", "report", "off_topic_threshold")
    RELEVANCE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    ANSWERABLE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DENSE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MEASURED_AT_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    OFF_TOPIC_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    relevance_threshold: float
    answerable_threshold: float
    dense_weight: float
    measured_at: _timestamp_pb2.Timestamp
    report: _struct_pb2.Struct
    off_topic_threshold: float
    def __init__(self, relevance_threshold: _Optional[float] = ..., answerable_threshold: _Optional[float] = ..., dense_weight: _Optional[float] = ..., measured_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., report: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., off_topic_threshold: _Optional[float] = ...) -> None: ...

class SpaceScale(_message.Message):
    __slots__ = ("unrelated", "deviation", "related")
    UNRELATED_FIELD_NUMBER: _ClassVar[int]
    DEVIATION_FIELD_NUMBER: _ClassVar[int]
    RELATED_FIELD_NUMBER: _ClassVar[int]
    unrelated: float
    deviation: float
    related: float
    def __init__(self, unrelated: _Optional[float] = ..., deviation: _Optional[float] = ..., related: _Optional[float] = ...) -> None: ...
