// Package exported builds small transformers as exporters write them: free dimensions, token ids,
// masks, keys and values of earlier tokens.
package exported

import (
	"fmt"
	"math/rand/v2"

	"github.com/onward-ml/onward/onnx"
)

// Encoder describes a model like those that exporters write of BERT.
type Encoder struct {
	Vocabulary, Types int // sizes of the tables; without token types if Types is 0
	IDs, Mask         onnx.DataType
	Batch, Sequence   any    // names of dimensions; nil without
	How               string // the mask is used: subtract, equal, where or cast
	Function          bool   // the embedding is a function
}

// DrawEncoder draws the description of an encoder.
func DrawEncoder(rng *rand.Rand) Encoder {
	pick := func(list ...any) any { return list[rng.IntN(len(list))] }
	e := Encoder{Vocabulary: 30 + rng.IntN(1000), Types: rng.IntN(3), IDs: onnx.Int64, Mask: onnx.Int64,
		Batch: pick("batch", "batch_size", "N", nil), Sequence: pick("sequence", "sequence_length", nil),
		How: pick("subtract", "where", "cast", "equal").(string), Function: rng.IntN(3) == 0}
	if rng.IntN(2) == 0 {
		e.IDs = onnx.Int32
	}
	if e.How == "where" && rng.IntN(2) == 0 {
		e.Mask = onnx.Bool
	}
	return e
}

const (
	hidden    = 8
	positions = 64 // of the table
)

// weights adds an initializer with small values.
func weights(b *onnx.ModelBuilder, name string, dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i%7-3) / 8
	}
	b.Initializer(name, data, dims...)
	return name
}

// Model returns a model of one layer.
func (e Encoder) Model() *onnx.Model {
	b := onnx.NewModel("encoder").Opset("", 17)
	b.Input("input_ids", e.IDs, e.Batch, e.Sequence)
	b.Input("attention_mask", e.Mask, e.Batch, e.Sequence)
	weights(b, "words", int64(e.Vocabulary), hidden)
	if e.Function {
		b.Opset("own", 1)
		f := b.Function("own", "Embed").Inputs("table", "ids").Outputs("rows")
		f.Node("Gather", []string{"table", "ids"}, []string{"rows"})
		b.Node("Embed", []string{"words", "input_ids"}, []string{"x0"}).Domain("own")
	} else {
		b.Node("Gather", []string{"words", "input_ids"}, []string{"x0"})
	}
	x := "x0"
	if e.Types > 0 {
		b.Input("token_type_ids", onnx.Int64, e.Batch, e.Sequence)
		weights(b, "types", int64(e.Types), hidden)
		b.Node("Gather", []string{"types", "token_type_ids"}, []string{"typed"})
		b.Node("Add", []string{"x0", "typed"}, []string{"x1"})
		x = "x1"
	}
	// The positions: a slice of a table, as long as the sequence.
	weights(b, "position_table", 1, positions, hidden)
	b.Initializer("zero", []int64{0}, 1).Initializer("one", []int64{1}, 1).Initializer("index", []int64{1}, 1)
	b.Node("Shape", []string{"input_ids"}, []string{"shape"})
	b.Node("Gather", []string{"shape", "index"}, []string{"end"}, onnx.Attrs{"axis": int64(0)})
	b.Node("Slice", []string{"position_table", "zero", "end", "one"}, []string{"position"})
	b.Node("Add", []string{x, "position"}, []string{"x"})
	b.Initializer("mask_axes", []int64{1, 2}, 2)
	b.Node("Unsqueeze", []string{"attention_mask", "mask_axes"}, []string{"mask4"})
	score := attention(b, "x", "", "")
	b.Initializer("float_one", []float32{1}).Initializer("lowest", []float32{-10000}).
		Initializer("minus", []float32{float32(-1e30)})
	switch e.How {
	case "subtract":
		b.Node("Cast", []string{"mask4"}, []string{"mask_f"}, onnx.Attrs{"to": int64(onnx.Float)})
		b.Node("Sub", []string{"float_one", "mask_f"}, []string{"inverse"})
		b.Node("Mul", []string{"inverse", "lowest"}, []string{"bias"})
		b.Node("Add", []string{score, "bias"}, []string{"masked"})
	case "equal":
		b.Initializer("mask_zero", []int64{0})
		b.Node("Cast", []string{"mask4"}, []string{"mask_i"}, onnx.Attrs{"to": int64(onnx.Int64)})
		b.Node("Equal", []string{"mask_i", "mask_zero"}, []string{"hide"})
		b.Node("Where", []string{"hide", "minus", score}, []string{"masked"})
	default: // where, cast
		b.Node("Cast", []string{"mask4"}, []string{"keep"}, onnx.Attrs{"to": int64(onnx.Bool)})
		b.Node("Where", []string{"keep", score, "minus"}, []string{"masked"})
	}
	attend(b, "masked", "last_hidden_state")
	b.Output("last_hidden_state", onnx.Float, e.Batch, e.Sequence, hidden)
	return b.Must()
}

