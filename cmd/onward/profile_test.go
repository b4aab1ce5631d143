package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestProfileCommand(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	out, _ := command(t, exitOK, "profile", "logreg_iris.onnx", "--provider", "reference", "--runs", "3", "--trace", trace, "--json")
	var r profileJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, l := range r.Ops {
		sum += l.TimeMS
		if l.Count < 1 {
			t.Errorf("%+v", l)
		}
	}
	if r.Runs != 3 || len(r.Nodes) < 3 || math.Abs(sum-r.NodesMS) > 1e-9 || r.NodesMS > r.RunMS {
		t.Errorf("%+v", r)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Cat, Name, Ph string
		Dur           float64
	}
	if err := json.Unmarshal(data, &events); err != nil || len(events) != len(r.Nodes)+1 || events[0].Ph != "X" || events[0].Cat != "Node" || events[len(events)-1].Name != "model_run" {
		t.Errorf("trace: %v, %+v", err, events)
	}
	command(t, exitOK, "profile", "logreg_iris.onnx", "--top", "1")
}

// The nodes of a native library come from its own profile.
func TestProfileOfNativeLibraries(t *testing.T) {
	onNativeLibraries(t, func(t *testing.T, provider string) {
		out, _ := command(t, exitOK, "profile", "digits.onnx", "--provider", provider, "--runs", "3", "--json")
		var r profileJSON
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Provider != provider || r.Runs != 3 || len(r.Nodes) < 2 || r.NodesMS <= 0 {
			t.Errorf("%+v", r)
		}
		for _, l := range r.Nodes {
			if l.Op == "" || l.Count != 1 {
				t.Errorf("%+v", l)
			}
		}
		command(t, exitOK, "profile", "digits.onnx", "--provider", provider, "--runs", "1")
		command(t, exitUsage, "profile", "digits.onnx", "--provider", provider, "--trace", filepath.Join(t.TempDir(), "t.json"))
	})
}
