package calibration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

type recordedRanges struct {
	Name, Method string
	Window       int
	Options      struct {
		Symmetric         bool
		OpTypes           []string `json:"op_types"`
		MovingAverage     bool     `json:"moving_average"`
		AveragingConstant float64  `json:"averaging_constant"`
		Bins              int
		QuantizedBins     int `json:"quantized_bins"`
		Percent           float64
	}
	Ranges map[string][2]float32
}

// The model's sums are exact in any order, so that the ranges equal ONNX Runtime's bit for bit.
// It makes one collection of all batches, or with Window one for every few batches.
func TestCalibrateEqualsONNXRuntime(t *testing.T) {
	var cases []recordedRanges
	readJSON(t, &cases, "ranges.json")
	m := recordedModel(t, "exact.onnx")
	batches := recordedBatches(t, "exact.npz")
	methods := map[string]Method{"minmax": MinMax, "entropy": Entropy, "percentile": Percentile}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			o := c.Options
			for _, provider := range []string{"cpu", "reference"} {
				got, err := Calibrate(t.Context(), m, Batches(batches...), &Options{
					Method: methods[c.Method], Window: c.Window, Symmetric: o.Symmetric, OpTypes: o.OpTypes,
					MovingAverage: o.MovingAverage, AveragingConstant: o.AveragingConstant,
					Bins: o.Bins, QuantizedBins: o.QuantizedBins, Percent: o.Percent,
					Session: &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if g, w := got.Names(), slices.Sorted(maps.Keys(c.Ranges)); !slices.Equal(g, w) {
					t.Fatalf("ranges for %v, want %v", g, w)
				}
				for name, want := range c.Ranges {
					if r := got.Ranges[name]; r.Lowest != want[0] || r.Highest != want[1] {
						t.Errorf("%s, %s: %g to %g, want %g to %g", provider, name, r.Lowest, r.Highest,
							want[0], want[1])
					}
				}
			}
		})
	}
}

// identityModel returns its input x, of any shape.
func identityModel(t testing.TB, dtype onnx.DataType) *onnx.Model {
	t.Helper()
	b := onnx.NewModel("identity")
	b.Input("x", dtype, "n")
	b.Node("Identity", []string{"x"}, []string{"y"})
	b.Output("y", dtype, "n")
	return b.Must()
}

func vectors(rows ...[]float32) []onward.Values {
	var b []onward.Values
	for _, r := range rows {
		b = append(b, onward.Values{"x": tensor.Must(tensor.New(r, len(r)))})
	}
	return b
}

func TestCalibrateValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	m := identityModel(t, onnx.Float)
	for _, c := range []struct {
		name   string
		data   [][]float32
		o      Options
		lo, hi float32
		none   bool
		within bool // the ends may be further inside
		fails  string
	}{
		{name: "NaN is left out", data: [][]float32{{nan, 3, -1}, {nan}}, lo: -1, hi: 3},
		{name: "only NaN", data: [][]float32{{nan}}, none: true},
		{name: "no values", data: [][]float32{{}}, none: true},
		{name: "one value", data: [][]float32{{2}}, lo: 2, hi: 2},
		{name: "zeros in a histogram", data: [][]float32{{0, 0}}, o: Options{Method: Entropy}},
		{name: "zeros first", data: [][]float32{{0, 0}, {1, -2}}, o: Options{Method: Percentile, Window: 1}, lo: -2, hi: 1},
		{name: "infinity in a histogram", data: [][]float32{{inf, 1}, {2}}, o: Options{Method: Entropy}, none: true},
		{name: "infinity", data: [][]float32{{1}, {-inf, 1}, {2}}, none: true},
		{name: "infinity in an average", data: [][]float32{{1}, {-inf, 1}, {2}}, o: Options{MovingAverage: true, Window: 1}, none: true},
		{name: "huge in a histogram", data: [][]float32{{math.MaxFloat32, 1}}, o: Options{Method: Entropy}, fails: "magnitudes of at most"},
		{name: "infinity later", data: [][]float32{{1}, {inf}, {2}}, o: Options{Method: Percentile, Window: 1}, none: true},
		{name: "wide", data: [][]float32{{1e-6, -1e-6}, {3, -4}, {1e30}}, o: Options{Method: Percentile, Window: 1, Percent: 100}, lo: -1e25, hi: 1e30, within: true},
		{name: "wide magnitudes", data: [][]float32{{1e-6, -2e-6}, {1e30, -4}}, o: Options{Method: Percentile, Window: 1, Symmetric: true, Percent: 100}, lo: -4, hi: 1e30, within: true},
		{name: "wide entropy", data: [][]float32{{1e-6, -1e-6}, {3, -4}}, o: Options{Method: Entropy, Window: 1}, lo: -4, hi: 3, within: true},
		{name: "denormals", data: [][]float32{{1e-45, -1e-45}, {2}}, o: Options{Method: Entropy, Window: 1}, lo: -1e-45, hi: 2, within: true},
		{name: "close magnitudes", data: [][]float32{{1e6, -1e6}, {3e6}}, o: Options{Method: Percentile, Window: 1, Symmetric: true, Percent: 100}, lo: -3e6, hi: 3e6, within: true},
		{name: "no batch", fails: "no batch"},
		{name: "odd bins", data: [][]float32{{1}}, o: Options{Method: Entropy, Bins: 129}, fails: "Bins is 129"},
		{name: "percent", data: [][]float32{{1}}, o: Options{Percent: 101}, fails: "Percent is 101"},
		{name: "average of histograms", data: [][]float32{{1}}, o: Options{Method: Entropy, MovingAverage: true}, fails: "MovingAverage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, err := Calibrate(t.Context(), m, Batches(vectors(c.data...)...), &c.o)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, ok := table.Lookup("y")
			if c.within {
				if !(r.Lowest >= c.lo && r.Highest <= c.hi && r.Highest > c.hi/2) {
					t.Errorf("range %g to %g, want it in %g to %g and no less than half", r.Lowest,
						r.Highest, c.lo, c.hi)
				}
			} else if ok == c.none || r.Lowest != c.lo || r.Highest != c.hi {
				t.Errorf("range %g to %g (%t), want %g to %g", r.Lowest, r.Highest, ok, c.lo, c.hi)
			}
			if len(r.Hist) > 1<<16 {
				t.Errorf("histogram has %d bins", len(r.Hist))
			}
		})
	}
}

