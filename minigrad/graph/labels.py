"""What stands on a box: names and signs that a reader knows, shapes, numbers."""

from __future__ import annotations

from .records import Snapshot, Vertex

SIGNS = {
    "add": "+", "subtract": "−", "multiply": "×", "div": "÷", "power": "xʸ", "negative": "−x", "matmul": "@",
    "sum": "Σ", "mean": "mean", "exp": "eˣ", "sqrt": "√", "square": "x²",
}  # fmt: skip
PUBLIC = {  # what users wrote where the library has a name of its own within
    "view_as_shape": "reshape", "permute_axes": "permute", "pieces": "split", "getitem": "x[…]", "astype": "to",
}  # fmt: skip


def op_title(vertex: Vertex) -> str:
    """`multiply ×`; a leaf's path, or what it is."""
    if vertex.kind != "op":
        return vertex.name or ("data" if vertex.kind == "constant" else vertex.kind)
    name = PUBLIC.get(vertex.name, vertex.name)
    sign = SIGNS.get(vertex.name)
    return f"{name} {sign}" if sign and sign != name else name


def kind_of(snapshot: Snapshot) -> str:
    """`float32[2, 3]`."""
    return f"{snapshot.dtype}[{', '.join(map(str, snapshot.shape))}]" if snapshot.shape else snapshot.dtype


def number(x: float) -> str:
    """Six significant digits, as `%g` writes them: what the page shows too."""
    return f"{x:.6g}"


def quantity(n: float, unit: str = "") -> str:
    """`1.5 M`: three digits and a prefix; of bytes, powers of 1024."""
    step, prefixes = (
        (1024, ("", "Ki", "Mi", "Gi", "Ti")) if unit == "B" else (1000, ("", "k", "M", "G", "T", "P"))
    )
    power = 0
    while n >= step and power < len(prefixes) - 1:
        n /= step
        power += 1
    shown = f"{n:.0f}" if power == 0 or n >= 100 else f"{n:.3g}"
    return f"{shown} {prefixes[power]}{unit}".strip()
