// Colours of boxes by family, gradient, bytes or FLOPs; each with words in the legend and a mark on the box beside it.

const MODES = { family: "Kind of operation", gradient: "Gradient norm", bytes: "Bytes", flops: "FLOPs" };
function colourOf() { return "c0"; }
