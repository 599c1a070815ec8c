"""What the two server commands share."""

from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from epochmq.admin import serving
from epochmq.admin.serving import Flags
from epochmq.base.errors import ConfigError, EnvironmentFault
from epochmq.base.options import load, option


@dataclass(frozen=True, kw_only=True)
class Options:
    listen_port: int = option(1, "Port.", low=1, high=65535)
    broker_name: str = option("", "Name.")
    password: str = option("", "Secret.", secret=True)
    log_file: str = option("", "Log.")
    audit_log_file: str = option("", "Audit log.")
    use_uvloop: bool = option(False, "Loop.")


def read(properties: dict[str, str], **kw: object) -> Options:
    ignored = ("rocketmqHome",)
    (found,) = load([Options], properties, ignored=ignored, **kw)  # type: ignore[arg-type]
    assert isinstance(found, Options)
    return found


def flags(**given: object) -> Flags:
    plain: dict[str, object] = {
        "config": None,
        "settings": (),
        "print_all": True,
        "print_important": False,
        "help_options": False,
        "log_level": None,
        "log_file": None,
        "log_format": None,
        "uvloop": None,
        "output": "table",
    }
    return Flags(**{**plain, **given})  # type: ignore[arg-type]


def test_settings_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text("brokerName=a\nlistenPort=5\n")
    given = flags(config=str(path), settings=("listenPort=6", "x = y=z"))
    assert serving.read_settings(given) == {"brokerName": "a", "listenPort": "6", "x": " y=z"}


@pytest.mark.parametrize("setting", ["listenPort", "=5", ""])
def test_a_setting_is_key_and_value(setting: str) -> None:
    with pytest.raises(click.UsageError, match="KEY=VALUE"):
        serving.read_settings(flags(settings=(setting,)))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none: No such file"):
        serving.read_file(str(tmp_path / "none"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        serving.read_file(str(binary))
    broken = tmp_path / "broken"
    broken.write_text("a=\\u12")
    with pytest.raises(ConfigError, match="broken: line 1"):
        serving.read_file(str(broken))


def test_a_log_file_that_cannot_be_names_its_option(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    file = str(tmp_path / "x" / "y")
    with pytest.raises(EnvironmentFault, match=f"^--log-file: cannot write {file}: "):
        serving.load(read, {}, flags(print_all=False, log_file=file))
    with pytest.raises(EnvironmentFault, match=f"^option 'logFile': cannot write {file}: "):
        serving.load(read, {"logFile": file}, flags(print_all=False))
    with pytest.raises(EnvironmentFault, match=f"^option 'auditLogFile': cannot write {file}: "):
        serving.load(read, {"auditLogFile": file}, flags(print_all=False))


def test_problems_name_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        serving.load(read, {"brokerNmae": "x", "listenPort": "0"}, flags(config="b.properties"))
    assert caught.value.problems == [
        "b.properties: unknown option 'brokerNmae' (did you mean 'brokerName'?)",
        "b.properties: option 'listenPort' must be between 1 and 65535, not '0'",
    ]


def test_what_has_no_effect_is_said(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    serving.load(read, {"rocketmqHome": "x"}, flags())
    assert "'rocketmqHome' has no effect" in capsys.readouterr().err
    serving.load(read, {"rocketmqHome": "x"}, flags(print_all=False, log_level="error"))
    assert caplog.messages == []  # a warning, and only errors were wanted


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(password="p")
    serving.print_options(options, flags(), ())
    assert capsys.readouterr().out.splitlines() == [
        "auditLogFile=",
        "brokerName=",
        "listenPort=1",
        "logFile=",
        "password=******",
        "useUvloop=false",
    ]
    serving.print_options(options, flags(print_all=False), ("listenPort", "not one of ours"))
    assert capsys.readouterr().out == "listenPort=1\n"
    serving.explain_options(Options, "json")
    assert '"option": "listenPort"' in capsys.readouterr().out


def test_uvloop_by_flag_or_file() -> None:
    assert serving.uses_uvloop(Options(), flags(uvloop=True))
    assert serving.uses_uvloop(Options(use_uvloop=True), flags())
    assert not serving.uses_uvloop(Options(), flags())
    assert not serving.uses_uvloop(Options(use_uvloop=True), flags(uvloop=False))
    assert serving.uses_uvloop(object(), flags())
