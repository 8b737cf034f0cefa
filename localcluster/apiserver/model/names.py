"""Rules for names, labels and other strings of Kubernetes, with the API server's messages.

Each function returns the faults of one string, an empty list for a valid one.
"""

import re

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_RELAXED_ENV = re.compile(r"[ -<>-~]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MAX_SUBDOMAIN = 253
_MAX_LABEL = 63

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_QUALIFIED_NAME_RULE = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
    "for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain "
    "prefix and '/' (e.g. 'example.com/MyName')"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ENV_RULE = (
    "a valid environment variable name must consist only of printable ASCII characters other "
    "than '='"
)


def _too_many(limit: int) -> str:
    return f"must be no more than {limit} characters"


def subdomain_faults(name: str) -> list[str]:
    """Check a DNS-1123 subdomain: the name of most objects."""
    faults = [_too_many(_MAX_SUBDOMAIN)] if len(name) > _MAX_SUBDOMAIN else []
    return faults if _SUBDOMAIN.fullmatch(name) else [*faults, _SUBDOMAIN_RULE]


def label_faults(name: str) -> list[str]:
    """Check a DNS-1123 label: names of namespaces and containers."""
    faults = [_too_many(_MAX_LABEL)] if len(name) > _MAX_LABEL else []
    return faults if _LABEL.fullmatch(name) else [*faults, _LABEL_RULE]


def label_1035_faults(name: str) -> list[str]:
    """Check a DNS-1035 label: names of services, plurals of CRDs."""
    faults = [_too_many(_MAX_LABEL)] if len(name) > _MAX_LABEL else []
    return faults if _LABEL_1035.fullmatch(name) else [*faults, _LABEL_1035_RULE]


def path_segment_faults(name: str) -> list[str]:
    """Check a name that only has to fit into a URL: names of RBAC objects."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in name]


def qualified_name_faults(name: str) -> list[str]:
    """Check ``prefix/name`` or ``name``: keys of labels and annotations, finalizers."""
    prefix, slash, rest = name.rpartition("/")
    if slash and "/" in prefix:
        return [_QUALIFIED_NAME_RULE]
    faults: list[str] = []
    if slash and not prefix:
        faults.append("prefix part must be non-empty")
    elif slash:
        faults.extend("prefix part " + fault for fault in subdomain_faults(prefix))
    if not rest:
        return [*faults, "name part must be non-empty", _NAME_PART_RULE]
    if len(rest) > _MAX_LABEL:
        faults.append("name part " + _too_many(_MAX_LABEL))
    return faults if _NAME_PART.fullmatch(rest) else [*faults, _NAME_PART_RULE]


def label_value_faults(value: str) -> list[str]:
    """Check the value of a label."""
    faults = [_too_many(_MAX_LABEL)] if len(value) > _MAX_LABEL else []
    return faults if _LABEL_VALUE.fullmatch(value) else [*faults, _LABEL_VALUE_RULE]


def config_key_faults(key: str) -> list[str]:
    """Check a key of a ConfigMap or Secret."""
    if len(key) > _MAX_SUBDOMAIN:
        return [_too_many(_MAX_SUBDOMAIN)]
    if not _CONFIG_KEY.fullmatch(key):
        return [_CONFIG_KEY_RULE]
    if key in (".", ".."):
        return [f"must not be '{key}'"]
    return ["must not start with '..'"] if key.startswith("..") else []


def env_name_faults(name: str) -> list[str]:
    """Check the name of an environment variable, by the relaxed rule of Kubernetes 1.34."""
    return [] if _RELAXED_ENV.fullmatch(name) else [_ENV_RULE]
