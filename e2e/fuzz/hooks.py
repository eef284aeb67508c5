"""What the contract can't say, for the schema fuzzer: which of its findings are none, and why. Whatever else it finds is a fault."""

import unicodedata

import schemathesis
from schemathesis.generation import GenerationMode
from schemathesis.openapi.checks import AllowHeaderMismatch, RejectedPositiveData

# Fields whose values a JSON schema can't describe: a value of the right form may be refused by the field's name.
BEYOND_A_SCHEMA = {
    "archive": "is bytes that are a tar archive",
    "argv": "has 128 KiB together, and a first item that isn't empty",
    "cursor": "is what the server made for this list",
    "env": "has 128 KiB together",
    "expires": "belongs to its signature",
    "expires_at": "lies in the future, at most ten years away",
    "image": "has the grammar of OCI references",
    "Last-Event-ID": "is the id of an event that was sent",
    "lifetime.deadline": "lies in the future, at most a year away",
    "from": "is a path",
    "metadata": "is a filter name=value, each name once",
    "owner": "is one of the sandbox's users",
    "group": "is one of the sandbox's",
    "offset": "is how much input the session has",
    "path": "has 4095 bytes, not characters, and a relative one the home directory's before it",
    "query": "has a length in bytes, as it's sent",
    "signature": "belongs to its URL",
    "to": "is a path",
    "user": "is one of the sandbox's",
}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if isinstance(failure, AllowHeaderMismatch):
        return failure.undocumented_methods or not set(failure.missing_methods) <= served_elsewhere(case)
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 400:
        return True
    if case.method.upper() == "HEAD":  # has no body that names the field; GET of the same says it
        return False
    field = response.json().get("field")
    if field == "name" and isinstance(case.body, dict) and has_unassigned(case.body.get("name")):
        return False
    return field not in BEYOND_A_SCHEMA


def has_unassigned(name):
    """A character of a class that a pattern allows is one of some version of Unicode; a server refuses what its own has not, since nobody can see it."""
    return isinstance(name, str) and any(unicodedata.category(c) == "Cn" for c in name)


def served_elsewhere(case):
    """The path's methods that the document says another server has: Allow names what is served where it was asked."""
    operations = case.operation.schema.raw_schema["paths"][case.operation.path]
    here = case.operation.definition.raw.get("servers")
    return {method.upper() for method, raw in operations.items() if isinstance(raw, dict) and raw.get("servers") != here}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Machines are emulated and slow: what is well-formed is built and created of the small template, and nobody waits for it."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if case.query and "wait" in case.query:
        case.query["wait"] = "100ms"
    name = case.operation.definition.raw.get("operationId")
    if name == "createTemplate":
        case.body = {"recipe": "mini"}
    if name == "createSandbox" and isinstance(case.body, dict):
        case.body["template"] = "mini"
        case.body.pop("snapshot", None)


@schemathesis.serializer("application/x-tar")
def tar(ctx, value):
    """An archive is bytes; whether they are one is the server's to find out."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.check
def problem_is_listed(ctx, response, case):
    """A problem's code is one that the operation, what opens it, or the whole document lists under x-problems."""
    if response.status_code < 400 or response.status_code == 405 or not response.content:
        return
    raw, schema = case.operation.definition.raw, case.operation.schema.raw_schema
    schemes = schema["components"]["securitySchemes"]
    listed = set(schema["x-problems"]) | set(raw.get("x-problems", []))
    for names in raw.get("security", schema["security"]):
        for name in names:
            listed |= set(schemes[name]["x-problems"])
    code = response.json().get("code")
    assert code in listed, f"{code} isn't listed for {raw['operationId']}"
