package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"testing"
)

func TestWrite(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Path: "m", Version: "v0.1.0"}, Deps: []*debug.Module{
		{Path: "a.b/c", Version: "v1.2.3", Sum: "h1:AAEC"},
		{Path: "old", Version: "v1.0.0", Replace: &debug.Module{Path: "new", Version: "v2.0.0"}}}}
	var out bytes.Buffer
	if err := write(&out, info); err != nil {
		t.Fatal(err)
	}
	var got struct {
		BOMFormat  string
		Components []component
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	c := got.Components
	if got.BOMFormat != "CycloneDX" || len(c) != 3 || c[0].Version != "1.26.1" || c[1].PURL != "pkg:golang/a.b/c@v1.2.3" || c[1].Hashes[0].Content != "000102" || c[2].Name != "new" {
		t.Errorf("%s", &out)
	}
	info.Deps[0].Sum = "h1:?"
	if err := write(&out, info); err == nil {
		t.Error("a damaged hash gives no error")
	}
}
