"""How Delta's and Iceberg's own libraries reach an object store for which fsspec has options.

    fsspec (s3fs)                   deltalake                pyiceberg
    endpoint_url                    aws_endpoint_url         s3.endpoint
    key, secret, token              aws_access_key_id, …     s3.access-key-id, …
    client_kwargs.region_name       aws_region               s3.region
    anon                            aws_skip_signature       s3.anonymous

What is not given they find in the environment, as s3fs does. A profile is resolved here, by the library that
has its file. Options of other schemes go to deltalake as they are, and to pyiceberg by `--catalog`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.store.places.urls import CONDITIONAL_SCHEMES, is_remote, options_for

_NAMES = {
    "endpoint_url": ("aws_endpoint_url", "s3.endpoint"),
    "key": ("aws_access_key_id", "s3.access-key-id"),
    "secret": ("aws_secret_access_key", "s3.secret-access-key"),
    "token": ("aws_session_token", "s3.session-token"),
    "region_name": ("aws_region", "s3.region"),
    "anon": ("aws_skip_signature", "s3.anonymous"),
}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DEFAULT_REGION = "us-east-1"
"""The region of servers that are not Amazon's, where no region is given."""


def delta_options(root: Path) -> dict[str, str] | None:
    """What deltalake gets for the URL `root`; None for a directory. Raises UsageError."""
    if not is_remote(root):
        return None
    url = str(root)
    if _is_s3(url):
        found = {_NAMES[name][0]: value for name, value in _s3_facts(url).items()}
        if found.get("aws_endpoint_url", "").startswith("http://"):
            found["aws_allow_http"] = "true"
        return found
    return {name: str(value) for name, value in options_for(url).values().items()}


def iceberg_options(root: Path) -> dict[str, str]:
    """Properties of a catalog for the files at the URL `root`. Raises UsageError."""
    url = str(root)
    return {_NAMES[name][1]: value for name, value in _s3_facts(url).items()} if _is_s3(url) else {}


def _is_s3(url: str) -> bool:
    return url.partition("://")[0] in CONDITIONAL_SCHEMES


def _s3_facts(url: str) -> dict[str, str]:
    options = options_for(url).values()
    inner = options.get("client_kwargs")
    given: dict[str, Any] = {**(inner if isinstance(inner, Mapping) else {}), **options}
    if given.get("profile"):
        given |= _of_profile(str(given["profile"]))
    given.setdefault("endpoint_url", _first(_ENDPOINTS))
    given.setdefault("region_name", _first(_REGIONS) or (given["endpoint_url"] and _DEFAULT_REGION))
    return {name: _text(given[name]) for name in _NAMES if given.get(name)}


def _of_profile(profile: str) -> dict[str, str | None]:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session(profile=profile)
        found = session.get_credentials()
        keys = found.get_frozen_credentials() if found is not None else None
        region = session.get_config_variable("region")
    except BotoCoreError as error:
        raise UsageError(f"the storage option profile: {error}") from error
    if keys is None:
        return {"region_name": region}
    return {"key": keys.access_key, "secret": keys.secret_key, "token": keys.token, "region_name": region}


def _first(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
