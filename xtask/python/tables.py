"""scikit-learn's logistic or ridge regression on the rows of a split, for `cargo xtask bench tables`.

stdin: one JSON object with `path`, `skip`, `delimiter` (null: white space), `label` (column, or null), `target_path`,
`classes` (bool), `train` and `test` (row numbers). stdout: {"score": accuracy or R2, "versions": ...}.
"""

import gzip
import json
import sys

import numpy
import sklearn
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def rows(path, skip, delimiter):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        lines = [line.strip() for line in file if line.strip()][skip:]
    return [[field.strip() for field in line.split(delimiter)] for line in lines]


asked = json.load(sys.stdin)
table = rows(asked["path"], asked["skip"], asked["delimiter"])
if asked["target_path"]:
    answers = [row[0] for row in rows(asked["target_path"], 0, None)]
else:
    answers = [row[asked["label"]] for row in table]
    table = [row[: asked["label"]] + row[asked["label"] + 1 :] for row in table]
x = numpy.array(table, dtype=float)
y = numpy.array(answers) if asked["classes"] else numpy.array(answers, dtype=float)
train, test = asked["train"], asked["test"]
model = LogisticRegression(max_iter=10000) if asked["classes"] else Ridge()
model = make_pipeline(StandardScaler(), model).fit(x[train], y[train])
answer = model.predict(x[test])
score = float((answer == y[test]).mean()) if asked["classes"] else float(r2_score(y[test], answer))
print(json.dumps({"score": score, "versions": f"scikit-learn {sklearn.__version__}"}))
