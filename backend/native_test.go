package backend_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestIntermediateOnProviders returns the same results on every provider: native libraries run a
// model with more outputs.
func TestIntermediateOnProviders(t *testing.T) {
	want := map[string]*tensor.Tensor{"x": matrix(), "xw": tensor.Must(tensor.New([]float32{4, 6, 11, 16}, 2, 2)),
		"h": tensor.Must(tensor.New([]float32{-6, 6.1, 1, 16.1}, 2, 2)), "y": linearResult}
	onProviders(t, func(t *testing.T, b backend.Provider) {
		r := prepare(t, linear(), b, nil)
		values, err := r.Intermediate(t.Context(), backend.One(matrix()))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range values {
			names = append(names, v.Name)
			if want[v.Name] != nil {
				wantEqual(t, v.Value, want[v.Name])
			}
		}
		if b != backend.CPU && !slices.Equal(names, []string{"x", "xw", "h", "y"}) { // cpu fuses nodes
			t.Errorf("the values are %v", names)
		}
		ops := ""
		for n, err := range r.Steps(t.Context(), backend.One(matrix())) {
			if err != nil {
				t.Fatal(err)
			}
			ops += n.OpType + " "
			for i, v := range n.In {
				if v == nil {
					t.Errorf("%s: input %s is missing", n.OpType, n.InNames[i])
				}
			}
			if n.OpType == "Add" {
				break
			}
		}
		if b != backend.CPU && ops != "MatMul Add " {
			t.Errorf("steps %q", ops)
		}
		var lines []string
		out, err := r.RunVerbose(t.Context(), backend.One(matrix()), backend.VerboseInputs,
			func(f string, args ...any) { lines = append(lines, fmt.Sprintf(f, args...)) })
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out.Tensor(0), linearResult)
		if text := strings.Join(lines, "\n"); b != backend.CPU &&
			(!strings.Contains(text, `#2 Relu(h) -> y`) || !strings.Contains(text, `+"h": shape=[2 2] dtype=float min=-6 max=16.1`)) {
			t.Errorf("verbose:\n%s", text)
		}
	})
}

// TestTimesOnProviders takes times from the provider's own profile.
func TestTimesOnProviders(t *testing.T) {
	onProviders(t, func(t *testing.T, b backend.Provider) {
		r := prepare(t, linear(), b, &backend.Options{Profile: true})
		out, times, err := r.RunTimed(t.Context(), backend.One(matrix()))
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, out["y"], linearResult)
		if len(times) == 0 {
			t.Fatal("no nodes")
		}
		for i, n := range times {
			if n.I != i || n.OpType == "" || n.Time < 0 {
				t.Errorf("node %d: %+v", i, n)
			}
		}
		for range 3 {
			if _, err := r.Run(t.Context(), backend.One(matrix()), nil); err != nil {
				t.Fatal(err)
			}
		}
		events, dropped, err := r.Profiling()
		runs := 3
		if b == backend.CPU || b == backend.Reference {
			runs++ // RunTimed runs in the same session
		}
		if err != nil || dropped != 0 || len(events) != runs*len(times) {
			t.Fatalf("%d events of %d nodes, %d dropped, %v", len(events), len(times), dropped, err)
		}
		if !slices.IsSortedFunc(events, func(a, b backend.ProfileEvent) int { return int(a.Start - b.Start) }) ||
			events[0].Start != 0 {
			t.Errorf("events are not in order: %+v", events)
		}
		_, _, err = r.Profiling()
		if native := b == "ort" || b == "openvino"; native != errors.Is(err, onward.ErrNotImplemented) {
			t.Errorf("a second profile: %v", err)
		}
	})
}

