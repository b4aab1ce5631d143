package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The processes that verbs start to measure loading and to try native libraries are this test
// binary.
func init() {
	if os.Getenv(crashes) != "" {
		driver.Register(crashing{})
	}
	if len(os.Args) > 1 && os.Args[1] == probeVerb {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
}

func TestBench(t *testing.T) {
	out, _ := command(t, exitOK, "bench", "logreg_iris.onnx", "--provider", "cpu,reference", "--threads", "1",
		"--duration", "5ms", "--rounds", "2", "--shape", "float_input=3x2", "--json")
	var r benchJSON
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Model != "logreg_iris.onnx" || r.Threads != 1 || len(r.Results) != 2 || r.Ratio <= 0 {
		t.Fatalf("%+v", r)
	}
	if want := r.Results[1].MedianMS / r.Results[0].MedianMS; math.Abs(r.Ratio-want) > 1e-9 {
		t.Errorf("ratio %v, want %v", r.Ratio, want)
	}
	for i, p := range []string{"cpu", "reference"} {
		x := r.Results[i]
		if x.Provider != p || x.Runs < 6 || x.MinMS <= 0 || x.MinMS > x.MedianMS || x.P95MS < x.MinMS ||
			x.LoadMS <= 0 || x.FirstMS <= 0 || x.Error != "" {
			t.Errorf("%+v", x)
		}
		if _, err := os.Stat("/proc/self/status"); err == nil && x.PeakRSSMB < 1 {
			t.Errorf("%s: peak of %v MB", p, x.PeakRSSMB)
		}
	}
	out, _ = command(t, exitOK, "bench", "logreg_iris.onnx", "--duration", "2ms", "--rounds", "1")
	if !strings.Contains(out, "median ms") || strings.Contains(out, "ratio") {
		t.Errorf("one provider prints\n%s", out)
	}
}

// TestBenchBandwidth measures a product of a vector and a matrix of 32 MiB.
func TestBenchBandwidth(t *testing.T) {
	const k, n = 1 << 10, 8 << 10
	file := filepath.Join(t.TempDir(), "product.onnx")
	b := onnx.NewModel("product").Opset("", 13)
	b.Input("x", onnx.Float, 1, k).Output("y", onnx.Float, 1, n)
	b.Initializer("w", make([]float32, k*n), k, n).Node("MatMul", []string{"x", "w"}, []string{"y"})
	if err := onnx.WriteFile(file, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	args := []string{"bench", file, "--threads", "1", "--iterations", "3", "--rounds", "1"}
	out, _ := command(t, exitOK, append(args, "--json")...)
	r := decode[benchJSON](t, out)
	if want := int64(4 * (k + k*n)); r.ReadBytes != want || r.BandwidthGBPerS <= 0 {
		t.Fatalf("a run reads %d bytes, want %d; memory of %g GB/s", r.ReadBytes, want, r.BandwidthGBPerS)
	}
	x := r.Results[0]
	rate := float64(r.ReadBytes) / x.MedianMS / 1e6
	if math.Abs(x.ReadGBPerS/rate-1) > 1e-9 || math.Abs(x.BandwidthShare*r.BandwidthGBPerS/rate-1) > 1e-9 {
		t.Errorf("%g GB/s, share %g of %g, want %g GB/s", x.ReadGBPerS, x.BandwidthShare, r.BandwidthGBPerS, rate)
	}
	out, _ = command(t, exitOK, args...)
	if !strings.Contains(out, "cpu reads 33.6 MB of weights and inputs per run, ") {
		t.Errorf("printed\n%s", out)
	}
}

func TestBenchThreadsAndSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	times := filepath.Join(t.TempDir(), "times.csv")
	out, _ := command(t, exitOK, "bench", "logreg_iris.onnx", "--threads", "1,2", "--duration", "2ms", "--rounds", "1",
		"--json", "--save", file, "--csv", times)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	saved := decode[[]benchJSON](t, string(data))
	if len(saved) != 2 || saved[0].Threads != 1 || saved[1].Threads != 2 || saved[1].Results[0].Runs < 1 {
		t.Errorf("saved %+v", saved)
	}
	for d := json.NewDecoder(strings.NewReader(out)); len(saved) > 0; saved = saved[1:] {
		var r benchJSON
		if err := d.Decode(&r); err != nil || r.Threads != saved[0].Threads || r.Results[0] != saved[0].Results[0] {
			t.Errorf("printed %+v, %v; saved %+v", r, err, saved[0])
		}
	}
	if data, err = os.ReadFile(times); err != nil || !strings.HasPrefix(string(data),
		"model,provider,run,ms,threads\nlogreg_iris.onnx,cpu,0,") || !strings.Contains(string(data), ",2\n") {
		t.Errorf("%v, %.200s", err, data)
	}
	// A failed command writes nothing.
	none := filepath.Join(t.TempDir(), "none.json")
	command(t, exitFailed, "bench", "logreg_iris.onnx", "nosuch.onnx", "--duration", "2ms", "--rounds",
		"1", "--save", none)
	if _, err := os.Stat(none); err == nil {
		t.Error("a failed command wrote its results")
	}
}

func TestBenchMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"bench"},
		{"bench", "logreg_iris.onnx", "--provider", "cpu,cpu"},
		{"bench", "logreg_iris.onnx", "--provider", "nothing"},
		{"bench", "logreg_iris.onnx", "--rounds", "0"},
		{"bench", "logreg_iris.onnx", "--threads", "1,-1"},
		{"bench", "logreg_iris.onnx", "--threads", "x"},
		{"bench", "logreg_iris.onnx", "--shape", "x=2"},
		{"bench", "logreg_iris.onnx", "--shape", "float_input"},
		{"compare", "logreg_iris.onnx", "--provider", "cpu"},
		{"compare", "logreg_iris.onnx", "--rtol", "-1"},
		{"profile", "logreg_iris.onnx", "--provider", "nothing"},
		{"profile", "logreg_iris.onnx", "--runs", "0"},
	} {
		command(t, exitUsage, args...)
	}
	// A provider that fails does not take the others' figures along.
	bad := filepath.Join(t.TempDir(), "bad.onnx")
	b := onnx.NewModel("bad").Opset("", 13)
	b.Input("x", onnx.DataType(tensor.TypeFloat32), 1).Output("y", onnx.DataType(tensor.TypeFloat32), 1)
	b.Node("NoSuchOperator", []string{"x"}, []string{"y"})
	if err := onnx.WriteFile(bad, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, exitFailed, "bench", bad, "--duration", "1ms", "--rounds", "1", "--json")
	if !strings.Contains(out, "NoSuchOperator") {
		t.Errorf("the failure is not printed:\n%s", out)
	}
}

// TestSettleWaitsForThreads injects the times of threads that spin for a while, as those of ONNX
// Runtime do after a run.
func TestSettleWaitsForThreads(t *testing.T) {
	for _, c := range []struct{ spinning, windows int }{{0, 1}, {2, 3}, {9, 10}, {100, 10}} {
		windows := 0
		settleBy(func(window time.Duration) time.Duration {
			if windows++; windows > c.spinning {
				return window / 10
			}
			return window
		})
		if windows != c.windows {
			t.Errorf("threads that spin for %d windows: settle takes %d, want %d", c.spinning, windows, c.windows)
		}
	}
}
