package frontend_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/onnx"
)

// counting counts the calls of Err.
type counting struct {
	context.Context
	n int
}

func (c *counting) Err() error {
	c.n++
	return nil
}

// TestConversionAsksTheContext counts how often the conversion of a node, its inference, and the
// conversion of initializers ask the context.
func TestConversionAsksTheContext(t *testing.T) {
	const nodes, initializers = 500, 40_000
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 1).Output("v"+strconv.Itoa(nodes-1), onnx.Float, 1)
	from := "x"
	for i := range nodes {
		to := "v" + strconv.Itoa(i)
		b.Node("Neg", []string{from}, []string{to})
		from = to
	}
	asks := func() int {
		c := &counting{Context: context.Background()}
		if _, err := frontend.Convert(b.Must(), frontend.Options{Context: c}); err != nil {
			t.Fatal(err)
		}
		return c.n
	}
	without := asks()
	if without < 2*nodes {
		t.Errorf("the context is asked %d times for %d nodes, want twice each", without, nodes)
	}
	for i := range initializers {
		b.Initializer("c"+strconv.Itoa(i), float32(i))
	}
	if n := asks() - without; n < 2*(initializers>>12) {
		t.Errorf("the context is asked %d times for %d initializers, want once per 4096, twice", n, initializers)
	}
}

// TestNamesOfInlinedNodesKeepTheLimit inlines functions in nodes with long names, with which the
// names of inlined nodes begin: one function with many nodes, and a chain of functions that only
// call each other.
func TestNamesOfInlinedNodesKeepTheLimit(t *testing.T) {
	const name = 1 << 10
	call := func(f, in, out string) *onnx.Node {
		n := node(f, in, out)
		n.Domain, n.Name = "f", strings.Repeat("n", name)
		return n
	}
	wide := &onnx.Function{Domain: "f", Name: "F0", Inputs: []string{"v0"}, Outputs: []string{"v1000"}}
	for i := range 1000 {
		wide.Nodes = append(wide.Nodes, node("Neg", "v"+strconv.Itoa(i), "v"+strconv.Itoa(i+1)))
	}
	var deep []*onnx.Function
	for i := range 90 {
		f := &onnx.Function{Domain: "f", Name: "F" + strconv.Itoa(i), Inputs: []string{"x"}, Outputs: []string{"y"},
			Nodes: []*onnx.Node{call("F"+strconv.Itoa(i+1), "x", "y")}}
		if i == 89 {
			f.Nodes = []*onnx.Node{node("Neg", "x", "y")}
		}
		deep = append(deep, f)
	}
	for want, functions := range map[int64][]*onnx.Function{1000 * name: {wide}, 90 * 89 / 2 * name: deep} {
		m := model(21, graph("x", "y", call("F0", "x", "y")))
		m.Functions = functions
		reserved := int64(0)
		_, err := frontend.Convert(m, frontend.Options{Reserve: func(n int64) error {
			reserved += n
			return nil
		}})
		if err != nil || reserved < want {
			t.Errorf("%d functions: %d bytes are reserved, error %v, want at least %d bytes", len(functions), reserved,
				err, want)
		}
	}
}

// TestNodesKeepTheLimit converts more nodes than their memory allows.
func TestNodesKeepTheLimit(t *testing.T) {
	var nodes []*onnx.Node
	for i := range 1000 {
		nodes = append(nodes, node("Neg", "v"+strconv.Itoa(i), "v"+strconv.Itoa(i+1)))
	}
	for limit, fits := range map[int64]bool{1 << 18: false, 1 << 21: true} {
		left := limit
		reserve := func(n int64) error {
			if left -= n; left < 0 {
				return errors.New("no memory is left")
			}
			return nil
		}
		_, err := frontend.Convert(model(21, graph("v0", "v1000", nodes...)), frontend.Options{Reserve: reserve})
		if (err == nil) != fits {
			t.Errorf("1000 nodes in %d bytes: %v", limit, err)
		}
	}
}
