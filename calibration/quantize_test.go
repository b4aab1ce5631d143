package calibration

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// checkModel checks a model and returns it as read from a file.
func checkModel(t testing.TB, m *onnx.Model) *onnx.Model {
	t.Helper()
	if err := onnx.Check(m, &onnx.CheckOptions{Schema: onward.OperatorSchema, CustomDomains: true}); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"": true}
	for _, n := range m.Graph.Nodes {
		if names[n.Name] && n.Name != "" {
			t.Errorf("two nodes have the name %q, which ONNX Runtime refuses", n.Name)
		}
		names[n.Name] = true
	}
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := onnx.Unmarshal(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func runOn(t testing.TB, m *onnx.Model, provider string, feed onward.Values) onward.Values {
	t.Helper()
	s, err := onward.OpenModel(t.Context(), m,
		&onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: provider}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(t.Context(), feed, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range out {
		out[k] = tensor.Clone(v)
	}
	return out
}

// operators counts the operators of a model.
func operators(m *onnx.Model) map[string]int {
	r := map[string]int{}
	for _, n := range m.Graph.Nodes {
		r[n.OpType]++
	}
	return r
}

// initializers decodes the integers, scales and zero points of a quantized model.
func initializers(t testing.TB, m *onnx.Model) map[string]*tensor.Tensor {
	t.Helper()
	r := map[string]*tensor.Tensor{}
	for _, i := range m.Graph.Initializers {
		d, err := m.DecodeTensor(i)
		if err != nil {
			t.Fatal(err)
		}
		r[i.Name] = d
	}
	return r
}

// sameInitializers fails if a scale, zero point or weight differs from ONNX Runtime's.
func sameInitializers(t *testing.T, got, want map[string]*tensor.Tensor, extra ...string) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		if g == nil {
			t.Errorf("initializer %q, %s, is missing", name, w)
			continue
		}
		if g.DType() != w.DType() || !bytes.Equal(g.Bytes(), w.Bytes()) {
			t.Errorf("%q is %s, want %s", name, tensor.Format(g, nil),
				tensor.Format(w, nil))
		}
	}
	for name, g := range got {
		if want[name] == nil && !slices.Contains(extra, name) {
			t.Errorf("unexpected initializer %q, %s", name, g)
		}
	}
}

func staticOptions(label string) *QuantizeOptions {
	types := map[string]tensor.DType{"u8": tensor.TypeUint8, "s8": tensor.TypeInt8}
	parts := strings.Split(label, "-")
	return &QuantizeOptions{
		Style: Style(parts[0]), Activation: types[parts[1][:2]], Weight: types[parts[1][2:]],
		PerChannel: slices.Contains(parts, "channel"), ReduceRange: slices.Contains(parts, "reduce"),
		SymmetricActivations: slices.Contains(parts, "symmetric"),
	}
}

// This test checks that with the ranges of ONNX Runtime, operators, scales, zero points,
// weights and biases equal those of its quantizer.
func TestQuantizeStaticEqualsONNXRuntime(t *testing.T) {
	for _, name := range []string{"conv", "block"} {
		m := recordedModel(t, name+".onnx")
		table, err := ReadFile(filepath.Join("testdata", "static", name, "ranges.json"))
		if err != nil {
			t.Fatal(err)
		}
		feed := recordedBatches(t, name+".npz")[0]
		files, err := filepath.Glob(filepath.Join("testdata", "static", name, "*.onnx"))
		if err != nil || len(files) != 7 {
			t.Fatalf("%d models, %v", len(files), err)
		}
		for _, file := range files {
			label := strings.TrimSuffix(filepath.Base(file), ".onnx")
			t.Run(name+"/"+label, func(t *testing.T) {
				want := recordedModel(t, "static", name, label+".onnx")
				got, err := QuantizeStatic(m, table, staticOptions(label))
				if err != nil {
					t.Fatal(err)
				}
				got = checkModel(t, got)
				if d := cmp.Diff(operators(want), operators(got)); d != "" {
					t.Errorf("operators (-ONNX Runtime's, +ours): %s", d)
				}
				sameInitializers(t, initializers(t, got), initializers(t, want))
				for _, provider := range []string{"reference", "cpu"} {
					a, b := runOn(t, got, provider, feed), runOn(t, want, provider, feed)
					if err := tensor.Equal(a["y"], b["y"]); err != nil {
						t.Errorf("%s: %v", provider, err)
					}
				}
			})
		}
	}
}

func TestQuantizeDynamicEqualsONNXRuntime(t *testing.T) {
	types := map[string]tensor.DType{"u8": tensor.TypeUint8, "s8": tensor.TypeInt8}
	for _, name := range []string{"conv", "block"} {
		m := recordedModel(t, name+".onnx")
		feed := recordedBatches(t, name+".npz")[0]
		for _, label := range []string{"s8", "u8", "s8-channel", "s8-channel-reduce"} {
			t.Run(name+"/"+label, func(t *testing.T) {
				want := recordedModel(t, "dynamic", name, label+".onnx")
				got, err := QuantizeDynamic(m, &QuantizeOptions{
					Weight: types[label[:2]], PerChannel: strings.Contains(label, "channel"), ReduceRange: strings.Contains(label, "reduce"),
				})
				if err != nil {
					t.Fatal(err)
				}
				got = checkModel(t, got)
				if d := cmp.Diff(operators(want), operators(got)); d != "" {
					t.Errorf("operators (-ONNX Runtime's, +ours): %s", d)
				}
				g, w := initializers(t, got), initializers(t, want)
				for _, list := range []map[string]*tensor.Tensor{g, w} {
					for k := range list {
						if strings.HasSuffix(k, "_bias_shape") || strings.HasSuffix(k, "_bias_reshape_shape") {
							delete(list, k)
						}
						if strings.Contains(k, "_Transposed") { // Gemm's, which is converted to MatMul
							list[strings.Replace(k, "_Transposed", "", 1)] = list[k]
							delete(list, k)
						}
					}
				}
				sameInitializers(t, g, w)
				for _, provider := range []string{"reference", "cpu"} {
					a, b := runOn(t, got, provider, feed), runOn(t, want, provider, feed)
					if err := tensor.AllClose(a["y"], b["y"], 1e-5, 1e-6); err != nil {
						t.Errorf("%s: %v", provider, err)
					}
				}
			})
		}
	}
}

