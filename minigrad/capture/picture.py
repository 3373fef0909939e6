"""A plan's memory as a picture: when each array is needed, and where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from .layout import Buffer
    from .plan import Plan

WIDTH, HEIGHT = 840.0, 380.0
LEFT, TOP, BELOW = 84.0, 62.0, 56.0
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
SHORT, LONG = (222, 235, 247), (8, 69, 148)  # needed by few calls, by nearly all


def to_svg(plan: Plan) -> str:
    """An SVG document: a rectangle for each array, from the first call that has it to the last."""
    calls, size = max(len(plan.calls), 1), max(plan.laid_out, 1)
    total = sum(buffer.nbytes for buffer in plan.buffers)
    title = f"Memory of a captured step: {quantity(total)} of arrays in {quantity(size)}"
    width, height = LEFT + WIDTH + 24, TOP + HEIGHT + BELOW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" font-family="{FONT}" font-size="12" role="img" '
        f'aria-labelledby="plan-title">',
        f'<title id="plan-title">{title}</title>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{LEFT:g}" y="26" font-size="16" font-weight="600" fill="#1b2733">{title}</text>',
        f'<text x="{LEFT:g}" y="46" fill="#44515e">Each rectangle is an array. The darker, the longer it is '
        "needed.</text>",
        *(_rectangle(buffer, calls, size) for buffer in plan.buffers),
        *_axes(calls, size),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rectangle(buffer: Buffer, calls: int, size: int) -> str:
    """An array, with its numbers as a tooltip."""
    x, y = WIDTH * buffer.first / calls, HEIGHT * (1 - (buffer.offset + buffer.nbytes) / size)
    width, height = WIDTH * (buffer.last + 1 - buffer.first) / calls, HEIGHT * buffer.nbytes / size
    share = (buffer.last - buffer.first) / calls
    colour = "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(SHORT, LONG, strict=True))
    what = (
        f"{buffer.dtype}{list(buffer.shape)}, {quantity(buffer.nbytes)}, of {buffer.name}: "
        f"calls {buffer.first} to {buffer.last}"
    )
    return (
        f'<rect x="{LEFT + x:.1f}" y="{TOP + y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{colour}" stroke="#ffffff" stroke-width="0.5"><title>{escape(what)}</title></rect>'
    )


def _axes(calls: int, size: int) -> list[str]:
    bottom = TOP + HEIGHT
    lines = [
        f'<path d="M{LEFT:g} {TOP:g} V{bottom:g} H{LEFT + WIDTH:g}" fill="none" stroke="#1b2733"/>',
        f'<text x="{LEFT + WIDTH / 2:g}" y="{bottom + 40:g}" text-anchor="middle">call of the step</text>',
    ]
    for i in range(5):
        x, y = LEFT + WIDTH * i / 4, bottom - HEIGHT * i / 4
        lines += [
            f'<text x="{x:g}" y="{bottom + 18:g}" text-anchor="middle">{round(calls * i / 4)}</text>',
            f'<text x="{LEFT - 8:g}" y="{y + 4:g}" text-anchor="end">{quantity(size * i / 4)}</text>',
        ]
    return lines


def quantity(nbytes: float) -> str:
    """Bytes as people write them."""
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{round(nbytes)} bytes"
