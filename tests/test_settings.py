"""What the environment may say, and what it is told when it says something else."""

from __future__ import annotations

import re

import pytest

from flaskstream.errors import InvalidSetting
from flaskstream.settings import EMBEDDED_MODEL_URL, Settings, checked_url


def read(**variables):
    return Settings.from_environment({f"FLASKSTREAM_{name}": value for name, value in variables.items()})


def test_an_environment_that_says_nothing_gives_the_defaults():
    assert Settings.from_environment({"PATH": "/bin", "FLASK_DEBUG": "1"}) == Settings()


def test_every_variable_is_read():
    assert read(
        MODE="broken",
        FAULTS="joined_body, late_reader",
        UPSTREAM="https://api.example.com/v1",
        API_KEY="sk-1",
        MODEL="gpt-5",
        HEARTBEAT="2.5",
        STATUS_GRACE="0",
        IDLE_TIMEOUT="90",
        DEBUG_PRINT="1",
    ) == Settings(
        mode="broken",
        faults=("joined_body", "late_reader"),
        upstream="https://api.example.com/v1",
        api_key="sk-1",
        model="gpt-5",
        heartbeat=2.5,
        status_grace=0.0,
        idle_timeout=90.0,
        debug_print=True,
    )


def test_the_environment_of_this_process_is_the_default(monkeypatch):
    monkeypatch.setenv("FLASKSTREAM_MODEL", "mine")
    assert Settings.from_environment().model == "mine"


@pytest.mark.parametrize("name", ["MODE", "FAULTS", "UPSTREAM", "HEARTBEAT", "DEBUG_PRINT"])
@pytest.mark.parametrize("nothing", ["", "  "])
def test_set_but_empty_is_not_set(name, nothing):
    assert read(**{name: nothing}) == Settings()


@pytest.mark.parametrize(("said", "store"), [({}, "sqlite:"), ({"STORE": ""}, None), ({"STORE": "memory:"}, "memory:")])
def test_there_is_a_store_unless_it_is_set_to_nothing(said, store):
    assert read(**said).store == store


def test_spaces_around_a_value_mean_nothing():
    assert read(HEARTBEAT=" 3 ", MODE="broken\n") == Settings(mode="broken", heartbeat=3.0)


def test_naming_a_fault_means_the_broken_mode():
    assert read(FAULTS="late_reader").mode == "broken"
    assert read(FAULTS="none") == Settings(mode="broken", faults=("none",))
    assert read(FAULTS=" , ").mode == "fixed"


def test_a_fault_in_the_fixed_mode_is_refused():
    with pytest.raises(InvalidSetting, match=r"FLASKSTREAM_FAULTS: expected none in the fixed mode, got .*late_reader"):
        read(FAULTS="late_reader", MODE="fixed")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MODE", "brokn", '"fixed" or "broken"'),
        ("MODE", "FIXED", '"fixed" or "broken"'),
        ("HEARTBEAT", "15s", "seconds from 0 to 86400"),
        ("HEARTBEAT", "-1", "seconds from 0 to 86400"),
        ("STATUS_GRACE", "nan", "seconds from 0 to 86400"),
        ("IDLE_TIMEOUT", "inf", "seconds from 0 to 86400"),
        ("IDLE_TIMEOUT", "600000", "seconds from 0 to 86400"),
        ("DEBUG_PRINT", "yes", "0 or 1"),
    ],
)
def test_a_value_that_does_not_work_is_named_with_what_was_expected(name, value, expected):
    said = rf"^FLASKSTREAM_{name}: .*expected {re.escape(expected)}, got {re.escape(repr(value))}$"
    with pytest.raises(InvalidSetting, match=said):
        read(**{name: value})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8801/v1", "https://api.example.com", "http://[::1]:80/v1"])
def test_a_url_that_can_be_asked_is_taken_as_it_is(url):
    assert checked_url("upstream", url) == url


@pytest.mark.parametrize(
    "url",
    ["localhost:8801", "/v1", "ftp://a/b", "http://", "https:///v1", "http://a:b/", "http://a:0/", "http://[::1/"],
)
def test_what_cannot_be_asked_is_no_upstream(url):
    with pytest.raises(InvalidSetting, match="FLASKSTREAM_UPSTREAM: expected a URL such as https://"):
        read(UPSTREAM=url)


@pytest.mark.parametrize("key", ["sk-\x0b1", "sk-schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key):
    with pytest.raises(InvalidSetting, match="FLASKSTREAM_API_KEY: expected printable ASCII") as caught:
        read(API_KEY=key)
    assert key not in str(caught.value)


def test_a_variable_that_nothing_reads_is_refused_with_the_names_that_are():
    with pytest.raises(InvalidSetting, match=r"FLASKSTREAM_HARTBEAT: nothing reads .*FLASKSTREAM_HEARTBEAT"):
        read(HARTBEAT="9")


def test_the_address_of_the_embedded_model_is_no_setting():
    assert Settings.from_environment({EMBEDDED_MODEL_URL: "http://127.0.0.1:1/v1"}) == Settings()
