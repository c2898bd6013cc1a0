"""Who may ask, how much and how long, and what browsers may do with the answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import Served
from tests.serve.service import Service, finished, running

from prunnet.errors import ServiceError
from prunnet.serve import Limits
from prunnet.serve.app import make_app
from prunnet.serve.guard import LOOPBACK, Guard, is_loopback
from prunnet.serve.metrics import Metrics
from prunnet.serve.tokens import Tokens

TOKEN = "a-token-of-some-length"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    file = tmp_path / "tokens"
    file.write_text(f"# those who may ask\n\n{TOKEN}\nanother-token-of-some-length\n")
    return Tokens(file)


def read(connection: Any) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_every_answer_tells_browsers_what_they_may_do(service: Service) -> None:
    for path in ("/v1/family", "/js/prunnet.js", "/nothing", "/v1/model.prun?id=x"):
        headers = service.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers


def test_problems_are_one_sentence_whatever_is_asked(service: Service) -> None:
    assert service.get("/nothing").detail and service.get("/nothing").status == 404
    assert service.ask("PUT", "/v1/search").status == 405
    assert service.ask("OPTIONS", "/v1/search", headers={"Origin": "http://elsewhere"}).status == 405


def test_a_body_is_bounded_whether_or_not_it_says_how_long_it_is(served: Served) -> None:
    with running(served.app(limits=Limits(body=1000))) as service:
        head = b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with service.open() as connection:  # refused before any of it is sent
            connection.sendall(head + b"Content-Length: 99999999999999\r\n\r\n")
            assert b" 413 " in read(connection).splitlines()[0]
        with service.open() as connection:
            connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"200\r\n" + b" " * 512 + b"\r\n")
            connection.sendall(b"200\r\n" + b" " * 512 + b"\r\n")
            assert b" 413 " in read(connection).splitlines()[0]
        with service.open() as connection:  # cut off
            connection.sendall(head + b"Content-Length: 100\r\n\r\n{")
        assert service.get("/healthz").status == 200


def test_a_body_that_does_not_arrive_is_given_up(served: Served) -> None:
    with running(served.app(limits=Limits(seconds=0.2))) as service, service.open() as connection:
        connection.sendall(b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        answer = read(connection)
        assert b" 408 " in answer.splitlines()[0] and b"took longer than 0.2 seconds to arrive" in answer


def test_as_many_as_are_allowed_are_answered_at_a_time(served: Served) -> None:
    with running(served.app(limits=Limits(requests=1))) as service, service.open() as connection:
        connection.sendall(b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it has been accepted, and waits for its body
        told = service.get("/healthz")
        assert told.status == 503 and told.headers["retry-after"] == "1" and "too many requests" in told.detail
        connection.sendall(b"{}")
        assert b" 415 " in connection.recv(65536).splitlines()[0]
        assert service.get("/healthz").status == 200


def test_all_bodies_together_are_bounded() -> None:
    guard = Guard(None, Limits(bodies=100), Metrics())  # type: ignore[arg-type]
    guard.hold(60)
    with pytest.raises(Exception, match="too much is being received"):
        guard.hold(60)
    guard.hold(-60)
    guard.hold(100)


def test_a_token_is_needed_for_all_but_the_page(served: Served, tokens: Tokens) -> None:
    with running(served.app(tokens=tokens, writable=True)) as service:
        for path in ("/healthz", "/readyz", "/js/prunnet.js"):
            assert service.get(path).status == 200
        for path in ("/v1/family", "/v1/model.prun", "/v1/images/x", "/metrics", "/openapi.json", "/nothing"):
            told = service.get(path)
            assert told.status == 401 and told.headers["www-authenticate"] == "Bearer" and "token" in told.detail
        for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer \xff", f"Bearer {TOKEN[:-1]}"):
            assert service.get("/v1/family", Authorization=wrong).status == 401
        for right in (f"Bearer {TOKEN}", "bearer another-token-of-some-length"):
            assert service.get("/v1/family", Authorization=right).status == 200
        caching = service.get(f"/v1/model.prun?id={served.model.digest}", Authorization=f"Bearer {TOKEN}").headers
        assert caching["cache-control"].startswith("private, ")


def test_a_browser_gets_a_cookie_for_a_token_which_is_not_enough_to_write(served: Served, tokens: Tokens) -> None:
    with running(served.app(tokens=tokens, writable=True)) as service:
        assert service.ask("POST", "/v1/session").status == 401
        told = service.ask("POST", "/v1/session", headers={"Authorization": f"Bearer {TOKEN}"})
        cookie = told.headers["set-cookie"]
        assert told.status == 204 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        value = cookie.partition(";")[0]
        assert service.get("/v1/family", Cookie=value).status == 200
        assert service.post("/v1/vectors", {"ids": []}, Cookie=value).status == 401
        assert service.get("/v1/family", Cookie=value + "x").status == 401
        for wrong in ("prunnet_session=", "prunnet_session", "a=b; =; ;;", "prunnet_session=\xff"):
            assert service.get("/v1/family", Cookie=wrong).status == 401


@pytest.mark.parametrize("content", ["", "# none\n", "short\n", f"{TOKEN}\nshort\n"])
def test_tokens_that_protect_nothing_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokens").write_text(content)
    with pytest.raises(ServiceError, match="at least 16 characters"):
        Tokens(tmp_path / "tokens")
    with pytest.raises(ServiceError, match="cannot be read"):
        Tokens(tmp_path / "absent")


def test_only_pages_of_named_sites_may_read_the_answers(served: Served, tokens: Tokens) -> None:
    with running(served.app(origins=["https://shop.example"], tokens=tokens)) as service:
        ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-family-id"}
        told = service.ask("OPTIONS", "/v1/search", headers={"Origin": "https://shop.example", **ask})
        assert told.status == 200 and told.headers["access-control-allow-origin"] == "https://shop.example"
        other = service.ask("OPTIONS", "/v1/search", headers={"Origin": "https://other.example", **ask})
        assert "access-control-allow-origin" not in other.headers
        read = service.get("/v1/family", Origin="https://shop.example", Authorization=f"Bearer {TOKEN}")
        assert read.status == 200 and read.headers["access-control-allow-origin"] == "https://shop.example"


def test_under_another_name_it_does_not_answer(served: Served) -> None:
    """A site whose name was made to mean this machine gets nothing."""
    with running(served.app(hosts=LOOPBACK)) as service:
        for name in ("localhost", "LOCALHOST:80", f"127.0.0.1:{service.port}", "[::1]:8000", "[::1]"):
            assert service.get("/healthz", Host=name).status == 200
        for name in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
            assert service.get("/healthz", Host=name).status == 421


def test_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org")))


def test_websockets_are_not_spoken(service: Service) -> None:
    told = service.get("/v1/search", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13")
    assert told.status in (400, 404, 405, 426)


def test_an_error_of_ours_is_told_as_such(served: Served) -> None:
    index = served.index()
    app = make_app(index, served.model)
    index._snapshot = None  # type: ignore[assignment]
    with running(app) as service:
        told = service.get("/v1/family")
        assert told.status == 500 and told.detail == "the service has failed; its log says how"
        assert service.get("/readyz").status == 503
        assert service.get("/healthz").status == 200


def test_metrics_count_what_was_answered(served: Served) -> None:
    with running(served.app()) as service:
        service.get("/v1/family")
        service.get("/secret-name")
        service.ask("BREW", "/v1/family")
        text = service.get("/metrics").body.decode()
    assert 'prunnet_requests_total{method="GET",route="/v1/family",status="200"} 1\n' in text
    assert 'prunnet_requests_total{method="GET",route="other",status="404"} 1\n' in text
    assert 'method="other"' in text and "secret" not in text and "BREW" not in text
    assert 'prunnet_request_seconds_bucket{route="/v1/family",le="+Inf"} ' in text
    assert f"prunnet_gallery_vectors {len(served.index())}\n" in text
    assert "prunnet_requests_running 1\n" in text
    for line in text.splitlines():
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_the_description_names_every_address_and_loads_nothing(service: Service) -> None:
    told = service.get("/openapi.json").json
    assert {"/v1/search", "/v1/family", "/v1/vectors", "/v1/images/{token}", "/metrics"} <= told["paths"].keys()
    assert service.get("/docs").status == 404
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    for path, methods in told["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page
    schema = told["paths"]["/v1/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "family_id" in schema["required"] and json.dumps(told)


def test_it_can_be_asked_on_any_event_loop(served: Served) -> None:
    """The application keeps nothing of the loop that it was made in."""
    app = served.app()

    async def ask() -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/v1/family", "headers": [], "query_string": b""}
        await app(scope, receive, send)
        return int(sent[0]["status"])

    assert [finished(ask()), finished(ask())] == [200, 200]
