package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/scores"
	"github.com/onward-ml/onward/internal/testing/suite"
)

// TestDocument checks that docs/providers.md names every provider and counts every
// case, and that both engines of this module pass all.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, p := range providers {
		if !strings.Contains(doc, "| "+p+" |") {
			t.Errorf("provider %s is not in the document", p)
		}
	}
	var header []string
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "kind" {
			header = cells
		}
		want, known := suite.Cases[cells[0]]
		switch cells[0] {
		case "light":
			want, known = suite.Cases["real"], true
		case "all":
			want, known = suite.Total(), true
		}
		if !known {
			continue
		}
		if cells[1] != strconv.Itoa(want) {
			t.Errorf("row %s has %s cases, want %d", cells[0], cells[1], want)
		}
		for i, cell := range cells[2:] {
			var passed, refused, differ int
			fmt.Sscanf(cell, "%d (%d refused, %d differ)", &passed, &refused, &differ) // may be a number alone
			if passed+refused+differ != want {
				t.Errorf("row %s, %s: %q does not add up to %d", cells[0], header[i+2], cell, want)
			}
			if name := header[i+2]; (name == "cpu" || name == "reference") && passed != want {
				t.Errorf("row %s, %s: %d pass, want all %d", cells[0], name, passed, want)
			}
		}
	}
	if header == nil {
		t.Error("there is no table")
	}
}

func TestTable(t *testing.T) {
	r := []*scores.Report{{Provider: "p", ByKind: map[string]scores.Score{"node": {Passed: 2, Refused: 1, Differ: 1},
		"real": {Passed: 9}}, Differ: []string{"test_x"}}}
	doc := string(document("1.0", r, [][2]string{{"q", "a|b"}}))
	for _, want := range []string{"| kind | cases | p |\n|---|---:|---:|\n| node | 4 | 2 (1 refused, 1 differ) |",
		"| light | 9 | 9 |", "| all | 13 | 11 (1 refused, 1 differ) |", `| q | a\|b |`, "- test_x\n"} {
		if !strings.Contains(doc, want) {
			t.Errorf("the document has no %q:\n%s", want, doc)
		}
	}
}
