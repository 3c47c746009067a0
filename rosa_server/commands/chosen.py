"""Which model a command means: an entry of a factory file, or a backend by name, with its options."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rosa_contract.config.factory import Factory, load_factory
from rosa_contract.config.models import Model
from rosa_contract.config.strict import parse_yaml
from rosa_contract.errors import ConfigError
from rosa_contract.wording import nearest


def add_choice(parser: argparse.ArgumentParser) -> None:
    """The options that `chosen` reads."""
    parser.add_argument("model", help="model name, as in factory files")
    parser.add_argument(
        "--factory", type=Path, help="factory file whose `models` section describes the model"
    )
    parser.add_argument("--backend", help="backend name, instead of --factory")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="backend option (YAML value)"
    )


def chosen(args: argparse.Namespace) -> tuple[Model, Mapping[str, Any], Factory | None]:
    """The model, options that are added to its own, and the factory file where one was named.

    Raises `ConfigError`.
    """
    factory, model = None, Model(args.backend or "")
    if args.factory is not None:
        factory = load_factory(args.factory)
        models = factory.models
        if args.model not in models:
            hint = nearest(args.model, models)
            raise ConfigError(
                str(args.factory), [f"models: no entry for {args.model!r}{hint}; it has {', '.join(models)}"]
            )
        model = models[args.model]
        model = replace(model, backend=args.backend or model.backend)
    if not model.backend:
        raise ConfigError(
            "--backend", ["the model's backend is missing: give --factory FILE or --backend NAME"]
        )
    return model, options_of(args.option), factory


def options_of(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE, each value as in a factory file. Raises `ConfigError`."""
    options: dict[str, Any] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key.isidentifier():
            raise ConfigError("--option", [f"expected NAME=VALUE, got {text!r}"])
        try:
            options[key] = parse_yaml(value or "null")
        except ConfigError:
            raise ConfigError("--option", [f"{key}: expected a YAML value, got {value!r}"]) from None
    return options
