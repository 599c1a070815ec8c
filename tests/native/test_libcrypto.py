"""The hash functions of libcrypto that the native code calls."""

import ctypes
import hashlib

import pytest

from epochmq.native import libcrypto
from epochmq.native.libcrypto import HASH_FUNCTIONS, hash_functions


def test_they_hash() -> None:
    functions = hash_functions()
    if functions is None:
        pytest.skip("this system has no libcrypto; signatures are checked by Python here")
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
    update = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
    by_name = dict(zip(HASH_FUNCTIONS, functions, strict=True))
    for name, size in (("SHA1", 20), ("SHA256", 32)):
        state = ctypes.create_string_buffer(128)  # as HASH_STATE of native/signatures.h
        digest = ctypes.create_string_buffer(size)
        call(by_name[f"{name}_Init"])(state)
        update(by_name[f"{name}_Update"])(state, b"abc", 3)
        final(by_name[f"{name}_Final"])(digest, state)
        assert digest.raw == hashlib.new(name, b"abc").digest()


def test_without_libcrypto_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libcrypto, "_NAMES", ("libnothing.so.9", "libc.so.6"))
    hash_functions.cache_clear()
    try:
        assert hash_functions() is None
    finally:
        hash_functions.cache_clear()
