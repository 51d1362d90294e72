from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Place(_message.Message):
    __slots__ = ("page", "row", "start_line", "end_line")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    START_LINE_FIELD_NUMBER: _ClassVar[int]
    END_LINE_FIELD_NUMBER: _ClassVar[int]
    page: int
    row: int
    start_line: int
    end_line: int
    def __init__(self, page: _Optional[int] = ..., row: _Optional[int] = ..., start_line: _Optional[int] = ..., end_line: _Optional[int] = ...) -> None: ...
