"""Makes descriptor sets of Protobuf schemas as a registry has them.

Confluent's registry gives a schema as a descriptor in base 64 if it is asked to
(`format=serialized`). Others, such as Apicurio's, give the source text, which `protoc` of the
package grpcio-tools compiles in a process of its own: it reads a stranger's text.
"""

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochmq.base.needs import need

MAIN = "registered-schema.proto"
"""Name of the file of the schema itself; it is the last file of a set."""
COMPILE_S = 60.0
NAME_LENGTH_MAX = 250
_ERROR_LENGTH_MAX = 500
_LOG_LINE = re.compile(r"WARNING: All log messages before |[IW]\d{4} ")
_FILE_NAME = re.compile(r"(?:[\w.-]+/)*[\w.-]+")


def descriptor_set(text: str, referenced: Mapping[str, str]) -> str:
    """Return a schema and those that it imports as a descriptor set in base 64.

    Args:
        text: the schema: a descriptor of a file in base 64, or source text.
        referenced: the texts of all schemas that it imports, directly or not, by the name under
            which they are imported.

    Raises:
        ValueError: the schemas are not Protobuf, or an imported one is missing.
        EnvironmentFault: there is source text, and grpcio-tools is not installed.
    """
    for name in referenced:
        _check_name(name)
    texts = {**referenced, MAIN: text}
    files = {name: _descriptor(name, given) for name, given in texts.items()}
    if all(file is None for file in files.values()):
        return base64.b64encode(_compiled(texts)).decode()
    found = need("google.protobuf.descriptor_pb2", "typed").FileDescriptorSet()
    for name, file in files.items():
        if file is None:
            raise ValueError(f"{name} is source text, and other parts of the schema are not")
        found.file.append(file)
    return base64.b64encode(found.SerializeToString()).decode()


def messages_by_index(encoded: str) -> dict[tuple[int, ...], str]:
    """Return the full names of all messages of the last file of a descriptor set in base 64.

    The keys are the indexes that Confluent's serializers write before a body: of a message in the
    file, then of a message nested in it, and so on.
    """
    files = need("google.protobuf.descriptor_pb2", "typed").FileDescriptorSet()
    files.ParseFromString(base64.b64decode(encoded))
    main = files.file[-1]
    found: dict[tuple[int, ...], str] = {}

    def add(prefix: str, indexes: tuple[int, ...], messages: Any) -> None:
        for index, message in enumerate(messages):
            name = f"{prefix}{message.name}"
            found[*indexes, index] = name
            add(f"{name}.", (*indexes, index), message.nested_type)

    add(f"{main.package}." if main.package else "", (), main.message_type)
    return found


def _check_name(name: str) -> None:
    """Raise `ValueError` for a name that is no relative path of a file below a directory."""
    is_path = len(name) <= NAME_LENGTH_MAX and _FILE_NAME.fullmatch(name)
    if not is_path or ".." in name.split("/") or name == MAIN:
        raise ValueError(f"'{name[:NAME_LENGTH_MAX]}' is no name of a file to import")


def _descriptor(name: str, text: str) -> Any:
    """Return the descriptor of a file, under this name; None for source text."""
    if not text:
        return None  # an empty file is valid, and an empty descriptor looks the same
    file = need("google.protobuf.descriptor_pb2", "typed").FileDescriptorProto()
    decode_error = need("google.protobuf.message", "typed").DecodeError
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, decode_error):
        return None
    file.name = name
    return file


def _compiled(texts: Mapping[str, str]) -> bytes:
    """Return the descriptor set that `protoc` makes of source texts."""
    need("grpc_tools", "typed")
    with tempfile.TemporaryDirectory(prefix="epochmq-protoc-") as folder:
        root, out = Path(folder) / "src", Path(folder) / "set"
        root.mkdir()
        for name, text in texts.items():
            file = root / name
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise ValueError(
                    f"'{name}' is a file to import and a directory of others"
                ) from None
        argv = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports"]
        argv += [f"--descriptor_set_out={out}", MAIN]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=COMPILE_S, check=False)
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc did not end within {COMPILE_S:.0f} s") from None
        if done.returncode != 0:
            raise ValueError(f"protoc cannot compile it: {_errors(done.stderr, root)}")
        return out.read_bytes()


def _errors(said: bytes, root: Path) -> str:
    """Return the lines of errors that `protoc` wrote, without its log and our directory."""
    lines = said.decode(errors="replace").replace(f"{root}/", "").splitlines()
    return "\n".join(line for line in lines if not _LOG_LINE.match(line))[:_ERROR_LENGTH_MAX]
