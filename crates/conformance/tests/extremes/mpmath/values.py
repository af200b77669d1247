"""Values of special functions by mpmath with 60 digits: writes values.json beside this file. pip install mpmath"""
import json, os
from mpmath import mp, mpf, nstr, erf, erfc, exp, log, sqrt, pi, gamma, loggamma, psi, zeta, gammainc, besseli, besselj, bessely, sin, tanh, expm1, log1p, asinh, acosh, atanh, ncdf

mp.prec = 2400
ARGUMENTS = ["1e-300", "1e-20", "0.001", "0.3", "0.5", "1", "1.4616321449683622", "2", "2.404825557695773", "3.75", "6.5", "12.25", "37.5", "88", "250.125", "699.5", "12345.678"]
NEGATIVE = ["-1e-20", "-0.25", "-0.5", "-1.75", "-2.457", "-6.5", "-30.25", "-83.80628777660705"]


def lgamma(x):
    return log(abs(gamma(x)))


FUNCTIONS = {
    "erf": erf,
    "erfc": erfc,
    "erfcx": lambda x: exp(x * x) * erfc(x),
    "ndtr": ncdf,
    "lgamma": lgamma,
    "digamma": lambda x: psi(0, x),
    "trigamma": lambda x: psi(1, x),
    "i0e": lambda x: besseli(0, x) * exp(-abs(x)),
    "i1e": lambda x: besseli(1, x) * exp(-abs(x)),
    "bessel_j0": lambda x: besselj(0, x),
    "bessel_j1": lambda x: besselj(1, x),
    "bessel_y0": lambda x: bessely(0, x),
    "bessel_y1": lambda x: bessely(1, x),
    "sin": sin,
    "tanh": tanh,
    "expm1": expm1,
    "log1p": log1p,
    "asinh": asinh,
    "tanhshrink": lambda x: x - tanh(x),
    "gelu": lambda x: x * ncdf(x),
    "gelu_tanh": lambda x: x / (1 + exp(-2 * sqrt(2 / pi) * (x + mpf("0.044715") * x**3))),
}
PAIRS = {
    "zeta": lambda x, y: zeta(x, y),
    "igamma": lambda x, y: gammainc(x, 0, y, regularized=True),
    "igammac": lambda x, y: gammainc(x, y, regularized=True),
    "polygamma": lambda x, y: psi(int(y), x),
    "logaddexp": lambda x, y: log(exp(x) + exp(y)),
    "hypot": lambda x, y: sqrt(x * x + y * y),
}
PAIR_ARGUMENTS = {
    "zeta": [("1.5", "0.3"), ("2", "1"), ("7.25", "12"), ("40", "3.5")],
    "igamma": [("0.5", "0.1"), ("3", "2"), ("67.75", "67.9"), ("330.5", "334.1"), ("9.3", "0.001")],
    "igammac": [("0.5", "0.1"), ("3", "2"), ("9.25", "684.3"), ("330.5", "334.1"), ("1000", "1100")],
    "polygamma": [("0.5", "2"), ("1.75", "0"), ("3.25", "5")],
    "logaddexp": [("-0.95", "-0.96"), ("3", "-700"), ("1e10", "1e10")],
    "hypot": [("1e200", "1e-200"), ("3", "4")],
}


def main():
    out = []
    for name, f in FUNCTIONS.items():
        left = [] if name in ("bessel_y0", "bessel_y1") else NEGATIVE
        for text in ARGUMENTS + left:
            x = mpf(float(text))
            if name in ("log1p",) and x <= -1 or name == "digamma" and x < -80 or name == "trigamma" and x < -80:
                continue
            if name == "erfcx" and x > 1000:
                continue
            try:
                value = f(x)
            except Exception:
                continue
            if value.real != value or abs(value) > mpf("1e400") or (value != 0 and abs(value) < mpf("1e-2000")):
                continue
            out.append([name, repr(float(text)), nstr(mp.re(value), 50, min_fixed=0, max_fixed=0)])
    for name, f in PAIRS.items():
        for a, b in PAIR_ARGUMENTS[name]:
            out.append([name, repr(float(a)) + " " + repr(float(b)), nstr(f(mpf(float(a)), mpf(float(b))), 50, min_fixed=0, max_fixed=0)])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.json")
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in out) + "\n]\n")
    print(len(out), "values")


main()
