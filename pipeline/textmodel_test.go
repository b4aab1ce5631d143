package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// embedderOf writes a folder whose model embeds tokens as their ids.
func embedderOf(t *testing.T, shape ...any) string {
	t.Helper()
	dir := toy(t, "embedder", nil)
	b := onnx.NewModel("ids").Opset("", 21)
	b.Input("input_ids", onnx.Int64, shape...).Input("attention_mask", onnx.Int64, shape...)
	b.Initializer("last", []int64{-1}, 1)
	b.Node("Cast", []string{"input_ids"}, []string{"x"}, onnx.Attrs{"to": int(onnx.Float)})
	b.Node("Unsqueeze", []string{"x", "last"}, []string{"last_hidden_state"})
	b.Output("last_hidden_state", onnx.Float, shape[0], shape[1], 1)
	m, err := b.Model()
	if err == nil {
		err = onnx.WriteFile(filepath.Join(dir, "onnx", "model.onnx"), m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestHugeFixedShapes opens models whose inputs have fixed sizes that no memory suffices for.
func TestHugeFixedShapes(t *testing.T) {
	const large, larger = int64(1 << 32), int64(1 << 62)
	for _, shape := range [][]any{{1, large}, {"n", large}, {"n", 1 << 27}, {1 << 27, "s"}, {large, large},
		{large << 8, large << 8}, {1, larger}} {
		for _, limits := range []onward.Limits{{}, {MaxMemory: 1 << 28}, {Budget: onward.NewMemoryBudget(1 << 28)}} {
			o := &EmbedderOptions{}
			o.Session = &onward.SessionOptions{Limits: limits}
			e, err := OpenEmbedder(t.Context(), embedderOf(t, shape...), o)
			if err == nil {
				e.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "inputs of ") {
				t.Errorf("input_ids of %v with limits %+v: %v, want an error of the inputs", shape, limits, err)
			}
			if b := limits.Budget; b != nil && b.Used() != 0 {
				t.Errorf("input_ids of %v: %d bytes stay reserved", shape, b.Used())
			}
		}
	}
}

// TestInputsCount runs a batch whose inputs exceed the budget of the session.
func TestInputsCount(t *testing.T) {
	budget := onward.NewMemoryBudget(1 << 20)
	o := &EmbedderOptions{}
	o.Session = &onward.SessionOptions{Limits: onward.Limits{Budget: budget}}
	e, err := OpenEmbedder(t.Context(), embedderOf(t, "n", "s"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	used := budget.Used()
	e.model.rows = 10_000
	if _, err := e.Embed(t.Context(), []string{"a cat"}); !errors.Is(err, onward.ErrMemoryBudget) {
		t.Errorf("a batch of 10,000 rows: %v, want an error of the budget", err)
	}
	if budget.Used() != used {
		t.Errorf("%d bytes are reserved after the call, %d before", budget.Used(), used)
	}
}

// TestPanicsOfWorkers checks that panics in goroutines of calls become their errors.
func TestPanicsOfWorkers(t *testing.T) {
	if err := parallel(3, func(i int) error { panic(fmt.Sprint("item ", i)) }); err == nil ||
		!strings.Contains(err.Error(), "internal error: item ") {
		t.Errorf("a panic of an item: %v", err)
	}
	e, err := OpenEmbedder(t.Context(), toy(t, "embedder", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.model.threads, e.model.budget = 4, 1
	err = e.model.runTexts(t.Context(), slices.Repeat([]string{strings.Repeat("a cat ", 20)}, 64),
		func(*textBatch, []*tensor.Tensor) error { panic("a batch") })
	if err == nil || !strings.Contains(err.Error(), "internal error: a batch") {
		t.Errorf("a panic of a batch: %v", err)
	}
}

// TestStaticEmbeddingStops adds vectors of the tokens of one text with a context that has ended.
func TestStaticEmbeddingStops(t *testing.T) {
	s := &staticEmbedding{table: make([]float32, 1<<12), width: 1 << 12}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := &tokenizer.Encoding{IDs: make([]int64, 1<<20)}
	err := s.embed(ctx, encoded([]*tokenizer.Encoding{text}), func([]int, []float32) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it ends", err)
	}
}
