package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestPredict(t *testing.T) {
	f, err := os.Open("testdata/flowers.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	if err := predict(t.Context(), f, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{"sepal_length,sepal_width,species,probability", "5.1,3.5,setosa,0.8181", "6.2,2.9,virginica,",
		"5.9,3.0,virginica,", "6.9,3.1,virginica,", "4.7,3.2,setosa,"}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), out.String())
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("line %d: got %q, want the prefix %q", i+1, lines[i], w)
		}
	}
}

func TestBadRows(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":        {"", "header"},
		"columns":      {"a,b,c\n1,2,3\n", "3 columns, want 2"},
		"not a number": {"a,b\n1,2\n3,x\n", `"x"`},
		"ragged":       {"a,b\n1,2\n3\n", "line 3"},
	} {
		if err := predict(t.Context(), strings.NewReader(c.in), new(bytes.Buffer)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
