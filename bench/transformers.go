package main

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// transformer builds attention networks in the form that exporters write.
type transformer struct {
	*onnx.ModelBuilder
	weights
	next  int
	dense dense
	zero  map[string]bool // constants that have been added
}

// dense adds the matrix product of x and in×out weights, in one of several forms.
type dense func(t *transformer, x string, in, out int) string

func newTransformer(d dense) *transformer {
	b := begin()
	return &transformer{ModelBuilder: b, weights: weights{GraphBuilder: b.GraphBuilder, rng: seeded()}, dense: d,
		zero: map[string]bool{}}
}

func (t *transformer) op(domain, op string, attrs onnx.Attrs, in ...string) string {
	t.next++
	out := fmt.Sprintf("t%d", t.next)
	n := t.ModelBuilder.Node(op, in, []string{out}, attrs)
	if domain != "" {
		n.Domain(domain)
	}
	return out
}

func (t *transformer) node(op string, attrs onnx.Attrs, in ...string) string {
	return t.op("", op, attrs, in...)
}

// once adds an initializer that several nodes use, on the first call for its name.
func (t *transformer) once(name string, value any) string {
	if !t.zero[name] {
		t.zero[name] = true
		t.ModelBuilder.Initializer(name, value)
	}
	return name
}

// plain multiplies by float32 weights.
func (t *transformer) plain(x string, in, out int) string {
	return t.node("MatMul", nil, x, t.weights.add(in, out))
}

// half multiplies by weights that are stored as float16.
func (t *transformer) half(x string, in, out int) string {
	t.next++
	name := fmt.Sprintf("h%d", t.next)
	scale := 1.7 / math.Sqrt(float64(in))
	data := make([]tensor.Float16, in*out)
	for i := range data {
		data[i] = tensor.NewFloat16(float32((t.rng.Float64()*2 - 1) * scale))
	}
	t.ModelBuilder.Initializer(name, data, int64(in), int64(out))
	return t.node("MatMul", nil, x, t.node("Cast", onnx.Attrs{"to": int64(tensor.TypeFloat32)}, name))
}

// dynamic multiplies 8-bit integers, as ONNX Runtime's dynamic quantization does.
func (t *transformer) dynamic(x string, in, out int) string {
	t.next++
	w, scale := fmt.Sprintf("q%d", t.next), fmt.Sprintf("qs%d", t.next)
	t.ModelBuilder.Initializer(w, bytesOf(w, s8, in*out, int64(in), int64(out))).
		Initializer(scale, float32(1.7/128/math.Sqrt(float64(in))))
	n := t.next
	a, s, z := fmt.Sprintf("a%d", n), fmt.Sprintf("as%d", n), fmt.Sprintf("az%d", n)
	t.ModelBuilder.Node("DynamicQuantizeLinear", []string{x}, []string{a, s, z})
	y := t.node("Cast", onnx.Attrs{"to": int64(tensor.TypeFloat32)},
		t.node("MatMulInteger", nil, a, w, z, t.once("no offset", int8(0))))
	return t.node("Mul", nil, y, t.node("Mul", nil, s, scale))
}

// nbits multiplies by weights of 4 or 8 bits in blocks of 32.
func nbits(bits, accuracy int) dense {
	return func(t *transformer, x string, in, out int) string {
		t.next++
		w, scale := fmt.Sprintf("n%d", t.next), fmt.Sprintf("ns%d", t.next)
		scales := make([]float32, out*in/32)
		for i := range scales {
			scales[i] = float32(1.7 / 8 / math.Sqrt(float64(in)))
		}
		packed := bytesOf(w, u8, out*in*bits/8, int64(out), int64(in/32), int64(4*bits))
		t.ModelBuilder.Initializer(w, packed).Initializer(scale, scales)
		return t.op("com.microsoft", "MatMulNBits",
			onnx.Attrs{"K": in, "N": out, "bits": bits, "block_size": 32, "accuracy_level": accuracy}, x, w, scale)
	}
}

// biased adds a dense layer with a bias.
func (t *transformer) biased(x string, in, out int) string {
	return t.node("Add", nil, t.dense(t, x, in, out), t.weights.add(out))
}

func (t *transformer) norm(x string, width int) string {
	return t.node("LayerNormalization", nil, x, t.weights.add(width), t.weights.add(width))
}

// heads splits the last axis into heads and moves them to the front. Keys are also transposed.
func (t *transformer) heads(x string, heads, size int, keys bool) string {
	perm := []int{0, 2, 1, 3}
	if keys {
		perm = []int{0, 2, 3, 1}
	}
	return t.node("Transpose", onnx.Attrs{"perm": perm},
		t.node("Reshape", nil, x, t.once("split", []int64{0, 0, int64(heads), int64(size)})))
}

