"""Decodes the records in the answer to a pull, all in one native call if that code is compiled."""

from ctypes import byref, c_int64

from epochmq.base.ports import Buffer
from epochmq.model import record
from epochmq.model.host import unpack
from epochmq.model.message import StoredMessage
from epochmq.native import library


def decode_messages(data: Buffer) -> list[StoredMessage]:
    """Return the messages of consecutive records.

    Raises:
        RecordError: a record is not complete or contradicts itself.
    """
    native = library.library()
    if native is None:
        return record.decode_all(data)
    end = c_int64()
    found: list[StoredMessage] = native.messages(data, StoredMessage, unpack, byref(end))
    if end.value < len(data):  # a record that the native code does not know, or an error
        found += record.decode_all(data, end.value)
    return found
