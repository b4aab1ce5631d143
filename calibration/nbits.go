package calibration

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// NBitsOptions configure [QuantizeMatMulNBits]. Nil and the zero value select the defaults.
type NBitsOptions struct {
	// Bits is 4 or 8. Default: 4.
	Bits int
	// Block is the number of weights along the inner dimension that share a scale, a power
	// of two from 16 to 256. Default: 32.
	Block int
	// Symmetric puts the zero point in the middle. Default: each block has a zero point.
	Symmetric bool
	// Style is QOperator, for MatMulNBits of ONNX Runtime's domain, or QDQ, for
	// DequantizeLinear before MatMul, which requires opset 21. Default: QOperator.
	Style Style
	// AccuracyLevel is the attribute of MatMulNBits: 4 allows 8-bit activations, 0 leaves
	// the choice to the engine.
	AccuracyLevel int
	// OpTypes are the operators to quantize: MatMul, Gemm (as MatMul and Add), and Gather
	// (the rows of its table; 4 bits and QOperator only). Default: MatMul and Gemm.
	OpTypes []string
	// Nodes are the names of the nodes to quantize, by default all. Exclude are the names
	// of nodes that are not quantized.
	Nodes, Exclude []string
}

func (o *NBitsOptions) withDefaults() (*NBitsOptions, error) {
	var d NBitsOptions
	if o != nil {
		d = *o
	}
	if d.Bits == 0 {
		d.Bits = 4
	}
	if d.Block == 0 {
		d.Block = 32
	}
	if d.Style == "" {
		d.Style = QOperator
	}
	if len(d.OpTypes) == 0 {
		d.OpTypes = []string{"MatMul", "Gemm"}
	}
	switch {
	case d.Bits != 4 && d.Bits != 8:
		return nil, fmt.Errorf("Bits is %d, want 4 or 8", d.Bits)
	case d.Block < 16 || d.Block > 256 || d.Block&(d.Block-1) != 0:
		return nil, fmt.Errorf("Block is %d, want a power of two from 16 to 256", d.Block)
	case d.Style != QDQ && d.Style != QOperator:
		return nil, fmt.Errorf("style %q, want %s or %s", d.Style, QDQ, QOperator)
	case d.AccuracyLevel < 0 || d.AccuracyLevel > 4:
		return nil, fmt.Errorf("AccuracyLevel is %d, want 0 to 4", d.AccuracyLevel)
	}
	for _, t := range d.OpTypes {
		if t != "MatMul" && t != "Gemm" && t != "Gather" {
			return nil, fmt.Errorf("operator %q, want MatMul, Gemm or Gather", t)
		}
	}
	if slices.Contains(d.OpTypes, "Gather") && (d.Bits != 4 || d.Style != QOperator) {
		return nil, fmt.Errorf("Gather with %d bits as %s: GatherBlockQuantized supports 4 bits as %s", d.Bits,
			d.Style, QOperator)
	}
	return &d, nil
}

// QuantizeMatMulNBits returns a model in which the constant float32 operands of matrix products
// have 4 or 8 bits per weight, with a scale for each block. Activations stay float. The result
// shares memory with m, which must stay open and unchanged while the result is in use.
func QuantizeMatMulNBits(m *onnx.Model, o *NBitsOptions) (*onnx.Model, error) {
	r, err := quantizeNBits(m, o)
	if err != nil {
		return nil, fmt.Errorf("quantization in blocks: %w", err)
	}
	return r, nil
}

func quantizeNBits(m *onnx.Model, o *NBitsOptions) (*onnx.Model, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	q, err := start(m, &QuantizeOptions{Nodes: opts.Nodes, Exclude: opts.Exclude})
	if err != nil {
		return nil, err
	}
	if v := q.opset(); opts.Style == QDQ && v < 21 {
		return nil, fmt.Errorf("the model imports opset %d, want at least 21 for DequantizeLinear in blocks: convert "+
			"it first or use %s", v, QOperator)
	}
	if slices.Contains(opts.OpTypes, "Gemm") {
		q.ops = []string{"Gemm"}
		if err := q.gemmToMatMul(); err != nil {
			return nil, err
		}
	}
	q.ops = opts.OpTypes
	if slices.Contains(q.ops, "Gemm") && !slices.Contains(q.ops, "MatMul") {
		q.ops = append(slices.Clone(q.ops), "MatMul")
	}
	b := &blocks{quantizer: q, NBitsOptions: opts, done: map[string][]string{}}
	for _, n := range slices.Clone(q.g.Nodes) {
		if !q.wants(n) {
			continue
		}
		switch n.OpType {
		case "MatMul":
			err = b.matMul(n)
		case "Gather":
			err = b.gather(n)
		}
		if err != nil {
			return nil, fmt.Errorf("node %q: %w", n.Name, err)
		}
	}
	return q.finish()
}

