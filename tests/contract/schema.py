"""A strict validator for the part of OpenAPI 3.0 schemas that our documents use."""

KNOWN = {
    "type", "nullable", "required", "properties", "additionalProperties", "items", "enum", "allOf",
    "oneOf", "maxProperties", "$ref", "description", "default", "format",
}
TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}


def resolve(document, schema):
    while "$ref" in schema:
        node = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            node = node[part]
        schema = node
    return schema


def check(document, schema, value, at="$"):
    """What is wrong with the value, as a list of sentences."""
    schema = resolve(document, schema)
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if value is None and schema.get("nullable"):
        return []
    if value is None and "type" in schema:
        return [f"{at}: null"]
    if "type" in schema and not TYPES[schema["type"]](value):
        return [f"{at}: {type(value).__name__} where {schema['type']} is said"]
    wrong = []
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{at}: not one of {schema['enum']}")
    for part in schema.get("allOf", ()):
        wrong += check(document, part, value, at)
    if "oneOf" in schema:
        found = [check(document, part, value, at) for part in schema["oneOf"]]
        if sum(not each for each in found) != 1:
            wrong.append(f"{at}: not exactly one of {len(found)}: {found}")
    if isinstance(value, dict):
        wrong += check_members(document, schema, value, at)
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            wrong += check(document, schema["items"], item, f"{at}[{i}]")
    return wrong


def check_members(document, schema, value, at):
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    wrong = [f"{at}.{name}: is missing" for name in schema.get("required", ()) if name not in value]
    if len(value) > schema.get("maxProperties", len(value)):
        wrong.append(f"{at}: has {len(value)} members")
    for name, member in value.items():
        if name in properties:
            wrong += check(document, properties[name], member, f"{at}.{name}")
        elif others is False:
            wrong.append(f"{at}.{name}: is not in the schema")
        elif others is not True:
            wrong += check(document, others, member, f"{at}.{name}")
    return wrong
