"""Alibaba's JavaScript client on our broker."""

from __future__ import annotations

from .clients import NODE
from .contract import ClientContract


class TestNode(ClientContract):
    client = NODE
