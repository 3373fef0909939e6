// Search: in names, paths, operations, source lines.

/** What can be found: the vertices, each with the text in which it is looked for. */
function searchIndex(graph) {
  return graph.vertices.map(vertex => {
    const around = chainOf(graph, vertex.group).at(-1);
    return [vertex.label, vertex.title, vertex.name, vertex.family, vertex.code, vertex.source, around.path, around.kind].join("\n").toLowerCase();
  });
}

/** Indices of vertices in whose text each word occurs. */
function findAll(index, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return [];
  return index.flatMap((text, i) => (wanted.every(word => text.includes(word)) ? [i] : []));
}
