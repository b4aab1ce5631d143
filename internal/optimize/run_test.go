package optimize

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/onnx"
)

// This test checks that passes reach the bodies of If and Loop, and that every level includes
// the passes of lower levels.
func TestLevelsAndSubgraphs(t *testing.T) {
	then := onnx.NewGraph("then")
	then.Node("Identity", []string{"x"}, []string{"i"})
	then.Node("Sigmoid", []string{"i"}, []string{"s"})
	then.Node("Mul", []string{"i", "s"}, []string{"t"})
	then.Output("t", onnx.Float, "n", 8)
	other := onnx.NewGraph("else")
	other.Node("MatMul", []string{"x", "w"}, []string{"e"})
	other.Output("e", onnx.Float, "n", 8)
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, "n", 8).Input("c", onnx.Bool).Output("y", onnx.Float, "n", 8)
	ramp("w", 8, 8)(b)
	b.Node("If", []string{"c"}, []string{"y"}, onnx.Attrs{"then_branch": then, "else_branch": other})
	m := b.Must()
	branch := func(level Level, disabled ...string) string {
		g, err := frontend.Convert(m, frontend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o := onlyPass("")
		o.Level = level
		clear(o.Disabled)
		for _, d := range disabled {
			o.Disabled[d] = true
		}
		if err := Run(context.Background(), g, o); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, 0, 2)
		for _, s := range g.Nodes[0].Graphs {
			parts = append(parts, operators(s))
		}
		slices.Sort(parts)
		return strings.Join(parts, " | ")
	}
	for _, c := range []struct {
		level    Level
		disabled []string
		want     string
	}{
		{None, nil, "Identity Sigmoid Mul | MatMul"},
		{Basic, nil, "MatMul | Sigmoid Mul"},
		{Basic, []string{"identity"}, "Identity Sigmoid Mul | MatMul"},
		{Extended, nil, "MatMul | Silu"},
		{All, nil, "Linear | Silu"},
		{All, []string{"fuse-linear", "fuse-activation"}, "MatMul | Sigmoid Mul"},
	} {
		if got := branch(c.level, c.disabled...); got != c.want {
			t.Errorf("level %d without %v: %s, want %s", c.level, c.disabled, got, c.want)
		}
	}
}

// This test checks that a cancelled context stops the passes.
func TestRunStops(t *testing.T) {
	b := onnx.NewModel("m").Opset("", 21)
	b.Input("x", onnx.Float, 2).Output("y", onnx.Float, 2)
	b.Node("Neg", []string{"x"}, []string{"y"})
	g, err := frontend.Convert(b.Must(), frontend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Run(ctx, g, onlyPass("fold")); err == nil {
		t.Error("cancelled passes: no error")
	}
}
