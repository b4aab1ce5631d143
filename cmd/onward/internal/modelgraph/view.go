package modelgraph

import (
	_ "embed"
	"encoding/json"

	"github.com/onward-ml/onward/cmd/onward/internal/page"
)

//go:embed view.css
var style string

//go:embed view.js
var script string

//go:embed layout.js
var layout string

// View returns the drawing for a page. Its data stands in an element that browsers do not run.
// encoding/json escapes <, > and &, so a name cannot end that element.
func (g *Graph) View(label string) (*page.View, error) {
	data, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	var legend page.Markup
	used := map[int]bool{}
	for _, x := range g.Items {
		used[x.Class] = used[x.Class] || x.Kind == Node
	}
	for i, name := range classNames {
		if !used[i] {
			continue
		}
		legend += page.Format(`<li class="k%d">%v</li>`, i, name)
	}
	return &page.View{Style: style, Script: layout + script, Body: page.Format(`<noscript><p class="note">The drawing needs JavaScript. The tables below list all nodes.</p></noscript>
<div class="graph" data-label="%v" hidden>
<div class="bar" role="toolbar" aria-label="drawing">
<label class="find">Find <input type="search" aria-label="Find a node, operator or value" placeholder="node, operator or value" spellcheck="false"></label><output class="hits" aria-live="polite"></output>
<span class="buttons"><button type="button" data-do="in" title="zoom in (+)" aria-label="Zoom in">+</button><button type="button" data-do="out" title="zoom out (-)" aria-label="Zoom out">&#8722;</button><button type="button" data-do="fit" title="show all (0)">Fit</button><button type="button" data-do="open">Open all</button><button type="button" data-do="close">Close all</button></span>
</div>
<div class="stage">
<div class="sheet"><canvas tabindex="0" role="application" aria-roledescription="graph" aria-describedby="graph-keys"></canvas>
<ul class="legend" aria-label="colors">%v</ul></div>
<aside class="details" aria-label="details" tabindex="0"></aside>
</div>
<template><svg role="img" preserveAspectRatio="none"></svg></template>
<p class="status" aria-live="polite">&nbsp;</p>
<p class="note" id="graph-keys">Drag to move, turn the wheel to zoom, click a block to open or close it and a node for its details.
Keys in the drawing: the arrows go along the edges, Enter opens and closes, + - 0 zoom, / finds; in the field, Enter goes to the next find.</p>
</div>
<script type="application/json" id="graph-data">%v</script>
`, label, legend, page.Markup(data))}, nil
}