// mix multiplies the values by the softmax of queries times keys, and joins the heads.
func (t *transformer) mix(q, k, v string, width, size int) string {
	p := t.node("Softmax", onnx.Attrs{"axis": -1},
		t.node("Div", nil, t.node("MatMul", nil, q, k), t.once("root", float32(math.Sqrt(float64(size))))))
	return t.node("Reshape", nil, t.node("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}},
		t.node("MatMul", nil, p, v)), t.once("join", []int64{0, 0, int64(width)}))
}

// layer adds an encoder layer, with its normalizations after the residual sums or before.
func (t *transformer) layer(x string, width, heads int, after bool) string {
	size := width / heads
	norm := func(x string, here bool) string {
		if here {
			return t.norm(x, width)
		}
		return x
	}
	h := norm(x, !after)
	a := t.mix(t.heads(t.biased(h, width, width), heads, size, false),
		t.heads(t.biased(h, width, width), heads, size, true), t.heads(t.biased(h, width, width), heads, size, false),
		width, size)
	x = norm(t.node("Add", nil, t.biased(a, width, width), x), after)
	h = norm(x, !after)
	return norm(t.node("Add", nil, t.biased(t.node("Gelu", nil, t.biased(h, width, 4*width)), 4*width, width), x),
		after)
}

// encoder returns a stack of encoder layers without embeddings.
func encoder(layers, seq, width, heads int, after bool, d dense) *onnx.Model {
	t := newTransformer(d)
	t.ModelBuilder.Input("x", f32, 1, seq, width).Output("y", f32, 1, seq, width)
	x := "x"
	for range layers {
		x = t.layer(x, width, heads, after)
	}
	t.ModelBuilder.Node("Identity", []string{x}, []string{"y"})
	return t.Must()
}

// bert returns the encoder layers of BERT (Devlin and others, 2018), in the form that exporters
// write, without embeddings.
func bert(layers, seq, width, heads int) *onnx.Model {
	return encoder(layers, seq, width, heads, true, (*transformer).plain)
}

// vit returns a Vision Transformer with patches of 16² (Dosovitskiy and others, 2021).
func vit() *onnx.Model {
	const width, heads, tokens = 768, 12, 196
	t := newTransformer((*transformer).plain)
	t.ModelBuilder.Input("x", f32, 1, 3, 224, 224).Output("y", f32, 1, 1000)
	x := t.node("Conv", onnx.Attrs{"strides": []int{16, 16}}, "x", t.weights.add(width, 3, 16, 16),
		t.weights.add(width))
	x = t.node("Transpose", onnx.Attrs{"perm": []int{0, 2, 1}},
		t.node("Reshape", nil, x, t.once("tokens", []int64{0, width, tokens})))
	batch := t.node("Shape", onnx.Attrs{"start": 0, "end": 1}, x)
	class := t.node("Expand", nil, t.weights.add(1, 1, width),
		t.node("Concat", onnx.Attrs{"axis": 0}, batch, t.once("one token", []int64{1, width})))
	x = t.node("Concat", onnx.Attrs{"axis": 1}, class, x)
	x = t.node("Add", nil, x, t.weights.add(1, tokens+1, width))
	for range 2 {
		x = t.layer(x, width, heads, false)
	}
	x = t.node("Gather", onnx.Attrs{"axis": 1}, t.norm(x, width), t.once("class", int64(0)))
	t.ModelBuilder.Node("Gemm", []string{x, t.weights.add(1000, width), t.weights.add(1000)}, []string{"y"},
		onnx.Attrs{"transB": 1})
	return t.Must()
}

// whisper returns the encoder of Whisper (Radford and others, 2022): two 1-D convolutions over 80
// mel bands, then layers with their normalizations first.
func whisper() *onnx.Model {
	const width, heads, frames = 512, 8, 1000
	t := newTransformer((*transformer).plain)
	t.ModelBuilder.Input("mel", f32, 1, 80, frames).Output("y", f32, 1, frames/2, width)
	x := t.node("Gelu", nil,
		t.node("Conv", onnx.Attrs{"pads": []int{1, 1}}, "mel", t.weights.add(width, 80, 3), t.weights.add(width)))
	x = t.node("Gelu", nil, t.node("Conv", onnx.Attrs{"pads": []int{1, 1}, "strides": []int{2}}, x,
		t.weights.add(width, width, 3), t.weights.add(width)))
	x = t.node("Add", nil, t.node("Transpose", onnx.Attrs{"perm": []int{0, 2, 1}}, x), t.weights.add(frames/2, width))
	for range 2 {
		x = t.layer(x, width, heads, false)
	}
	t.ModelBuilder.Node("LayerNormalization", []string{x, t.weights.add(width), t.weights.add(width)}, []string{"y"})
	return t.Must()
}

