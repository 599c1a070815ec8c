"""Answers to frequent requests, formatted from templates; same bytes as `command.encode_reply`.

Formatting bytes by `%` is measured at 0.31 us.
"""

from functools import lru_cache

import msgspec

from epochmq.base.limits import TRANSACTION_ID_LENGTH_MAX
from epochmq.wire.codes import OUR_LANGUAGE, OUR_VERSION
from epochmq.wire.command import FLAG_RESPONSE, Command, encode_frame
from epochmq.wire.frame import PREFIX
from epochmq.wire.header import encode_header
from epochmq.wire.headers.send_headers import SendResponseHeader

_LENGTH_BYTES = 4
_quote = msgspec.json.encode
_pack = PREFIX.pack


def _literal(text: bytes) -> bytes:
    """Return `text` escaped for use in a `%` template."""
    return text.replace(b"%", b"%%")


def _tail(language: str, version: int, remark: bytes) -> bytes:
    parts = (FLAG_RESPONSE, _literal(_quote(language)), remark, version)
    return (
        b'"flag":%d,"language":%b,"opaque":%%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
        % parts
    )


@lru_cache(maxsize=64)
def _remark(text: str | None) -> bytes:
    return b"" if text is None else b'"remark":%b,' % _quote(text)


class HotReplies:
    """Templates of one broker, for a fixed language, version, region and trace switch."""

    __slots__ = ("_language", "_pull", "_region", "_send", "_send_keyless", "_trace", "_version")

    def __init__(
        self,
        language: str = OUR_LANGUAGE,
        version: int = OUR_VERSION,
        region: str = "DefaultRegion",
        trace_on: bool = True,
    ) -> None:
        self._language = language
        self._version = version
        self._region = region
        self._trace = "true" if trace_on else "false"
        self._send = (
            b'{"code":0,"extFields":{"msgId":"%%b","queueId":"%%d","queueOffset":"%%d",'
            b'"transactionId":"%%b","MSG_REGION":%b,"TRACE_ON":"%b"},%b'
            % (
                _literal(_quote(region)),
                self._trace.encode(),
                _tail(language, version, b""),
            )
        )
        self._send_keyless = self._send.replace(b'"transactionId":"%b",', b"")
        self._pull = (
            b'{"code":%%d,"extFields":{"suggestWhichBrokerId":"%%d","nextBeginOffset":"%%d",'
            b'"minOffset":"%%d","maxOffset":"%%d"%%b},%b' % _tail(language, version, b"%b")
        )

    def send_parts(self) -> tuple[bytes, bytes]:
        """Return the constant parts of `send_reply`: from transaction id to opaque, and behind the
        opaque.
        """
        _, _, rest = self._send.partition(b'"transactionId":"%b')
        middle, mark, end = rest.rpartition(b'"opaque":%d')
        return middle % () + mark.removesuffix(b"%d"), end % ()

    def send_reply(
        self,
        opaque: int,
        msg_id: bytes,
        queue_id: int,
        queue_offset: int,
        transaction_id: bytes | None,
    ) -> bytes:
        """Return the whole frame that answers a send with "stored" (code 0).

        Args:
            opaque: the opaque of the request.
            msg_id: the offset message id, in hexadecimal.
            queue_id: the queue that holds the message.
            queue_offset: the queue offset of the message.
            transaction_id: the UNIQ_KEY of the client; None leaves it out. If it has other
                characters than letters and digits, the general encoder is used.
        """
        if transaction_id is None:
            header = self._send_keyless % (msg_id, queue_id, queue_offset, opaque)
        elif transaction_id.isalnum():
            header = self._send % (msg_id, queue_id, queue_offset, transaction_id, opaque)
        else:
            return self._unusual(opaque, msg_id, queue_id, queue_offset, transaction_id)
        size = len(header)
        return _pack(_LENGTH_BYTES + size, size) + header

    def pull_reply_head(
        self,
        opaque: int,
        code: int,
        remark: str | None,
        suggested_broker: int,
        next_offset: int,
        min_offset: int,
        max_offset: int,
        body_size: int = 0,
        topic_sys_flag: int | None = None,
        group_sys_flag: int | None = None,
    ) -> bytes:
        """Return the frame that answers a pull, up to its body of `body_size` bytes."""
        more = b""
        if topic_sys_flag is not None:
            more += b',"topicSysFlag":"%d"' % topic_sys_flag
        if group_sys_flag is not None:
            more += b',"groupSysFlag":"%d"' % group_sys_flag
        header = self._pull % (
            code,
            suggested_broker,
            next_offset,
            min_offset,
            max_offset,
            more,
            opaque,
            _remark(remark),
        )
        size = len(header)
        return _pack(_LENGTH_BYTES + size + body_size, size) + header

    def pull_found_parts(self) -> list[bytes]:
        """Return the constant parts of the header that `pull_reply_head` makes for found messages.

        Between them are: suggested broker, next, minimum and maximum offset, both system flags, and
        the opaque.
        """
        mark = -(1 << 31)
        frame = self.pull_reply_head(mark, 0, "FOUND", mark, mark, mark, mark, 0, mark, mark)
        return frame[PREFIX.size :].split(b"%d" % mark)

    def _unusual(
        self, opaque: int, msg_id: bytes, queue_id: int, queue_offset: int, transaction_id: bytes
    ) -> bytes:
        header = SendResponseHeader(
            msg_id.decode(),
            queue_id,
            queue_offset,
            transaction_id.decode("utf-8", "replace")[:TRANSACTION_ID_LENGTH_MAX],
            MSG_REGION=self._region,
            TRACE_ON=self._trace,
        )
        return encode_frame(
            Command(
                0,
                language=self._language,
                version=self._version,
                opaque=opaque,
                flag=FLAG_RESPONSE,
                ext=encode_header(header),
            )
        )
