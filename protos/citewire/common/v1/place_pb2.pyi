from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Place(_message.Message):
    __slots__ = ("page", "row", "start_line", "end_line", "slide", "sheet", "cell_range", "cell", "record_path", "start_seconds", "end_seconds", "part", "end_row", "boxes")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    START_LINE_FIELD_NUMBER: _ClassVar[int]
    END_LINE_FIELD_NUMBER: _ClassVar[int]
    SLIDE_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    CELL_RANGE_FIELD_NUMBER: _ClassVar[int]
    CELL_FIELD_NUMBER: _ClassVar[int]
    RECORD_PATH_FIELD_NUMBER: _ClassVar[int]
    START_SECONDS_FIELD_NUMBER: _ClassVar[int]
    END_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    END_ROW_FIELD_NUMBER: _ClassVar[int]
    BOXES_FIELD_NUMBER: _ClassVar[int]
    page: int
    row: int
    start_line: int
    end_line: int
    slide: int
    sheet: str
    cell_range: str
    cell: int
    record_path: str
    start_seconds: float
    end_seconds: float
    part: str
    end_row: int
    boxes: PageBoxes
    def __init__(self, page: _Optional[int] = ..., row: _Optional[int] = ..., start_line: _Optional[int] = ..., end_line: _Optional[int] = ..., slide: _Optional[int] = ..., sheet: _Optional[str] = ..., cell_range: _Optional[str] = ..., cell: _Optional[int] = ..., record_path: _Optional[str] = ..., start_seconds: _Optional[float] = ..., end_seconds: _Optional[float] = ..., part: _Optional[str] = ..., end_row: _Optional[int] = ..., boxes: _Optional[_Union[PageBoxes, _Mapping]] = ...) -> None: ...

class PageBoxes(_message.Message):
    __slots__ = ("width", "height", "boxes")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    BOXES_FIELD_NUMBER: _ClassVar[int]
    width: float
    height: float
    boxes: _containers.RepeatedCompositeFieldContainer[Box]
    def __init__(self, width: _Optional[float] = ..., height: _Optional[float] = ..., boxes: _Optional[_Iterable[_Union[Box, _Mapping]]] = ...) -> None: ...

class Box(_message.Message):
    __slots__ = ("left", "top", "right", "bottom")
    LEFT_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    BOTTOM_FIELD_NUMBER: _ClassVar[int]
    left: float
    top: float
    right: float
    bottom: float
    def __init__(self, left: _Optional[float] = ..., top: _Optional[float] = ..., right: _Optional[float] = ..., bottom: _Optional[float] = ...) -> None: ...