// gpt2 returns a step of GPT-2 (Radford and others, 2019) for one token after past ones. It has the
// past keys and values as inputs, and returns them with one more token.
func gpt2(layers, past, width, heads int) *onnx.Model {
	t := newTransformer((*transformer).plain)
	size := width / heads
	t.ModelBuilder.Input("x", f32, 1, 1, width)
	x := "x"
	for i := range layers {
		join := func(kind, now string) string {
			in, out := fmt.Sprintf("past_%s_%d", kind, i), fmt.Sprintf("present_%s_%d", kind, i)
			t.ModelBuilder.Input(in, f32, 1, heads, past, size).Output(out, f32, 1, heads, past+1, size)
			t.ModelBuilder.Node("Concat", []string{in, now}, []string{out}, onnx.Attrs{"axis": 2})
			return out
		}
		qkv := t.biased(t.norm(x, width), width, 3*width)
		t.next++
		q, k, v := fmt.Sprintf("q_%d", i), fmt.Sprintf("k_%d", i), fmt.Sprintf("v_%d", i)
		t.ModelBuilder.Node("Split", []string{qkv}, []string{q, k, v}, onnx.Attrs{"axis": -1, "num_outputs": 3})
		keys := t.node("Transpose", onnx.Attrs{"perm": []int{0, 1, 3, 2}}, join("key", t.heads(k, heads, size, false)))
		a := t.mix(t.heads(q, heads, size, false), keys, join("value", t.heads(v, heads, size, false)), width, size)
		x = t.node("Add", nil, t.biased(a, width, width), x)
		x = t.node("Add", nil,
			t.biased(t.node("Gelu", onnx.Attrs{"approximate": "tanh"}, t.biased(t.norm(x, width), width, 4*width)),
				4*width, width), x)
	}
	t.ModelBuilder.Output("y", f32, 1, 1, width)
	t.ModelBuilder.Node("LayerNormalization", []string{x, t.weights.add(width), t.weights.add(width)}, []string{"y"})
	return t.Must()
}

// llama returns a step for one token with grouped-query attention, rotary embeddings, RMS
// normalization and a gated feed-forward network, in the operators of ONNX Runtime's model builder.
func llama(layers, past int, d dense) *onnx.Model {
	const width, size, heads, kv, inner = 1024, 64, 16, 4, 2816
	t := newTransformer(d)
	t.ModelBuilder.Opset("com.microsoft", 1)
	t.ModelBuilder.Input("x", f32, 1, 1, width)
	cos, sin := make([]float32, (past+1)*size/2), make([]float32, (past+1)*size/2)
	for p := range past + 1 {
		for i := range size / 2 {
			s, c := math.Sincos(float64(p) * math.Pow(10000, -2*float64(i)/size))
			cos[p*size/2+i], sin[p*size/2+i] = float32(c), float32(s)
		}
	}
	t.ModelBuilder.Initializer("cos", cos, int64(past+1), size/2).Initializer("sin", sin, int64(past+1), size/2)
	t.ModelBuilder.Initializer("last", []int32{int32(past)}).Initializer("total", int32(past+1))
	x, norm := "x", t.node("SimplifiedLayerNormalization",
		onnx.Attrs{"axis": -1, "epsilon": float32(1e-5), "stash_type": 1}, "x", t.weights.add(width))
	skip := func(i int, add string) { // x += add, and its normalization
		out, sum := fmt.Sprintf("norm_%d", i), fmt.Sprintf("sum_%d", i)
		t.ModelBuilder.Node("SkipSimplifiedLayerNormalization", []string{x, add, t.weights.add(width)},
			[]string{out, "", "", sum}, onnx.Attrs{"epsilon": float32(1e-5)}).Domain("com.microsoft")
		x, norm = sum, out
	}
	for i := range layers {
		var cache [4]string
		for j, kind := range []string{"past_key", "past_value", "present_key", "present_value"} {
			cache[j] = fmt.Sprintf("%s_%d", kind, i)
			if j < 2 {
				t.ModelBuilder.Input(cache[j], f32, 1, kv, past, size)
			} else {
				t.ModelBuilder.Output(cache[j], f32, 1, kv, past+1, size)
			}
		}
		a := fmt.Sprintf("attention_%d", i)
		t.ModelBuilder.Node("GroupQueryAttention", []string{d(t, norm, width, width), d(t, norm, width, kv*size),
			d(t, norm, width, kv*size), cache[0], cache[1], "last", "total", "cos", "sin"},
			[]string{a, cache[2], cache[3]}, onnx.Attrs{"num_heads": heads, "kv_num_heads": kv, "do_rotary": 1}).
			Domain("com.microsoft")
		skip(2*i, d(t, a, width, width))
		gate := d(t, norm, width, inner)
		gate = t.node("Mul", nil, gate, t.node("Sigmoid", nil, gate))
		skip(2*i+1, d(t, t.node("Mul", nil, gate, d(t, norm, width, inner)), inner, width))
	}
	t.ModelBuilder.Output(norm, f32, 1, 1, width)
	return t.Must()
}
