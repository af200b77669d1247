"""Figures of scikit-learn on small random cases, for `crates/metrics/tests/goldens.rs`:

    python metrics.py > crates/metrics/tests/goldens.json

Scores are eighths, so that there are ties, and every number is exact in f32.
"""

import json
import warnings

import numpy as np
import sklearn
from sklearn import metrics as m

warnings.filterwarnings("ignore")
rng = np.random.default_rng(20)


def told(value):
    """Nested lists of numbers; NaN as null."""
    value = np.asarray(value, dtype=float)
    if value.ndim:
        return [told(v) for v in value]
    return None if np.isnan(value) else float(value)


def rates(truth, answers, averages, **more):
    out = {}
    for average in averages:
        key = average or "none"
        for zero in (0.0, 1.0):
            args = {"average": average, "zero_division": zero, **more}
            out[f"precision {key} {zero:g}"] = told(m.precision_score(truth, answers, **args))
            out[f"recall {key} {zero:g}"] = told(m.recall_score(truth, answers, **args))
            out[f"f1 {key} {zero:g}"] = told(m.f1_score(truth, answers, **args))
            out[f"f2 {key} {zero:g}"] = told(m.fbeta_score(truth, answers, beta=2, **args))
    return out


def tables(truth, answers, labels):
    out = {f"confusion {key}": told(m.confusion_matrix(truth, answers, labels=labels, normalize=None if key == "none" else key))
           for key in ("none", "true", "pred", "all")}
    for weights in (None, "linear", "quadratic"):
        out[f"kappa {weights or 'none'}"] = told(m.cohen_kappa_score(truth, answers, labels=labels, weights=weights))
    out["mcc"] = told(m.matthews_corrcoef(truth, answers))
    out["accuracy"] = told(m.accuracy_score(truth, answers))
    return out


def binary(n, positives):
    scores = rng.integers(0, 9, n) / 8
    truth = (rng.random(n) < positives).astype(int)
    answers = (scores > 0.5).astype(int)
    expected = rates(truth, answers, ["binary"]) | tables(truth, answers, [0, 1])
    expected["auroc"] = told(m.roc_auc_score(truth, scores))
    expected["average_precision"] = told(m.average_precision_score(truth, scores))
    return {"task": "binary", "scores": scores.tolist(), "targets": truth.tolist(), "expected": expected}


def multiclass(n, classes, absent):
    scores = rng.integers(0, 17, (n, classes)) / 16
    truth = rng.integers(0, classes - absent, n)
    answers = scores.argmax(1)
    expected = tables(truth, answers, range(classes))
    # Without `labels` a mean is of the classes that occur; figures of each class are of all.
    expected |= rates(truth, answers, ["micro", "macro", "weighted"])
    expected |= rates(truth, answers, [None], labels=range(classes))
    each = [m.roc_auc_score(truth == c, scores[:, c]) for c in range(classes)]
    expected["auroc none"] = told(each)
    expected["auroc macro"] = told(np.nanmean(each))
    precision = [m.average_precision_score(truth == c, scores[:, c]) for c in range(classes)]
    expected["average_precision none"] = told(precision)
    expected["average_precision macro"] = told(np.mean(precision))
    return {"task": "multiclass", "classes": classes, "scores": scores.tolist(), "targets": truth.tolist(), "expected": expected}


def top_k(n, classes):
    # Without ties: scikit-learn takes the last of equal scores, we the first.
    scores = np.stack([rng.permutation(64)[:classes] / 64 for _ in range(n)])
    truth = rng.integers(0, classes, n)
    expected = {f"top {k}": told(m.top_k_accuracy_score(truth, scores, k=k, labels=range(classes))) for k in range(1, classes)}
    return {"task": "top_k", "classes": classes, "scores": scores.tolist(), "targets": truth.tolist(), "expected": expected}


def multilabel(n, labels):
    scores = rng.integers(0, 9, (n, labels)) / 8
    truth = rng.integers(0, 2, (n, labels))
    truth[:, -1] = 0
    answers = (scores > 0.5).astype(int)
    expected = rates(truth, answers, ["micro", "macro", "weighted", None])
    expected["confusion none"] = told(m.multilabel_confusion_matrix(truth, answers))
    for average in ("micro", "macro", "weighted", None):
        expected[f"average_precision {average or 'none'}"] = told(m.average_precision_score(truth, scores, average=average))
    each = [m.roc_auc_score(truth[:, c], scores[:, c]) for c in range(labels)]
    expected["auroc none"] = told(each)
    expected["auroc micro"] = told(m.roc_auc_score(truth, scores, average="micro"))
    return {"task": "multilabel", "classes": labels, "scores": scores.tolist(), "targets": truth.tolist(), "expected": expected}


def regression(n, outputs, flat):
    truth = rng.integers(-32, 33, (n, outputs)) / 8
    answers = truth + rng.integers(-8, 9, (n, outputs)) / 8
    for k in range(flat):
        truth[:, k] = 1.5
    if flat > 1:
        answers[:, 0] = 1.5
    expected = {"mae": told(m.mean_absolute_error(truth, answers, multioutput="raw_values")),
                "mse": told(m.mean_squared_error(truth, answers, multioutput="raw_values")),
                "rmse": told(m.root_mean_squared_error(truth, answers, multioutput="raw_values"))}
    for key in ("raw_values", "uniform_average", "variance_weighted"):
        expected[f"r2 {key}"] = told(m.r2_score(truth, answers, multioutput=key))
    return {"task": "regression", "classes": outputs, "scores": answers.tolist(), "targets": truth.tolist(), "expected": expected}


cases = [binary(n, p) for n, p in [(1, 1.0), (2, 0.5), (7, 0.5), (40, 0.3), (60, 0.9), (20, 0.0), (20, 1.0)]]
cases += [multiclass(n, c, a) for n, c, a in [(6, 3, 0), (40, 3, 0), (50, 5, 1), (30, 8, 3), (12, 10, 2)]]
cases += [top_k(30, 6)]
cases += [multilabel(n, c) for n, c in [(5, 2), (30, 4), (24, 6)]]
cases += [regression(n, o, f) for n, o, f in [(2, 1, 0), (30, 1, 0), (20, 3, 0), (16, 3, 1), (16, 4, 2), (9, 2, 2)]]
print(json.dumps({"from": f"scikit-learn {sklearn.__version__}", "cases": cases}, separators=(",", ":")))