// This test compares the weights of blocks with those of ONNX Runtime's MatMulNBitsQuantizer.
// If all numbers of a block are equal, several codes are equally good.
func TestQuantizeMatMulNBitsEqualsONNXRuntime(t *testing.T) {
	m := recordedModel(t, "nbits.onnx")
	x := make([]float32, 3*70)
	for i := range x {
		x[i] = float32(i%17-8) / 8
	}
	feed := onward.Values{"x": tensor.Must(tensor.New(x, 3, 70))}
	exact := runOn(t, m, "reference", feed)["y"]
	files, err := filepath.Glob(filepath.Join("testdata", "nbits", "*.onnx"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%d models, %v", len(files), err)
	}
	for _, file := range files {
		label := strings.TrimSuffix(filepath.Base(file), ".onnx")
		t.Run(label, func(t *testing.T) {
			var bits, block int
			parts := strings.Split(label, "-")
			fmt.Sscan(parts[1], &bits)
			fmt.Sscan(parts[2], &block)
			o := &NBitsOptions{Style: Style(parts[0]), Bits: bits, Block: block,
				Symmetric: strings.Contains(label, "symmetric")}
			if o.Style == QOperator {
				o.AccuracyLevel = 4
			}
			want := recordedModel(t, "nbits", label+".onnx")
			got, err := QuantizeMatMulNBits(m, o)
			if err != nil {
				t.Fatal(err)
			}
			got = checkModel(t, got)
			if d := cmp.Diff(operators(want), operators(got)); d != "" {
				t.Errorf("operators (-ONNX Runtime's, +ours): %s", d)
			}
			sameInitializers(t, initializers(t, got), initializers(t, want))
			for _, provider := range []string{"reference", "cpu"} {
				y := runOn(t, got, provider, feed)["y"]
				if r := compareTensors(exact.(*tensor.Tensor), y.(*tensor.Tensor)); r.SNR() < 14 {
					t.Errorf("%s: %.1f dB", provider, r.SNR())
				}
			}
		})
	}
}

// cutModel returns a model of Conv, Relu or Clip, and Conv.
func cutModel(t testing.TB, cut string, bounds ...float32) *onnx.Model {
	t.Helper()
	b := onnx.NewModel("cut").Opset("", 17)
	b.Input("x", onnx.Float, 1, 1, 1, 64)
	b.Initializer("w", []float32{1}, 1, 1, 1, 1)
	b.Node("Conv", []string{"x", "w"}, []string{"c"}).Name("first")
	in := []string{"c"}
	for i, v := range bounds {
		name := fmt.Sprint("bound", i)
		b.Initializer(name, v)
		in = append(in, name)
	}
	b.Node(cut, in, []string{"r"}).Name("cut")
	b.Node("Conv", []string{"r", "w"}, []string{"y"}).Name("second")
	b.Output("y", onnx.Float, 1, 1, 1, 64)
	return b.Must()
}

// This test checks that Relu and Clip are removed only if the quantized range clips in the same
// way: not with a range that extends below zero, as in tables with one number per tensor.
func TestActivationsRemovedOnlyIfRangesClip(t *testing.T) {
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i-32) / 8
	}
	feed := onward.Values{"x": tensor.Must(tensor.New(x, 1, 1, 1, 64))}
	dynamic := NewTable(MinMax)
	for _, name := range []string{"x", "c", "r", "y"} {
		dynamic.Ranges[name] = Range{Lowest: -4, Highest: 4}
	}
	for _, c := range []struct {
		name   string
		cut    string
		bounds []float32
	}{{"relu", "Relu", nil}, {"clip", "Clip", []float32{-1, 2}}, {"clip above zero", "Clip", []float32{1, 3}},
		{"clip at six", "Clip", []float32{0, 6}}} {
		m := cutModel(t, c.cut, c.bounds...)
		want := runOn(t, m, "reference", feed)["y"]
		found, err := Calibrate(t.Context(), m, Batches(feed), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, table := range []*Table{found, dynamic} {
			for _, o := range []QuantizeOptions{{}, {Style: QOperator},
				{SymmetricActivations: true, Activation: tensor.TypeInt8}, {KeepActivations: true}, {Style: QOperator, SymmetricActivations: true}} {
				q, err := QuantizeStatic(m, table, &o)
				if err != nil {
					t.Fatal(err)
				}
				q = checkModel(t, q)
				for _, p := range []string{"reference", "cpu"} {
					if err := tensor.AllClose(runOn(t, q, p, feed)["y"], want, 0, 0.1); err != nil {
						t.Errorf("%s, table %d, %+v, %s: %v", c.name, i, o, p, err)
					}
				}
			}
		}
	}
}
