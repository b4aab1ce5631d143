package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestDrawRatios(t *testing.T) {
	rows := []row{
		{model: model{group: gNetworks, name: "a network"}, by: []measured{{Threads: 1, Ratio: 1.5}, {Threads: 2, Ratio: .7}}},
		{model: model{group: gNetworks, name: "one that failed"}, by: []measured{{Threads: 1}}},
		{model: model{group: "Others", name: "left out"}, by: []measured{{Threads: 1, Ratio: 30}, {Threads: 2, Ratio: 20}}},
	}
	svg, err := drawRatios(rows)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]bool{}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text[strings.TrimSpace(string(c))] = true
		}
	}
	for _, want := range []string{"a network", "one that failed", "Others", "1 thread", "2 threads", "20"} {
		if !text[want] {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if text["left out"] {
		t.Error("models of groups other than networks have no line of their own")
	}
}
