"""Who is refused by the dashboard: other names, other sites, no token; and what it does not start with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_server.dashboard.guard import PageGuard, PageRefusal
from rosa_server.dashboard.people import People, PeopleError, add_person, load_people
from rosa_server.dashboard.serve import (
    DashboardError,
    DashboardOptions,
    check_reach,
    find_gateway,
    hosts_of,
    listen,
)

PEOPLE, TOKEN = People({}).with_person("anna")
GUARD = PageGuard(["127.0.0.1", "localhost"], 8570, PEOPLE, secure=False)
HERE = {"host": "127.0.0.1:8570"}


@pytest.mark.parametrize(
    ("headers", "cause"),
    [
        ({}, "wrong_host"),
        ({"host": "evil.example:8570"}, "wrong_host"),
        ({"host": "127.0.0.1"}, "wrong_host"),
        ({"host": "127.0.0.1:8570, evil.example"}, "wrong_host"),
        ({**HERE, "origin": "http://evil.example"}, "wrong_origin"),
        ({**HERE, "origin": "null"}, "wrong_origin"),
        ({**HERE, "origin": "http://["}, "wrong_origin"),
        ({**HERE, "origin": "https://127.0.0.1:8570"}, "wrong_origin"),
        ({**HERE, "origin": "http://127.0.0.1:8571"}, "wrong_origin"),
        ({**HERE, "sec-fetch-site": "cross-site"}, "wrong_origin"),
        ({**HERE, "sec-fetch-site": "same-site"}, "wrong_origin"),
    ],
)
def test_requests_from_elsewhere_are_refused(headers: dict[str, str], cause: str) -> None:
    refused = GUARD.refuses(headers)
    assert refused is not None and refused.cause == cause


@pytest.mark.parametrize("more", [{}, {"origin": "http://127.0.0.1:8570"}, {"sec-fetch-site": "same-origin"}])
def test_requests_of_its_own_page_are_not(more: dict[str, str]) -> None:
    assert GUARD.refuses({**HERE, **more}) is None
    assert GUARD.refuses({"host": "localhost:8570"}) is None


def test_a_token_says_who_asks_and_guesses_lock_nobody_out() -> None:
    guard = PageGuard(["localhost"], 1, PEOPLE, secure=False)
    causes = []
    for _ in range(100):
        refused = guard.person({"authorization": "Bearer guess"}, 0.0)
        assert isinstance(refused, PageRefusal)
        causes.append(refused.cause)
    assert (causes[0], causes[-1]) == ("wrong_token", "too_many_attempts")
    assert guard.person({"authorization": f"Bearer {TOKEN}"}, 0.0) == "anna"
    for value in ("", TOKEN, f"Basic {TOKEN}", "Bearer "):
        refused = guard.person({"authorization": value}, 0.0)
        assert isinstance(refused, PageRefusal) and refused.cause == "no_token"


def test_people_are_kept_as_hashes_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "people"
    tokens = {name: add_person(path, name) for name in ("anna", "ben")}
    assert path.stat().st_mode & 0o777 == 0o600
    assert not any(token in path.read_text() for token in tokens.values())
    people = load_people(path)
    assert {name: people.of(token) for name, token in tokens.items()} == {"anna": "anna", "ben": "ben"}
    assert people.of("guess") == ""
    for name, cause in (
        ("anna", "duplicate_name"),
        ("a:b", "bad_name"),
        ("", "bad_name"),
        ("a\nb", "bad_name"),
        ("anna ", "bad_name"),
    ):
        with pytest.raises(PeopleError) as error:
            add_person(path, name)
        assert error.value.cause == cause
    path.chmod(0o644)
    with pytest.raises(PeopleError) as error:
        load_people(path)
    assert error.value.cause == "not_private"


def test_who_is_added_to_a_file_whose_last_line_was_not_ended_has_a_line_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "people"
    first = add_person(path, "anna")
    path.write_text(path.read_text().rstrip("\n"))  # as an editor may leave it
    second = add_person(path, "ben")
    assert [load_people(path).of(token) for token in (first, second)] == ["anna", "ben"]


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.7", "gpu-box"])
@pytest.mark.parametrize(
    "given", [{}, {"people": "people"}, {"tls_cert": "cert.pem"}], ids=["bare", "people", "tls"]
)
def test_beyond_loopback_it_needs_tokens_and_tls(bind: str, given: dict[str, str]) -> None:
    with pytest.raises(DashboardError) as error:
        check_reach(DashboardOptions(bind=bind, **given))
    assert error.value.cause == "needs_keys_and_tls"


def test_with_both_or_on_loopback_it_starts() -> None:
    check_reach(DashboardOptions(bind="0.0.0.0", people="people", tls_cert="cert.pem"))
    for bind in ("127.0.0.1", "::1", "localhost"):
        check_reach(DashboardOptions(bind=bind))


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "127.0.0.1", "::1", "192.168.1.7"])
def test_the_address_that_it_prints_is_one_that_it_answers_to(bind: str) -> None:
    shown, *others = hosts_of(DashboardOptions(bind=bind, hosts=("cell.example",)))
    guard = PageGuard([shown, *others], 8570, PEOPLE, secure=True)
    for host in (shown, "localhost", "cell.example"):
        assert guard.refuses({"host": f"{host}:8570"}) is None


@pytest.mark.parametrize("port", [-1, 1 << 16])
def test_a_port_that_there_cannot_be_is_said(port: int) -> None:
    with pytest.raises(DashboardError) as error:
        listen("127.0.0.1", port)
    assert error.value.cause == "cannot_bind" and str(port) in str(error.value)


def test_without_a_server_it_says_so(tmp_path: Path) -> None:
    for wanted in ("", "5570"):
        with pytest.raises(DashboardError) as error:
            find_gateway(wanted, tmp_path)
        assert error.value.cause == "no_gateway"
