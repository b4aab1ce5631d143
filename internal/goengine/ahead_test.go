package goengine

import (
	"context"
	"errors"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// TestWeightsArePackedAhead checks that an engine has packed what the first plan for a usual size
// needs, and that this plan frees what it does not need.
func TestWeightsArePackedAhead(t *testing.T) {
	pooled := func(b *onnx.ModelBuilder) { // a classifier: the shapes of its results are fixed
		b.Node("GlobalMaxPool", []string{"y"}, []string{"max"})
		b.Output("max", onnx.Float, nil, nil, nil, nil)
	}
	for _, build := range []func(*onnx.ModelBuilder){func(*onnx.ModelBuilder) {}, pooled} {
		m := freeModel(build)
		if len(m.Graph.Outputs) > 2 {
			m.Graph.Outputs = m.Graph.Outputs[1:]
		}
		e := freeEngine(t, m, &driver.Options{}, -1)
		e.special.cost = 0
		ahead := e.special.packs.Beyond()
		if ahead < 9*32*32*4 {
			t.Fatalf("%d bytes of weights are packed ahead, want at least those of the dense convolution", ahead)
		}
		wantPlan(t, e, "x=1x3x224x224", imageOf(1, 224, 224))
		if n := e.special.packs.Beyond(); n != ahead {
			t.Errorf("the first plan has %d bytes of packed weights, and %d were packed ahead", n, ahead)
		}
		e = freeEngine(t, m, &driver.Options{}, 0)
		wantPlan(t, e, "x=1x3x3x3", imageOf(1, 3, 3))                                 // too small for Winograd
		if n := e.special.packs.Beyond(); n >= ahead && cpu.Active() != cpu.Generic { // which has no Winograd
			t.Errorf("the plan for 3×3 pixels has %d bytes of packed weights, and %d for another size", n, ahead)
		}
	}
}

// TestDilatedConvsAheadOfRuns checks that weights of a convolution whose gaps are wider than the
// smallest image are not packed ahead: plans for such images read other taps.
func TestDilatedConvsAheadOfRuns(t *testing.T) {
	ahead := func(build ...func(*onnx.ModelBuilder)) int64 {
		return freeEngine(t, freeModel(build...), &driver.Options{}, -1).special.packs.Beyond()
	}
	with := func(gap int64) int64 {
		return ahead(func(b *onnx.ModelBuilder) {
			b.Initializer("wide", pixels(32*32*9, 9), 32, 32, 3, 3).Output("z", onnx.Float, nil, nil, nil, nil)
			b.Node("Conv", []string{"y", "wide"}, []string{"z"}, onnx.Attrs{"pads": []int64{gap, gap, gap, gap},
				"dilations": []int64{gap, gap}})
		})
	}
	without := ahead()
	if n := with(int64(usualSizes[0]) + 6); n != without {
		t.Errorf("%d bytes of weights are packed ahead, want %d, those of the other convolutions", n, without)
	}
	if n := with(1); n <= without {
		t.Errorf("%d bytes of weights are packed ahead, want more than %d: the convolution has no gaps", n, without)
	}
}

// TestWeightsNotPackedAhead checks which engines pack nothing ahead.
func TestWeightsNotPackedAhead(t *testing.T) {
	named := func(dims ...any) *onnx.Model {
		b := onnx.NewModel("input").Opset("", 17)
		b.Input("x", onnx.Float, dims...).Output("y", onnx.Float, nil, nil, nil, nil)
		b.Node("Relu", []string{"x"}, []string{"y"})
		m := freeModel()
		m.Graph.Inputs = b.Must().Graph.Inputs
		return m
	}
	for _, test := range []struct {
		name string
		m    *onnx.Model
		opts driver.Options
	}{
		{"small memory", freeModel(), driver.Options{Limits: driver.Limits{MaxMemory: 400 << 10}}},
		{"free channels", named("n", "c", "h", "w"), driver.Options{}},
		{"small image", named("n", 3, 1, "w"), driver.Options{}}, // runs do not repay a plan
	} {
		e := freeEngine(t, test.m, &test.opts, -1)
		if e.special == nil {
			t.Errorf("%s: the engine has no specialized plans", test.name)
			continue
		}
		if n := e.special.packs.Beyond(); n != 0 {
			t.Errorf("%s: %d bytes of weights are packed ahead", test.name, n)
		}
	}
}

// signalModel returns a network over signals of any length, with two convolutions.
func signalModel(channels int) *onnx.Model {
	const c = 32
	b := onnx.NewModel("signal").Opset("", 17)
	b.Input("x", onnx.Float, "n", channels, "t").Output("y", onnx.Float, nil, nil, nil)
	b.Initializer("first", pixels(c*channels*8, 5), c, int64(channels), 8)
	b.Initializer("dense", pixels(c*c*3, 7), c, c, 3)
	b.Node("Conv", []string{"x", "first"}, []string{"a"}, onnx.Attrs{"strides": []int64{4}})
	b.Node("Relu", []string{"a"}, []string{"r"})
	b.Node("Conv", []string{"r", "dense"}, []string{"y"})
	return b.Must()
}

func signalOf(channels, t int) *tensor.Tensor {
	return tensor.Must(tensor.New(pixels(channels*t, 13), 1, channels, t))
}

// TestPlansShareWeightsOfSignals checks that plans share the weights of convolutions over one axis,
// which are packed as those of images of one row.
func TestPlansShareWeightsOfSignals(t *testing.T) {
	e := freeEngine(t, signalModel(16), &driver.Options{}, 0)
	wantPlan(t, e, "x=1x16x4000", signalOf(16, 4000))
	one := e.special.packs.Beyond()
	if one < 32*32*3*4 {
		t.Fatalf("packed weights of %d bytes, want at least those of the second convolution", one)
	}
	wantPlan(t, e, "x=1x16x5000", signalOf(16, 5000))
	if two := e.special.packs.Beyond(); two != one {
		t.Errorf("two plans hold %d bytes of packed weights, one held %d", two, one)
	}
}

// TestCancelledAhead checks that opening ends with its context while weights are packed.
func TestCancelledAhead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, opts := blockingModel(nil)
	infer := opts.CustomOperators[0].Infer
	opts.CustomOperators[0].Infer = func(s driver.CustomShapes) ([][]driver.Dim, error) {
		if s.Shapes[0] != nil && s.Shapes[0][2].Value == int64(usualSizes[0]) {
			cancel()
		}
		return infer(s)
	}
	_, err := provider{name: Default}.Compile(ctx, &driver.Model{Model: m}, opts, driver.Config{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