// blocks quantizes weights in blocks.
type blocks struct {
	*quantizer
	*NBitsOptions
	done map[string][]string // the inputs that replace a weight, by its name
}

// code returns the scale and the zero point of a block with values from lo to hi.
func (b *blocks) code(lo, hi float32, signed bool) (scale, zero float32) {
	most := float32(int(1)<<b.Bits - 1)
	half := float32(int(1) << (b.Bits - 1))
	if b.Symmetric {
		// The end with the larger magnitude gets the lowest code, since there is one code
		// more below zero than above.
		end := lo
		if float32(math.Abs(float64(hi))) > float32(math.Abs(float64(lo))) {
			end = hi
		}
		if !signed {
			zero = half
		}
		return -end / half, zero
	}
	lo, hi = min(lo, 0), max(hi, 0)
	if scale = (hi - lo) / most; scale == 0 {
		return 0, 0
	}
	return scale, float32(math.Round(float64(min(max(-lo/scale, 0), most))))
}

// blockCodes passes the codes of each block of a vector to f. The vector has n elements:
// v[at], v[at+stride], and so on.
func (b *blocks) blockCodes(v []float32, at, stride, n int, signed bool,
	f func(block int, scale, zero float32, codes []int)) error {
	codes := make([]int, 0, b.Block)
	lowest := 0
	if signed {
		lowest = -1 << (b.Bits - 1)
	}
	highest := lowest + 1<<b.Bits - 1
	for block := 0; block*b.Block < n; block++ {
		from, to := block*b.Block, min((block+1)*b.Block, n)
		lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
		for i := from; i < to; i++ {
			x := v[at+i*stride]
			if x-x != 0 {
				return fmt.Errorf("the weights contain %g", x)
			}
			lo, hi = min(lo, x), max(hi, x)
		}
		scale, zero := b.code(lo, hi, signed)
		inverse := float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		codes = codes[:0]
		for i := from; i < to; i++ {
			c := math.Round(float64(float32(v[at+i*stride]*inverse) + zero))
			codes = append(codes, int(min(max(c, float64(lowest)), float64(highest))))
		}
		f(block, scale, zero, codes)
	}
	return nil
}

func (b *blocks) matMul(n *onnx.Node) error {
	t := b.weight(input(n, 1))
	if t == nil || len(t.Dims) != 2 || t.Dims[0] < 1 || t.Dims[1] < 1 {
		return nil
	}
	if !b.floats[n.Inputs[0]] {
		return nil
	}
	v, err := b.values(t)
	if err != nil {
		return err
	}
	if b.NBitsOptions.Style == QDQ {
		return b.matMulQDQ(n, t, v)
	}
	k, cols := int(t.Dims[0]), int(t.Dims[1])
	weights := b.done[t.Name]
	if weights == nil {
		count := (k + b.Block - 1) / b.Block
		blob := b.Block * b.Bits / 8
		zeroRow := (count*b.Bits + 7) / 8
		packed := make([]byte, cols*count*blob)
		scales := make([]float32, cols*count)
		zeros := make([]byte, cols*zeroRow)
		for c := range cols {
			if count*b.Bits%8 != 0 {
				// padding, for which ONNX Runtime writes the middle
				setBits(zeros[c*zeroRow:], count, b.Bits, 1<<(b.Bits-1))
			}
			err := b.blockCodes(v, c, cols, k, false, func(block int, scale, zero float32, codes []int) {
				scales[c*count+block] = scale
				setBits(zeros[c*zeroRow:], block, b.Bits, int(zero))
				for i, code := range codes {
					setBits(packed[(c*count+block)*blob:], i, b.Bits, code)
				}
			})
			if err != nil {
				return err
			}
		}
		weights = []string{
			b.addBytes(fmt.Sprintf("%s_Q%d", t.Name, b.Bits), onnx.Uint8, packed, int64(cols),
				int64(count), int64(blob)),
			b.addInit(t.Name+"_scales", scales, int64(cols), int64(count)),
		}
		if !b.Symmetric {
			weights = append(weights, b.addBytes(t.Name+"_zero_points", onnx.Uint8, zeros, int64(cols), int64(zeroRow)))
		}
		b.done[t.Name] = weights
	}
	attrs := onnx.Attrs{"K": int64(k), "N": int64(cols), "bits": int64(b.Bits), "block_size": int64(b.Block)}
	if b.AccuracyLevel != 0 {
		attrs["accuracy_level"] = int64(b.AccuracyLevel)
	}
	b.replace(n, "MatMulNBits", append([]string{n.Inputs[0]}, weights...), attrs)
	return nil
}

