"""Writes schemas.txt: the schemas of ai.onnx that models of opset 7 to 27 can use.

    python record_schemas.py > ../schemas.txt      needs pip's onnx==1.22.0

A line "t N TYPE..." is a set of types. A line "NAME VERSION" starts a schema, of these fields:
  d                      the operator is deprecated in this version
  i PARAM... o PARAM...  inputs and outputs: a type variable or a type, with ? if optional, * if variadic
  VARIABLE=N             the set of types that a variable may have
  a NAME:TYPE[=DEFAULT]  an attribute, with ! after the type if it is required; DEFAULT is JSON
"""
import collections
import json

from onnx import defs, helper

FIRST, LAST = 7, 27

schemas = collections.defaultdict(dict)
for s in defs.get_all_schemas_with_history():
    if s.domain == "" and s.since_version <= LAST:
        schemas[s.name][s.since_version] = s

sets, lines = {}, []


def params(list_):
    marks = {"Single": "", "Optional": "?", "Variadic": "*"}
    r = []
    for p in list_:
        mark = marks[str(p.option).split(".")[-1]]
        if mark == "*" and not p.is_homogeneous:
            mark = "+*"  # each may have another type
        r.append(p.type_str.replace(" ", "") + mark)
    return r


for name in sorted(schemas):
    versions = sorted(schemas[name])
    for i, v in enumerate(versions):
        if i + 1 < len(versions) and versions[i + 1] <= FIRST:
            continue  # replaced before the first opset
        s = schemas[name][v]
        f = [name, str(v)]
        if s.deprecated:
            f.append("d")
        f += ["i"] + params(s.inputs) + ["o"] + params(s.outputs)
        for c in s.type_constraints:
            types = " ".join(sorted(t.replace(" ", "") for t in c.allowed_type_strs))
            f.append(f"{c.type_param_str}={sets.setdefault(types, len(sets))}")
        for a in sorted(s.attributes):
            x = s.attributes[a]
            text = f"{a}:{str(x.type).split('.')[-1]}"
            if x.required:
                text += "!"
            if x.default_value.name:
                d = helper.get_attribute_value(x.default_value)
                d = d.decode() if isinstance(d, bytes) else [e.decode() if isinstance(e, bytes) else e for e in d] if isinstance(d, (list, tuple)) else d
                text += "=" + json.dumps(d, separators=(",", ":"))
            f += ["a", text]
        lines.append(" ".join(f))
for types, i in sets.items():
    print("t", i, types)
print("\n".join(lines))
