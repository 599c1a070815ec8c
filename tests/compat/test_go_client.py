"""Apache's Go client on our broker."""

from __future__ import annotations

from .clients import GO
from .contract import ClientContract


class TestGo(ClientContract):
    client = GO
