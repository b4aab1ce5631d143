package operators

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/recorded"
	"github.com/onward-ml/onward/internal/testing/suite"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

func recordedCases(t testing.TB) map[string][]*recorded.Case {
	t.Helper()
	files, err := recorded.Load("../../ops/all/testdata/recorded")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRecordedModels runs every recorded case as a model file on both providers and
// compares the results.
func TestRecordedModels(t *testing.T) {
	files := recordedCases(t)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		t.Run(file, func(t *testing.T) {
			for i, c := range files[file] {
				m, feed, err := c.Model()
				if err != nil {
					t.Fatalf("%d %s: %v", i, c.Op, err)
				}
				tol := c.Tol
				if tol == 0 {
					tol = 1e-3
				}
				for _, p := range enginetest.Engines {
					s, err := onward.OpenModel(t.Context(), m, enginetest.On(p))
					if err != nil {
						t.Errorf("%d %s-%d on %s: %v", i, c.Op, c.Opset, p, err)
						continue
					}
					got, err := s.Run(context.Background(), feed, nil)
					if err != nil {
						t.Errorf("%d %s-%d on %s: %v", i, c.Op, c.Opset, p, err)
						continue
					}
					for k, v := range c.Out {
						if v == nil {
							continue
						}
						if err := tensor.AllClose(got[fmt.Sprintf("o%d", k)], v.Value(), tol,
							max(1e-7, tol*largest(v.Value()))); err != nil {
							t.Errorf("%d %s-%d on %s: output %d: %v, by %s: %s", i, c.Op, c.Opset, p, k,
								err, c.By, c.Note)
						}
					}
				}
			}
		})
	}
}

// TestLoopWithoutTripsHasTheDeclaredShape scans a value whose shape could change between
// iterations; only the declaration of the body's output fixes it.
func TestLoopWithoutTripsHasTheDeclaredShape(t *testing.T) {
	body := onnx.NewGraph("body").Input("i", onnx.Int64).Input("c", onnx.Bool).Input("v", onnx.Float, 2, 3)
	body.Output("d", onnx.Bool).Output("w", onnx.Float, 2, 3).Output("scan", onnx.Float, 2, 3)
	body.Node("Identity", []string{"c"}, []string{"d"})
	body.Node("Add", []string{"v", "v"}, []string{"w"})
	body.Node("Identity", []string{"w"}, []string{"scan"})
	b := onnx.NewModel("loop").Opset("", 21)
	b.Input("n", onnx.Int64).Input("x", onnx.Float, 2, 3).OutputType("y", nil).OutputType("all", nil)
	b.Node("Loop", []string{"n", "", "x"}, []string{"y", "all"}, onnx.Attrs{"body": body})
	for _, p := range enginetest.Engines {
		s, err := onward.OpenModel(t.Context(), b.Must(), enginetest.On(p))
		if err != nil {
			t.Fatal(err)
		}
		x := tensor.Must(tensor.Zeros(tensor.TypeFloat32, 2, 3))
		for n := range int64(3) {
			out, err := s.Run(context.Background(), onward.Values{"n": tensor.Scalar(n), "x": x}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := out["all"].(*tensor.Tensor).Shape(); !slices.Equal(got, []int{int(n), 2, 3}) {
				t.Errorf("%s: %d trips give shape %v", p, n, got)
			}
		}
	}
}

// largest is a thousandth of the largest float32 of a value: sums have the rounding
// errors of their largest terms.
func largest(v tensor.Value) float64 {
	x, ok := v.(*tensor.Tensor)
	if !ok || x.DType() != tensor.TypeFloat32 {
		return 0
	}
	most := 0.0
	for _, f := range tensor.MustData[float32](x) {
		if d := max(float64(f), -float64(f)); d > most && d < 1e30 {
			most = d
		}
	}
	return most / 1000
}

// TestEveryVersionOfEveryOperatorHasACase checks that every version of every operator has a
// recorded case or a one-node model in ONNX's test suite.
func TestEveryVersionOfEveryOperatorHasACase(t *testing.T) {
	dir := suite.Dir(t)
	type form struct {
		op      string
		version int
	}
	have := map[form]int{}
	count := func(domain, op string, opset int) {
		d, err := kit.Lookup(domain, op, opset)
		if err != nil {
			return // a function of the model
		}
		v, _ := d.SinceVersion(opset)
		have[form{kit.QualifiedName(domain, op), v}]++
	}
	for _, cases := range recordedCases(t) {
		for _, c := range cases {
			domain, op := c.Domain()
			count(domain, op, c.Opset)
		}
	}
	upstream, err := recorded.LoadUpstream("../../ops/all/testdata/ort_tests/cases.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range upstream {
		if domain, op := c.Domain(); c.Graph == "" && c.Fails == "" {
			count(domain, op, c.Opset)
		}
	}
	ours := len(have)
	models, err := filepath.Glob(filepath.Join(dir, "*", "*", "model.onnx"))
	if err != nil || len(models) < 1000 {
		t.Fatalf("%d models in the suite: %v", len(models), err)
	}
	for _, file := range models {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1<<20 {
			continue
		}
		m, err := onnx.ReadFile(file, nil)
		if err != nil || len(m.Graph.Nodes) != 1 {
			continue
		}
		n := m.Graph.Nodes[0]
		for _, o := range m.OpsetImports {
			if kit.NormalDomain(o.Domain) == kit.NormalDomain(n.Domain) {
				count(n.Domain, n.OpType, int(o.Version))
			}
		}
	}
	var missing []string
	total := 0
	for _, d := range kit.All() {
		name := kit.QualifiedName(d.Domain, d.Name)
		if strings.HasPrefix(name, "onward.") || elsewhere[name] {
			continue // made by the optimizer or by Gradient, or tested elsewhere
		}
		for _, v := range d.Since.List() {
			total++
			if have[form{name, v}] == 0 {
				missing = append(missing, fmt.Sprintf("%s-%d", name, v))
			}
		}
	}
	t.Logf("%d versions of operators, %d with cases of ours", total, ours)
	if len(missing) > 0 {
		t.Errorf("%d versions of operators have no case: write one of each to a file "+
			"internal/ops/all/testdata/recorded/NAME.json,"+
			" as the scripts record*.py next to it do: %s", len(missing), strings.Join(missing, ", "))
	}
}

// elsewhere are operators of one version whose cases take more than one node's values.
var elsewhere = map[string]bool{
	"ai.onnx.preview.training.Gradient":             true, // whole models: package gradients and the suite
	"com.microsoft.DecoderMaskedMultiHeadAttention": true, // internal/ops/msft/decoder_masked_test.go
	"com.microsoft.BeamSearch":                      true, // whole models: generation_test.go
	"com.microsoft.GreedySearch":                    true, // likewise
	"com.microsoft.Sampling":                        true, // likewise
	"com.microsoft.WhisperBeamSearch":               true, // likewise
	"com.microsoft.SparseToDenseMatMul":             true, // sparse values: internal/ops/msft/msft_test.go
}
