"""Fast decoding of the JSON headers of frequent requests: 10, 310, 320, 11, 361, 37.

The general way (`command.decode`, then `decode_header`) makes a dict of texts first. Here the whole
header is decoded into one typed value, measured at 0.45-0.5 us instead of 1.7 us. For any unusual
header the result is None, and the caller uses the general way.

Both ways accept the texts "1e3" and "1.0" as whole numbers, which Java refuses. No client writes
numbers in this way, and the ranges are checked. A search for such texts (0.5 us) would double the
cost.
"""

from typing import ClassVar

import msgspec

from epochmq.base.ports import Buffer
from epochmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE
from epochmq.wire.header import I32, I64
from epochmq.wire.headers.send_headers import V2_KEYS, EndTransactionHeader


class SendFields(msgspec.Struct, gc=False):
    """The fields of a send, as `SendHeader`; a missing field has its default value."""

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: I32
    queueId: I32
    sysFlag: I32
    bornTimestamp: I64
    flag: I32
    properties: str = ""
    reconsumeTimes: I32 = 0
    maxReconsumeTimes: I32 | None = None
    batch: bool = False


class ShortSendFields(msgspec.Struct, rename=V2_KEYS, gc=False):
    """The fields of a send under one-letter keys (msgspec does not rename inherited fields)."""

    producerGroup: str
    topic: str
    defaultTopic: str
    defaultTopicQueueNums: I32
    queueId: I32
    sysFlag: I32
    bornTimestamp: I64
    flag: I32
    properties: str = ""
    reconsumeTimes: I32 = 0
    maxReconsumeTimes: I32 | None = None
    batch: bool = False


class PullFields(msgspec.Struct, gc=False):
    """The fields of a pull, as `PullHeader`."""

    consumerGroup: str
    topic: str
    queueId: I32
    queueOffset: I64
    maxMsgNums: I32
    sysFlag: I32
    commitOffset: I64
    suspendTimeoutMillis: I64
    subVersion: I64 = 0
    subscription: str | None = None
    expressionType: str | None = None


class EndFields(msgspec.Struct, gc=False):
    """The fields of the end of a transaction, as `EndTransactionHeader`."""

    producerGroup: str
    tranStateTableOffset: I64
    commitLogOffset: I64
    commitOrRollback: I32
    msgId: str
    fromTransactionCheck: bool = False
    transactionId: str | None = None


AnyEnd = EndTransactionHeader | EndFields


class _Envelope(msgspec.Struct, gc=False, tag_field="code"):
    """The fields of the header itself; msgspec chooses the class by `code`."""

    opaque: I32
    flag: I32 = 0
    version: I32 = 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & FLAG_ONEWAY != 0


class LongSendEnvelope(_Envelope, gc=False, tag=10, kw_only=True):
    """SEND_MESSAGE 10."""

    code: ClassVar[int] = 10
    extFields: SendFields


class ShortSendEnvelope(_Envelope, gc=False, tag=310, kw_only=True):
    """SEND_MESSAGE_V2 310."""

    code: ClassVar[int] = 310
    extFields: ShortSendFields


class BatchEnvelope(_Envelope, gc=False, tag=320, kw_only=True):
    """SEND_BATCH_MESSAGE 320."""

    code: ClassVar[int] = 320
    extFields: ShortSendFields


class PullEnvelope(_Envelope, gc=False, tag=11, kw_only=True):
    """PULL_MESSAGE 11."""

    code: ClassVar[int] = 11
    extFields: PullFields


class LitePullEnvelope(_Envelope, gc=False, tag=361, kw_only=True):
    """LITE_PULL_MESSAGE 361."""

    code: ClassVar[int] = 361
    extFields: PullFields


class EndEnvelope(_Envelope, gc=False, tag=37, kw_only=True):
    """END_TRANSACTION 37."""

    code: ClassVar[int] = 37
    extFields: EndFields


SendEnvelope = LongSendEnvelope | ShortSendEnvelope | BatchEnvelope
AnyPullEnvelope = PullEnvelope | LitePullEnvelope
HotEnvelope = SendEnvelope | AnyPullEnvelope | EndEnvelope

_decode_hot = msgspec.json.Decoder[HotEnvelope](HotEnvelope, strict=False).decode
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


def decode_hot(header: Buffer) -> HotEnvelope | None:
    """Decode the JSON header of a frequent request; None means that the general way
    must be used.
    """
    try:
        envelope = _decode_hot(header)
    except _REFUSALS:
        return None
    return None if envelope.flag & FLAG_RESPONSE else envelope
