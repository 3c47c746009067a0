"""What a backend declares that it can: defaults, shipped backends, and mistakes that are told when it is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_server.models.backend import Capabilities, InputSpec, capabilities_of
from rosa_server.models.registry import BackendError, check_loaded, create


class Plain:
    """A user's backend, which declares nothing."""

    input_spec = InputSpec()
    max_batch = 4


class Failing(Plain):
    @property
    def capabilities(self) -> Capabilities:
        return self.nothing_of_this_name


def with_these(**names: Any) -> Any:
    return type("Mine", (Plain,), names)()


def test_a_backend_that_declares_nothing_has_the_defaults() -> None:
    check_loaded("mine", Plain())
    assert capabilities_of(Plain()) == Capabilities(1, False, False, False, (), "", None, None)


def test_a_declaration_may_be_of_the_class_or_of_the_object() -> None:
    able = Capabilities(at_once=3)
    assert capabilities_of(with_these(capabilities=able)) is able
    assert capabilities_of(create("emulated", at_once=5)) == Capabilities(at_once=5)
    assert capabilities_of(create("null")) == Capabilities(inline=True)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"capabilities": {"at_once": 3}}, "capabilities: expected a Capabilities, got {'at_once': 3}"),
        ({"capabilities": Capabilities(at_once=0)}, "at_once: expected a whole number from 1 to"),
        ({"capabilities": Capabilities(at_once=True)}, "at_once: expected a whole number from 1 to"),
        ({"capabilities": Capabilities(shares="yes")}, "shares: expected true or false, got 'yes'"),
        (
            {"capabilities": Capabilities(batch_sizes=[1])},
            "batch_sizes: expected a tuple of at most 256 whole numbers",
        ),
        ({"capabilities": Capabilities(counts={})}, "counts: expected a function"),
        ({"at_once": 8}, "at_once: declare it in `capabilities`"),
        ({"inpaints": True, "shares": True}, "shares: declare it in `capabilities`; inpaints: declare it in"),
    ],
)
def test_a_wrong_declaration_is_one_error_when_the_backend_is_loaded(names: Any, words: str) -> None:
    with pytest.raises(BackendError) as refused:
        check_loaded("mine", with_these(**names))
    assert refused.value.cause == "bad_capabilities"
    assert words in str(refused.value) and "docs/add_a_model.md" in str(refused.value)


def test_a_property_that_fails_is_an_error_and_not_the_defaults() -> None:
    with pytest.raises(BackendError, match="nothing_of_this_name"):
        check_loaded("mine", Failing())


def test_every_mistake_is_told_at_once() -> None:
    assert len(Capabilities(at_once=-1, engine=3, inpaints=1).mistakes()) == 3
