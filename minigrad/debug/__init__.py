"""Debugging tools: find the origin of a NaN, the memory of a step, and differences between devices.

Most are also available elsewhere, such as `mg.autograd.detect_anomaly` and `mg.graph.why_nan`.
"""

from .. import autograd
from .anomaly import detect_anomaly, first_nonfinite, set_detect_anomaly
from .ledger import Ledger, memory
from .nans import NanReport, why_nan
from .shadow import Shadow, shadow

vars(autograd).update(detect_anomaly=detect_anomaly, set_detect_anomaly=set_detect_anomaly)
