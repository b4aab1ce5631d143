package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cost"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/peak"
	"github.com/onward-ml/onward/onnx"
)

func TestProfileCommand(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	out, _ := command(t, exitOK, "profile", "logreg_iris.onnx", "--provider", "reference", "--runs", "3", "--trace",
		trace, "--json")
	var r profileJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	shares, nodes := 0.0, 0.0
	for _, l := range r.Ops {
		shares += l.Share
		if l.Count < 1 {
			t.Errorf("%+v", l)
		}
	}
	for _, l := range r.Nodes {
		nodes += l.Share
	}
	if r.Runs != 3 || len(r.Nodes) < 3 || math.Abs(shares-1) > 1e-9 || math.Abs(nodes-1) > 1e-9 || r.NodesMS > r.RunMS {
		t.Errorf("%+v", r)
	}
	if r.Peak == nil || r.Peak.GFLOPS <= 0 {
		t.Errorf("peak %+v", r.Peak)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Cat, Name, Ph string
		Dur           float64
	}
	if err := json.Unmarshal(data, &events); err != nil || len(events) != len(r.Nodes)+1 || events[0].Ph != "X" ||
		events[0].Cat != "Node" || events[len(events)-1].Name != "model_run" {
		t.Errorf("trace: %v, %+v", err, events)
	}
	command(t, exitOK, "profile", "logreg_iris.onnx", "--top", "1", "--peak=false")
}

// A convolution network's fused nodes have the shapes and the costs of the nodes that they replace.
func TestProfileNamesTheModelsNodes(t *testing.T) {
	out, _ := command(t, exitOK, "profile", "digits.onnx", "--runs", "2", "--threads", "1", "--json", "--peak=false")
	r := decode[profileJSON](t, out)
	reference, _ := command(t, exitOK, "profile", "digits.onnx", "--runs", "1", "--provider", "reference",
		"--json", "--peak=false")
	all := decode[profileJSON](t, reference)
	if r.FLOPs <= 0 || r.FLOPs != all.FLOPs {
		t.Errorf("%d operations, and %d on reference", r.FLOPs, all.FLOPs)
	}
	var flops int64
	computed, fused := map[string]int{}, false
	for _, l := range r.Nodes {
		flops += l.FLOPs
		fused = fused || len(l.Computes) > 1
		for _, n := range l.Computes {
			computed[n.Op]++
			if n.Op == "Conv" &&
				(!strings.Contains(l.Shapes, " -> float[1 ") || l.Bytes <= 0 || l.GFLOPS <= 0 || l.OfPeak != nil) {
				t.Errorf("%+v", l)
			}
		}
	}
	if flops != r.FLOPs || !fused || computed["Conv"] == 0 {
		t.Errorf("nodes with %d of %d operations compute %v", flops, r.FLOPs, computed)
	}
}

// Medians do not follow one slow run, and shares of the peak follow from the figures.
func TestProfileSummary(t *testing.T) {
	c, err := cost.Of(mustExample(t, "digits.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	var conv cost.Layer
	for _, l := range c.Layers {
		if l.OpType == "Conv" {
			conv = l
			break
		}
	}
	p := newProfiler()
	for _, ms := range []int{2, 900, 2, 2, 1} {
		p.node(onward.NodeRun{Index: 4, Name: "a", OpType: "Conv", OutNames: []string{conv.Outputs[0]},
			Duration: time.Duration(ms) * time.Millisecond})
		p.node(onward.NodeRun{Index: 5, Name: "b", OpType: "Custom", OutNames: []string{"none"},
			Duration: time.Millisecond})
		p.node(onward.NodeRun{Index: 5, Name: "b", OpType: "Custom", OutNames: []string{"none"},
			Duration: 5 * time.Millisecond})
		p.endRun(time.Duration(ms+7) * time.Millisecond)
	}
	r := p.summary()
	r.Peak = &peak.Peak{GFLOPS: float64(conv.FLOPs) / 1e6} // one millisecond for the convolution
	r.addCosts(c, p.nodes)
	if r.RunMS != 9 || r.NodesMS != 8 || len(r.Nodes) != 2 || r.Nodes[0].Count != 2 || r.Nodes[0].TimeMS != 6 ||
		r.Nodes[0].OfPeak != nil {
		t.Errorf("%+v", r)
	}
	if l := r.Nodes[1]; l.TimeMS != 2 || l.Share != 0.25 || l.FLOPs != conv.FLOPs || l.OfPeak == nil ||
		math.Abs(*l.OfPeak-0.5) > 1e-9 {
		t.Errorf("%+v", l)
	}
}

// The figures are those of one run, so that they add up: neither the run that others slowed down
// nor medians of nodes in different runs.
func TestProfileSummaryIsOneRun(t *testing.T) {
	p := newProfiler()
	for _, run := range [][3]int{{10, 1, 11}, {1, 10, 12}, {1, 1, 50}} {
		for i, ms := range run[:2] {
			p.node(onward.NodeRun{Index: i, OpType: "Custom", Duration: time.Duration(ms) * time.Millisecond})
		}
		p.endRun(time.Duration(run[2]) * time.Millisecond)
	}
	r := p.summary()
	if r.RunMS != 12 || r.NodesMS != 11 || r.Nodes[0].TimeMS+r.Nodes[1].TimeMS != 11 || r.busy() != "" {
		t.Errorf("%+v", r)
	}
	r.RunMS = 20
	over := 4.82
	r.Nodes[0].OfPeak = &over
	if got := r.busy(); !strings.Contains(got, "took 11 to 50 ms. Nodes above the peak") {
		t.Errorf("busy: %q", got)
	}
}

func mustExample(t *testing.T, name string) *onnx.Model {
	t.Helper()
	m, err := modelfile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
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
		command(t, exitOK, "profile", "digits.onnx", "--provider", provider, "--runs", "1", "--peak=false")
		var named int
		for _, l := range r.Nodes {
			if slices.ContainsFunc(l.Computes, func(n modelNode) bool { return n.Op == "Conv" }) && l.FLOPs > 0 {
				named++
			}
		}
		if named == 0 {
			t.Errorf("no node computes a convolution: %+v", r.Nodes)
		}
		trace := filepath.Join(t.TempDir(), "t.json")
		command(t, exitOK, "profile", "digits.onnx", "--provider", provider, "--trace", trace, "--peak=false")
		if data, err := os.ReadFile(trace); err != nil || !json.Valid(data) ||
			!strings.Contains(string(data), "_kernel_time") {
			t.Errorf("trace: %v, %.200s", err, data)
		}
	})
}
