"""Upstream's Java client, a 5.x and a 4.9 release, on our broker."""

from __future__ import annotations

from .clients import JAVA_4, JAVA_5
from .contract import ClientContract


class TestJava5(ClientContract):
    client = JAVA_5


class TestJava4(ClientContract):
    client = JAVA_4
