"""Frames of load generators in Python: headers as bytes to fill in, so that the load stays cheap.

A client that encodes every header again takes more CPU than the broker that it measures.
"""


def header(code: int, fields: str, *, flag: int = 0) -> bytes:
    """The JSON header of a request; `fields` is `ext_fields`, JSON text with `%` marks.

    Its last mark is the opaque, which the header adds.
    """
    text = (
        f'{{"code":{code},"extFields":{{{fields}}},"flag":{flag},"language":"JAVA",'
        f'"opaque":%d,"serializeTypeCurrentRPC":"JSON","version":413}}'
    )
    return text.encode()


def framed(head: bytes, body: bytes = b"") -> bytes:
    """The whole frame."""
    size = len(head)
    return (4 + size + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + head + body


def frames(data: bytearray) -> list[bytes]:
    """The whole frames without their length, taken out of `data`."""
    out, at = [], 0
    while len(data) - at >= 4:
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if len(data) < end:
            break
        out.append(bytes(data[at + 4 : end]))
        at = end
    del data[:at]
    return out
