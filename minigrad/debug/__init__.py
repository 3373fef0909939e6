"""Debugging tools: find the origin of a NaN, a step's memory and changes, and differences between devices.

Most are also available in other packages: `mg.autograd.detect_anomaly`, `mg.graph.why_nan`.
"""

from .. import autograd
from ..nn.finite import first_nonfinite
from .anomaly import detect_anomaly, set_detect_anomaly
from .comparison import Difference, diff
from .ledger import Ledger, memory
from .nans import NanReport, why_nan
from .shadow import Shadow, shadow

vars(autograd).update(detect_anomaly=detect_anomaly, set_detect_anomaly=set_detect_anomaly)
