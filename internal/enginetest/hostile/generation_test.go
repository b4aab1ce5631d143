package hostile

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// generate runs a text generation operator of com.microsoft on batch prompts of the given length.
// The scores of its decoder are 0 to vocab - 1.
func generate(t *testing.T, o *onward.SessionOptions, ctx context.Context, op string, batch, prompt, most, beams int,
	vocab int64, attrs onnx.Attrs) error {
	t.Helper()
	d := onnx.NewGraph("decoder").Input("ids", onnx.Int32, "b", "n").Input("positions", onnx.Int32, "b", "n").
		Input("mask", onnx.Int32, "b", "all").Input("past", onnx.Float, 2, "b", 1, "p", 1).
		Output("logits", onnx.Float, "b", 1, vocab).Output("present", onnx.Float, 2, "b", 1, "p", 1)
	d.Initializer("zero", float32(0)).Initializer("one", float32(1)).Initializer("words", float32(vocab)).
		Initializer("tail", []int64{1, vocab}).Initializer("first", []int64{0})
	d.Node("Range", []string{"zero", "words", "one"}, []string{"scores"})
	d.Node("Shape", []string{"ids"}, []string{"shape"})
	d.Node("Gather", []string{"shape", "first"}, []string{"rows"})
	d.Node("Concat", []string{"rows", "tail"}, []string{"size"}, onnx.Attrs{"axis": 0})
	d.Node("Expand", []string{"scores", "size"}, []string{"logits"})
	d.Node("Identity", []string{"past"}, []string{"present"})
	b := onnx.NewModel("m").Opset("", 17).Opset("com.microsoft", 1)
	b.Input("ids", onnx.Int32, "b", "n").Initializer("most", []int32{int32(most)}).Output("y", onnx.Int32)
	in := []string{"ids", "most"}
	if op == "BeamSearch" {
		b.Initializer("beams", []int32{int32(beams)}).Initializer("kept", []int32{1})
		in = append(in, "", "beams", "kept")
	}
	all := onnx.Attrs{"decoder": d, "eos_token_id": -1, "pad_token_id": 0}
	for k, v := range attrs {
		all[k] = v
	}
	b.Node(op, in, []string{"y"}, all).Domain("com.microsoft")
	s, err := onward.OpenModel(t.Context(), b.Must(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Run(ctx, onward.Values{"ids": tensor.Must(tensor.Zeros(tensor.TypeInt32, batch, prompt))}, nil)
	return err
}

// encoded is a text generation operator of com.microsoft with an encoder, run on prompts of zeros.
// The encoder returns cross-attention pasts of type past.
type encoded struct {
	op            string
	batch, prompt int
	beams         int // 0 for searches without beams
	past          onnx.DataType
}

// open opens the model of g and returns a function that runs it.
func (g encoded) open(t *testing.T, o *onward.SessionOptions) (run func() error) {
	t.Helper()
	expand := func(name string, tail ...int64) *onnx.GraphBuilder {
		b := onnx.NewGraph(name).Input("ids", onnx.Int32, "b", "n").Input("mask", onnx.Int32, "b", "all").
			Initializer("value", make([]float32, tail[len(tail)-1])).Initializer("tail", tail)
		b.Node("Shape", []string{"ids"}, []string{"rows"}, onnx.Attrs{"end": 1})
		b.Node("Concat", []string{"rows", "tail"}, []string{"size"}, onnx.Attrs{"axis": 0})
		b.Node("Expand", []string{"value", "size"}, []string{"expanded"})
		return b
	}
	e, d := expand("encoder", 1, 1, 1), expand("decoder", 1, 2)
	d.Node("Identity", []string{"expanded"}, []string{"logits"})
	d.Output("logits", onnx.Float, "b", 1, 2)
	for _, k := range []string{"k", "v"} {
		e.Node("Cast", []string{"expanded"}, []string{k}, onnx.Attrs{"to": int(g.past)})
		e.Output(k, g.past, "b", 1, "l", 1)
		d.Node("Identity", []string{k}, []string{"new " + k})
		d.Input(k, g.past, "b", 1, "p", 1).Output("new "+k, g.past, "b", 1, "p", 1)
	}
	d.Input("cross k", g.past, "b", 1, "l", 1).Input("cross v", g.past, "b", 1, "l", 1)
	b := onnx.NewModel("m").Opset("", 21).Opset("com.microsoft", 1)
	b.Input("ids", onnx.Int32, "b", "n").Initializer("most", []int32{3}).Output("y", onnx.Int32)
	in := []string{"ids", "most"}
	if g.beams > 0 {
		b.Initializer("beams", []int32{int32(g.beams)}).Initializer("kept", []int32{1})
		in = append(in, "", "beams", "kept")
	}
	b.Node(g.op, in, []string{"y"}, onnx.Attrs{"decoder": d, "encoder": e, "model_type": 1, "eos_token_id": -1,
		"pad_token_id": 0, "decoder_start_token_id": 1}).Domain("com.microsoft")
	s, err := onward.OpenModel(t.Context(), b.Must(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	ids := onward.Values{"ids": tensor.Must(tensor.Zeros(tensor.TypeInt32, g.batch, g.prompt))}
	return func() error {
		_, err := s.Run(t.Context(), ids, nil)
		return err
	}
}

// checked is a context that ends after a number of calls of Err.
type checked struct {
	context.Context
	left int
}

func (c *checked) Err() error {
	if c.left--; c.left <= 0 {
		return context.Canceled
	}
	return nil
}

// TestGenerationStops: text generation checks the context while it compares n-grams and selects
// tokens, not only before each step.
func TestGenerationStops(t *testing.T) {
	for _, p := range enginetest.Engines {
		o := enginetest.On(p)
		o.Threads = 1
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := generate(t, o, &checked{ctx, 200}, "GreedySearch", 1, 1<<16, 1<<16+1, 1, 4,
			onnx.Attrs{"no_repeat_ngram_size": 1 << 15}); err == nil {
			t.Errorf("%s: GreedySearch compares n-grams without checks of the context", p)
		}
		if err := generate(t, o, &checked{ctx, 100}, "BeamSearch", 1, 1, 2, 128, 1<<16, nil); err == nil {
			t.Errorf("%s: BeamSearch selects among 2²³ tokens without checks of the context", p)
		}
		if err := generate(t, o, &checked{ctx, 40}, "GreedySearch", 1<<10, 1, 2, 1, 1<<12, nil); err == nil {
			t.Errorf("%s: GreedySearch selects among 2²² tokens without checks of the context", p)
		}
	}
}

// TestGenerationKeepsTheLimit: what text generation holds for each sequence and each token counts.
func TestGenerationKeepsTheLimit(t *testing.T) {
	for _, p := range enginetest.Engines {
		o := enginetest.On(p)
		o.Limits.MaxMemory = 16 << 20
		for name, err := range map[string]error{
			"BeamSearch, 2¹⁶ sequences": generate(t, o, t.Context(), "BeamSearch", 1<<9, 1, 2, 128, 2, nil),
			"Sampling, 2²⁰ tokens":      generate(t, o, t.Context(), "Sampling", 1, 1, 2, 1, 1<<20, nil),
		} {
			if err == nil || !strings.Contains(err.Error(), "memory limit") {
				t.Errorf("%s: %s: error %v, want one about the memory limit", p, name, err)
			}
		}
		// 16 bytes for each of 2⁶⁰ tokens are 2⁶⁴ bytes.
		o.Limits.MaxMemory = 256 << 20
		if err := generate(t, o, t.Context(), "BeamSearch", 1<<23, 1, 1<<30, 128, 2, nil); err == nil ||
			!strings.Contains(err.Error(), "exceed 281474976710656 tokens") {
			t.Errorf("%s: error %v, want one about the number of tokens", p, err)
		}
	}
}

// TestEncodedGenerationKeepsTheLimit: the encoder's mask counts, and the decoder's first tokens are
// not made before they are reserved.
func TestEncodedGenerationKeepsTheLimit(t *testing.T) {
	for _, p := range enginetest.Engines {
		for _, g := range []encoded{
			{op: "GreedySearch", batch: 1, prompt: 1 << 20},
			{op: "BeamSearch", batch: 1, prompt: 1 << 20, beams: 1},
			{op: "BeamSearch", batch: 1, prompt: 1 << 20, beams: 2},
			{op: "GreedySearch", batch: 1 << 20, prompt: 1},
		} {
			g.past = onnx.Float
			o := enginetest.On(p)
			o.Limits.MaxMemory = 1 << 20
			run := g.open(t, o)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := run()
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 || err == nil ||
				!strings.Contains(err.Error(), "memory limit") {
				t.Errorf("%s: %+v: %d bytes are allocated with a limit of 1 MiB, error %v", p, g, n, err)
			}
		}
	}
}

// TestEncodedGenerationOfPasts: pasts are copied as bytes, so that strings and types whose elements
// share a byte are refused.
func TestEncodedGenerationOfPasts(t *testing.T) {
	for _, p := range enginetest.Engines {
		for past, want := range map[onnx.DataType]string{onnx.Float: "", onnx.Double: "",
			onnx.String: "want a tensor of numbers", onnx.Int4: "want a tensor of numbers"} {
			for _, beams := range []int{1, 2} {
				g := encoded{op: "BeamSearch", batch: 3, prompt: 1, beams: beams, past: past}
				if err := g.open(t, enginetest.On(p))(); (err == nil) != (want == "") ||
					err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %+v: error %v, want one with %q", p, g, err, want)
				}
			}
		}
	}
}