// attention adds queries, keys and values of two heads to the model and returns the name of the
// scores [batch, heads, sequence, keys]. pastKey and pastValue are "" or [batch, heads, past, 4].
func attention(b *onnx.ModelBuilder, x, pastKey, pastValue string) string {
	b.Initializer("heads", []int64{0, 0, 2, 4}, 4)
	for _, p := range []string{"q", "k", "v"} {
		b.Node("MatMul", []string{x, weights(b, p+"_weight", hidden, hidden)}, []string{p + "0"})
		b.Node("Reshape", []string{p + "0", "heads"}, []string{p + "1"})
		b.Node("Transpose", []string{p + "1"}, []string{p + "2"}, onnx.Attrs{"perm": []int64{0, 2, 1, 3}})
	}
	key, value := "k2", "v2"
	if pastKey != "" {
		b.Node("Concat", []string{pastKey, "k2"}, []string{"present_key"}, onnx.Attrs{"axis": int64(2)})
		b.Node("Concat", []string{pastValue, "v2"}, []string{"present_value"}, onnx.Attrs{"axis": int64(2)})
		key, value = "present_key", "present_value"
	}
	b.Node("Transpose", []string{key}, []string{"kt"}, onnx.Attrs{"perm": []int64{0, 1, 3, 2}})
	b.Node("Identity", []string{value}, []string{"values"})
	b.Node("MatMul", []string{"q2", "kt"}, []string{"scores"})
	return "scores"
}

// attend adds what follows the masked scores.
func attend(b *onnx.ModelBuilder, masked, out string) {
	b.Node("Softmax", []string{masked}, []string{"probabilities"}, onnx.Attrs{"axis": int64(-1)})
	b.Node("MatMul", []string{"probabilities", "values"}, []string{"context0"})
	b.Node("Transpose", []string{"context0"}, []string{"context1"}, onnx.Attrs{"perm": []int64{0, 2, 1, 3}})
	b.Initializer("merge", []int64{0, 0, hidden}, 3)
	b.Node("Reshape", []string{"context1", "merge"}, []string{out})
}

// Decoder describes a model that takes the keys and values of earlier tokens.
type Decoder struct {
	Vocabulary  int
	Past, Total any // names of dimensions; nil without
	Positions   bool
	Heads       int
}

// DrawDecoder draws the description of a decoder.
func DrawDecoder(rng *rand.Rand) Decoder {
	names := [][2]any{{"past", "total"}, {"past_sequence_length", "past_sequence_length + 1"},
		{"past_sequence_length", "past_sequence_length + sequence"},
		{"past", nil}, {nil, "total_sequence_length"}, {nil, nil}}
	n := names[rng.IntN(len(names))]
	return Decoder{Vocabulary: 10 + rng.IntN(1000), Past: n[0], Total: n[1], Positions: rng.IntN(2) == 0, Heads: 2}
}

// Model returns a model of one layer.
func (d Decoder) Model() *onnx.Model {
	b := onnx.NewModel("decoder").Opset("", 17)
	sequence := any("sequence")
	if d.Total == "past_sequence_length + 1" {
		sequence = 1
	}
	b.Input("input_ids", onnx.Int64, "batch", sequence)
	b.Input("attention_mask", onnx.Int64, "batch", d.Total)
	for _, kind := range []string{"key", "value"} {
		past := d.Past
		if past == nil && kind == "value" {
			past = "value_past"
		}
		b.Input(fmt.Sprintf("past_key_values.0.%s", kind), onnx.Float, "batch", d.Heads, past, 4)
	}
	weights(b, "words", int64(d.Vocabulary), hidden)
	b.Node("Gather", []string{"words", "input_ids"}, []string{"x0"})
	x := "x0"
	if d.Positions {
		b.Input("position_ids", onnx.Int64, "batch", sequence)
		weights(b, "position_table", positions, hidden)
		b.Node("Gather", []string{"position_table", "position_ids"}, []string{"position"})
		b.Node("Add", []string{"x0", "position"}, []string{"x1"})
		x = "x1"
	}
	score := attention(b, x, "past_key_values.0.key", "past_key_values.0.value")
	b.Initializer("mask_axes", []int64{1, 2}, 2).Initializer("float_one", []float32{1}).
		Initializer("lowest", []float32{-10000})
	b.Node("Unsqueeze", []string{"attention_mask", "mask_axes"}, []string{"mask4"})
	b.Node("Cast", []string{"mask4"}, []string{"mask_f"}, onnx.Attrs{"to": int64(onnx.Float)})
	b.Node("Sub", []string{"float_one", "mask_f"}, []string{"inverse"})
	b.Node("Mul", []string{"inverse", "lowest"}, []string{"bias"})
	b.Node("Add", []string{score, "bias"}, []string{"masked"})
	attend(b, "masked", "hidden")
	b.Node("Identity", []string{"hidden"}, []string{"logits"})
	b.Output("logits", onnx.Float, "batch", nil, hidden)
	b.Output("present_key", onnx.Float, "batch", d.Heads, nil, 4)
	return b.Must()
}
