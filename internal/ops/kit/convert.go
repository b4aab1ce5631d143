package kit

import (
	"sync/atomic"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// CastTypes lists the element types of CastLike. Cast also supports the 6-bit types.
const CastTypes = "@number string bool @float8 @packed float8e8m0"

// ReadConvertOptions reads the attributes that Cast and CastLike share.
func ReadConvertOptions(a *Attrs, opset int) tensor.ConvertOptions {
	o := tensor.ConvertOptions{Saturate: true}
	if opset >= 19 {
		o.Saturate = a.Bool("saturate", true)
	}
	if opset >= 24 {
		switch a.Enum("round_mode", "up", "up", "down", "nearest") {
		case "up":
			o.RoundMode = tensor.RoundUp
		case "down":
			o.RoundMode = tensor.RoundDown
		case "nearest":
			o.RoundMode = tensor.RoundNearest
		}
	}
	return o
}

// InferCast infers output 0: the shape of input 0 with elements of type to. Known contents stay
// known between integer types.
func InferCast(c *ir.InferContext, to tensor.DType) {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: to, Shape: c.Shape(0)})
	if to == tensor.TypeInt64 || to == tensor.TypeInt32 {
		if from := c.Elem(0); from == tensor.TypeInt64 || from == tensor.TypeInt32 {
			SetContents(c, to, append([]ir.Dim{}, c.Contents(0)...))
		}
	}
}

// RunCast converts input 0 to elements of type to in output 0.
func RunCast(c *ir.Call, to tensor.DType, opts tensor.ConvertOptions) error {
	x := c.Tensor(0)
	out, err := c.Output(0, to, x.Shape()...)
	if err != nil {
		return err
	}
	if c.Capturing && x.Len() <= GrainCostly && x.DType() != tensor.TypeString && to != tensor.TypeString {
		if f := castOf(c, to, x.DType()); f != nil {
			c.Launch(1, 1, func(int, int) { f(out.Bytes(), x.Bytes()) })
		} else {
			o := opts
			c.Launch(1, 1, func(int, int) { _ = tensor.ConvertInto(out, x, &o) }) // between numbers nothing fails
		}
		return nil
	}
	return ConvertInto(c, out, x, opts)
}

// ConvertInto converts the elements of src to the type of dst on all threads.
func ConvertInto(c *ir.Call, dst, src *tensor.Tensor, opts tensor.ConvertOptions) error {
	n := src.Len()
	f := castOf(c, dst.DType(), src.DType())
	if f == nil && n >= GrainCheap/4 && !c.Generic {
		f = byteTable(dst.DType(), src.DType(), opts)
	}
	if f != nil {
		y, x := dst.Bytes(), src.Bytes()
		unit := max(1, 8/min(src.DType().Bits(), dst.DType().Bits())) // elements that share a byte
		to, from := unit*dst.DType().Bits()/8, unit*src.DType().Bits()/8
		c.Parallel((n+unit-1)/unit, GrainVector/unit, ir.Do(c, castSection{f, y, x, to, from}))
		return nil
	}
	return convertElements(c, dst, src, opts)
}

// convertElements is ConvertInto without a kernel. It is not a part of it, where opts would be
// allocated for the parallel section.
func convertElements(c *ir.Call, dst, src *tensor.Tensor, opts tensor.ConvertOptions) error {
	n := src.Len()
	if src.DType() == tensor.TypeString || dst.DType() == tensor.TypeString || n <= GrainCheap {
		if dst.DType() == tensor.TypeString {
			const longest = 32 // bytes of a number as text
			if err := c.Reserve(int64(n) * longest); err != nil {
				return err
			}
		}
		return tensor.ConvertInto(dst, src, &opts)
	}
	// Ranges start at multiples of 8 elements, so that packed types start at whole bytes.
	const unit = 8
	part := func(t *tensor.Tensor, lo, hi int) *tensor.Tensor {
		bits := t.DType().Bits()
		var r tensor.Tensor
		r.Reset(t.DType(), t.Bytes()[lo*bits/8:(hi*bits+7)/8], []int{hi - lo})
		return &r
	}
	var failed firstError
	c.Parallel((n+unit-1)/unit, GrainCheap/unit, func(lo, hi int) {
		lo, hi = lo*unit, min(n, hi*unit)
		failed.set(tensor.ConvertInto(part(dst, lo, hi), part(src, lo, hi), &opts))
	})
	return failed.get()
}

