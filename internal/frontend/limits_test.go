package frontend_test

import (
	"context"
	"strconv"
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
