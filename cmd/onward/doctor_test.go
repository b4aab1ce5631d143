package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/ortlib"
)

func TestDoctor(t *testing.T) {
	lib, err := ortlib.Find()
	if err == nil {
		t.Setenv(ortlib.Env, lib)
	}
	out, _ := command(t, exitOK, "doctor", "--json")
	var d doctorJSON
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	found := map[string]doctorLibrary{}
	for _, p := range d.Providers {
		found[p.Name] = p
		if p.Available == (p.Missing != "") || p.Needs == "" {
			t.Errorf("%+v", p)
		}
	}
	if !found["cpu"].Available || !found["reference"].Available || d.CPU.Active == "" {
		t.Errorf("%+v", d)
	}
	if o, ok := found["ort"]; ok && lib != "" &&
		(!o.Available || o.Library == nil || !strings.HasPrefix(o.Library.Version, "1.")) {
		t.Errorf("ort: %+v", o)
	}
	if len(d.Peaks) == 0 || d.Peaks[0].Threads != 1 || d.Peaks[0].GFLOPS <= 0 {
		t.Errorf("peaks %+v", d.Peaks)
	}
	if out, _ = command(t, exitOK, "doctor", "--peak=false"); strings.Contains(out, "peak  ") {
		t.Errorf("--peak=false prints\n%s", out)
	}
}