// castSection converts units of elements, which have to bytes in y and from bytes in x.
type castSection struct {
	f        castKernel
	y, x     []byte
	to, from int
}

// Do converts the units [lo, hi).
func (s *castSection) Do(lo, hi int) {
	s.f(s.y[lo*s.to:min(hi*s.to, len(s.y))], s.x[lo*s.from:min(hi*s.from, len(s.x))])
}

// byteTable returns a kernel that looks up the results for bytes of the source, which hold an 8-bit
// float, two elements of 4 bits or four of 2 bits. It returns nil for other sources, and for
// results that are packed or text.
func byteTable(to, from tensor.DType, opts tensor.ConvertOptions) castKernel {
	if bits := from.Bits(); bits != 2 && bits != 4 && !from.IsFloat8() || to.Bits() == 0 || to.Packed() {
		return nil
	}
	const all = 256
	codes := make([]byte, all)
	for i := range codes {
		codes[i] = byte(i)
	}
	n := all * 8 / from.Bits()
	size := to.Bits() / from.Bits() // bytes of the results of a byte
	var x, y tensor.Tensor
	x.Reset(from, codes, []int{n})
	y.Reset(to, make([]byte, all*size), []int{n})
	if tensor.ConvertInto(&y, &x, &opts) != nil {
		return nil
	}
	table := y.Bytes()
	return func(dst, src []byte) {
		whole := len(dst) / size
		switch x := src[:whole]; size {
		case 1:
			MapBytes(dst, x, (*[256]byte)(table))
		case 2:
			lookUpBytes[uint16](dst, x, table)
		case 4:
			lookUpBytes[uint32](dst, x, table)
		case 8:
			lookUpBytes[uint64](dst, x, table)
		case 16:
			lookUpBytes[[2]uint64](dst, x, table)
		default:
			whole = 0
		}
		for i, v := range src[whole:] { // those of other sizes, and a last byte with padding
			copy(dst[(whole+i)*size:], table[int(v)*size:][:size])
		}
	}
}

// lookUpBytes replaces bytes by the elements of table.
func lookUpBytes[E uint16 | uint32 | uint64 | [2]uint64](dst, src, table []byte) {
	t := (*[256]E)(memory.FromRaw[E](table))
	d := memory.FromRaw[E](dst)[:len(src)]
	for i, v := range src {
		d[i] = t[v]
	}
}

// castOf returns the vector kernel for a pair of types, or nil if it does not exist or the call
// asks for generic kernels.
func castOf(c *ir.Call, to, from tensor.DType) castKernel {
	if c.Generic {
		return nil
	}
	return castKernels[from][to]
}

// IsHalf reports whether d is float16 or bfloat16.
func IsHalf(d tensor.DType) bool { return d == tensor.TypeFloat16 || d == tensor.TypeBFloat16 }

// ToScratch converts t to another type in scratch memory.
func ToScratch(c *ir.Call, t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	if t.DType() == d {
		return t, nil
	}
	r, err := ScratchTensor(c, d, t.Shape())
	if err != nil {
		return nil, err
	}
	return r, ConvertInto(c, r, t, tensor.ConvertOptions{})
}

// ScratchTensor returns a tensor with undefined contents that is valid until the end of the call.
func ScratchTensor(c *ir.Call, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	n, err := tensor.ByteLen(d, shape)
	if err != nil {
		return nil, err
	}
	if d == tensor.TypeString {
		return nil, fail.Errorf("strings cannot be converted in scratch memory")
	}
	b, err := c.Scratch(n)
	if err != nil {
		return nil, err
	}
	var t tensor.Tensor
	t.Reset(d, b, shape)
	return &t, nil
}

// firstError keeps one error of parallel ranges.
type firstError struct{ err atomic.Pointer[error] }

func (f *firstError) set(err error) {
	if err != nil {
		f.err.CompareAndSwap(nil, &err)
	}
}

func (f *firstError) get() error {
	if p := f.err.Load(); p != nil {
		return *p
	}
	return nil
}

// BitsAs returns the contents of t as elements of another type of the same size.
func BitsAs(d tensor.DType, t *tensor.Tensor) *tensor.Tensor {
	r := &tensor.Tensor{}
	r.Reset(d, t.Bytes(), t.Shape())
	return r
}