// replace replaces a node by an operator of ONNX Runtime's domain.
func (b *blocks) replace(n *onnx.Node, opType string, inputs []string, attrs onnx.Attrs) {
	r := newNode(opType, n.Name, inputs, n.Outputs, attrs)
	r.Domain = microsoft
	if r.Name != "" {
		r.Name += fmt.Sprintf("_Q%d", b.Bits)
	}
	*n = *r
}

// setBits stores code i in a packed array, low bits first.
func setBits(dst []byte, i, bits, code int) {
	at := i * bits
	dst[at/8] |= byte(code&(1<<bits-1)) << (at % 8)
}

// dtype returns the element type of codes that are stored as a tensor of integers.
func (b *blocks) dtype() (t onnx.DataType, signed bool) {
	switch {
	case b.Bits == 4 && b.Symmetric:
		return onnx.Int4, true
	case b.Bits == 4:
		return onnx.Uint4, false
	case b.Symmetric:
		return onnx.Int8, true
	}
	return onnx.Uint8, false
}

// matMulQDQ replaces the weight of a MatMul by DequantizeLinear with blocks along the first
// axis.
func (b *blocks) matMulQDQ(n *onnx.Node, t *onnx.Tensor, v []float32) error {
	if out := b.done[t.Name]; out != nil {
		n.Inputs[1] = out[0]
		return nil
	}
	k, cols := int(t.Dims[0]), int(t.Dims[1])
	count := (k + b.Block - 1) / b.Block
	dtype, signed := b.dtype()
	bits := tensor.DType(dtype).Bits()
	packed := make([]byte, (k*cols*bits+7)/8)
	scales := make([]float32, count*cols)
	zeros := make([]byte, (count*cols*bits+7)/8)
	for c := range cols {
		err := b.blockCodes(v, c, cols, k, signed, func(block int, scale, zero float32, codes []int) {
			scales[block*cols+c] = scale
			setBits(zeros, block*cols+c, bits, int(zero))
			for i, code := range codes {
				setBits(packed, (block*b.Block+i)*cols+c, bits, code)
			}
		})
		if err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s_DQ_Q%d", t.Name, b.Bits)
	inputs := []string{b.addBytes(name, dtype, packed, t.Dims...),
		b.addInit(t.Name+"_DQ_scales", scales, int64(count), int64(cols))}
	if !b.Symmetric {
		inputs = append(inputs, b.addBytes(t.Name+"_DQ_zero_points", dtype, zeros, int64(count), int64(cols)))
	}
	out := b.unused(name + "_output")
	b.g.Nodes = append(b.g.Nodes,
		newNode("DequantizeLinear", name, inputs, []string{out},
			onnx.Attrs{"axis": int64(0), "block_size": int64(b.Block)}))
	b.done[t.Name] = []string{out}
	n.Inputs[1] = out
	return nil
}

// gather quantizes the table of a Gather in blocks along its last axis.
func (b *blocks) gather(n *onnx.Node) error {
	t := b.weight(input(n, 0))
	if t == nil || len(t.Dims) < 2 {
		return nil
	}
	gatherAxis := intAttr(n, "axis", 0)
	if gatherAxis < 0 {
		gatherAxis += int64(len(t.Dims))
	}
	last := len(t.Dims) - 1
	if gatherAxis == int64(last) || t.Dims[last] < 1 {
		return nil
	}
	v, err := b.values(t)
	if err != nil {
		return err
	}
	weights := b.done[t.Name+"\x00gather"]
	if weights == nil {
		width := int(t.Dims[last])
		rows := len(v) / width
		count := (width + b.Block - 1) / b.Block
		dtype, signed := b.dtype()
		packed := make([]byte, (len(v)*b.Bits+7)/8)
		scales := make([]float32, rows*count)
		zeros := make([]byte, (rows*count*b.Bits+7)/8)
		for r := range rows {
			err := b.blockCodes(v, r*width, 1, width, signed, func(block int, scale, zero float32, codes []int) {
				scales[r*count+block] = scale
				setBits(zeros, r*count+block, b.Bits, int(zero))
				for i, code := range codes {
					setBits(packed, r*width+block*b.Block+i, b.Bits, code)
				}
			})
			if err != nil {
				return err
			}
		}
		dims := append(slices.Clone(t.Dims[:last]), int64(count))
		weights = []string{b.addBytes(t.Name+"_Q4", dtype, packed, t.Dims...),
			b.addInit(t.Name+"_scales", scales, dims...)}
		if !b.Symmetric {
			weights = append(weights, b.addBytes(t.Name+"_zero_points", dtype, zeros, dims...))
		}
		b.done[t.Name+"\x00gather"] = weights
	}
	inputs := append([]string{weights[0], n.Inputs[1]}, weights[1:]...)
	b.replace(n, "GatherBlockQuantized", inputs,
		onnx.Attrs{"gather_axis": gatherAxis, "quantize_axis": int64(last), "block_size": int64(b.Block)})
	return nil
}