func TestCalibrateFloat16(t *testing.T) {
	m := identityModel(t, onnx.Float16)
	x := tensor.Must(tensor.New([]tensor.Float16{tensor.NewFloat16(-1.5), tensor.NewFloat16(2)}, 2))
	table, err := Calibrate(t.Context(), m, Batches(onward.Values{"x": x}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := table.Ranges["x"]; r.Lowest != -1.5 || r.Highest != 2 {
		t.Errorf("%g to %g, want -1.5 to 2", r.Lowest, r.Highest)
	}
}

type sliceReader struct {
	batches []onward.Values
	closed  *int
}

func (r *sliceReader) Next(context.Context) (onward.Values, error) {
	if len(r.batches) == 0 {
		return nil, io.EOF
	}
	b := r.batches[0]
	r.batches = r.batches[1:]
	return b, nil
}

func (r *sliceReader) Close() error { *r.closed++; return nil }

func TestCalibrateReaderAndProgress(t *testing.T) {
	m := identityModel(t, onnx.Float)
	closed := 0
	data := FromReader(t.Context(), func() (Reader, error) {
		return &sliceReader{vectors([]float32{1}, []float32{2}, []float32{9}), &closed}, nil
	})
	var seen []Progress
	table, err := Calibrate(t.Context(), m, data,
		&Options{Method: Percentile, MaxBatches: 2, Progress: func(p Progress) { seen = append(seen, p) }})
	if err != nil {
		t.Fatal(err)
	}
	if r := table.Ranges["x"]; r.Highest > 2 || r.Highest < 1.99 {
		t.Errorf("highest is %g, want 2 of the first two batches", r.Highest)
	}
	want := []Progress{{1, 2, 1}, {1, 2, 2}, {2, 2, 1}, {2, 2, 2}}
	if !slices.Equal(seen, want) || closed != 2 {
		t.Errorf("progress %v, closed %d times, want %v and 2", seen, closed, want)
	}
}

func TestCalibrateErrors(t *testing.T) {
	m := identityModel(t, onnx.Float)
	broken := errors.New("broken")
	bad := func(yield func(onward.Values, error) bool) { yield(nil, broken) }
	if _, err := Calibrate(t.Context(), m, bad, nil); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the data", err)
	}
	once := vectors([]float32{1})
	single := iter.Seq2[onward.Values, error](func(yield func(onward.Values, error) bool) {
		for len(once) > 0 {
			b := once[0]
			once = once[1:]
			if !yield(b, nil) {
				return
			}
		}
	})
	if _, err := Calibrate(t.Context(), m, single, &Options{Method: Entropy}); err == nil {
		t.Error("data for one pass only: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Calibrate(ctx, m, Batches(vectors([]float32{1})...), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := Calibrate(t.Context(), m, Batches(onward.Values{}), nil); err == nil {
		t.Error("batch without the input: no error")
	}
	if _, err := Calibrate(t.Context(), identityModel(t, onnx.Int64), Batches(vectors([]float32{1})...),
		nil); err == nil {
		t.Error("model without float values: no error")
	}
}

// This test checks that a histogram that widens loses no value, stays within its bound, and
// keeps its borders in order.
func TestHistogramWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, err := (&Options{Method: Percentile, Symmetric: rapid.Bool().Draw(t, "absolute"), Bins: 16, MaxBins: 64}).
			withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		var h *histogram
		var want int64
		for range rapid.IntRange(1, 8).Draw(t, "windows") {
			scale := math.Pow(10, rapid.Float64Range(-6, 6).Draw(t, "scale"))
			v := make([]float32, rapid.IntRange(1, 20).Draw(t, "values"))
			for i := range v {
				v[i] = float32(scale * rapid.Float64Range(-1, 1).Draw(t, "x"))
			}
			var e, a extent
			e.add(v)
			if o.absolute() {
				v = magnitude(nil, v)
				a.add(v)
			}
			if h == nil {
				h, err = newHistogram(o, e, a)
			} else {
				err = h.widen(o, e, a)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.count(v)
			for _, x := range v {
				if x >= h.edges[0] { // smaller magnitudes than the first window's are not counted
					want++
				}
			}
		}
		var got int64
		for i, c := range h.counts {
			got += c
			if !(h.edges[i] <= h.edges[i+1]) {
				t.Fatalf("border %d is %g, the next %g", i, h.edges[i], h.edges[i+1])
			}
		}
		if got != want || len(h.counts) > 64 || len(h.edges) != len(h.counts)+1 {
			t.Fatalf("%d values in %d bins with %d borders, want %d values in 64 bins at most", got, len(h.counts),
				len(h.edges), want)
		}
	})
}

func ExampleCalibrate() {
	b := onnx.NewModel("double")
	b.Input("x", onnx.Float, "n")
	b.Node("Add", []string{"x", "x"}, []string{"y"})
	b.Output("y", onnx.Float, "n")
	x := tensor.Must(tensor.New([]float32{-1, 0.5, 3}, 3))
	table, err := Calibrate(context.Background(), b.Must(), Batches(onward.Values{"x": x}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range table.Names() {
		fmt.Println(name, table.Ranges[name].Lowest, table.Ranges[name].Highest)
	}
	// Output:
	// x -1 3
	// y -2 6
}

// This test compares ranges of networks whose sums depend on their order with ONNX Runtime's,
// within float rounding.
func TestCalibrateNetworks(t *testing.T) {
	for _, name := range []string{"conv", "block"} {
		want, err := ReadFile("testdata/static/" + name + "/ranges.json")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Calibrate(t.Context(), recordedModel(t, name+".onnx"), Batches(recordedBatches(t, name+".npz")...),
			&Options{OpTypes: StaticOps()})
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Ranges) < 15 || !slices.Equal(got.Names(), want.Names()) {
			t.Errorf("%s: ranges of %v, want %v", name, got.Names(), want.Names())
		}
		for k, w := range want.Ranges {
			g := got.Ranges[k]
			if near := 1e-5 * float64(w.Dynamic()); math.Abs(float64(g.Lowest-w.Lowest)) > near ||
				math.Abs(float64(g.Highest-w.Highest)) > near {
				t.Errorf("%s, %s: %g to %g, want %g to %g", name, k, g.Lowest, g.Highest, w.Lowest, w.Highest)
			}
		}
	}
}