// TestProfileFolderIsRemoved leaves no files behind.
func TestProfileFolderIsRemoved(t *testing.T) {
	onProviders(t, func(t *testing.T, b backend.Provider) {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		r, err := backend.Prepare(t.Context(), linear(), b, &backend.Options{Profile: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.RunTimed(t.Context(), backend.One(matrix())); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "onward-profile-*")); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// What cannot be had is an error and not an empty list: a Rep without a model, a session without
// a profile, an observer of a session, a result that the library cannot return.
func TestObservationIsNeverSilent(t *testing.T) {
	strs := onnx.NewModel("strings").Opset("", 17).IRVersion(8)
	strs.Input("x", onnx.Float, 2).Output("n", onnx.Int64, 1)
	strs.Node("Cast", []string{"x"}, []string{"s"}, onnx.Attrs{"to": int64(onnx.String)})
	strs.Node("Shape", []string{"s"}, []string{"n"})
	onProviders(t, func(t *testing.T, b backend.Provider) {
		native := b == "ort" || b == "openvino"
		r := prepare(t, linear(), b, nil)
		ofSession := prepare(t, r.Session, b, nil)
		_, profile := backend.Prepare(t.Context(), r.Session, b, &backend.Options{Profile: true})
		_, intermediate := ofSession.Intermediate(t.Context(), backend.One(matrix()))
		_, _, timed := ofSession.RunTimed(t.Context(), backend.One(matrix()))
		observe := &onward.RunOptions{Observe: func(onward.NodeRun) {}}
		_, run := r.Session.Run(t.Context(), onward.Values{"x": matrix()}, observe)
		for name, err := range map[string]error{"profile of a session": profile, "results of a session": intermediate,
			"times of a session": timed, "observer": run} {
			if native != errors.Is(err, onward.ErrNotImplemented) || !native && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if b != "openvino" {
			return
		}
		s, err := backend.Prepare(t.Context(), strs.Must(), b, nil)
		if err == nil {
			_, err = s.Intermediate(t.Context(), backend.One(vector(1, 2)))
		}
		if !errors.Is(err, onward.ErrNotImplemented) {
			t.Errorf("a result of strings: %v", err)
		}
	})
}

// TestObservedInputsAndOutputs leaves an input unused, gives an initializer and names outputs.
func TestObservedInputsAndOutputs(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, 2).Input("unused", onnx.Float, 3).Input("k", onnx.Float, 2).Output("y", onnx.Float, 2).
		Output("z", onnx.Float, 2).Output("k", onnx.Float, 2)
	b.Initializer("k", []float32{2, 3}, 2)
	b.Node("Mul", []string{"x", "k"}, []string{"y"})
	b.Node("Neg", []string{"y"}, []string{"z"})
	m := b.Must()
	onProviders(t, func(t *testing.T, p backend.Provider) {
		r := prepare(t, m, p, nil)
		in := backend.Named{"x": vector(1, 1), "unused": vector(0, 0, 0)}
		seen := 0
		opts := &onward.RunOptions{Observe: func(onward.NodeRun) { seen++ }}
		out, err := r.Run(t.Context(), in, opts)
		if err != nil {
			t.Fatal(err)
		}
		if seen == 0 || !slices.Equal(out.Names, []string{"y", "z", "k"}) {
			t.Errorf("%d nodes, outputs %v", seen, out.Names)
		}
		wantEqual(t, out.Get("z"), vector(-2, -3))
		wantEqual(t, out.Get("k"), vector(2, 3))
		opts.Outputs = []string{"z"}
		if out, err = r.Run(t.Context(), in, opts); err != nil || len(out.Values) != 1 {
			t.Fatalf("%v, %v", out, err)
		}
		wantEqual(t, out.Tensor(0), vector(-2, -3))
		opts.Outputs = []string{"q"}
		if _, err = r.Run(t.Context(), in, opts); !errors.Is(err, onward.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), "Invalid output name:q") {
			t.Errorf("an unknown output: %v", err)
		}
	})
}

// TestStopsBetweenObservedNodes ends a run of a native library with the context.
func TestStopsBetweenObservedNodes(t *testing.T) {
	onProviders(t, func(t *testing.T, b backend.Provider) {
		r := prepare(t, linear(), b, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		_, err := r.Run(ctx, backend.One(matrix()), &onward.RunOptions{Observe: func(onward.NodeRun) {
			seen++
			cancel()
		}})
		if b != backend.CPU && (!errors.Is(err, context.Canceled) || seen != 1) { // cpu may fuse all nodes to one
			t.Errorf("%d nodes, %v", seen, err)
		}
	})
}
