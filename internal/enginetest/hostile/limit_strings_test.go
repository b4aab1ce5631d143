package hostile

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestStringsOfSubgraphsKeepTheLimit: strings that a subgraph has made count while other nodes hold
// them, after the value that the subgraph returned.
func TestStringsOfSubgraphsKeepTheLimit(t *testing.T) {
	const count, nodes = 1 << 12, 12
	for op, add := range map[string]func(b *onnx.ModelBuilder, k, out string){
		"If": func(b *onnx.ModelBuilder, k, out string) {
			g := onnx.NewGraph("g").OutputType("r", nil)
			g.Node("StringConcat", []string{"e", k}, []string{"r"})
			branch := subgraph(t, g)
			b.Node("If", []string{"yes"}, []string{k + "r"}, onnx.Attrs{"then_branch": branch, "else_branch": branch})
			b.Node("Concat", []string{k + "r", "x"}, []string{out}, onnx.Attrs{"axis": 0})
		},
		"SequenceMap": func(b *onnx.ModelBuilder, k, out string) {
			g := onnx.NewGraph("g").InputType("q", nil).OutputType("r", nil)
			g.Node("StringConcat", []string{"q", k}, []string{"r"})
			b.Node("SequenceConstruct", []string{"e"}, []string{k + "s"})
			b.Node("SequenceMap", []string{k + "s"}, []string{k + "r"}, onnx.Attrs{"body": subgraph(t, g)})
			b.Node("SequenceAt", []string{k + "r", "zero"}, []string{out})
		},
	} {
		b := onnx.NewModel("m").Opset("", 22)
		b.Input("x", onnx.String, 1)
		b.Initializer("n", []int64{count}).Initializer("yes", true).Initializer("zero", int64(0))
		b.Node("Expand", []string{"x", "n"}, []string{"e"})
		var made []string
		for i := range nodes {
			k := "k" + strconv.Itoa(i)
			b.Initializer(k, []string{strings.Repeat(k, 500/len(k))})
			made = append(made, "f"+strconv.Itoa(i))
			add(b, k, made[i])
		}
		b.Node("Concat", made, []string{"y"}, onnx.Attrs{"axis": 0})
		b.OutputType("y", nil)
		feed := onward.Values{"x": tensor.Must(tensor.New([]string{strings.Repeat("a", 500)}, 1))}
		const contents = 1000 * count * nodes
		for _, p := range enginetest.Engines {
			for limit, ok := range map[int64]bool{contents / 2: false, 3 * contents: true} {
				_, err := runLimited(t, p, limit, b, feed)
				if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "memory limit")) {
					t.Errorf("%s on %s with a limit of %d bytes: error %v, want one: %t", op, p, limit, err, !ok)
				}
			}
		}
	}
}

// TestPartsOfStringsKeepTheLimit: a part of a string does not keep the string.
func TestPartsOfStringsKeepTheLimit(t *testing.T) {
	const limit, runs, size = 8 << 20, 32, 1 << 20
	for op, attrs := range map[string]onnx.Attrs{
		"StringSplit": nil,
		"com.microsoft.Tokenizer": {"mark": 0, "pad_value": "", "mincharnum": 1,
			"separators": []string{" "}},
	} {
		b := onnx.NewModel("m").Opset("", 22).Opset("com.microsoft", 1)
		b.Input("x", onnx.String, 1)
		b.Initializer("n", int64(runs)).Initializer("long", []string{strings.Repeat("b", size)})
		g := onnx.NewGraph("g")
		g.InputType("i", nil).InputType("c", nil).InputType("v", nil).OutputType("c", nil).OutputType("w", nil)
		g.Initializer("space", []string{" "}).Initializer("from", []int64{0, 0}).Initializer("to", []int64{1, 1})
		g.Initializer("flat", []int64{-1})
		g.Node("Cast", []string{"i"}, []string{"text"}, onnx.Attrs{"to": int(onnx.String)})
		g.Node("StringConcat", []string{"text", "space"}, []string{"first"})
		g.Node("StringConcat", []string{"first", "long"}, []string{"all"})
		g.Node(op, []string{"all"}, []string{"parts"}, attrs)
		g.Node("Slice", []string{"parts", "from", "to"}, []string{"part"})
		g.Node("Reshape", []string{"part", "flat"}, []string{"p"})
		g.Node("Concat", []string{"v", "p"}, []string{"w"}, onnx.Attrs{"axis": 0})
		b.Node("Loop", []string{"n", "", "x"}, []string{"y"}, onnx.Attrs{"body": subgraph(t, g)})
		b.OutputType("y", nil)
		feed := onward.Values{"x": tensor.Must(tensor.New([]string{"a"}, 1))}
		for _, p := range enginetest.Engines {
			before := live()
			out, err := runLimited(t, p, 64<<20, b, feed)
			if err != nil {
				t.Fatalf("%s on %s: %v", op, p, err)
			}
			if n := live() - before; n > limit {
				t.Errorf("%s on %s: %d short strings take %d bytes, want at most %d", op, p, runs, n, limit)
			}
			y := tensor.MustData[string](out["y"].(*tensor.Tensor))
			if len(y) != runs+1 || y[runs] != strconv.Itoa(runs-1) {
				t.Errorf("%s on %s: result %q", op, p, y)
			}
		}
	}
}

// live returns the size of the heap after a collection.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func runLimited(t *testing.T, p string, limit int64, b *onnx.ModelBuilder, feed onward.Values) (onward.Values, error) {
	t.Helper()
	o := enginetest.On(p)
	o.Limits.MaxMemory = limit
	s, err := onward.OpenModel(t.Context(), b.Must(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Run(t.Context(), feed, nil)
}

func subgraph(t *testing.T, b *onnx.GraphBuilder) *onnx.Graph {
	t.Helper()
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}
